// The package without modules of Node: for Cloudflare Workers, Deno, Bun and other runtimes with Web Crypto, whose digests are promises.
import type { Authorization } from "./authorize.js";
import { base64url, randomText, utf8 } from "./bytes.js";
import { CoreClient } from "./client.js";

export * from "./shared.js";
export { verifyWebhook } from "./webhook.js";

/** Speaks to the service for one registration. Make one for a process. */
export class ConnectClient extends CoreClient {
  /** Makes the address that the user's browser is to be sent to, with a fresh state and PKCE verifier. Sends nothing. */
  async begin(): Promise<Authorization> {
    const verifier = randomText();
    return this.authorization(verifier, base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(verifier)))));
  }
}
