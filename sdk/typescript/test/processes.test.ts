// Eight processes of one backend, whose connections are in PostgreSQL.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { advance, now, seen, stores, User } from "./control.js";

const store = stores["PostgreSQL"]!();

/** A process that reads at each word of ours, and says how it went. */
class Backend {
  readonly #process;
  readonly #lines;

  constructor(user: User, mode = "") {
    this.#process = spawn(process.execPath, [fileURLToPath(new URL("./backend.js", import.meta.url))], {
      stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, PARTNER: JSON.stringify(user.partner), KEY: user.key, MODE: mode },
    });
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  async read(day: string): Promise<string> {
    this.#process.stdin.write(`${JSON.stringify({ day, now: now() })}\n`);
    return this.says();
  }

  async says(): Promise<string> {
    return String((await this.#lines.next()).value);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill(signal);
    await ended;
  }
}

test("8 processes whose tokens expire 12 times make 12 token requests", async () => {
  const user = await User.create(store);
  const { historyFrom } = await user.connect();
  const backends = Array.from({ length: 8 }, () => new Backend(user));
  try {
    const before = await seen("token");
    for (let expiry = 1; expiry <= 12; expiry++) {
      await advance(360);
      assert.deepEqual(await Promise.all(backends.map((backend) => backend.read(historyFrom))), Array<string>(8).fill("4321"));
      assert.equal(await seen("token") - before, expiry);
    }
  } finally {
    await Promise.all(backends.map((backend) => backend.end("SIGKILL")));
  }
});

test("if a process is killed in the middle of a refresh, the others say that the user must connect again", async () => {
  const user = await User.create(store);
  const { historyFrom } = await user.connect();
  await advance(360);
  const [killed, other] = [new Backend(user, "hang"), new Backend(user)];
  try {
    const before = await seen("token");
    assert.equal(await killed.read(historyFrom), "sent");
    const answer = other.read(historyFrom);
    await killed.end("SIGKILL");
    assert.equal(await answer, "ReconnectError uncertain");
    assert.equal(await seen("token"), before);
  } finally {
    await other.end("SIGKILL");
  }
});

test("3 processes with one registration stay within its budget", async () => {
  const user = await User.create(store, { requestsPerMinute: 3_000, burst: 60 });
  const { historyFrom } = await user.connect();
  const backends = Array.from({ length: 3 }, () => new Backend(user));
  try {
    const before = await seen("daily-activity");
    const answers = await Promise.all(backends.flatMap((backend) => Array.from({ length: 100 }, () => backend.read(historyFrom))));
    assert.deepEqual(answers, Array<string>(300).fill("4321"));
    const sent = await seen("daily-activity") - before;
    assert.ok(sent <= 303, `${sent} requests`); // those beyond 300 are 429s
  } finally {
    await Promise.all(backends.map((backend) => backend.end("SIGKILL")));
  }
});
