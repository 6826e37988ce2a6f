export { ConnectClient, type ClientOptions, type ReadOptions, type PageOptions } from "./client.js";
export { type Authorization } from "./authorize.js";
export { DeniedError, NotConnectedError, ReconnectError, ServiceError, StateError, UnreachableError } from "./errors.js";
export { MemoryStore, type Connection, type ConnectionState, type Lock, type Store, type StoredConnection } from "./store.js";
export { BodyParsedError, verifyWebhook, WebhookError, type WebhookEvent } from "./webhook.js";
export type { components, operations, paths, webhooks } from "./schema.gen.js";
export type { CyclingActivities, CyclingActivity, CyclingDaily, CyclingDay, DailyActivity, DailySteps, Scope } from "./client.js";
