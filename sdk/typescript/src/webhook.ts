import { concat, fromBase64, same, utf8 } from "./bytes.js";
import type { components } from "./schema.gen.js";

export type WebhookEvent = components["schemas"]["ConnectionRevokedEvent"] | components["schemas"]["ActivityUpdatedEvent"];

/** A call that is not to be believed, or not to be understood; the message says why. */
export class WebhookError extends Error {
  override readonly name: string = "WebhookError";
}

/** The body is an object or another value that a framework made of the bytes, which cannot be verified any more. */
export class BodyParsedError extends WebhookError {
  override readonly name = "BodyParsedError";
  constructor() {
    super("the body was parsed already: pass the bytes that came, such as from express.raw({ type: \"*/*\" }) or await request.text()");
  }
}

/** How far the time of a call may be from ours, in seconds, in both directions. */
const tolerance = 5 * 60;

/** The headers of a call, with names in any case. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** A call that the service made. */
export interface WebhookCall {
  /** The same in every attempt to deliver the event: take each id once. */
  id: string;
  event: WebhookEvent;
}

/** What a call says of itself, and the bytes of the body: nothing is verified yet. */
export interface Claim {
  readonly id: string;
  readonly key: Uint8Array<ArrayBuffer>;
  readonly signed: Uint8Array<ArrayBuffer>;
  readonly body: Uint8Array;
  readonly signatures: readonly Uint8Array[];
}

export function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const key = fromBase64(secret.slice("whsec_".length));
  if (!secret.startsWith("whsec_") || key.length < 24) throw new WebhookError("the signing secret is not whsec_ and base64 of 24 bytes or more");
  return key;
}

export function claimOf(secret: string, headers: WebhookHeaders, body: string | ArrayBuffer | ArrayBufferView, now: number): Claim {
  const bytes = bytesOf(body);
  const key = keyOf(secret);
  const header = (name: string): string => {
    const value = isHeaders(headers)
      ? headers.get(name) : headers[name] ?? Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
    if (typeof value !== "string" || value === "") throw new WebhookError(`the call has no usable header ${name}`);
    return value;
  };
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new WebhookError("webhook-timestamp is not a number of seconds");
  if (Math.abs(now / 1000 - Number(timestamp)) > tolerance) throw new WebhookError("the call was not signed within 5 minutes of now");
  const signatures = header("webhook-signature").split(" ").filter((signature) => signature.startsWith("v1,"))
    .map((signature) => fromBase64(signature.slice(3)));
  return { id, key, signed: concat([utf8(`${id}.${timestamp}.`), bytes]), body: bytes, signatures };
}

/** The call, if one of its signatures is the HMAC-SHA-256 of what is signed. */
export function verified({ id, body, signatures }: Claim, want: Uint8Array): WebhookCall {
  if (!signatures.some((signature) => same(signature, want))) throw new WebhookError("no signature of the call matches");
  try {
    const event = JSON.parse(new TextDecoder().decode(body)) as WebhookEvent;
    if (typeof event.type === "string" && typeof event.data === "object" && event.data !== null) return { id, event };
  } catch {
    // below
  }
  throw new WebhookError("the call is genuine, but its body is no event");
}

/**
 * Tells whether the service made a call, now, and reads its event, by Web Crypto: in every runtime. The rules are those of the function of
 * this name for Node, which returns no promise.
 *
 * @throws BodyParsedError if the body is what a framework made of the bytes; WebhookError if the call is not to be believed
 */
export async function verifyWebhook(
  secret: string, headers: WebhookHeaders, body: string | ArrayBuffer | ArrayBufferView, now: number = Date.now(),
): Promise<WebhookCall> {
  const claim = claimOf(secret, headers, body, now);
  const key = await crypto.subtle.importKey("raw", claim.key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return verified(claim, new Uint8Array(await crypto.subtle.sign("HMAC", key, claim.signed)));
}

function isHeaders(headers: WebhookHeaders): headers is Headers {
  return typeof headers.get === "function";
}

function bytesOf(body: unknown): Uint8Array {
  if (typeof body === "string") return utf8(body);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  if (Object.prototype.toString.call(body) === "[object ArrayBuffer]") return new Uint8Array(body as ArrayBuffer); // also of another realm
  throw new BodyParsedError();
}
