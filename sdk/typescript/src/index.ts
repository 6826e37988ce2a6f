export * from "./shared.js";
export { ConnectClient, verifyWebhook } from "./node.js";
