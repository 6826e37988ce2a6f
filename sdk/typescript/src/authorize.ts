import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * One attempt to connect. Keep it on the backend, in the session of the user who began it, and take it out of there when
 * the browser comes back: it works once, and for that user alone (specification 5.3).
 */
export interface Authorization {
  /** Where to send the browser. */
  readonly url: string;
  /** Comes back with the browser. */
  readonly state: string;
  /** Of PKCE; secret. */
  readonly verifier: string;
  /** Milliseconds of the epoch. */
  readonly expiresAt: number;
}

/** That of the service's authorization request (specification 5.3), and a little for the way back. */
const lifetime = 11 * 60_000;

export function begin(base: string, clientId: string, callbackUrl: string, scopes: readonly string[], now: number): Authorization {
  const state = randomBytes(32).toString("base64url");
  const verifier = randomBytes(32).toString("base64url");
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: callbackUrl,
    response_type: "code",
    scope: scopes.join(" "),
    state,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  return { url: `${base}/oauth/authorize?${query}`, state, verifier, expiresAt: now + lifetime };
}

/** Whether the browser brings back the state that it was sent with, once and in time. */
export function belongs(begun: Authorization, callback: URLSearchParams, now: number): boolean {
  const states = callback.getAll("state");
  if (states.length !== 1 || begun.state === "" || now >= begun.expiresAt) return false;
  const got = Buffer.from(states[0] ?? "");
  const want = Buffer.from(begun.state);
  return got.length === want.length && timingSafeEqual(got, want);
}
