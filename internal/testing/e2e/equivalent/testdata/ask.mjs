import { readFileSync } from "node:fs";

export const ask = JSON.parse(readFileSync(0, "utf8"));
export const [hostname, port] = process.env.CONNECT_ADDRESS.split(":");
export const host = process.env.CONNECT_HOST;
export const way = process.argv[2];

export function reply(status, headers, body) {
  process.stdout.write(JSON.stringify({ status, headers, body }));
}
