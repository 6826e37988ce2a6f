// Receivers of webhooks, in both styles, with what the service sends and what strangers send.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { EventEmitter } from "node:events";
import { createServer, request as send, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { BodyParsedError, fetchReceiver, nodeReceiver, WebhookError, type ReceiverOptions, type WebhookCall } from "connect-svc-sdk";

const secret = "whsec_" + Buffer.alloc(24, "k").toString("base64");
const body = JSON.stringify({ type: "connection.revoked", timestamp: "2026-11-21T10:00:00.000Z",
  data: { grant_id: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", connection_version: "3", reason: "user_disconnected" } });
const now = Date.parse("2026-11-21T10:00:00Z");

function signed(id: string, text: string, at = now): Record<string, string> {
  const timestamp = String(at / 1000);
  const signature = createHmac("sha256", Buffer.alloc(24, "k")).update(`${id}.${timestamp}.${text}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,AAAA v1,${signature}` };
}

/** A receiver whose inbox fails for the id msg_broken, and which keeps what it took and what it heard. */
function inbox() {
  const taken: string[] = [];
  const errors: Error[] = [];
  const options: ReceiverOptions = {
    secret, now: () => now,
    seen: async (id) => taken.includes(id),
    take: async ({ id, event }: WebhookCall) => {
      if (id === "msg_broken") throw new Error("the disk is full");
      assert.equal(event.type, "connection.revoked");
      taken.push(id);
    },
    onError: (error) => {
      errors.push(error);
      throw error; // the answer does not depend on it
    },
  };
  return { taken, errors, options };
}

type Send = (method: string, headers: Record<string, string>, body: string) => Promise<{ status: number; allow: string | null }>;

const styles: Record<string, (t: TestContext, options: ReceiverOptions) => Promise<Send>> = {
  fetch: async (_t, options) => {
    const receive = fetchReceiver(options);
    return async (method, headers, body) => {
      const { status, headers: { get } } = await receive(new Request("https://partner.example/webhooks", { method, headers, ...(method === "POST" && { body }) }))
        .then((response) => ({ status: response.status, headers: { get: (name: string) => response.headers.get(name) } }));
      return { status, allow: get("allow") };
    };
  },
  Node: async (t, options) => {
    const base = await listen(t, nodeReceiver(options));
    return async (method, headers, body) => {
      const response = await fetch(base, { method, headers, ...(method === "POST" && { body }) });
      return { status: response.status, allow: response.headers.get("allow") };
    };
  },
};

async function listen(t: TestContext, receive: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Promise<string> {
  const server = createServer((request, response) => void receive(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`;
}

for (const [style, start] of Object.entries(styles)) {
  test(`what a receiver answers: ${style}`, async (t) => {
    const { taken, errors, options } = inbox();
    const call = await start(t, options);
    const huge = "x".repeat(64 * 1024 + 1);
    const untyped = '{"type":7}';
    for (const [name, want, headers, text, method = "POST"] of [
      ["genuine", 204, signed("msg_1", body), body],
      ["the same again", 204, signed("msg_1", body), body],
      ["again, signed anew", 204, signed("msg_1", body, now + 60_000), body],
      ["of another body", 401, signed("msg_2", body), `${body} `],
      ["of another id", 401, { ...signed("msg_2", body), "webhook-id": "msg_3" }, body],
      ["of an old time", 401, signed("msg_2", body, now - 301_000), body],
      ["of a time to come", 401, signed("msg_2", body, now + 301_000), body],
      ["with the time of now and an old signature", 401, { ...signed("msg_2", body, now - 301_000), "webhook-timestamp": String(now / 1000) }, body],
      ["no headers", 401, {}, body],
      ["nothing", 401, signed("msg_2", body), ""],
      ["no event", 401, signed("msg_2", untyped), untyped],
      ["too large", 413, signed("msg_2", huge), huge],
      ["a failing inbox", 503, signed("msg_broken", body), body],
      ["another method", 405, signed("msg_2", body), "", "GET"],
    ] as [string, number, Record<string, string>, string, string?][]) {
      const answer = await call(method, headers, text);
      assert.deepEqual([name, answer.status, answer.allow], [name, want, want === 405 ? "POST" : null]);
    }
    assert.deepEqual(taken, ["msg_1"]);
    assert.equal(errors.length, 10);
    assert.ok(errors.every((error) => !error.message.includes("whsec_M")));
  });
}

test("a receiver wants a secret and a limit when it is made", () => {
  const { options } = inbox();
  for (const make of [fetchReceiver, nodeReceiver]) {
    for (const wrong of ["", "whsec_", "svci_secret"]) assert.throws(() => make({ ...options, secret: wrong }), WebhookError);
    for (const maxBytes of [0, -1, NaN]) assert.throws(() => make({ ...options, maxBytes }), TypeError);
  }
});

test("a body that a framework has read is a mistake that is told, and its bytes do", async (t) => {
  const { taken, errors, options } = inbox();
  const request = new Request("https://partner.example/webhooks", { method: "POST", headers: signed("msg_1", body), body });
  await request.json();
  assert.equal((await fetchReceiver(options)(request)).status, 500);
  const receive = nodeReceiver(options);
  const leave: Record<string, (request: IncomingMessage, bytes: Buffer) => void> = {
    json: (request, bytes) => Object.assign(request, { body: JSON.parse(bytes.toString()) as unknown }),
    raw: (request, bytes) => Object.assign(request, { body: bytes }),
    platform: (request, bytes) => Object.assign(request, { body: {}, rawBody: bytes }),
  };
  const base = await listen(t, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    leave[String(request.headers["x-as"])]?.(request, Buffer.concat(chunks));
    await receive(request, response);
  });
  for (const [as, want] of [["json", 500], ["raw", 204], ["platform", 204]] as const) {
    const { status } = await fetch(base, { method: "POST", headers: { ...signed(`msg_${as}`, body), "x-as": as }, body });
    assert.deepEqual([as, status], [as, want]);
  }
  assert.deepEqual(taken, ["msg_raw", "msg_platform"]);
  assert.ok(errors.length === 2 && errors.every((error) => error instanceof BodyParsedError));
});

test("of a body without a length no more is read than is allowed", async (t) => {
  const { taken, errors, options } = inbox();
  let pulled = 0;
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      pulled++;
      controller.enqueue(new Uint8Array(1024));
    },
    cancel: () => {
      cancelled = true;
    },
  });
  const request = new Request("https://partner.example/webhooks", { method: "POST", headers: signed("msg_1", body), body: endless, duplex: "half" } as RequestInit);
  assert.equal((await fetchReceiver(options)(request)).status, 413);
  assert.ok(pulled < 70 && cancelled, `${pulled} chunks`);

  const base = await listen(t, nodeReceiver(options));
  const answer = await new Promise<unknown[]>((resolve, reject) => {
    const call = send(base, { method: "POST", headers: signed("msg_1", body) }, (response) => {
      resolve([response.statusCode, response.headers.connection]);
      call.destroy();
    });
    call.on("error", reject);
    const more = (): void => {
      while (!call.destroyed && call.write(Buffer.alloc(1024)));
    };
    call.on("drain", more);
    more();
  });
  assert.deepEqual(answer, [413, "close"]); // or the rest would be read as the next call
  assert.deepEqual([taken, errors.length], [[], 2]);
});

test("a call that breaks off is not taken", async (t) => {
  const { taken, errors, options } = inbox();
  const receive = nodeReceiver(options);
  let over!: () => void;
  const ended = new Promise<void>((resolve) => (over = resolve));
  const base = await listen(t, (request, response) => receive(request, response).then(over));
  const call = send(base, { method: "POST", headers: { ...signed("msg_1", body), "content-length": String(body.length) } });
  call.on("error", () => {});
  call.write(body.slice(0, 10), () => call.destroy());
  await ended;
  const silent = Object.assign(new EventEmitter(), { method: "POST", headers: signed("msg_1", body) }); // as a stream of HTTP/2 that is reset
  const statuses: number[] = [];
  const answered = receive(silent, { writeHead: (status) => statuses.push(status), end: () => {} });
  silent.emit("close");
  await answered;
  await receive(Object.assign(silent, { destroyed: true }), { writeHead: (status) => statuses.push(status), end: () => {} }); // before it came here
  assert.deepEqual([taken, errors.length, statuses], [[], 3, [400, 400]]);

  const broken = new ReadableStream({ start: (controller) => controller.error(new Error("reset")) });
  const request = new Request("https://partner.example/webhooks", { method: "POST", headers: signed("msg_1", body), body: broken, duplex: "half" } as RequestInit);
  assert.equal((await fetchReceiver(options)(request)).status, 400);
  assert.deepEqual(taken, []);
});
