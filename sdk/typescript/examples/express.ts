// A receiver of webhooks with Express. Copy it, and inbox.ts:
//
//   npm install express pg && npm install --save-dev @types/express @types/pg
import { nodeReceiver } from "connect-svc-sdk";
import express from "express";
import { Pool } from "pg";

import { putAside, schema } from "./inbox.js";

// The service waits for five seconds.
const db = new Pool({ connectionString: process.env["DATABASE_URL"], connectionTimeoutMillis: 2000, query_timeout: 2000 });
db.on("error", (error) => console.error("database:", error.message)); // of a connection that is not in use
await db.query(schema); // or among your migrations

const app = express();
// The signature is over the bytes as they came: no express.json() before this route.
app.post("/webhooks", nodeReceiver({
  secret: process.env["CONNECT_WEBHOOK_SECRET"] ?? "",
  take: ({ id, event }) => putAside(db, id, event), // also an event of a type that is not known yet
}));
const server = app.listen(Number(process.env["PORT"] ?? 8081), "127.0.0.1", () => console.log(server.address()));
