export { type CoreClient, type ClientOptions, type ReadOptions, type PageOptions } from "./client.js";
export { type Authorization } from "./authorize.js";
export { DeniedError, NotConnectedError, ReconnectError, ServiceError, SharedError, StateError, UnreachableError } from "./errors.js";
export { fetchReceiver, nodeReceiver, type NodeRequest, type NodeResponse, type ReceiverOptions } from "./receiver.js";
export { MemoryStore, type Connection, type ConnectionState, type Lock, type Store, type StoredConnection } from "./store.js";
export { BodyParsedError, WebhookError, type WebhookCall, type WebhookEvent, type WebhookHeaders } from "./webhook.js";
export type { components, operations, paths, webhooks } from "./schema.gen.js";
export type { CyclingActivities, CyclingActivity, CyclingDaily, CyclingDay, DailyActivity, DailySteps, Scope } from "./client.js";
