// What needs no service: what becomes of a refresh token, webhooks, the configuration.
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import { setImmediate as everythingElse } from "node:timers/promises";
import { inspect } from "node:util";

import { BodyParsedError, ConnectClient, MemoryStore, ReconnectError, ServiceError, UnreachableError, verifyWebhook, WebhookError, type ClientOptions } from "connect-svc-sdk";

const options: ClientOptions = {
  baseUrl: "https://connect.example.com", clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
  scopes: ["daily_steps:read", "cycling_daily:read"], sleep: async () => {},
};

let made = 0;
const tokens = () => Response.json({
  grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", history_from: "2026-11-20", connection_version: "1", token_type: "Bearer",
  access_token: `svca_secret${++made}`, refresh_token: `svcr2_secret${made}`, expires_in: 300, scope: "daily_steps:read",
});
const dailySteps = () => Response.json({
  data: [], meta: { from: "2026-11-20", to: "2026-11-20", date_basis: "svc_recorded_date", source: "svc", snapshot_at: "2026-11-20T10:00:00.000Z" },
});
const oauthError = (status: number, error: string) => () => Response.json({ error, error_description: "A fixed text." }, { status });
const failure = (cause: Error) => () => {
  throw new TypeError("fetch failed", { cause });
};

/** A client with a connection whose first tokens are there; answer is what it gets from then on. */
async function connected(
  store: MemoryStore, answer: (request: Request) => Response | Promise<Response>, more: Partial<ClientOptions> = {},
): Promise<ConnectClient> {
  let asked = 0;
  const client = new ConnectClient({ ...options, ...more, store, fetch: async (request) => (asked++ === 0 ? tokens() : answer(request)) });
  const begun = client.begin();
  await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
  return client;
}

test("an error has the request's id, the page about its code and, in a sandbox, the reason", async () => {
  const client = await connected(new MemoryStore(), () => Response.json({ error: { code: "invalid_date_range", message: "x" }, request_id: "x" }, {
    status: 400, headers: { "X-Request-ID": "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55", "X-Connect-Reason": "to is before from" },
  }));
  await assert.rejects(client.dailySteps("ada", { from: "2026-11-20", to: "2026-11-19" }), {
    name: "ServiceError", requestId: "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55", reason: "to is before from",
    documentation: "https://connect.example.com/developers/error-codes.html#invalid_date_range",
    message: "connect: readDailyActivity: the answer was 400 invalid_date_range (request 8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55): to is before from",
  });
});

// Specification 5.4: what becomes of the refresh token after each answer, and how often it is sent.
for (const [name, answer, want] of [
  ["a new pair", tokens, "active"],
  ["could not be dialled", failure(Object.assign(new Error(), { syscall: "connect", code: "ECONNREFUSED" })), "active"],
  ["the name has no address", failure(Object.assign(new Error(), { syscall: "getaddrinfo", code: "ENOTFOUND" })), "active"],
  ["invalid_client", oauthError(401, "invalid_client"), "active"],
  ["invalid_request", oauthError(400, "invalid_request"), "active"],
  ["invalid_grant", oauthError(400, "invalid_grant"), "ended"],
  ["server_error", oauthError(500, "server_error"), "uncertain"],
  ["server_error, not attempted", () => {
    const answer = oauthError(500, "server_error")();
    answer.headers.set("Connect-Outcome", "not-attempted");
    return answer;
  }, "active"],
  ["a gateway's answer", () => new Response("<html>", { status: 502 }), "uncertain"],
  ["somebody else's 400", () => new Response("<html>", { status: 400 }), "uncertain"],
  ["a redirect", () => new Response(null, { status: 307 }), "uncertain"],
  ["a connection that breaks", failure(Object.assign(new Error(), { syscall: "read", code: "ECONNRESET" })), "uncertain"],
  ["a timeout", failure(new DOMException("", "TimeoutError")), "uncertain"],
  ["an answer cut short", () => new Response('{"grant_id":"7b'), "uncertain"],
] as const) {
  test(`refresh: ${name}`, async () => {
    const store = new MemoryStore();
    let sent = 0;
    const client = await connected(store, async (request) => {
      sent++;
      assert.match(request.headers.get("user-agent") ?? "", /^connect-svc-sdk\/\d+\.\d+\.\d+$/);
      assert.equal((await store.load("ada"))?.state, "refreshing"); // it is noted before it is sent
      return answer();
    });
    const error = await client.refresh("ada").then(() => undefined, (error: unknown) => error);
    const held = await store.load("ada");
    assert.deepEqual([held?.state, sent, held?.refreshToken !== undefined], [want, name.endsWith("not attempted") ? 4 : 1, want === "active"]);
    assert.equal(error instanceof ReconnectError, want !== "active");
    if (want === "ended") assert.equal((error as ReconnectError).cause?.code, "invalid_grant");
    assert.ok(!String(error).includes("secret"));
  });
}

