import type { Store } from "./store.js";
import { abortable, within } from "./wait.js";

// The pace of reads, as in the Go SDK. The service keeps a budget of requests, which refills evenly, and tells in each answer how fast
// (RateLimit-Limit) and how many are left (RateLimit-Remaining; RateLimit-Reset follows from both, in whole seconds). A read leaves in a slot. The
// distance of slots is such that what is left would be spent within the horizon. So reads are fast after a pause, slow down until they are as fast
// as the refill, and keep a reserve; several processes that do not know of each other share the rate, as all see the same budget. With a store that
// has `pace` they also take turns.
// All times are in milliseconds.
const horizon = 10_000; // or what half of a full budget takes to refill, if that is less
const firstSlots = 100; // the distance of slots before the first answer
const reserveAhead = 500; // slots that are reserved at once lie in such a span
const late = 1_000; // a slot that is older is not used any more; a clock that goes back by more was set back
const fresh = 2_000; // what an answer said is true for so long; then the refill is counted on
const forget = 60_000; // and what a full budget takes to refill: after it, all is learned anew, such as a new policy
const mostBudget = 1_000_000; // requests a minute, and left: more is as much
const paceTimeout = 2_000; // of a question to the store; after a failure the process goes on by itself for a minute

export interface PaceOptions {
  /** The most reads at a time. */
  readonly places: number;
  readonly clientId: string;
  readonly store: Store;
  readonly now: () => number;
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly jitter: (most: number) => number;
}

/** What the service said of its budget. */
interface Told {
  readonly at: number;
  readonly limit: number; // requests a minute; 0 if it does not say
  remaining: number;
  readonly most: number; // the most that remaining was
}

/** What all reads of a process share: a number of places, which adapts, and slots. */
export class Pace {
  #open: number; // places that may be taken now
  #refused = false; // by a 429 for too many reads at one time
  #taken = 0; // places
  readonly #queue = new Set<() => void>(); // reads that wait for a place, in the order in which they came
  #waiting = 0; // reads without a slot
  #slots: number[] = []; // reserved, in order
  #turn = Promise.resolve(); // when the last one in the line for a slot has it
  #last = -Infinity; // the last slot of this process's own pace
  #alone = -Infinity; // until when the store is not asked
  #until = -Infinity; // no read leaves earlier, after a 429
  #seen = -Infinity; // the latest time that the clock showed
  #told: Told | undefined;

  constructor(readonly options: PaceOptions) {
    this.#open = Math.min(2, options.places);
  }

  /** Takes a place, and waits in it for a slot, and while the service wants no reads. Who gives up meanwhile hands it to the next. */
  async enter(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.#waiting++;
    try {
      await this.#place(signal);
      try {
        await this.#wait(signal);
        signal?.throwIfAborted();
      } catch (gone) {
        this.leave();
        throw gone;
      }
    } finally {
      this.#waiting--;
    }
  }

  /** Gives the place back. */
  leave(): void {
    this.#taken--;
    this.#admit();
  }

  /** Takes up what an answer to a read says, before its place is given to another; retryAfter is what a 429 asks for. */
  learn({ status, headers }: { status: number; headers: Headers }, retryAfter: number): void {
    const now = this.#now();
    const [limit, remaining] = ["RateLimit-Limit", "RateLimit-Remaining"].map((name) => {
      const text = headers.get(name) ?? "";
      return /^\d+$/.test(text) ? Math.min(Number(text), mostBudget) : -1;
    }) as [number, number];
    const known = limit > 0 && remaining >= 0;
    if (known) {
      const most = this.#told && !old(this.#told, now) ? this.#told.most : 0;
      this.#told = { at: now, limit, remaining, most: Math.max(most, remaining) };
    } else if (status === 200) {
      this.#told = { at: now, limit: 0, remaining: 0, most: 0 };
    }
    if (status === 429) {
      if (known && remaining > 0 && now >= this.#until) { // too many at one time; counted once for all that were
        this.#open = Math.max(1, this.#open / 2);
        this.#refused = true;
      }
      this.#until = Math.max(this.#until, now + retryAfter + this.options.jitter(Math.min(1_000, this.#interval(now))));
      this.#slots = [];
    } else if (status === 200 && this.#queue.size > 0) {
      this.#open = Math.min(this.options.places, this.#open + (this.#refused ? 0.01 : 0.25));
    }
  }

