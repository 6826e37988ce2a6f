
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import { Auth } from "@auth/core";

// What a framework's adapter does: each request goes to Auth, with the browser's cookies.
const site = new URL("/auth", process.env.CALLBACK).href;
const cookies = new Map();
let tokens;
const ask = async (path, form) => {
  const headers = { Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") };
  const request = new Request(path.startsWith("https:") ? path : site + path, form && {
    method: "POST", body: new URLSearchParams(form), headers,
  } || { headers });
  const response = await Auth(request, {
    basePath: "/auth", secret: "only for this test, and as long as it has to be", trustHost: true, providers: [provider],
    callbacks: { jwt: ({ token, account }) => { tokens ??= account; return token; } },
  });
  for (const cookie of response.headers.getSetCookie()) {
    const [name, value] = cookie.split(";")[0].split("=");
    cookies.set(name, value);
  }
  return response;
};
const { csrfToken } = await (await ask("/csrf")).json();
console.log((await ask("/signin/connect", { csrfToken })).headers.get("Location"));
const input = createInterface({ input: process.stdin });
await ask((await input[Symbol.asyncIterator]().next()).value);
input.close();

const day = tokens.history_from;
const address = `${process.env.ISSUER}/connect-svc/v1/grants/${tokens.grant_id}/daily-activity?from=${day}&to=${day}`;
assert.equal((await fetch(address, { headers: { Authorization: `Bearer ${tokens.access_token}` } })).status, 200);
