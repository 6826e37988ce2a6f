// The inbox of webhooks, a table in PostgreSQL, and the worker that empties it. Any number of processes may use both.
import { setTimeout } from "node:timers/promises";
import { type ConnectClient, NotConnectedError, ReconnectError, type WebhookEvent } from "connect-svc-sdk";
import type { Pool } from "pg";

/**
 * Makes the table, and adds to one of an earlier version what it lacks. Delete rows 30 days after done_at: until then an event may come
 * once more.
 *
 * The rows with a dead_at are events that failed eight times within a day, each with its last error. Have somebody told when there is
 * one. When its cause is gone, let the event live again:
 *
 *     update webhook_inbox set dead_at = null, tries = 0, due_at = now() where dead_at is not null
 */
export const schema = `
create table if not exists webhook_inbox (
  id      text primary key, -- the webhook-id
  event   text not null,
  due_at  timestamptz not null default now(),
  done_at timestamptz,
  tries   integer not null default 0,
  error   text, -- of the latest try
  dead_at timestamptz
);
alter table webhook_inbox add column if not exists tries integer not null default 0, add column if not exists error text,
  add column if not exists dead_at timestamptz;
create index if not exists webhook_inbox_due_at on webhook_inbox (due_at) where done_at is null;
`;

/** Puts an event aside, durably, each id once. */
export async function putAside(db: Pool, id: string, event: WebhookEvent): Promise<void> {
  await db.query("insert into webhook_inbox (id, event) values ($1, $2) on conflict (id) do nothing", [id, JSON.stringify(event)]);
}

type Changed = Extract<WebhookEvent, { type: "activity.updated" }>["data"];

export interface Work {
  client: ConnectClient;
  /** The users whose connection has the grant id, such as `keysOf` of `PgStore` finds them. */
  usersOf(grantId: string): Promise<string[]>;
  /** Reads what changed of a user: the datasets of the event, from its first day to its last. */
  changed(user: string, data: Changed): Promise<void>;
}

/** Works until the signal says stop. */
export async function run(db: Pool, work: Work, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const worked = await next(db, work).catch((error: unknown) => console.error("webhook:", error));
    if (!worked) await setTimeout(1000, undefined, { signal }).catch(() => {});
  }
}

/** Bounds the tries of an event. Their pauses are 10 minutes and twice as long each time, 21 hours in all. */
const mostTries = 8;

/**
 * Works on the event that has waited longest, and resolves to whether there was one. If the work fails, or the process ends in
 * the middle of it, the event is due again later, and after mostTries it is dead.
 */
export async function next(db: Pool, work: Work): Promise<boolean> {
  const { rows: [row] } = await db.query<{ id: string; event: string; tries: number }>(`
    update webhook_inbox set tries = tries + 1, due_at = now() + interval '10 minutes' * power(2, tries) where id = (
      select id from webhook_inbox
      where done_at is null and dead_at is null and due_at <= now() order by due_at limit 1 for update skip locked)
    returning id, event, tries`);
  if (!row) return false;
  try {
    // It may be what ends the process, so it is not tried again.
    if (row.tries > mostTries) throw new Error("the process ended in the middle of the last try");
    await workOnAll(work, JSON.parse(row.event) as WebhookEvent);
  } catch (error) {
    await db.query("update webhook_inbox set error = $2, dead_at = case when $3 then now() end where id = $1", [
      row.id, String(error), row.tries >= mostTries,
    ]);
    throw row.tries >= mostTries ? new Error(`${row.id} is dead`, { cause: error }) : error;
  }
  await db.query("update webhook_inbox set done_at = now() where id = $1", [row.id]);
  return true;
}

async function workOnAll(work: Work, event: WebhookEvent): Promise<void> {
  if (event.type === "connection.revoked" || event.type === "activity.updated") { // there may be others one day: they are ignored
    for (const user of await work.usersOf(event.data.grant_id)) await workOn(work, user, event);
  }
}

// Ignores an event whose version is below that of the connection: it was late, and the user has connected again since.
async function workOn({ client, changed }: Work, user: string, { type, data }: WebhookEvent): Promise<void> {
  if (type === "connection.revoked") {
    await client.ended(user, data.connection_version); // looks at the version itself
  } else {
    try {
      const held = await client.connection(user);
      if (held.state === "ended" || BigInt(data.connection_version) < BigInt(held.version)) return;
      await changed(user, data);
    } catch (error) {
      // Nothing but the user helps: show the button "Connect".
      if (!(error instanceof NotConnectedError || error instanceof ReconnectError)) throw error;
    }
  }
}
