
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline/promises";

const state = randomBytes(32).toString("base64url");
const verifier = randomBytes(32).toString("base64url");
console.log(String(await begin(state, verifier)));
const input = createInterface({ input: process.stdin });
const callback = (await input[Symbol.asyncIterator]().next()).value;
input.close();

const read = async (tokens) => {
  const day = first.history_from;
  const address = `${process.env.ISSUER}/connect-svc/v1/grants/${first.grant_id}/daily-activity?from=${day}&to=${day}`;
  return (await fetch(address, { headers: { Authorization: `Bearer ${tokens.access_token}` } })).status;
};
const first = await exchange(callback, state, verifier);
assert.equal(await read(first), 200);
const second = await refresh(first.refresh_token);
assert.notEqual(second.refresh_token, first.refresh_token);
assert.equal(await read(second), 200);
await revoke(second);
assert.equal(await read(second), 401);
await assert.rejects(async () => revoke({ ...second, refresh_token: "x".repeat(2049) })); // refused, as it is longer than any
