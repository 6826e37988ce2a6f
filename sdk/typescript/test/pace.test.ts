// The pace of reads, against a service whose budget and whose time are played: what takes minutes is over at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as everythingElse } from "node:timers/promises";

import { ConnectClient, MemoryStore, ServiceError, type ClientOptions, type Store } from "connect-svc-sdk";

/** A time that goes on when all wait for it. */
class Time {
  now = 0;
  readonly #alarms: { at: number; ring: () => void }[] = [];

  sleep = (ms: number): Promise<void> => new Promise((ring) => {
    this.#alarms.push({ at: this.now + ms, ring });
    this.#alarms.sort((a, b) => a.at - b.at);
  });

  async pass<T>(work: Promise<T>): Promise<T> {
    let over = false;
    const end = () => (over = true);
    work.then(end, end);
    for (let idle = 0; !over; await everythingElse()) {
      if (++idle < 4) continue;
      const next = this.#alarms.shift();
      if (next) [this.now, idle] = [next.at, 0];
      next?.ring();
    }
    return work;
  }
}

/** The service's budget of a registration (specification section 8). */
class Budget {
  sent = 0;
  refused = 0;
  most = 0; // at one time
  #left: number;
  #at = 0;
  #running = 0;

  constructor(readonly time: Time, readonly perMinute: number, readonly burst: number, readonly concurrent: number, readonly takes = 50) {
    this.#left = burst;
  }

