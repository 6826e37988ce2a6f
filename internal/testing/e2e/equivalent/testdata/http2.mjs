// Node's own client of HTTP/2.
import { connect } from "node:http2";
import { ask, host, hostname, port, reply, way } from "./ask.mjs";

const session = connect(`https://${hostname}:${port}`, { servername: host });
const headers = { ":method": ask.method, ":path": ask.path, ":authority": host };
for (const [name, value] of ask.fields) {
  headers[name.toLowerCase()] = value;
}
const stream = session.request(headers, { endStream: way !== "frames" && ask.body === "" });
let status, pairs;
stream.on("response", (fields) => {
  status = fields[":status"];
  pairs = Object.entries(fields).filter(([name]) => !name.startsWith(":")).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
});
const parts = [];
stream.on("data", (part) => parts.push(part));
stream.on("end", () => {
  reply(status, pairs, Buffer.concat(parts).toString("latin1"));
  session.close();
});
if (way === "frames") {
  for (const byte of ask.body) {
    stream.write(byte);
  }
  stream.end();
} else if (ask.body !== "") {
  stream.end(ask.body);
}
