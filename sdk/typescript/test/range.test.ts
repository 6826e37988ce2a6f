// Loops over ranges of days, and the pauses that the OAuth endpoints ask for.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectClient, ServiceError, type ClientOptions } from "connect-svc-sdk";

const tokens = () => Response.json({
  grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", history_from: "2026-11-20", connection_version: "1", token_type: "Bearer",
  access_token: "svca_secret", refresh_token: "svcr2_secret", expires_in: 86_400, scope: "daily_steps:read",
});

/** A client with a connection whose first tokens are there; answer is what it gets from then on. */
async function connected(answer: (url: URL) => Response, more: Partial<ClientOptions> = {}): Promise<ConnectClient> {
  let asked = 0;
  const client = new ConnectClient({
    baseUrl: "https://connect.example.com", clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
    scopes: ["daily_steps:read"], sleep: async () => {}, ...more,
    fetch: async (request) => (asked++ === 0 ? tokens() : answer(new URL(request.url))),
  });
  const begun = client.begin();
  await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
  return client;
}

const loops = {
  steps: (client: ConnectClient, from: string, to: string, signal?: AbortSignal) => client.stepDays("ada", { from, to, ...(signal && { signal }) }),
  cycling: (client: ConnectClient, from: string, to: string) => client.cyclingDays("ada", { from, to }),
  rides: (client: ConnectClient, from: string, to: string) => client.cyclingActivities("ada", { from, to }),
};

for (const [name, from, to, want] of [
  ["a day", "2026-11-20", "2026-11-20", ["2026-11-20 2026-11-20"]],
  ["31 days", "2026-10-01", "2026-10-31", ["2026-10-01 2026-10-31"]],
  ["32 days", "2026-10-01", "2026-11-01", ["2026-10-01 2026-10-31", "2026-11-01 2026-11-01"]],
  ["62 days", "2026-10-01", "2026-12-01", ["2026-10-01 2026-10-31", "2026-11-01 2026-12-01"]],
  ["over a leap day", "2028-01-31", "2028-03-05", ["2028-01-31 2028-03-01", "2028-03-02 2028-03-05"]],
  // For the service to refuse.
  ["the end first", "2026-11-20", "2026-11-19", ["2026-11-20 2026-11-19"]],
  ["no such day", "2026-02-30", "2026-12-01", ["2026-02-30 2026-12-01"]],
  ["no day", "yesterday", "", ["yesterday "]],
] as const) {
  test(`a range of ${name}`, async () => {
    let asked: string[] = [];
    const client = await connected((url) => {
      const [from, to] = [url.searchParams.get("from"), url.searchParams.get("to")];
      asked.push(`${from} ${to}`);
      return Response.json({ data: [{ date: from }], meta: { next_cursor: null } });
    });
    for (const loop of Object.values(loops)) {
      asked = [];
      let days = 0;
      for await (const _ of loop(client, from, to)) days++;
      assert.deepEqual([asked, days], [want, want.length]);
    }
  });
}

test("the pages of each part are read to the end, and the cursor of one part is not sent with another", async () => {
  const asked: string[] = [];
  const client = await connected((url) => {
    const [from, cursor] = [url.searchParams.get("from"), url.searchParams.get("cursor")];
    asked.push(`${from} ${cursor}`);
    return Response.json({ data: [{ date: from }], meta: { next_cursor: cursor ? null : `cc1_${from}` } });
  });
  for await (const _ of client.cyclingActivities("ada", { from: "2026-10-01", to: "2026-11-01", pageSize: 1 })) { /* all */ }
  assert.deepEqual(asked, ["2026-10-01 null", "2026-10-01 cc1_2026-10-01", "2026-11-01 null", "2026-11-01 cc1_2026-11-01"]);
});

test("a loop ends with its signal in the middle of an answer, and one that is left sends no more", async () => {
  let asked = 0;
  const client = await connected(() => Response.json({ data: Array.from({ length: 31 }, (_, i) => ({ steps: ++asked && i })) }));
  const stop = new AbortController();
  let days = 0;
  await assert.rejects(async () => {
    for await (const _ of loops.steps(client, "2026-10-01", "2027-10-01", stop.signal)) if (++days === 40) stop.abort(new Error("gone"));
  }, /gone/);
  assert.deepEqual([days, asked], [40, 62]);
  for await (const _ of loops.steps(client, "2026-10-01", "2027-10-01")) break;
  assert.equal(asked, 93);
});

test("a loop waits out each 429, fails when one request has waited for maxWaitMs, and ends in a pause with its signal", async () => {
  let [now, sent] = [0, 0];
  let stop: AbortController | undefined;
  const client = await connected(() => ++sent % 2 === 1 || sent > 4
    ? Response.json({ error: { code: "rate_limited" } }, { status: 429, headers: { "Retry-After": "200" } }) : Response.json({ data: [{}] }), {
    now: () => now,
    jitter: () => 0,
    sleep: async (ms, signal) => {
      stop?.abort(new Error("gone"));
      signal?.throwIfAborted();
      now += ms;
    },
  });
  let days = 0;
  await assert.rejects(async () => {
    for await (const _ of loops.steps(client, "2026-10-01", "2027-10-01")) days++;
  }, (error) => error instanceof ServiceError && error.code === "rate_limited");
  assert.deepEqual([days, now], [2, 600_000]);
  stop = new AbortController();
  await assert.rejects(loops.steps(client, "2026-10-01", "2027-10-01", stop.signal).next(), /gone/);
  assert.equal(now, 600_000);
});

for (const [name, outcome, retryAfter, want] of [
  ["not attempted", "not-attempted", "7", 7000],
  ["sooner than the backoff", "not-attempted", "", 1000],
  ["longer than maxWaitMs", "not-attempted", "86400", 5 * 60_000],
  ["of unknown outcome", "", "7", 250],
  ["of an outcome of its own", "attempted", "7", 250],
] as const) {
  test(`the pause before an exchange and a revocation are sent again: ${name}`, async () => {
    let sent = 0;
    const slept: number[] = [];
    const client = await connected(() => ++sent % 2 === 0 ? tokens()
      : new Response("<html>", { status: 503, headers: { "Connect-Outcome": outcome, "Retry-After": retryAfter } }), {
      jitter: () => 0,
      sleep: async (ms) => void slept.push(ms),
    });
    const begun = client.begin();
    await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
    await client.revoke("ada");
    assert.deepEqual([sent, slept], [4, [want, want]]);
  });
}
