// The driver of the TypeScript SDK, as sdk/scenarios.yaml describes it. Node's own fetch sends its requests, but for those by a proxy or HTTP/2:
// a partner uses the package undici for them.
import { createInterface } from "node:readline";

import {
  ConnectClient, DeniedError, MemoryStore, NotConnectedError, ReconnectError, ServiceError, SharedError, StateError, UnreachableError, verifyWebhook, WebhookError,
} from "connect-svc-sdk";
import { Agent, fetch as undici, ProxyAgent } from "undici";

const over = (dispatcher) => ({ url, method, headers, body, signal }) =>
  undici(url, { method, headers: [...headers], body, duplex: "half", redirect: "manual", signal, dispatcher });
const direct = (url) => process.env.NO_PROXY.split(",").some((name) => new URL(url).hostname.endsWith(name));

const store = new MemoryStore();
let client, begun;
let now = Date.UTC(2026, 10, 21, 10);
let slept = 0;

const acts = {
  async open({ base_url: baseUrl, client_id: clientId, client_secret: clientSecret, callback_url: callbackUrl, scopes, timeout_ms: timeoutMs, http }) {
    client = new ConnectClient({
      baseUrl, clientId, clientSecret, callbackUrl, scopes, store,
      ...(timeoutMs && { timeoutMs }),
      ...(!direct(baseUrl) && { fetch: over(new ProxyAgent(process.env.HTTPS_PROXY)) }),
      ...(http === 2 && { fetch: over(new Agent({ allowH2: true })) }),
      now: () => now,
      jitter: () => 0,
      sleep: async (ms, signal) => {
        signal?.throwIfAborted();
        now += ms;
        slept += ms;
      },
    });
  },
  async begin() {
    begun = client.begin();
    return { url: begun.url };
  },
  async finish({ key, callback }) {
    const { sharedWith, formerGrants } = await client.finish(key, begun, new URLSearchParams(callback));
    return { ...(sharedWith?.length && { shared_with: sharedWith }), ...(formerGrants?.length && { former_grants: formerGrants.length }) };
  },
  refresh: ({ key }) => client.refresh(key).then(() => {}),
  async read({ key, dataset, from, to, page_size: pageSize }) {
    const reads = { "daily-activity": "stepDays", "cycling-daily": "cyclingDays", "cycling-activities": "cyclingActivities" };
    let rows = 0;
    for await (const _ of client[reads[dataset]](key, { from, to, ...(pageSize && { pageSize }) })) rows++;
    return { rows };
  },
  revoke: ({ key }) => client.revoke(key),
  disconnect: ({ key }) => client.disconnect(key).then(() => {}),
  disconnect_shared: ({ key }) => client.disconnectShared(key),
  disconnect_former: ({ key }) => client.disconnectFormer(key),
  forget: ({ key }) => client.forget(key),
  ended: async ({ key, version }) => ({ changed: await client.ended(key, version) }),
  state: async ({ key }) => ({ state: (await client.connection(key)).state }),
  async advance({ seconds }) {
    now += seconds * 1000;
  },
  async verify({ secret, headers, body, at }) {
    const { id, event } = verifyWebhook(secret, headers, body, at * 1000);
    return { id, type: event.type };
  },
  together: async ({ commands }) => ({ answers: await Promise.all(commands.map(answered)) }),
};

async function answered(command) {
  try {
    return { outcome: "ok", ...(await acts[command.do](command)) };
  } catch (error) {
    const causes = [];
    for (let cause = error; cause instanceof Error; cause = cause.cause ?? cause.failure) causes.push(cause.message, ...(cause.code ? [cause.code] : []));
    const [outcome, more] =
      error instanceof ReconnectError ? [`reconnect-${error.state}`] :
      error instanceof ServiceError ? ["refused", { status: error.status, code: error.code }] :
      error instanceof UnreachableError ? ["network"] :
      error instanceof SharedError ? ["shared", { keys: error.keys }] :
      error instanceof NotConnectedError ? ["not-connected"] :
      error instanceof DeniedError ? ["denied"] :
      error instanceof StateError ? ["state"] :
      error instanceof WebhookError ? ["not-genuine"] : ["error"];
    return { outcome, ...more, causes };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await answered(JSON.parse(line));
  console.log(JSON.stringify({ ...answer, slept }));
  slept = 0;
}
