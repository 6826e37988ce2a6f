// The scenarios of the SDKs against a running service; Go plays the same, by the same names: internal/testing/e2e/sdk/go_test.go. The
// test that starts this program starts the service, too, and gives it a control to play the user and to plant faults.
import assert from "node:assert/strict";
import { test } from "node:test";

import { DeniedError, MemoryStore, NotConnectedError, ReconnectError, ServiceError, StateError } from "connect-svc-sdk";

import { advance, plant, seen, stores, User } from "./control.js";

const reconnect = (state: string) => (error: unknown) => error instanceof ReconnectError && error.state === state;

for (const [kind, newStore] of Object.entries(stores)) {
  test(`${kind}/connect and read all three datasets with paging`, async () => {
    const user = await User.create(newStore());
    const { historyFrom: day } = await user.connect();
    assert.equal((await user.steps()).data[0]?.steps, 4321);
    const cycling = await user.client.cyclingDaily(user.key, { from: day, to: day });
    assert.deepEqual(cycling.data.map((row) => [row.distance_meters, row.updated_at]), [[6000, null]]);
    const before = await seen("cycling-activities");
    const meters: number[] = [];
    for await (const ride of user.client.cyclingActivities(user.key, { from: day, to: day, pageSize: 2 })) meters.push(ride.distance_meters);
    assert.deepEqual(meters, [1000, 2000, 3000]);
    assert.equal(await seen("cycling-activities") - before, 2);
    await assert.rejects(user.client.dailySteps(user.key, { from: day, to: "2099-01-01" }),
      (error) => error instanceof ServiceError && error.code === "invalid_date_range" && error.requestId !== undefined);
  });

  test(`${kind}/a user says no`, async () => {
    const user = await User.create(newStore());
    const before = await seen("token");
    const begun = user.client.begin();
    await assert.rejects(user.client.finish(user.key, begun, new URLSearchParams({ state: begun.state, error: "access_denied" })), DeniedError);
    await assert.rejects(user.client.finish(user.key, user.client.begin(), await user.authorize(begun.url)), StateError);
    await assert.rejects(user.steps(), NotConnectedError);
    assert.equal(await seen("token"), before);
  });

  test(`${kind}/eight reads at once refresh once`, async () => {
    const user = await User.create(newStore());
    const first = await user.connect();
    const { refreshToken } = await user.held();
    await advance(360);
    const instances = [user.client, user.instance(user.store)];
    const before = await seen("token");
    await Promise.all(Array.from({ length: 8 }, (_, i) =>
      instances[i % 2]!.dailySteps(user.key, { from: first.historyFrom, to: first.historyFrom })));
    assert.equal(await seen("token") - before, 1);
    const second = await user.held();
    assert.notEqual(second.refreshToken, refreshToken);
    assert.deepEqual([second.grantId, second.version], [first.grantId, first.version]);
  });

  test(`${kind}/a used refresh token is never sent again`, async () => {
    const user = await User.create(newStore());
    await user.connect();
    for (let i = 0; i < 3; i++) await user.client.refresh(user.key); // a chain: each token once
    // The process ends while its refresh is on the way: the next one must not send the token again.
    const lock = await user.store.lock(user.key);
    await lock.save({ ...(await user.held()), state: "refreshing" });
    await lock.unlock();
    await advance(360);
    const before = await seen("token");
    await assert.rejects(user.steps(), reconnect("uncertain"));
    assert.equal(await seen("token"), before);
    // Somebody stole a token and used it: the service ends the connection, and the SDK says so.
    await user.connect();
    const thief = new MemoryStore();
    const theirs = await thief.lock(user.key);
    await theirs.save(await user.held());
    await theirs.unlock();
    await user.instance(thief).refresh(user.key);
    await assert.rejects(user.client.refresh(user.key), reconnect("ended"));
  });

  test(`${kind}/a 429 holds back the whole pool`, async () => {
    const user = await User.create(newStore(), { requestsPerMinute: 1, burst: 2 });
    const { historyFrom: day, grantId } = await user.connect();
    await user.steps();
    const sent = { steps: await seen("daily-activity"), cycling: await seen("cycling-daily") };
    // Another program spends the rest of the budget, and the client does not know.
    const { baseUrl } = user.partner;
    const answer = await fetch(`${baseUrl}/connect-svc/v1/grants/${grantId}/cycling-activities?from=${day}&to=${day}`,
      { headers: { Authorization: `Bearer ${await user.client.accessToken(user.key)}` } });
    assert.equal(answer.status, 200);
    // The wait after the 429 begins a second read, which is not to be sent before the time has come.
    let second: Promise<unknown> | undefined;
    user.sleep = async (ms) => {
      if (ms > 30_000) {
        second ??= user.client.cyclingDaily(user.key, { from: day, to: day });
        assert.equal(await seen("cycling-daily"), sent.cycling);
      }
      await advance(ms / 1000);
    };
    await user.steps();
    assert.ok(second);
    await second;
    assert.deepEqual([await seen("daily-activity") - sent.steps, await seen("cycling-daily") - sent.cycling], [2, 1]);
  });

  test(`${kind}/a 503 is tried again`, async () => {
    const user = await User.create(newStore());
    await user.connect();
    for (let i = 0; i < 3; i++) await plant("daily-activity", "unavailable");
    assert.equal((await user.steps()).data.length, 1);
    // Beside these it waits for slots, which the database gives by its own clock.
    assert.deepEqual(user.slept.filter((ms) => ms % 250 === 0), [250, 500, 1000]);
    for (let i = 0; i < 4; i++) await plant("daily-activity", "unavailable");
    await assert.rejects(user.steps(), (error) => error instanceof ServiceError && error.code === "data_unavailable");
    await plant("daily-activity", "lost");
    assert.equal((await user.steps()).data.length, 1);
  });

  test(`${kind}/a refresh of unknown outcome is not repeated`, async () => {
    const user = await User.create(newStore());
    for (const kind of ["lost", "swallowed", "unavailable"]) {
      const first = await user.connect();
      await advance(360);
      await plant("/oauth/token", kind);
      const before = await seen("token");
      for (let i = 0; i < 2; i++) await assert.rejects(user.steps(), reconnect("uncertain"));
      assert.equal(await seen("token") - before, 1, kind);
      assert.deepEqual(await user.held(), { ...first, state: "uncertain" });
      await assert.rejects(user.client.revoke(user.key), reconnect("uncertain"));
    }
    await user.connect();
    await user.steps();
  });

  test(`${kind}/a rejected access token is refreshed once`, async () => {
    const user = await User.create(newStore());
    await user.connect();
    const { baseUrl, clientId, clientSecret } = user.partner;
    const answer = await fetch(`${baseUrl}/oauth/revoke`, {
      method: "POST",
      headers: { Authorization: `Basic ${btoa(`${clientId}:${clientSecret}`)}` },
      body: new URLSearchParams({ token: await user.client.accessToken(user.key) }),
    });
    assert.equal(answer.status, 200);
    const before = await seen("token");
    await user.steps();
    assert.equal(await seen("token") - before, 1);
  });

  test(`${kind}/revoke`, async () => {
    const user = await User.create(newStore());
    const first = await user.connect();
    await plant("/oauth/revoke", "unavailable"); // tried again
    const before = await seen("revoke");
    await user.client.revoke(user.key);
    await user.client.revoke(user.key);
    await assert.rejects(user.steps(), reconnect("ended"));
    assert.equal(await seen("revoke") - before, 2);
    const again = await user.connect();
    assert.deepEqual([again.grantId, again.historyFrom], [first.grantId, first.historyFrom]);
    assert.notEqual(again.version, first.version);
  });

  test(`${kind}/disconnect`, async () => {
    const user = await User.create(newStore());
    const { grantId } = await user.connect();
    await plant(grantId, "swallowed"); // tried again
    await user.client.disconnect(user.key);
    await assert.rejects(user.steps(), NotConnectedError);
    await assert.rejects(user.client.disconnect(user.key), NotConnectedError);
    await user.connect();
    await user.steps();
  });
}
