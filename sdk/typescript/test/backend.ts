// One process of processes.test.ts. At each line of standard input it reads the steps of a day.
import { createInterface } from "node:readline";

import { ConnectClient, ReconnectError } from "connect-svc-sdk";
import { PgStore } from "connect-svc-sdk/pgstore";
import { Pool } from "pg";

import type { Partner } from "./control.js";

const { baseUrl, clientId, clientSecret, callbackUrl } = JSON.parse(process.env["PARTNER"] ?? "") as Partner;
const key = process.env["KEY"] ?? "";
let now = 0;
const client = new ConnectClient({
  baseUrl, clientId, clientSecret, callbackUrl, scopes: ["daily_steps:read"], now: () => now,
  store: new PgStore(new Pool({ connectionString: process.env["DATABASE_URL"], max: 2 }), Buffer.alloc(32, "k")),
  ...(process.env["MODE"] === "hang" && {
    fetch: () => {
      console.log("sent");
      return new Promise<Response>(() => {});
    },
  }),
});
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line) as { day: string; now: number };
  now = asked.now;
  client.dailySteps(key, { from: asked.day, to: asked.day }).then(
    (answer) => console.log(answer.data[0]?.steps),
    (error: unknown) => console.log(error instanceof ReconnectError ? `ReconnectError ${error.state}` : String(error)),
  );
}