test("a refresh that was not attempted is sent again after its pause, and the token is kept meanwhile", async () => {
  const store = new MemoryStore();
  const slept: unknown[] = [];
  let sent = 0;
  const client = await connected(store, () => ++sent === 3 ? tokens() : new Response("<html>", {
    status: 503, headers: { "Connect-Outcome": "not-attempted", "Retry-After": "7" }, // of a proxy that reached no server
  }), {
    sleep: async (ms) => {
      const held = await store.load("ada");
      slept.push([ms, held?.state, held?.refreshToken !== undefined]);
    },
  });
  await client.refresh("ada");
  assert.deepEqual([sent, slept], [3, [[7000, "active", true], [7000, "active", true]]]);
});

test("a refresh holds its lock for 90 seconds at most, as a lock may end by itself after three minutes", async () => {
  for (const [retryAfter, wantSent, wantSlept] of [["40", 3, 80_000], ["91", 1, 0]] as const) {
    let [now, sent] = [0, 0];
    const store = new MemoryStore();
    const client = await connected(store, () => {
      sent++;
      return new Response("<html>", { status: 503, headers: { "Connect-Outcome": "not-attempted", "Retry-After": retryAfter } });
    }, { now: () => now, sleep: async (ms) => void (now += ms) });
    await assert.rejects(client.refresh("ada"), ServiceError);
    assert.deepEqual([sent, now, (await store.load("ada"))?.state], [wantSent, wantSlept, "active"]);
  }
});

test("an answer of any size is read up to a limit", async () => {
  let pulled = 0;
  const endless = () => new Response(new ReadableStream({
    pull: (controller) => {
      pulled++;
      controller.enqueue(new Uint8Array(1 << 20).fill(32));
    },
  }));
  const store = new MemoryStore();
  const client = await connected(store, endless, { maxTries: 2 });
  await assert.rejects(client.dailySteps("ada", { from: "2026-11-20", to: "2026-11-20" }), UnreachableError);
  await assert.rejects(client.refresh("ada"), ReconnectError); // whether the token was used nobody knows
  assert.ok(pulled < 40, `${pulled} MiB`);
  const large = await connected(store, () => Response.json({ data: [{ text: "x".repeat(4 << 20) }] }));
  assert.equal((await large.dailySteps("ada", { from: "2026-11-20", to: "2026-11-20" })).data.length, 1);
});

test("a refresh outlives its caller", async () => {
  const store = new MemoryStore();
  let go!: () => void;
  const gone = new Promise<void>((resolve) => (go = resolve));
  const caller = new AbortController();
  const client = await connected(store, async (request) => {
    caller.abort(new Error("gone"));
    await gone;
    request.signal.throwIfAborted();
    return tokens();
  });
  const lock = await store.lock("ada");
  await lock.save({ ...(await store.load("ada"))!, useUntil: 0 });
  await lock.unlock();
  const before = (await store.load("ada"))?.accessToken;
  await assert.rejects(client.dailySteps("ada", { from: "2026-11-20", to: "2026-11-20", signal: caller.signal }), /gone/);
  go();
  await client.wait();
  const held = await store.load("ada");
  assert.equal(held?.state, "active");
  assert.notEqual(held?.accessToken, before);
});

