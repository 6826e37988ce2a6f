// A partner's backend on openid-client. It prints the authorization URL, reads the URL that came to the callback from
// standard input, and goes on from there. It ends with status 0 when all of it went as the client expects.
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import * as client from "openid-client";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, CALLBACK, SCOPE } = process.env;
const authentication = client.ClientSecretBasic(CLIENT_SECRET);
const config = await client.discovery(new URL(ISSUER), CLIENT_ID, undefined, authentication, { algorithm: "oauth2" });
assert.equal(config.serverMetadata().issuer, ISSUER);
assert.equal(config.serverMetadata().supportsPKCE("S256"), true);

const verifier = client.randomPKCECodeVerifier();
const state = client.randomState();
console.log(
  client.buildAuthorizationUrl(config, {
    redirect_uri: CALLBACK,
    scope: SCOPE,
    state,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  }).href,
);
const input = createInterface({ input: process.stdin });
const came = new URL((await input[Symbol.asyncIterator]().next()).value);

const checks = { pkceCodeVerifier: verifier, expectedState: state };
const first = await client.authorizationCodeGrant(config, came, checks);
assert.equal(first.scope, SCOPE);
assert.equal(first.expiresIn() > 0 && first.expiresIn() <= 300, true);

const read = (tokens) => {
  const day = first.history_from;
  const address = new URL(`/connect-svc/v1/grants/${first.grant_id}/daily-activity?from=${day}&to=${day}`, ISSUER);
  return client.fetchProtectedResource(config, tokens.access_token, address, "GET");
};
assert.equal((await read(first)).status, 200);

const second = await client.refreshTokenGrant(config, first.refresh_token);
assert.notEqual(second.refresh_token, first.refresh_token);
assert.equal((await read(second)).status, 200);

await client.tokenRevocation(config, second.access_token, { token_type_hint: "access_token" });
await assert.rejects(read(second), (thrown) => thrown.cause[0].parameters.error === "invalid_token");
await client.tokenRevocation(config, second.refresh_token, { token_type_hint: "refresh_token" });
await client.tokenRevocation(config, second.refresh_token); // already revoked is no error
const refused = { name: "ResponseBodyError", error: "invalid_grant", status: 400 };
await assert.rejects(client.refreshTokenGrant(config, second.refresh_token), refused);
await assert.rejects(client.authorizationCodeGrant(config, came, checks), refused);
input.close();
