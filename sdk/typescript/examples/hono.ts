// A receiver of webhooks with Hono, here on Node.js. Copy it, and inbox.ts:
//
//   npm install hono @hono/node-server pg && npm install --save-dev @types/pg
import { serve } from "@hono/node-server";
import { verifyWebhook } from "connect-svc-sdk";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { Pool } from "pg";

import { putAside, schema } from "./inbox.js";

const secret = process.env["CONNECT_WEBHOOK_SECRET"] ?? "";
// The service waits for five seconds.
const db = new Pool({ connectionString: process.env["DATABASE_URL"], connectionTimeoutMillis: 2000, query_timeout: 2000 });
db.on("error", (error) => console.error("database:", error.message)); // of a connection that is not in use
await db.query(schema); // or among your migrations

const app = new Hono();
app.post("/webhooks", bodyLimit({ maxSize: 64 * 1024 }), async (c) => {
  const body = new Uint8Array(await c.req.arrayBuffer()); // the bytes as they came: the signature is theirs
  let call;
  try {
    call = verifyWebhook(secret, c.req.raw.headers, body); // compares in constant time
  } catch (error) {
    console.error("webhook refused:", (error as Error).message);
    return c.body(null, 401);
  }
  try {
    await putAside(db, call.id, call.event);
    return c.body(null, 204); // also for an event that was there already, or of a type that is not known yet
  } catch (error) {
    console.error("webhook not stored:", (error as Error).message);
    return c.body(null, 503); // the service sends it again
  }
});
serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env["PORT"] ?? 8081) }, (address) => console.log(address));
