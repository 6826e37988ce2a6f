// connect-svc-sdk/web in a runtime that has the globals of the Web and nothing of Node.
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

import type * as Store from "connect-svc-sdk/pgstore";
import type * as Web from "connect-svc-sdk/web";
import { ConnectClient, MemoryStore, ReconnectError, UnreachableError } from "connect-svc-sdk/web";

// Of the minimum common API of the runtimes (https://min-common-api.proposal.wintertc.org), without what the language has.
const globals = [
  "AbortController", "AbortSignal", "atob", "Blob", "btoa", "clearTimeout", "console", "crypto", "CryptoKey", "DOMException", "Event", "EventTarget",
  "fetch", "FormData", "Headers", "ReadableStream", "Request", "Response", "setTimeout", "structuredClone", "TextDecoder", "TextEncoder",
  "TransformStream", "URL", "URLSearchParams", "WritableStream",
] as const;

/** A module of the package, and all that it requires, run where there is nothing else. */
function load<T>(name: string): T {
  const world = createContext(Object.fromEntries(globals.map((name) => [name, (globalThis as Record<string, unknown>)[name]])));
  const loaded = new Map<string, { exports: unknown }>();
  const run = (file: string): unknown => {
    const known = loaded.get(file);
    if (known) return known.exports;
    const module = { exports: {} };
    loaded.set(file, module);
    const find = createRequire(file);
    const require = (name: string) => {
      const found = find.resolve(name);
      assert.ok(dirname(found) !== ".", `${file} needs ${name}`); // a module of Node is its name
      return run(found);
    };
    const wrapped = runInContext(`(function (module, exports, require) {${readFileSync(file, "utf8")}\n})`, world, { filename: file }) as
      (module: unknown, exports: unknown, require: unknown) => void;
    wrapped(module, module.exports, require);
    return module.exports;
  };
  return run(createRequire(import.meta.url).resolve(name)) as T;
}

test("the loader has no module of Node", () => {
  assert.throws(() => load("connect-svc-sdk"), /needs node:crypto/);
});

test("the client connects, refreshes and reads", async () => {
  const { ConnectClient, MemoryStore, ReconnectError } = load<typeof Web>("connect-svc-sdk/web");
  let sent = 0;
  const client = new ConnectClient({
    baseUrl: "https://connect.example.com", clientId: "an id", clientSecret: "svci_ü", callbackUrl: "https://partner.example/callback",
    scopes: ["daily_steps:read"], store: new MemoryStore(),
    fetch: async (request) => {
      if (!request.url.endsWith("/oauth/token")) return Response.json({ data: [{ date: "2026-11-20", steps: 1 }] });
      assert.equal(request.headers.get("authorization"), "Basic " + Buffer.from("an+id:svci_%C3%BC").toString("base64"));
      if (++sent === 3) return Response.json({ error: "invalid_grant" }, { status: 400 });
      return Response.json({
        grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", history_from: "2026-11-20", connection_version: "1", token_type: "Bearer",
        access_token: `svca_${sent}`, refresh_token: `svcr2_${sent}`, expires_in: 300, scope: "daily_steps:read",
      });
    },
  });
  const begun = await client.begin();
  assert.equal(new URL(begun.url).searchParams.get("code_challenge"), createHash("sha256").update(begun.verifier).digest("base64url"));
  assert.match(begun.verifier, /^[\w-]{43}$/);
  assert.notEqual((await client.begin()).state, begun.state);
  await client.finish("ada", begun, new URLSearchParams({ state: begun.state, code: "svcc_x" }));
  await client.refresh("ada");
  assert.equal(await client.accessToken("ada"), "svca_2");
  const days: number[] = [];
  for await (const day of client.stepDays("ada", { from: "2026-11-20", to: "2026-12-31" })) days.push(day.steps);
  assert.deepEqual(days, [1, 1]);
  await assert.rejects(client.refresh("ada"), ReconnectError);
});

/** Refreshes where the globals have the name of a runtime, whose fetch is that, and resolves to the error and the state afterwards. */
async function refreshIn(runtime: string, fetch: (request: Request, init?: RequestInit) => Promise<Response>, RequestOfIt = Request) {
  const own = { fetch: globalThis.fetch, Request };
  Object.assign(globalThis, { [runtime]: {}, fetch, Request: RequestOfIt });
  try {
    const store = new MemoryStore();
    const lock = await store.lock("ada");
    await lock.save({
      grantId: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", version: "1", historyFrom: "2026-11-20", scope: "daily_steps:read", state: "active",
      accessToken: "svca_1", refreshToken: "svcr2_1",
    });
    await lock.unlock();
    const client = new ConnectClient({
      baseUrl: "https://connect.example.com", clientId: "an id", clientSecret: "svci_s", callbackUrl: "https://partner.example/callback",
      scopes: ["daily_steps:read"], store,
    });
    const error = await client.refresh("ada").then(() => undefined, (error: unknown) => error);
    return { error, state: (await client.connection("ada")).state };
  } finally {
    Object.assign(globalThis, own);
    delete (globalThis as Record<string, unknown>)[runtime];
  }
}

