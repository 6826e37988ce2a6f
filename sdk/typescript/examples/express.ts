// A receiver of webhooks with Express. Copy it, and inbox.ts:
//
//   npm install express pg && npm install --save-dev @types/express @types/pg
import { verifyWebhook } from "connect-svc-sdk";
import express from "express";
import { Pool } from "pg";

import { putAside, schema } from "./inbox.js";

const secret = process.env["CONNECT_WEBHOOK_SECRET"] ?? "";
// The service waits for five seconds.
const db = new Pool({ connectionString: process.env["DATABASE_URL"], connectionTimeoutMillis: 2000, query_timeout: 2000 });
db.on("error", (error) => console.error("database:", error.message)); // of a connection that is not in use
await db.query(schema); // or among your migrations

const app = express();
// The signature is over the bytes as they came: no express.json() before this route. More than 64 kB is 413.
app.post("/webhooks", express.raw({ type: () => true, limit: "64kb" }), async (request, response) => {
  let call;
  try {
    call = verifyWebhook(secret, request.headers, request.body as Buffer); // compares in constant time
  } catch (error) {
    console.error("webhook refused:", (error as Error).message);
    response.sendStatus(401);
    return;
  }
  try {
    await putAside(db, call.id, call.event);
    response.sendStatus(204); // also for an event that was there already, or of a type that is not known yet
  } catch (error) {
    console.error("webhook not stored:", (error as Error).message);
    response.sendStatus(503); // the service sends it again
  }
});
const server = app.listen(Number(process.env["PORT"] ?? 8081), "127.0.0.1", () => console.log(server.address()));
