// What the examples do beside receiving, and the official library of Standard Webhooks beside the SDK's function. The test of
// the sandbox says where the database is, and gives it what the service sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectClient, MemoryStore, verifyWebhook, WebhookError, type StoredConnection } from "connect-svc-sdk";
import { Pool } from "pg";
import { Webhook } from "standardwebhooks";

import { next, putAside, schema, type Work } from "./inbox.js";

const secret = process.env["CONNECT_WEBHOOK_SECRET"] ?? "";
const grant = "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55";

test("the official library verifies what the service sends", () => {
  const sent = JSON.parse(process.env["SENT"] ?? "[]") as { headers: Record<string, string>; body: string }[];
  assert.ok(sent.length > 0);
  for (const { headers, body } of sent) {
    assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
    assert.throws(() => new Webhook(secret).verify(`${body} `, headers));
  }
});

test("the SDK verifies what the official library signs", () => {
  const event = { type: "connection.revoked", timestamp: "2026-11-21T10:00:00.000Z", data: { grant_id: grant, connection_version: "3", reason: "user_disconnected" } };
  const body = JSON.stringify(event);
  const now = new Date();
  const headers = {
    "webhook-id": "msg_1", "webhook-timestamp": String(Math.floor(now.getTime() / 1000)), "webhook-signature": new Webhook(secret).sign("msg_1", now, body),
  };
  assert.deepEqual(verifyWebhook(secret, headers, body), { id: "msg_1", event });
  assert.throws(() => verifyWebhook(secret, headers, `${body} `), WebhookError);
});

test("the worker takes each event once, and ignores what is older than the connection", async (t) => {
  const db = new Pool({ connectionString: process.env["DATABASE_URL"] });
  t.after(() => db.end());
  await db.query(schema);
  const store = new MemoryStore();
  const client = new ConnectClient({
    baseUrl: "https://connect.invalid", clientId: "id", clientSecret: "secret", callbackUrl: "https://partner.example/callback",
    scopes: ["daily_steps:read"], store,
  });
  const held: StoredConnection = { grantId: grant, version: "10", historyFrom: "2026-11-20", scope: "daily_steps:read", state: "active", refreshToken: "r" };
  const lock = await store.lock("ada");
  await lock.save(held);
  await lock.unlock();
  const read: string[] = [];
  let refused = 0;
  const work: Work = {
    client,
    usersOf: async (grantId) => (grantId === grant ? ["ada"] : []),
    changed: async (user, data) => {
      if (refused++ === 0) throw new Error("not now");
      read.push(`${user} ${data.connection_version} ${data.datasets.join()} ${data.from} ${data.to}`);
    },
  };
  const updated = (connection_version: string, grant_id = grant) => ({
    type: "activity.updated" as const, timestamp: "2026-11-21T10:00:00.000Z",
    data: { grant_id, connection_version, datasets: ["daily_steps" as const], from: "2026-11-20", to: "2026-11-21" },
  });
  const revoked = (connection_version: string) => ({
    type: "connection.revoked" as const, timestamp: "2026-11-21T10:00:00.000Z",
    data: { grant_id: grant, connection_version, reason: "user_disconnected" as const },
  });
  const all = async () => {
    let worked = 0;
    while (await next(db, work)) worked++;
    return worked;
  };

  await putAside(db, "refused", updated("10"));
  await assert.rejects(next(db, work), /not now/);
  assert.equal(await all(), 0); // it is not due yet
  await db.query("update webhook_inbox set due_at = now()");
  for (const [id, event] of Object.entries({
    older: updated("9"), newer: updated("11"), stranger: updated("10", "00000000-0000-4000-8000-000000000000"), late: revoked("9"),
    unknown: { type: "goal.reached", data: {} } as never,
  })) {
    await putAside(db, id, event);
    await putAside(db, id, event);
  }
  assert.equal(await all(), 6);
  assert.deepEqual(read, ["ada 10 daily_steps 2026-11-20 2026-11-21", "ada 11 daily_steps 2026-11-20 2026-11-21"]);
  assert.equal((await client.connection("ada")).state, "active");

  // What fails is tried eight times, and is dead then. So is what ended the process each time.
  const changed = work.changed;
  work.changed = async () => { throw new Error("not at all"); };
  await putAside(db, "fails", updated("10"));
  for (let tried = 1; tried <= 8; tried++) {
    await assert.rejects(next(db, work), tried < 8 ? /^Error: not at all$/ : /fails is dead/);
    assert.equal(await all(), 0); // it is not due yet
    await db.query("update webhook_inbox set due_at = now()");
  }
  work.changed = changed;
  await putAside(db, "kills", updated("10"));
  await db.query("update webhook_inbox set tries = 8 where id = 'kills'");
  await assert.rejects(next(db, work), /kills is dead/);
  const { rows: dead } = await db.query("select id, error from webhook_inbox where dead_at is not null order by id");
  assert.deepEqual(dead, [{ id: "fails", error: "Error: not at all" }, { id: "kills", error: "Error: the process ended in the middle of the last try" }]);

  await putAside(db, "ended", revoked("10"));
  await putAside(db, "after", updated("10"));
  assert.equal(await all(), 2);
  assert.equal((await client.connection("ada")).state, "ended");
  assert.equal(read.length, 2);
});
