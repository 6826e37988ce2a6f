export * from "./web.js"; // see index.mts