  read = async (): Promise<Response> => {
    this.sent++;
    this.#left = Math.min(this.burst, this.#left + ((this.time.now - this.#at) * this.perMinute) / 60_000);
    this.#at = this.time.now;
    const crowded = this.#running >= this.concurrent;
    const enough = this.#left >= 1;
    if (enough) this.#left--; // a 429 for too many at a time is counted, too
    const headers: Record<string, string> = {
      "RateLimit-Limit": String(this.perMinute), "RateLimit-Remaining": String(Math.floor(this.#left)), "RateLimit-Reset": "1",
    };
    if (crowded || !enough) {
      this.refused++;
      headers["Retry-After"] = String(enough ? 1 : Math.max(1, Math.ceil(((1 - this.#left) * 60) / this.perMinute)));
      return Response.json({ error: { code: "rate_limited" } }, { status: 429, headers });
    }
    this.most = Math.max(this.most, ++this.#running);
    await this.time.sleep(this.takes * (0.4 + (this.sent % 7) * 0.2));
    this.#running--;
    return Response.json({ data: [] }, { headers });
  };
}

const tokens = () => Response.json({
  grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", history_from: "2026-11-20", connection_version: "1", token_type: "Bearer",
  access_token: "svca_a", refresh_token: "svcr2_r", expires_in: 86_400, scope: "daily_steps:read",
});

/** The slots of all processes, as PgStore keeps them. */
class SharedStore extends MemoryStore {
  asked = 0;
  broken: "" | "fails" | "answers nonsense" = "";
  #last = -Infinity;

  constructor(readonly time: Time) {
    super();
  }

  async pace(_clientId: string, slots: number, interval: number, hold: number): Promise<number> {
    this.asked++;
    if (this.broken === "fails") throw new Error("relation \"connect_pace\" does not exist");
    if (this.broken) return NaN;
    const first = Math.max(this.#last + interval, this.time.now + hold);
    this.#last = first + (slots - 1) * interval;
    return first - this.time.now;
  }
}

async function processOf(time: Time, budget: { read: () => Promise<Response> }, store: Store, more: Partial<ClientOptions> = {}) {
  const client = new ConnectClient({
    baseUrl: "https://connect.example.com", clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
    scopes: ["daily_steps:read"], store, now: () => time.now, sleep: time.sleep, ...more,
    fetch: (request) => request.url.endsWith("/oauth/token") ? Promise.resolve(tokens()) : budget.read(),
  });
  const begun = client.begin();
  await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
  return client;
}
const day = { from: "2026-11-20", to: "2026-11-20" };

/** Several processes, each with ten workers, that read as fast as they can. */
async function fleet(time: Time, budget: Budget, stores: Store[], reads: number, more: Partial<ClientOptions> = {}): Promise<number> {
  const clients = await Promise.all(stores.map((store) => processOf(time, budget, store, more)));
  const begun = time.now;
  let left = reads;
  await time.pass(Promise.all(clients.flatMap((client) => Array.from({ length: 10 }, async () => {
    while (left-- > 0) await client.dailySteps("ada", day);
  }))));
  return time.now - begun;
}

const usual = { perMinute: 600, burst: 60, takes: 50 };
for (const [name, { perMinute, burst, takes }, concurrentReads, shared, reads, least] of [
  ["10 reads at a time, one pace", usual, 10, true, 1530, 0.9],
  ["3 reads at a time, one pace", usual, 3, true, 1530, 0.9],
  ["10 reads at a time, each its own", usual, 10, false, 1530, 0.9],
  ["3 reads at a time, each its own", usual, 3, false, 1530, 0.9],
  ["slow answers", { ...usual, takes: 400 }, 10, true, 1530, 0.9],
  ["very slow answers", { ...usual, takes: 2_000 }, 10, true, 1530, 0.4], // 0.5 is all that ten at a time can do
  ["a thousand back to back", { ...usual, burst: 1_000 }, 10, true, 3000, 0.9],
  ["five back to back", { ...usual, burst: 5 }, 10, true, 600, 0.7], // so little that each keeps away from its end
  ["one a second", { perMinute: 60, burst: 10, takes: 20 }, 10, true, 200, 0.9],
] as const) {
  test(`3 processes cause 1 % of 429 at most, and use the allowance: ${name}`, async (t) => {
    const time = new Time();
    const budget = new Budget(time, perMinute, burst, 10, takes);
    const one = new SharedStore(time);
    const took = await fleet(time, budget, Array.from({ length: 3 }, () => shared ? one : new MemoryStore()), reads, { concurrentReads });
    const rate = reads / (took / 60_000) / perMinute;
    const told = `${budget.sent} requests in ${(took / 1000).toFixed(1)} s, ${budget.refused} of them 429 (${((100 * budget.refused) / budget.sent).toFixed(2)} %), ` +
      `at ${rate.toFixed(3)} of ${perMinute} a minute`;
    t.diagnostic(told);
    assert.ok(budget.refused * 100 <= budget.sent && rate >= least, told);
  });
}

for (const broken of ["fails", "answers nonsense"] as const) test(`a store whose pace ${broken} is left alone for a minute, and the process goes on by its own`, async () => {
  const time = new Time();
  const store = new SharedStore(time);
  store.broken = broken;
  const budget = new Budget(time, 600, 60, 10);
  const took = await fleet(time, budget, [store], 300);
  assert.equal(store.asked, 1);
  assert.ok(budget.refused <= 3, `${budget.refused} refused`);
  assert.ok(took > 20_000, `${took} ms`);
  await time.pass(time.sleep(60_000));
  store.broken = "";
  await fleet(time, budget, [store], 30);
  assert.ok(store.asked > 2, `asked ${store.asked} times`);
});

test("too many reads at a time halve the places, which come back one by one", async () => {
  const time = new Time();
  const budget = new Budget(time, 60_000, 1_000, 4);
  await fleet(time, budget, [new MemoryStore()], 3_000);
  assert.ok(budget.refused > 0 && budget.refused * 100 <= budget.sent, `${budget.refused} of ${budget.sent} refused`);
  assert.equal(budget.most, 4);
});

test("after a 429 the reads that wait do not leave together", async () => {
  const time = new Time();
  const left: number[] = [];
  let until = 0;
  const client = await processOf(time, {
    read: async () => {
      left.push(time.now);
      const headers = { "RateLimit-Limit": "600", "RateLimit-Remaining": "0", "Retry-After": "3" };
      if (left.length === 1) until = time.now + 3_000;
      await time.sleep(10);
      return left.length === 1 || time.now < until ? Response.json({}, { status: 429, headers }) : Response.json({ data: [] }, { headers });
    },
  }, new MemoryStore());
  await time.pass(Promise.all(Array.from({ length: 10 }, () => client.dailySteps("ada", day))));
  const after = left.filter((at) => at > 1_000);
  assert.ok(after.length >= 10 && after[0]! >= 3_000, String(left));
  for (let i = 1; i < after.length; i++) assert.ok(after[i]! - after[i - 1]! >= 99, String(after));
});

test("without headers there is no pace after the first answers", async () => {
  const time = new Time();
  let sent = 0;
  const client = await processOf(time, { read: async () => (sent++, Response.json({ data: [] })) }, new MemoryStore());
  await time.pass((async () => {
    for (let i = 0; i < 50; i++) await client.dailySteps("ada", day);
  })());
  assert.deepEqual([sent, time.now], [50, 0]);
});

test("a read that gives up while it waits for its slot leaves its place", async () => {
  const time = new Time();
  const client = await processOf(time, new Budget(time, 60, 1, 10), new MemoryStore(), {
    concurrentReads: 1, maxWaitMs: 10_000,
    sleep: (ms, signal) => Promise.race([time.sleep(ms), new Promise<void>((_resolve, reject) => {
      if (signal?.aborted) reject(signal.reason);
      signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    })]),
  });
  await time.pass(client.dailySteps("ada", day));
  const caller = new AbortController();
  const gone = assert.rejects(client.dailySteps("ada", { ...day, signal: caller.signal }), /gone/);
  const next = client.dailySteps("ada", day);
  await everythingElse();
  caller.abort(new Error("gone"));
  await gone;
  await time.pass(next.catch((error: unknown) => assert.ok(error instanceof ServiceError)));
  assert.ok(time.now <= 12_000, `${time.now} ms`);
});

test("when all have given up, no timer is left that keeps the process", async () => {
  const time = new Time();
  const timers = new Set<object>();
  const client = await processOf(time, new Budget(time, 60, 1, 10), new MemoryStore(), {
    concurrentReads: 2, sleep: (_ms, signal) => new Promise((_resolve, reject) => {
      const timer = {};
      timers.add(timer);
      signal?.addEventListener("abort", () => {
        timers.delete(timer);
        reject(signal.reason);
      });
    }),
  });
  await time.pass(client.dailySteps("ada", day));
  const caller = new AbortController();
  const reads = [1, 2, 3].map(() => assert.rejects(client.dailySteps("ada", { ...day, signal: caller.signal }), /gone/));
  for (let i = 0; i < 5; i++) await everythingElse();
  assert.equal(timers.size, 1); // of the one whose turn it is
  caller.abort(new Error("gone"));
  await Promise.all(reads);
  await everythingElse();
  assert.equal(timers.size, 0);
});

test("a clock that stands still, as in a test, stops no read", async () => {
  const time = new Time();
  const client = await processOf(time, { read: async () => Response.json({ data: [] }, { headers: { "RateLimit-Limit": "600", "RateLimit-Remaining": "59" } }) },
    new MemoryStore(), { now: () => 0 });
  await time.pass(Promise.all(Array.from({ length: 20 }, () => client.dailySteps("ada", day))));
  assert.ok(time.now > 0);
});

test("a clock that is set back stops no read", async () => {
  const hour = 3_600_000;
  for (const retryAfter of [0, 20]) {
    let [now, slept, refused] = [3 * hour, 0, retryAfter > 0];
    const client = await processOf(new Time(), {
      read: async () => {
        const headers = { "RateLimit-Limit": "600", "RateLimit-Remaining": "5", "Retry-After": String(retryAfter) };
        return Response.json(refused ? { error: { code: "rate_limited" } } : { data: [] }, { status: refused ? 429 : 200, headers });
      },
    }, new MemoryStore(), {
      now: () => now, maxWaitMs: 10_000, jitter: () => 0,
      sleep: async (ms) => {
        slept += ms;
        now += ms;
      },
    });
    if (refused) await assert.rejects(client.dailySteps("ada", day), ServiceError);
    refused = false;
    for (let i = 0; i < 2; i++) {
      now -= hour;
      await client.dailySteps("ada", day);
    }
    // All that is waited for are the slots, and what is left of the Retry-After.
    assert.ok(slept >= retryAfter * 1_000 && slept < retryAfter * 1_000 + 5_000, `slept ${slept} ms`);
  }
});
