// A receiver of webhooks with Hono, here on Node.js. Copy it, and inbox.ts:
//
//   npm install hono @hono/node-server pg && npm install --save-dev @types/pg
import { serve } from "@hono/node-server";
import { fetchReceiver } from "connect-svc-sdk";
import { Hono } from "hono";
import { Pool } from "pg";

import { putAside, schema } from "./inbox.js";

// The service waits for five seconds.
const db = new Pool({ connectionString: process.env["DATABASE_URL"], connectionTimeoutMillis: 2000, query_timeout: 2000 });
db.on("error", (error) => console.error("database:", error.message)); // of a connection that is not in use
await db.query(schema); // or among your migrations

const receive = fetchReceiver({
  secret: process.env["CONNECT_WEBHOOK_SECRET"] ?? "",
  take: ({ id, event }) => putAside(db, id, event), // also an event of a type that is not known yet
});
const app = new Hono();
app.post("/webhooks", (c) => receive(c.req.raw)); // the bytes as they came: the signature is theirs
serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env["PORT"] ?? 8081) }, (address) => console.log(address));
