
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";

// What Express and express-session give a strategy.
const session = {};
const authenticate = (query) => new Promise((resolve, reject) => {
  const request = Object.assign(Object.create(strategy), {
    redirect: resolve, success: resolve, error: reject, fail: (why) => reject(new Error(JSON.stringify(why))),
  });
  request.authenticate({ query, session, headers: {}, app: { get: () => undefined }, connection: {} }, {});
});
console.log(await authenticate({}));
const input = createInterface({ input: process.stdin });
const callback = new URL((await input[Symbol.asyncIterator]().next()).value);
input.close();

const tokens = await authenticate(Object.fromEntries(callback.searchParams));
const day = tokens.history_from;
const address = `${process.env.ISSUER}/connect-svc/v1/grants/${tokens.grant_id}/daily-activity?from=${day}&to=${day}`;
assert.equal((await fetch(address, { headers: { Authorization: `Bearer ${tokens.access_token}` } })).status, 200);
