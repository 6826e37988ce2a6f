// The store in PostgreSQL by itself. Go's is tested in the same way: internal/testing/sdktest/pgstore_test.go. The test that starts this program
// names an empty database, in which it has stored a connection with the Go SDK.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, test, type TestContext } from "node:test";
import { setImmediate as everythingElse } from "node:timers/promises";

import type { StoredConnection } from "connect-svc-sdk";
import { PgStore, schema } from "connect-svc-sdk/pgstore";
import { Pool } from "pg";

const connectionString = process.env["DATABASE_URL"] ?? "";
const [oldKey, newKey] = [Buffer.alloc(32, "k"), Buffer.alloc(32, "n")];
const observer = new Pool({ connectionString });
after(() => observer.end());

/** The store of another process, as far as PostgreSQL can tell. */
async function open(t: TestContext, keys: Uint8Array[] = [oldKey], max = 4): Promise<PgStore> {
  const pool = new Pool({ connectionString, max });
  pool.on("error", () => {}); // of sessions that the test ends
  t.after(async () => {
    await breakSessions(); // of a test that failed
    void pool.end();
  });
  await pool.query(schema);
  return new PgStore(pool, ...keys);
}

const example: StoredConnection = {
  grantId: "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", version: "3", historyFrom: "2026-11-20", scope: "daily_steps:read", state: "active",
  accessToken: "svca_a", refreshToken: "svcr2_r", useUntil: Date.parse("2026-11-21T10:00:00Z"),
};

/** Resolves when a session waits for the lock of a key. */
async function waiting(): Promise<void> {
  for (let n = 0; n === 0; await everythingElse()) {
    const { rows } = await observer.query<{ n: number }>(`select count(*)::int as n from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`);
    n = rows[0]!.n;
  }
}

async function breakSessions(): Promise<void> {
  await observer.query(`select pg_terminate_backend(pid, 60000) from pg_locks where locktype = 'advisory' and granted
    and database = (select oid from pg_database where datname = current_database())`);
}

/** A store that waits for a lock for 10 ms, with a single session. */
function hasty(t: TestContext): { store: PgStore; pool: Pool } {
  const pool = new Pool({ connectionString, max: 1 });
  t.after(() => void pool.end());
  const store = new PgStore({
    query: (text, values) => pool.query(text, values),
    connect: async () => {
      const session = await pool.connect();
      return Object.assign(Object.create(session) as typeof session, { query: (text: string, values: unknown[]) => session.query(text.replace("'90s'", "'10ms'"), values) });
    },
  }, oldKey);
  return { store, pool };
}

// The first one: others end the session that has Go's lock.
test("the Go SDK's connections are read, and its lock is respected", async (t) => {
  await assert.rejects(hasty(t).store.lock("held-by-go"), /lock timeout/);
  const store = await open(t);
  const theirs = await store.load("from-go");
  assert.deepEqual(theirs, example);
  const lock = await store.lock("from-typescript");
  await lock.save(theirs!);
  await lock.unlock();
  const over = await store.lock("from-typescript-over");
  await over.save({ grantId: example.grantId, version: "4", historyFrom: "2026-11-20", scope: "", state: "ended" });
  await over.unlock();
  assert.deepEqual(await store.load("from-go-over"), { grantId: example.grantId, version: "4", historyFrom: "2026-11-20", scope: "", state: "ended" });
});

test("a connection is kept, sealed, under its key", async (t) => {
  const store = await open(t);
  assert.equal(await store.load("ada"), undefined);
  const lock = await store.lock("ada");
  assert.equal(await lock.load(), undefined);
  await lock.save(example);
  assert.deepEqual(await store.load("ada"), example);
  assert.deepEqual(await lock.load(), example);
  assert.deepEqual(await store.keysOf(example.grantId), ["ada", "from-go", "from-go-former", "from-go-over", "from-typescript", "from-typescript-over"]);
  const { rows } = await observer.query<{ text: string }>("select encode(sealed, 'escape') || key || state as text from connect_connections where key = 'ada'");
  assert.doesNotMatch(rows[0]!.text, /svca_|svcr2_/);

  // The service began anew, such as a sandbox with the same seed: the grant is the same, and its versions begin again.
  await lock.save({ ...example, version: "1", refreshToken: "svcr2_anew" });
  assert.deepEqual(await store.load("ada"), { ...example, version: "1", refreshToken: "svcr2_anew" });
  const over: StoredConnection = { grantId: example.grantId, version: "10", historyFrom: "2026-11-20", scope: "", state: "uncertain" };
  await lock.save(over);
  assert.deepEqual(await store.load("ada"), over);

  await observer.query("update connect_connections set key = 'eve' where key = 'ada'");
  await assert.rejects(store.load("eve"), /none of the keys/);
  await observer.query("delete from connect_connections where key = 'eve'");
  await lock.delete();
  await lock.save(example);
  await lock.delete();
  assert.equal(await lock.load(), undefined);
  await lock.unlock();
});

test("keys are replaced", async (t) => {
  const before = await open(t);
  const lock = await before.lock("keys");
  await lock.save(example);
  await lock.unlock();
  const between = await open(t, [newKey, oldKey]);
  const again = await between.lock("keys");
  await again.save((await again.load())!);
  await again.unlock();
  assert.deepEqual(await (await open(t, [newKey])).load("keys"), example);
  await assert.rejects(before.load("keys"), /none of the keys/);
  assert.throws(() => new PgStore(observer), TypeError);
  assert.throws(() => new PgStore(observer, Buffer.from("short")), TypeError);
});

