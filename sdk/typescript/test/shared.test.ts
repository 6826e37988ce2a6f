// Whom a connection concerns beside its key: two users of one account, and the former account of a user. Go is tested in the same way:
// sdk/go/connect/shared_test.go.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as everythingElse } from "node:timers/promises";

import { ConnectClient, MemoryStore, NotConnectedError, ServiceError, SharedError, type Store } from "connect-svc-sdk";

const [one, two] = ["7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", "1c9e6679-7425-40de-944b-e07fc1f90ae7"] as const;

/** A partner whose users connect accounts: the code names the account. */
class Family {
  readonly ended: string[] = []; // grants, in order
  broken = false; // the service answers disconnects with 500
  #version = 8; // so that the next ones have one digit and two
  readonly client: ConnectClient;

  constructor(readonly store: Store = new MemoryStore()) {
    this.client = new ConnectClient({
      baseUrl: "https://connect.example.com", clientId: "id", clientSecret: "svci_secret", callbackUrl: "https://partner.example/callback",
      scopes: ["daily_steps:read"], store, sleep: async () => {},
      fetch: async (request) => {
        if (request.method === "DELETE") {
          if (this.broken) return Response.json({ error: "server_error" }, { status: 500 });
          this.ended.push(request.url.split("/").at(-1)!);
          return new Response(null, { status: 204 });
        }
        const account = new URLSearchParams(await request.text()).get("code") ?? two; // of the one refresh
        return Response.json({
          grant_id: account, history_from: "2026-11-20", connection_version: String(++this.#version), token_type: "Bearer",
          access_token: "svca_a", refresh_token: "svcr2_r", expires_in: 300, scope: "daily_steps:read",
        });
      },
    });
  }

  async connect(key: string, account: string) {
    const begun = this.client.begin();
    return this.client.finish(key, begun, new URLSearchParams({ state: begun.state, code: account }));
  }

  async state(key: string): Promise<string> {
    return this.client.connection(key).then(({ state }) => state, (error: unknown) => error instanceof NotConnectedError ? "nothing" : String(error));
  }
}
const shared = (...keys: string[]) => (error: unknown) => {
  assert.ok(error instanceof SharedError);
  assert.deepEqual(error.keys, keys);
  assert.ok(!keys.some((key) => error.message.includes(key)), error.message); // whose they are is not for a log
  return true;
};

test("two users, one account: the second one's tokens replace the first one's, and nobody ends the other unseen", async () => {
  const family = new Family();
  const anna = await family.connect("anna", one);
  assert.deepEqual([anna.sharedWith, anna.formerGrants], [undefined, undefined]);
  await family.connect("carl", two);
  const ben = await family.connect("ben", one);
  assert.deepEqual([ben.sharedWith, ben.formerGrants], [["anna"], undefined]);
  assert.deepEqual([await family.state("anna"), await family.state("ben"), await family.state("carl")], ["ended", "active", "active"]);
  await assert.rejects(family.client.disconnect("anna"), shared("ben"));
  assert.deepEqual([family.ended, await family.state("anna")], [[], "ended"]);
  await family.client.forget("anna");
  assert.deepEqual([family.ended, await family.state("anna")], [[], "nothing"]);
  await family.client.disconnect("ben");
  assert.deepEqual(family.ended, [one]);
});

test("the one whose connection is the latest may disconnect, and the other one may if the program says so", async () => {
  const family = new Family();
  await family.connect("anna", one);
  await family.connect("ben", one);
  await family.client.disconnectShared("anna");
  assert.deepEqual([await family.state("anna"), await family.state("ben")], ["nothing", "ended"]);
  await family.connect("anna", one);
  await family.client.disconnect("anna");
  assert.deepEqual(family.ended, [one, one]);
});

test("two users who connect the same account at the same moment do not wait for each other for ever", async () => {
  const family = new Family();
  for (let i = 0; i < 20; i++) await Promise.all(["anna", "ben"].map((key) => family.connect(key, one)));
  const states = [await family.state("anna"), await family.state("ben")];
  assert.ok(states.includes("active"), String(states));
});

test("one user, two accounts: the former grant is kept, whatever else happens to the connection, until it has ended at the service", async () => {
  const family = new Family();
  await family.connect("cora", one);
  assert.deepEqual((await family.connect("cora", two)).formerGrants, [one]);
  assert.deepEqual((await family.client.refresh("cora")).formerGrants, [one]);
  family.broken = true;
  await assert.rejects(family.client.disconnectFormer("cora"), ServiceError);
  family.broken = false;
  assert.deepEqual((await family.client.connection("cora")).formerGrants, [one]);
  for (let i = 0; i < 2; i++) {
    await family.client.disconnectFormer("cora");
    assert.deepEqual(family.ended, [one]);
  }
  const after = await family.client.connection("cora");
  assert.deepEqual([after.formerGrants, after.state, await family.client.accessToken("cora")], [undefined, "active", "svca_a"]);
  // There and back: what is connected is not a former one. A disconnect ends both.
  await family.connect("cora", one);
  assert.deepEqual((await family.connect("cora", two)).formerGrants, [one]);
  await family.client.ended("cora", "99");
  assert.deepEqual((await family.client.connection("cora")).formerGrants, [one]);
  family.ended.length = 0;
  await family.client.disconnect("cora");
  assert.deepEqual([family.ended, await family.state("cora")], [[one, two], "nothing"]);
});

test("a former grant that is somebody else's by now is not ended", async () => {
  const family = new Family();
  await family.connect("cora", one);
  await family.connect("cora", two);
  await family.connect("anna", one);
  await family.client.disconnectFormer("cora");
  assert.deepEqual([family.ended, (await family.client.connection("cora")).formerGrants, await family.state("anna")], [[], undefined, "active"]);
});

test("a store of version 1.1.0 goes on: it knows no other keys", async () => {
  const memory = new MemoryStore();
  const family = new Family({ load: (key) => memory.load(key), lock: (key) => memory.lock(key) });
  await family.connect("anna", one);
  assert.deepEqual([(await family.connect("ben", one)).sharedWith, await family.state("anna")], [undefined, "active"]);
  await family.connect("ben", two);
  await family.client.disconnect("ben");
  assert.deepEqual(family.ended, [one, two]);
});

test("a store that fails to find other keys costs no connection, and lets nobody end another's", async () => {
  const store = new MemoryStore();
  const family = new Family(store);
  await family.connect("anna", one);
  store.keysOf = async () => Promise.reject(new Error("the database is away"));
  assert.equal((await family.connect("ben", one)).state, "active");
  await assert.rejects(family.client.disconnect("anna"), /away/);
  assert.deepEqual(family.ended, []);
});

test("a store whose lock is its only session waits for nobody", async () => {
  const memory = new MemoryStore();
  let locked = false;
  const alone = <T>(act: Promise<T>) => {
    assert.ok(!locked, "a second session while the first one has the lock");
    return act;
  };
  const family = new Family({
    load: (key) => alone(memory.load(key)),
    keysOf: (grantId) => alone(memory.keysOf(grantId)),
    lock: async (key) => {
      const lock = await alone(memory.lock(key));
      locked = true;
      return { load: () => lock.load(), save: (held) => lock.save(held), delete: () => lock.delete(), unlock: async () => {
        locked = false;
        await lock.unlock();
      } };
    },
  });
  await family.connect("cora", one);
  await family.connect("cora", two);
  await family.connect("anna", two);
  await family.client.disconnectFormer("cora");
  await family.client.disconnectShared("cora");
  await family.client.disconnect("anna");
  assert.deepEqual(family.ended, [one, two, two]);
});

test("who connects anew while a disconnect looks around is looked at again", async () => {
  const store = new MemoryStore();
  const family = new Family(store);
  await family.connect("cora", one);
  const keysOf = store.keysOf.bind(store);
  store.keysOf = async (grantId) => {
    const keys = await keysOf(grantId);
    store.keysOf = keysOf;
    await family.connect("anna", two);
    await family.connect("cora", two);
    await family.connect("anna", two);
    return keys;
  };
  await assert.rejects(family.client.disconnect("cora"), shared("anna"));
  assert.deepEqual(family.ended, [one]); // the former account
});

test("a webhook about the former account waits while the user connects another one, and leaves that alone", async () => {
  const store = new MemoryStore();
  const family = new Family(store);
  await family.connect("cora", one);
  const lock = await store.lock("cora");
  const news = family.client.ended("cora", "9");
  for (let i = 0; i < 5; i++) await everythingElse(); // it waits for the lock
  await lock.save({ ...(await lock.load())!, grantId: two, version: "1" });
  await lock.unlock();
  assert.deepEqual([await news, await family.state("cora")], [false, "active"]);
});