// What was measured: Deno 2.9.6 sends a text again, Bun 1.1.45 and 1.2.23 whatever they send by a connection that was used before.
test("a refresh leaves once where fetch sends again", async () => {
  const texts = new WeakSet<Request>();
  class Noting extends Request {
    constructor(input: ConstructorParameters<typeof Request>[0], init?: RequestInit) {
      super(input, init);
      if (typeof init?.body === "string") texts.add(this);
    }
  }
  const again: Record<string, (request: Request, init?: RequestInit) => boolean> = {
    Deno: (request) => texts.has(request),
    Bun: (_, init) => init?.keepalive !== false,
  };
  for (const [runtime, repeats] of Object.entries(again)) {
    let sent = 0;
    const { error, state } = await refreshIn(runtime, async (request, init) => {
      sent += repeats(request, init) ? 2 : 1;
      assert.equal(await request.text(), "grant_type=refresh_token&refresh_token=svcr2_1");
      throw new TypeError("fetch failed", {
        cause: new Error(`error sending request for url (${request.url}): client error (SendRequest): connection closed before message completed`),
      });
    }, Noting);
    assert.ok(error instanceof ReconnectError, runtime);
    assert.deepEqual([runtime, sent, state], [runtime, 1, "uncertain"]);
  }
});

test("a refresh that found nobody is kept where the failure is told in another way", async () => {
  const failures = {
    Deno: new TypeError("fetch failed", {
      cause: new Error("error sending request for url (https://connect.example.com/oauth/token): client error (Connect): tcp connect error: Connection refused (os error 111)"),
    }),
    Bun: Object.assign(new TypeError("ECONNREFUSED: Unable to connect. Is the computer able to access the url?"), { code: "ECONNREFUSED", errno: 0 }),
  };
  for (const [runtime, failure] of Object.entries(failures)) {
    const { error, state } = await refreshIn(runtime, () => Promise.reject(failure));
    assert.ok(error instanceof UnreachableError && error.unsent, runtime);
    assert.equal(state, "active");
  }
});

test("webhooks are verified and received", async () => {
  const { verifyWebhook, fetchReceiver, WebhookError, BodyParsedError } = load<typeof Web>("connect-svc-sdk/web");
  const secret = "whsec_" + Buffer.alloc(24, 0xfb).toString("base64"); // its alphabet matters
  const body = '{"type":"goal.reached","data":{"text":"ä"}}';
  const timestamp = String(Math.floor(Date.now() / 1000));
  const signature = createHmac("sha256", Buffer.alloc(24, 0xfb)).update(`msg_1.${timestamp}.${body}`).digest("base64");
  const headers = { "Webhook-Id": "msg_1", "WEBHOOK-TIMESTAMP": timestamp, "webhook-signature": `v1,${signature}` };
  const bytes = new TextEncoder().encode(`.${body}`);
  for (const same of [body, bytes.subarray(1), bytes.slice(1).buffer, new DataView(bytes.buffer, 1)]) {
    const { id, event } = await verifyWebhook(secret, headers, same);
    assert.deepEqual([id, event.type], ["msg_1", "goal.reached"]);
  }
  assert.equal((await verifyWebhook(secret, new Headers(headers), body)).id, "msg_1");
  await assert.rejects(verifyWebhook(secret, headers, `${body} `), WebhookError);
  await assert.rejects(verifyWebhook(secret, { ...headers, "webhook-signature": `v1,${signature.slice(1)}` }, body), WebhookError);
  await assert.rejects(verifyWebhook(secret, headers, body, Date.now() + 302_000), WebhookError);
  await assert.rejects(verifyWebhook(secret, headers, JSON.parse(body) as string), BodyParsedError);

  const taken: string[] = [];
  const receive = fetchReceiver({ secret, take: ({ id }) => taken.push(id), onError: () => {} });
  const call = (body: string) => receive(new Request("https://partner.example/webhooks", { method: "POST", headers, body }));
  assert.deepEqual([(await call(body)).status, (await call(`${body} `)).status, taken], [204, 401, ["msg_1"]]);
});

test("the store in PostgreSQL seals and opens", async () => {
  const { PgStore } = load<typeof Store>("connect-svc-sdk/pgstore");
  const rows = new Map<unknown, unknown>();
  const session: Store.Session = {
    query: async (text, [key, , , , sealed]) => {
      if (text.startsWith("insert")) rows.set(key, sealed);
      return { rows: text.startsWith("select sealed") ? [{ sealed: rows.get(key) }] : [{ freed: true }] };
    },
    on: () => {}, removeListener: () => {}, release: () => {},
  };
  const store = new PgStore({ query: session.query, connect: async () => session }, new Uint8Array(32));
  const lock = await store.lock("ada");
  const connection = { grantId: "g", version: "1", historyFrom: "2026-11-20", scope: "", state: "active" as const, refreshToken: "svcr2_ü" };
  await lock.save(connection);
  await lock.unlock();
  assert.deepEqual(JSON.stringify(await store.load("ada")), JSON.stringify(connection));
});