test("a lock is that of all processes, of one key, and ends with its session", async (t) => {
  const [one, other] = [await open(t, [oldKey], 1), await open(t, [oldKey], 2)];
  let lock = await one.lock("ada");
  await (await other.lock("bob")).unlock();
  let got = false;
  const second = other.lock("ada").then((lock) => {
    got = true;
    return lock;
  });
  await waiting();
  assert.equal(got, false);
  await lock.unlock();
  await (await second).unlock();

  lock = await one.lock("ada");
  await breakSessions();
  await (await other.lock("ada")).unlock(); // it does not wait
  await lock.unlock();
  await (await one.lock("ada")).unlock(); // the pool has its only place back
});

test("the wait for a lock ends", async (t) => {
  const one = await open(t);
  const { store: other, pool } = hasty(t);
  const lock = await one.lock("ada");
  await assert.rejects(other.lock("ada"), /lock timeout/);
  await lock.unlock();
  await (await other.lock("ada")).unlock(); // nothing is left behind
  assert.equal((await pool.query<{ lock_timeout: string }>("show lock_timeout")).rows[0]!.lock_timeout, "0");
});

test("what was learned is stored although the session broke, with a pool of one", async (t) => {
  const [one, other] = [await open(t, [oldKey], 1), await open(t)];
  const lock = await one.lock("ada");
  await breakSessions();
  const theirs = await other.lock("ada");
  await theirs.save({ ...example, state: "uncertain" });
  await theirs.unlock();
  await lock.save(example).catch(() => lock.save(example)); // the second try of the client
  await lock.unlock();
  assert.equal((await other.load("ada"))?.state, "active");

  const again = await one.lock("ada");
  await breakSessions();
  const newer = await other.lock("ada");
  await newer.save({ ...example, version: "10", refreshToken: "svcr2_newer" }); // a number, not a text
  await newer.unlock();
  await again.save(example).catch(() => again.save(example));
  await again.unlock();
  assert.equal((await other.load("ada"))?.refreshToken, "svcr2_newer", "an older version replaced a newer one");
});

test("a process that lost the lock sends nothing", async (t) => {
  const [one, other] = [await open(t), await open(t)];
  const lock = await one.lock("ada");
  await lock.save(example);
  await breakSessions();
  const theirs = await other.lock("ada");
  await theirs.save({ ...example, refreshToken: "svcr2_next" });
  await theirs.unlock();
  for (let i = 0; i < 3; i++) await assert.rejects(lock.save({ ...example, state: "refreshing" }));
  await lock.unlock();
  assert.equal((await other.load("ada"))?.refreshToken, "svcr2_next");
});

test("slots of all processes and languages lie apart, by the database's clock", async (t) => {
  const stores = [await open(t), await open(t)];
  // Ten minutes apart, so that no machine is too slow for the test.
  const firsts = await Promise.all(Array.from({ length: 4 }, (_, i) => stores[i % 2]!.pace("pace", 2, 100_000, 0)));
  firsts.sort((a, b) => a - b);
  for (const [i, first] of firsts.entries()) assert.ok(first <= i * 200_000 && first > i * 200_000 - 60_000, String(firsts));
  assert.ok(await stores[0]!.pace("another registration", 1, 100_000, 0) <= 0);
  assert.ok(await stores[0]!.pace("held", 1, 1_000, 500_000) > 400_000); // after a 429
  assert.ok(await stores[1]!.pace("held", 1, 1_000, 0) > 400_000); // which all wait for
  await observer.query("update connect_pace set last_at = now() + interval '1 day' where client_id = 'held'"); // the clock was set back
  assert.ok(await stores[0]!.pace("held", 1, 1_000, 0) <= 600_000);
  assert.ok(await stores[0]!.pace("given by Go", 1, 1_000, 0) > 60_000);
});

test("without its table the store has no pace, and the connections stay readable", async (t) => {
  const store = await open(t);
  await observer.query("alter table connect_pace rename to connect_pace_of_old");
  await assert.rejects(store.pace("id", 1, 100, 0), /connect_pace/);
  assert.equal(await store.load("nobody"), undefined);
  await observer.query("alter table connect_pace_of_old rename to connect_pace");
});

test("former grants are sealed with the connection, as Go writes them", async (t) => {
  const store = await open(t);
  const former = { ...example, formerGrants: ["1c9e6679-7425-40de-944b-e07fc1f90ae7"] };
  assert.deepEqual(await store.load("from-go-former"), former);
  const lock = await store.lock("from-typescript-former");
  await lock.save(former);
  await lock.unlock();
});

test("the program of the README outlives the sessions of its pool", async (t) => {
  const program = `import { store } from ${JSON.stringify(new URL("./readme4.js", import.meta.url))};
    process.stdin.on("data", () => store.load("nobody").then((held) => console.log("held:", held), (error) => console.log(error.message)));
    console.log("ready");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, STORE_KEY: oldKey.toString("base64"), PGAPPNAME: "readme" },
  });
  t.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const says = async () => {
    const { value, done } = await lines.next();
    assert.ok(!done, "the process ended");
    return String(value);
  };
  assert.equal(await says(), "ready");
  const { rowCount } = await observer.query("select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'readme'");
  assert.equal(rowCount, 1);
  do child.stdin.write("load\n"); while (await says() !== "held: undefined"); // the first may meet the session that has gone
});
