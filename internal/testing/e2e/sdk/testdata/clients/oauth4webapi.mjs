// A partner's backend on oauth4webapi. It prints the authorization URL, reads the URL that came to the callback from
// standard input, and goes on from there. It ends with status 0 when all of it went as RFC 6749, 7009, 7636 and 8414 say.
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import * as oauth from "oauth4webapi";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, CALLBACK, SCOPE } = process.env;
const issuer = new URL(ISSUER);
const client = { client_id: CLIENT_ID };
const authentication = oauth.ClientSecretBasic(CLIENT_SECRET);

const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: "oauth2" }));
assert.deepEqual(server.code_challenge_methods_supported, ["S256"]);

const verifier = oauth.generateRandomCodeVerifier();
const state = oauth.generateRandomState();
const authorization = new URL(server.authorization_endpoint);
for (const [name, value] of Object.entries({
  client_id: CLIENT_ID,
  redirect_uri: CALLBACK,
  response_type: "code",
  scope: SCOPE,
  state,
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})) {
  authorization.searchParams.set(name, value);
}
console.log(authorization.href);
const input = createInterface({ input: process.stdin });
const came = new URL((await input[Symbol.asyncIterator]().next()).value);

const parameters = oauth.validateAuthResponse(server, client, came, state);
const exchange = () => oauth.authorizationCodeGrantRequest(server, client, authentication, parameters, CALLBACK, verifier);
const first = await oauth.processAuthorizationCodeResponse(server, client, await exchange());
assert.equal(first.token_type, "bearer");
assert.equal(first.scope, SCOPE);
assert.equal(typeof first.grant_id, "string");

const read = async (tokens) => {
  const day = first.history_from;
  const address = new URL(`/connect-svc/v1/grants/${first.grant_id}/daily-activity?from=${day}&to=${day}`, issuer);
  return oauth.protectedResourceRequest(tokens.access_token, "GET", address);
};
assert.equal((await read(first)).status, 200);

const refresh = (token) => oauth.refreshTokenGrantRequest(server, client, authentication, token);
const second = await oauth.processRefreshTokenResponse(server, client, await refresh(first.refresh_token));
assert.notEqual(second.refresh_token, first.refresh_token);
assert.equal((await read(second)).status, 200);

const revoke = async (token) =>
  oauth.processRevocationResponse(await oauth.revocationRequest(server, client, authentication, token));
await revoke(second.access_token);
await assert.rejects(read(second), challenged("Bearer", "invalid_token"));
await revoke(second.refresh_token);
await revoke(second.refresh_token); // already revoked is no error
await assert.rejects(
  async () => oauth.processRefreshTokenResponse(server, client, await refresh(second.refresh_token)),
  { name: "ResponseBodyError", error: "invalid_grant", status: 400 },
);
await assert.rejects(
  async () => oauth.processAuthorizationCodeResponse(server, client, await exchange()),
  { name: "ResponseBodyError", error: "invalid_grant", status: 400 },
);
const stranger = oauth.ClientSecretBasic(CLIENT_SECRET + "x");
await assert.rejects(
  async () => oauth.processRevocationResponse(await oauth.revocationRequest(server, client, stranger, "x")),
  challenged("Basic"),
);
input.close();

// challenged recognizes the error that the client makes of an answer with WWW-Authenticate.
function challenged(scheme, error) {
  return (thrown) => {
    assert.equal(thrown.name, "WWWAuthenticateChallengeError");
    const [challenge] = thrown.cause;
    assert.equal(challenge.scheme, scheme.toLowerCase());
    assert.equal(challenge.parameters.realm, "svc-connect");
    assert.equal(challenge.parameters.error, error);
    return true;
  };
}
