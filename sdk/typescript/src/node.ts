import { createHash, createHmac } from "node:crypto";

import type { Authorization } from "./authorize.js";
import { randomText } from "./bytes.js";
import { CoreClient } from "./client.js";
import { traced } from "./sent.js";
import { claimOf, verified, type WebhookCall, type WebhookHeaders } from "./webhook.js";

/** Speaks to the service for one registration. Make one for a process. */
export class ConnectClient extends CoreClient {
  /** Makes the address that the user's browser is to be sent to, with a fresh state and PKCE verifier. Sends nothing. */
  begin(): Authorization {
    const verifier = randomText();
    return this.authorization(verifier, createHash("sha256").update(verifier).digest("base64url"));
  }

  protected override carry(request: Request): Promise<Response> {
    return request.url.endsWith("/oauth/token") ? traced(request, (request) => super.carry(request)) : super.carry(request);
  }
}

/**
 * Tells whether the service made a call, now, and reads its event (Standard Webhooks 1.0). The body must be the bytes that
 * came, not what a JSON library made of them. While the secret is being replaced each call is signed with both: the one
 * that you have is enough. Take each id once, and ignore an event of a connection version below the one that you hold:
 * versions are numbers of up to 19 digits, to be compared as BigInt. Types that are not known yet are to be ignored, too.
 * Headers may have names in any case.
 *
 * @throws BodyParsedError if the body is what a framework made of the bytes; WebhookError if the call is not to be believed
 */
export function verifyWebhook(secret: string, headers: WebhookHeaders, body: string | Uint8Array, now: number = Date.now()): WebhookCall {
  const claim = claimOf(secret, headers, body, now);
  return verified(claim, createHmac("sha256", claim.key).update(claim.signed).digest());
}
