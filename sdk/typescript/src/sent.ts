// Whether a request left this process, by what the HTTP client of Node says of it on its channels. Node's fetch is undici, and a fetch that a
// partner makes of the package undici, such as one through a proxy, says the same.
import { randomUUID } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";

import { UnreachableError } from "./errors.js";
import { neverLeft } from "./retry.js";

/** How the channels know one of our requests. A CONNECT to a proxy does not have it, nor has a request of somebody else. */
const header = "Connect-Attempt";

/** What was said of one request. */
interface Attempt {
  copy?: object; // of undici, by its class of requests; undefined until it has the request
  written: boolean; // began to be, on a connection that is made: behind the proxy's 200, with TLS verified
  failed: boolean; // undici gave it up, and will not write it any more
}

/** What undici publishes. Some fields depend on its version. */
interface Message {
  readonly request?: { readonly headers?: unknown };
  readonly connectParams?: { readonly host?: string };
  readonly socket?: { readonly alpnProtocol?: unknown } | null;
}

const attempts = new Map<string, Attempt>();
const known = new WeakMap<object, Attempt>(); // by the request of undici
const overHttp2 = new Set<string>(); // hosts
const tellsHttp2 = new WeakSet<object>(); // copies of undici: those before version 7 do not say when they write a request of HTTP/2

const listen = (channel: string, take: (message: Message) => void) => subscribe(channel, (message) => take(message as Message));
listen("undici:client:connected", ({ connectParams, socket }) => {
  if (socket?.alpnProtocol === "h2" && connectParams?.host) overHttp2.add(connectParams.host);
});
listen("undici:request:create", ({ request }) => {
  if (attempts.size === 0 || !request) return;
  const headers = String(request.headers); // a list of names and values, or a text
  for (const [id, attempt] of attempts) {
    if (!headers.includes(id)) continue;
    attempt.copy = request.constructor;
    attempt.failed = false;
    known.set(request, attempt);
  }
});
listen("undici:client:sendHeaders", ({ request, socket }) => {
  if (!request) return;
  if (socket?.alpnProtocol === "h2") tellsHttp2.add(request.constructor);
  note(request, "written");
});
listen("undici:request:bodySent", ({ request }) => note(request, "written"));
listen("undici:request:error", ({ request }) => note(request, "failed"));

function note(request: object | undefined, what: "written" | "failed"): void {
  const attempt = request && known.get(request);
  if (attempt) attempt[what] = true;
}

/** Sends a request. Its failure is an UnreachableError that knows whether the request left, as far as undici tells. */
export async function traced(request: Request, send: (request: Request) => Promise<Response>): Promise<Response> {
  const id = randomUUID();
  const attempt: Attempt = { written: false, failed: false };
  request.headers.set(header, id);
  attempts.set(id, attempt);
  try {
    return await send(request);
  } catch (cause) {
    // What was given up is not written later. Nor is what our own signal ended: undici looks at that before it writes.
    const told = attempt.copy !== undefined && (tellsHttp2.has(attempt.copy) || !overHttp2.has(new URL(request.url).host));
    const held = told && !attempt.written && (attempt.failed || (request.signal.aborted && cause === request.signal.reason));
    throw new UnreachableError(cause, held || (!attempt.written && neverLeft(cause)) || refused(cause));
  } finally {
    attempts.delete(id);
  }
}

/** Whether the server says that it did not look at the stream (RFC 9113, 8.7). */
function refused(failure: unknown): boolean {
  for (let cause = failure; cause instanceof Error; cause = cause.cause) {
    if ((cause as { code?: unknown }).code === "ERR_HTTP2_STREAM_ERROR" && cause.message.includes("NGHTTP2_REFUSED_STREAM")) return true;
  }
  return false;
}
