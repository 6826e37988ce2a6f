export * from "./pgstore.js"; // see index.mts
