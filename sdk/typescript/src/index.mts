// What `import` gets is what `require` gets: with two copies of the package in a process, an error of one would be no
// instance of the other's class.
export * from "./index.js";