  /** The time. If the clock was set back, all that is kept goes back with it: nobody waits for the difference. */
  #now(): number {
    const now = this.options.now();
    const back = this.#seen - now;
    this.#seen = back > late ? now : Math.max(this.#seen, now);
    if (back > late) {
      this.#slots = this.#slots.map((slot) => slot - back);
      [this.#last, this.#alone, this.#until] = [this.#last - back, this.#alone - back, this.#until - back];
      if (this.#told) this.#told = { ...this.#told, at: this.#told.at - back };
    }
    return now;
  }

  async #place(signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const turn = () => {
        signal?.removeEventListener("abort", gone);
        resolve();
      };
      const gone = () => {
        this.#queue.delete(turn);
        reject(signal?.reason);
      };
      this.#queue.add(turn);
      signal?.addEventListener("abort", gone, { once: true });
      this.#admit();
    });
  }

  /** Gives free places to those who wait. */
  #admit(): void {
    for (const turn of this.#queue) {
      if (this.#taken >= Math.floor(this.#open)) return;
      this.#queue.delete(turn);
      this.#taken++;
      turn();
    }
  }

  /** Waits for a slot. One read at a time does: a slot that is reserved far ahead was reserved by what is old when it comes. */
  async #wait(signal?: AbortSignal): Promise<void> {
    const before = this.#turn;
    let done!: () => void;
    this.#turn = new Promise((resolve) => (done = resolve));
    try {
      await abortable(before, signal);
      for (;;) {
        const slot = await this.#slot();
        const pause = slot - this.options.now();
        if (pause > 0) await this.options.sleep(pause, signal);
        if (this.#slots[0] !== slot || slot < this.#until) continue; // a 429 came meanwhile
        this.#slots.shift();
        if (this.#told) this.#told.remaining--; // until an answer says it
        return;
      }
    } finally {
      void before.then(done); // who gave up in the line leaves it as it was
    }
  }

  /** When the next read may leave: the first of the slots that are reserved. If there is none, it reserves as many as are waited for. */
  async #slot(): Promise<number> {
    const { clientId, store } = this.options;
    const now = this.#now();
    this.#slots = this.#slots.filter((slot) => now - slot <= late && slot >= this.#until);
    if (this.#slots.length > 0) return this.#slots[0]!;
    const interval = this.#interval(now);
    const hold = (at = this.#now()) => Math.max(0, this.#until - at);
    let [n, at, first]: [number, number, number | undefined] = [1, now, undefined];
    if (store.pace && now >= this.#alone && interval > 0) {
      const asked = Math.max(1, Math.min(this.#waiting, Math.floor(reserveAhead / interval), Math.floor((this.#told?.remaining ?? 0) / 4)));
      const answer = await within(paceTimeout, store.pace(clientId, asked, interval, Math.min(hold(), 60_000))).catch(() => NaN);
      if (Number.isFinite(answer)) [n, at, first] = [asked, this.#now(), answer];
      else this.#alone = now + 60_000;
    }
    if (first === undefined) {
      first = Math.max(this.#last + interval - now, hold());
      this.#last = now + first;
    }
    for (let i = 0; i < n; i++) this.#slots.push(Math.max(at + first, this.#until) + i * interval);
    return this.#slots[0]!;
  }

  /** The distance of slots. */
  #interval(now: number): number {
    const told = this.#told;
    if (!told || old(told, now)) return firstSlots;
    if (told.limit === 0) return 0;
    const refill = refillOf(told);
    const spend = Math.min(horizon, ((told.most + 1) * refill) / 2);
    const remaining = Math.min(told.most, told.remaining + Math.floor(Math.max(0, now - told.at - fresh) / refill));
    return remaining <= 0 ? Math.max(spend, refill * 1.05) : spend / remaining; // a little slower than the refill: the network is not punctual
  }
}

/** What one request takes to come back. */
function refillOf(told: Told): number {
  return 60_000 / Math.max(1, told.limit);
}

function old(told: Told, now: number): boolean {
  return now - told.at > forget + told.most * refillOf(told);
}
