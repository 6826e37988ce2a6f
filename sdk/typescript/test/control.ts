// What the test that starts these programs gives them: a service, and a control to play the user and to plant faults.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { ConnectClient, MemoryStore, type Store, type StoredConnection } from "connect-svc-sdk";
import { PgStore, schema } from "connect-svc-sdk/pgstore";
import { Pool } from "pg";

const control = process.env["CONTROL_URL"] ?? "";
async function ask<T>(path: string, body: object = {}): Promise<T> {
  const answer = await fetch(control + path, { method: "POST", body: JSON.stringify(body) });
  assert.equal(answer.status, 200, `${path}: ${answer.status}`);
  return (await answer.json()) as T;
}

export const advance = async (seconds: number) => {
  offset += seconds * 1000;
  await ask("/advance", { seconds });
};
export const seen = async (end: string) => (await ask<{ count: number }>("/seen", { end })).count;
export const plant = (path: string, kind: string) => ask("/plant", { path, kind });
let offset = 0; // of the service's clock, which is ours, too
export const now = () => Date.now() + offset;

/** An empty store, or that in PostgreSQL, where each user has a key of its own. */
export const stores: Record<string, () => Store> = {
  memory: () => new MemoryStore(),
  PostgreSQL: () => new PgStore(pool, Buffer.alloc(32, "k")),
};
const pool = new Pool({ connectionString: process.env["DATABASE_URL"], allowExitOnIdle: true });
await pool.query(schema);

/** One partner with a client of the SDK, and one user with data of today: 4321 steps and three rides. */
export class User {
  readonly key = `member-${randomUUID()}`;
  readonly slept: number[] = [];
  sleep = async (ms: number) => advance(ms / 1000);
  readonly client: ConnectClient;

  constructor(readonly partner: Partner, readonly store: Store) {
    this.client = this.instance(store);
  }

  static async create(store: Store, policy: { requestsPerMinute?: number; burst?: number } = {}): Promise<User> {
    return new User(await ask<Partner>("/partner", policy), store);
  }

  instance(store: Store): ConnectClient {
    const { baseUrl, clientId, clientSecret, callbackUrl } = this.partner;
    return new ConnectClient({
      baseUrl, clientId, clientSecret, callbackUrl, store,
      scopes: ["daily_steps:read", "cycling_daily:read", "cycling_activities:read"],
      now,
      jitter: () => 0,
      sleep: async (ms) => {
        this.slept.push(ms);
        await this.sleep(ms);
      },
    });
  }

  async authorize(url: string): Promise<URLSearchParams> {
    return new URLSearchParams((await ask<{ query: string }>("/authorize", { url, email: this.partner.email })).query);
  }

  async connect() {
    const begun = this.client.begin();
    return this.client.finish(this.key, begun, await this.authorize(begun.url));
  }

  async steps() {
    const held = await this.client.connection(this.key);
    return this.client.dailySteps(this.key, { from: held.historyFrom, to: held.historyFrom });
  }

  async held(): Promise<StoredConnection> {
    const held = await this.store.load(this.key);
    assert.ok(held);
    return held;
  }
}

export interface Partner {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  callbackUrl: string;
  email: string;
}
