// Refreshes connections with the TypeScript SDK. The first line of standard input names the partner and holds its connections. At
// every further line each connection is refreshed once, and a line says what became of them.
import { createInterface } from "node:readline";

import { ConnectClient, MemoryStore, ReconnectError } from "connect-svc-sdk";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { options, connections } = JSON.parse((await lines.next()).value);
const store = new MemoryStore();
for (const [key, connection] of Object.entries(connections)) {
  const lock = await store.lock(key);
  await lock.save(connection);
  await lock.unlock();
}
const client = new ConnectClient({ ...options, store });
for await (const _ of lines) {
  const round = { refreshed: 0, refused: 0, lost: 0 };
  await Promise.all(Object.keys(connections).map((key) => client.refresh(key).then(
    () => round.refreshed++,
    (error) => (error instanceof ReconnectError ? round.lost++ : round.refused++),
  )));
  console.log(JSON.stringify(round));
}
