// One process of a partner's backend that reads as fast as it can. It prints how many requests it sent, how many of them were refused, and
// when it began and ended.
import { ConnectClient } from "connect-svc-sdk";

import { stores, type Partner } from "./control.js";

const [workers = 0, atOnce = 0, reads = 0] = process.argv.slice(2).map(Number);
const { baseUrl, clientId, clientSecret, callbackUrl } = JSON.parse(process.env["PARTNER"] ?? "") as Partner;
const key = process.env["KEY"] ?? "", day = process.env["DAY"] ?? "";
const answers: number[] = [];
const client = new ConnectClient({
  baseUrl, clientId, clientSecret, callbackUrl, store: stores["PostgreSQL"]!(), scopes: ["daily_steps:read"], concurrentReads: atOnce,
  fetch: async (request) => {
    const answer = await fetch(request);
    if (new URL(request.url).pathname.startsWith("/connect-svc/")) answers.push(answer.status);
    return answer;
  },
});
let left = reads;
const begun = Date.now();
await Promise.all(Array.from({ length: workers }, async () => {
  while (left-- > 0) await client.dailySteps(key, { from: day, to: day });
}));
console.log(answers.length, answers.filter((status) => status === 429).length, begun / 1000, Date.now() / 1000);
