import { randomText, same, utf8 } from "./bytes.js";

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

export interface Asked {
  readonly base: string;
  readonly clientId: string;
  readonly callbackUrl: string;
  readonly scopes: readonly string[];
  readonly now: number;
}

/** The authorization with that verifier, whose SHA-256 is the challenge. */
export function begin({ base, clientId, callbackUrl, scopes, now }: Asked, verifier: string, challenge: string): Authorization {
  const state = randomText();
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: callbackUrl,
    response_type: "code",
    scope: scopes.join(" "),
    state,
    code_challenge: challenge,
    code_challenge_method: "S256",
  });
  return { url: `${base}/oauth/authorize?${query}`, state, verifier, expiresAt: now + lifetime };
}

/** Whether the browser brings back the state that it was sent with, once and in time. */
export function belongs(begun: Authorization, callback: URLSearchParams, now: number): boolean {
  const states = callback.getAll("state");
  return states.length === 1 && begun.state !== "" && now < begun.expiresAt && same(utf8(begun.state), utf8(states[0] ?? ""));
}
