// Node's own client of HTTP/1.1.
import { request } from "node:https";
import { ask, host, hostname, port, reply, way } from "./ask.mjs";

const headers = { Host: host, ...Object.fromEntries(ask.fields) };
if (way === "chunked") {
  headers["Transfer-Encoding"] = "chunked";
} else if (ask.body !== "") {
  headers["Content-Length"] = Buffer.byteLength(ask.body);
}
const sent = request({ hostname, port, servername: host, method: ask.method, path: ask.path, headers }, (answer) => {
  const parts = [];
  answer.on("data", (part) => parts.push(part));
  answer.on("end", () => {
    const pairs = [];
    for (let i = 0; i < answer.rawHeaders.length; i += 2) {
      pairs.push([answer.rawHeaders[i], answer.rawHeaders[i + 1]]);
    }
    reply(answer.statusCode, pairs, Buffer.concat(parts).toString("latin1"));
  });
});
for (const byte of ask.body) {
  sent.write(byte);
}
sent.end();