// Specification section 8: one place for reads, which is never lost, whoever gives up while waiting for it.
test("a read that gives up leaves its place to the next", async () => {
  let now = 0;
  let sleeping!: () => void;
  const slept = new Promise<void>((resolve) => (sleeping = resolve));
  const sleep = (_ms: number, signal?: AbortSignal) => new Promise<void>((_resolve, reject) => {
    sleeping();
    signal?.addEventListener("abort", () => {
      now += 61_000; // the time that the 429 asked for is over, and those of the slots after it
      reject(signal.reason);
    });
  });
  let answer!: (response: Response) => void;
  let sent = 0;
  const client = await connected(new MemoryStore(), () =>
    ++sent === 1 ? new Promise<Response>((resolve) => (answer = resolve)) : dailySteps(), { concurrentReads: 1, now: () => now, sleep, jitter: () => 0 });
  const read = (signal?: AbortSignal) => client.dailySteps("ada", { from: "2026-11-20", to: "2026-11-20", ...(signal && { signal }) });

  const [first, second, impatient] = [new AbortController(), new AbortController(), new AbortController()];
  const gone = [first, second].map(({ signal }) => assert.rejects(read(signal), /gone/));
  const third = read();
  const last = assert.rejects(read(impatient.signal), /gone/);
  await everythingElse();
  assert.equal(sent, 1); // the others wait for their turn
  impatient.abort(new Error("gone"));
  await last; // although it is nobody's turn yet
  answer(new Response("{}", { status: 429, headers: { "Retry-After": "60" } }));
  await slept;
  await everythingElse();
  first.abort(new Error("gone"));
  second.abort(new Error("gone"));
  await Promise.all(gone);
  assert.equal((await third).data.length, 0);
  assert.equal(sent, 2);
});

test("the authorization URL", () => {
  const begun = new ConnectClient(options).begin();
  const url = new URL(begun.url);
  assert.equal(url.origin + url.pathname, "https://connect.example.com/oauth/authorize");
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    client_id: "id", redirect_uri: "https://partner.example/callback", response_type: "code", scope: "daily_steps:read cycling_daily:read",
    state: begun.state, code_challenge: createHash("sha256").update(begun.verifier).digest("base64url"), code_challenge_method: "S256",
  });
  assert.notEqual(begun.state, new ConnectClient(options).begin().state);
});

// Specification section 6: connection_version lets the client ignore stale webhooks; they are compared as numbers.
test("what a webhook says about a connection", async () => {
  const store = new MemoryStore();
  const client = await connected(store, tokens);
  const lock = await store.lock("ada");
  await lock.save({ ...(await store.load("ada"))!, version: "10" });
  await lock.unlock();
  assert.equal(await client.ended("bob", "10"), false);
  assert.equal(await client.ended("ada", "9"), false);
  assert.notEqual((await store.load("ada"))?.refreshToken, undefined);
  assert.equal(await client.ended("ada", "10"), true);
  assert.equal(await client.ended("ada", "10"), false);
  const held = await store.load("ada");
  assert.deepEqual([held?.state, held?.accessToken, held?.refreshToken], ["ended", undefined, undefined]);
});

test("a broken token answer is not told in the error", async () => {
  const client = new ConnectClient({ ...options, fetch: async () => new Response('{"access_token": "svca_secret" "refresh_token": "svcr2_secret"}') });
  const begun = client.begin();
  const error = await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" })).catch((e: unknown) => e);
  assert.ok(error instanceof UnreachableError);
  assert.doesNotMatch(inspect(error), /secret/);
});

test("the configuration is checked", () => {
  for (const change of [{ baseUrl: "http://connect.example.com" }, { baseUrl: "https://connect.example.com/" }, { callbackUrl: "" },
    { clientSecret: "" }, { scopes: [] }, { concurrentReads: 0 }, { maxTries: 0 }, { maxTries: 1.5 }]) {
    assert.throws(() => new ConnectClient({ ...options, ...change }), TypeError);
  }
  // A program in JavaScript has no types that say so, and the service would tell only the user's browser.
  for (const scope of ["steps", "daily_steps:read cycling_daily:read", "toString"]) {
    assert.throws(() => new ConnectClient({ ...options, scopes: [scope as "daily_steps:read"] }), (error: unknown) =>
      error instanceof TypeError && error.message.startsWith(`connect: unknown scope "${scope}"`) && error.message.includes("daily_steps:read"));
  }
});

