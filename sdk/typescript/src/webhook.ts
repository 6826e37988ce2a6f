import { createHmac, timingSafeEqual } from "node:crypto";

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

/**
 * Tells whether the service made a call, now, and reads its event (Standard Webhooks 1.0). The body must be the bytes that
 * came, not what a JSON library made of them. While the secret is being replaced each call is signed with both: the one
 * that you have is enough. Take each id once, and ignore an event of a connection version below the one that you hold:
 * versions are numbers of up to 19 digits, to be compared as BigInt. Types that are not known yet are to be ignored, too.
 * Headers may have names in any case.
 *
 * @throws BodyParsedError if the body is what a framework made of the bytes; WebhookError if the call is not to be believed
 */
export function verifyWebhook(
  secret: string, headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array, now: number = Date.now(),
): { id: string; event: WebhookEvent } {
  if (typeof body !== "string" && !((body as unknown) instanceof Uint8Array)) throw new BodyParsedError();
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (!secret.startsWith("whsec_") || key.length < 24) throw new WebhookError("the signing secret is not whsec_ and base64 of 24 bytes or more");
  const header = (name: string): string => {
    const value = headers instanceof Headers
      ? headers.get(name) : headers[name] ?? Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
    if (typeof value !== "string" || value === "") throw new WebhookError(`the call has no usable header ${name}`);
    return value;
  };
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new WebhookError("webhook-timestamp is not a number of seconds");
  if (Math.abs(now / 1000 - Number(timestamp)) > tolerance) throw new WebhookError("the call was not signed within 5 minutes of now");
  const want = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  const matches = header("webhook-signature").split(" ").some((signature) => {
    const [version, encoded] = signature.split(",", 2);
    const got = Buffer.from(encoded ?? "", "base64");
    return version === "v1" && got.length === want.length && timingSafeEqual(got, want);
  });
  if (!matches) throw new WebhookError("no signature of the call matches");
  try {
    const event = JSON.parse(Buffer.from(body).toString("utf8")) as WebhookEvent;
    if (typeof event.type === "string" && typeof event.data === "object" && event.data !== null) return { id, event };
  } catch {
    // below
  }
  throw new WebhookError("the call is genuine, but its body is no event");
}
