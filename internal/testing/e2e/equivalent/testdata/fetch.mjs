// Node's fetch (undici). Its address must be that of the certificate, so the name is looked up here.
import dns from "node:dns";
import { ask, host, hostname, port, reply, way } from "./ask.mjs";

dns.lookup = (name, options, done) => (options.all ? done(null, [{ address: hostname, family: 4 }]) : done(null, hostname, 4));
const options = { method: ask.method, headers: ask.fields, redirect: "manual" };
if (way === "stream" && ask.method !== "GET") {
  options.duplex = "half";
  options.body = new ReadableStream({
    start(to) {
      for (const byte of new TextEncoder().encode(ask.body)) {
        to.enqueue(new Uint8Array([byte]));
      }
      to.close();
    },
  });
} else if (ask.body !== "") {
  options.body = ask.body;
}
const answer = await fetch(`https://${host}:${port}${ask.path}`, options);
reply(answer.status, [...answer.headers], Buffer.from(await answer.arrayBuffer()).toString("latin1"));