test("webhooks", () => {
  const secret = "whsec_" + Buffer.alloc(24, "k").toString("base64");
  const body = JSON.stringify({ type: "connection.revoked", timestamp: "2026-11-21T10:00:00.000Z",
    data: { grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", connection_version: "3", reason: "user_disconnected" } });
  const now = Date.parse("2026-11-21T10:00:00Z");
  const sign = (text: string) => "v1," + createHmac("sha256", Buffer.alloc(24, "k")).update(`msg_1.${now / 1000}.${text}`).digest("base64");
  const nothing = '{"type":"connection.revoked","data":null}';
  const headers = { "webhook-id": "msg_1", "webhook-timestamp": String(now / 1000), "webhook-signature": `v1,AAAA ${sign(body)}` };
  const { id, event } = verifyWebhook(secret, headers, body, now + 299_000);
  assert.deepEqual([id, event.type, event.data.connection_version], ["msg_1", "connection.revoked", "3"]);
  assert.equal(verifyWebhook(secret, new Headers(headers), Buffer.from(body), now).event.type, "connection.revoked");
  const other = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.replace("webhook", "Webhook").toUpperCase(), value]));
  assert.equal(verifyWebhook(secret, other, body, now).id, id);
  assert.throws(() => verifyWebhook(secret, headers, JSON.parse(body) as string, now), BodyParsedError);
  for (const wrong of [
    () => verifyWebhook(secret, headers, body + " ", now),
    () => verifyWebhook(secret, headers, body, now + 301_000),
    () => verifyWebhook(secret, headers, body, now - 301_000),
    () => verifyWebhook(secret, { ...headers, "webhook-id": "msg_2" }, body, now),
    () => verifyWebhook(secret, { ...headers, "webhook-timestamp": undefined }, body, now),
    () => verifyWebhook(secret, { ...headers, "webhook-signature": sign(body).replace("v1", "v2") }, body, now),
    () => verifyWebhook("whsec_", headers, body, now),
    () => verifyWebhook(secret.slice(6), headers, body, now),
    () => verifyWebhook(secret, { ...headers, "webhook-signature": sign("no event") }, "no event", now),
    () => verifyWebhook(secret, { ...headers, "webhook-signature": sign(nothing) }, nothing, now),
  ]) {
    assert.throws(wrong, WebhookError);
  }
});

test("a refresh that begins while the end waits is waited for, too", async () => {
  const store = new MemoryStore();
  const answers: (() => void)[] = [];
  const client = await connected(store, () => new Promise((resolve) => answers.push(() => resolve(tokens()))));
  const lock = await store.lock("bob");
  await lock.save((await store.load("ada"))!);
  await lock.unlock();
  const answered = async (n: number) => {
    while (answers.length <= n) await everythingElse();
    return answers[n]!;
  };
  const first = client.refresh("ada");
  const answer = await answered(0);
  let over = false;
  const end = client.wait().then(() => (over = true));
  const second = client.refresh("bob");
  const next = await answered(1);
  answer();
  await first;
  for (let i = 0; i < 5; i++) await everythingElse();
  assert.equal(over, false, "the process ends in the middle of a refresh");
  next();
  await end;
  assert.equal((await second).state, "active");
});

test("the end waits for the exchange of a code, too, which works once", async () => {
  const store = new MemoryStore();
  const answers: (() => void)[] = [];
  const client = await connected(store, () => new Promise((resolve) => answers.push(() => resolve(tokens()))));
  const begun = client.begin();
  const finished = client.finish("bob", begun, new URLSearchParams({ state: begun.state, code: "svcc_y" }));
  while (answers.length === 0) await everythingElse();
  let over = false;
  const end = client.wait().then(() => (over = true));
  for (let i = 0; i < 5; i++) await everythingElse();
  assert.equal(over, false, "the process ends in the middle of an exchange");
  answers[0]!();
  await end;
  assert.equal((await store.load("bob"))?.state, "active");
  await finished;
});
