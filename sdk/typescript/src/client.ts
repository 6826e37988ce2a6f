import createFetch, { type Client } from "openapi-fetch";

import { begin, belongs, type Authorization } from "./authorize.js";
import { base64, limited, sentOnce, utf8 } from "./bytes.js";
import { DeniedError, ReconnectError, type ServiceError, SharedError, StateError, UnreachableError } from "./errors.js";
import { Pace } from "./pace.js";
import { parts, rows } from "./range.js";
import { neverLeft, notAttempted, refusal, Retry, retryAfter, type Answer } from "./retry.js";
import type { components, paths } from "./schema.gen.js";
import { MemoryStore, over, there, withoutSecrets, type Connection, type Lock, type Store, type StoredConnection } from "./store.js";
import { version } from "./version.js";
import { abortable, sleep, within } from "./wait.js";

export type Scope = components["schemas"]["Scope"];
export type DailyActivity = components["schemas"]["DailyActivity"];
export type DailySteps = components["schemas"]["DailySteps"];
export type CyclingDaily = components["schemas"]["CyclingDaily"];
export type CyclingDay = components["schemas"]["CyclingDay"];
export type CyclingActivities = components["schemas"]["CyclingActivities"];
export type CyclingActivity = components["schemas"]["CyclingActivity"];

/** Bytes: a page of 500 activities has about 150 kB. */
const mostAnswer = 8 << 20;

const scopes: Record<Scope, true> = { "daily_steps:read": true, "cycling_daily:read": true, "cycling_activities:read": true };

/** How long a refresh may hold its lock while it waits for Retry-After: the lock of a store may end by itself after three minutes. */
const mostHoldMs = 90_000;

/** What is done for other keys of the same account: the browser of a user waits for it. */
const othersTimeoutMs = 5_000;

type TokenRequest = components["schemas"]["TokenRequest"];
type TokenResponse = components["schemas"]["TokenResponse"];

/** Who the partner is. What has a default may be left out. */
export interface ClientOptions {
  /** The service: an https origin without a path. */
  readonly baseUrl: string;
  /** From the registration, as are the next two. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Exactly as it is registered. */
  readonly callbackUrl: string;
  /** What users are asked for: all of it or nothing. */
  readonly scopes: readonly Scope[];
  /** Default: a {@link MemoryStore}, which forgets when the process ends. */
  readonly store?: Store;
  /** Sends the requests; it must not repeat them. Default: the global one. */
  readonly fetch?: (request: Request) => Promise<Response>;
  /** Of one request with its answer; default 30 s. */
  readonly timeoutMs?: number;
  /** Of one request that fails with a 5xx or by the network; default 4. */
  readonly maxTries?: number;
  /** The most that one read waits for its own 429s, in sum; default 5 minutes. */
  readonly maxWaitMs?: number;
  /** Reads of this process at a time, at most; default 10. */
  readonly concurrentReads?: number;
  /** The clock, for tests. `jitter` returns a number from 0 to below its argument. */
  readonly now?: () => number;
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly jitter?: (most: number) => number;
}

/** The first and the last day of a read, both included, `YYYY-MM-DD`. */
export interface ReadOptions {
  readonly from: string;
  readonly to: string;
  readonly signal?: AbortSignal;
}

export interface PageOptions extends ReadOptions {
  /** 1 to 500; default 100. */
  readonly pageSize?: number;
}

/** Speaks to the service for one registration, in every runtime. */
export abstract class CoreClient {
  readonly #options: ClientOptions;
  readonly #api: Client<paths>;
  readonly #store: Store;
  readonly #retry: Retry;
  readonly #basic: string;
  readonly #refreshes = new Map<string, { rejected: string | undefined; result: Promise<StoredConnection> }>();
  readonly #exchanges = new Set<Promise<Connection>>();

  constructor(options: ClientOptions) {
    const base = URL.canParse(options.baseUrl) ? new URL(options.baseUrl) : undefined;
    if (base?.protocol !== "https:" || base.origin !== options.baseUrl) {
      throw new TypeError("connect: baseUrl must be an https origin, such as https://connect.example.com");
    }
    if (!options.callbackUrl?.startsWith("https://")) throw new TypeError("connect: callbackUrl must be the registered https address");
    if (!options.clientId || !options.clientSecret) throw new TypeError("connect: clientId and clientSecret are required");
    if (!options.scopes?.length) throw new TypeError("connect: scopes must name at least one scope");
    for (const scope of options.scopes) {
      if (!Object.hasOwn(scopes, scope)) throw new TypeError(`connect: unknown scope "${scope}", where the scopes are ${Object.keys(scopes).join(", ")}`);
    }
    for (const count of [options.maxTries ?? 1, options.concurrentReads ?? 1]) {
      if (!Number.isInteger(count) || count < 1) throw new TypeError("connect: maxTries and concurrentReads must be whole numbers from 1");
    }
    this.#options = options;
    this.#store = options.store ?? new MemoryStore();
    this.#api = createFetch<paths>({
      baseUrl: options.baseUrl,
      headers: { "User-Agent": `connect-svc-sdk/${version}` },
      redirect: "manual", // a redirect would carry a code or a refresh token to another address, and send it twice
      fetch: async (request: Request) => limited(await this.carry(request), mostAnswer),
    });
    const clock = {
      now: options.now ?? Date.now,
      sleep: options.sleep ?? sleep,
      jitter: options.jitter ?? ((most: number) => Math.random() * most),
    };
    this.#retry = new Retry(
      { maxTries: options.maxTries ?? 4, maxWaitMs: options.maxWaitMs ?? 5 * 60_000, ...clock },
      new Pace({ places: options.concurrentReads ?? 10, clientId: options.clientId, store: this.#store, ...clock }));
    // Both parts form-encoded, then joined (specification 5.1).
    const formEncoded = (part: string) => new URLSearchParams({ "": part }).toString().slice(1);
    this.#basic = "Basic " + base64(utf8(`${formEncoded(options.clientId)}:${formEncoded(options.clientSecret)}`));
  }

  /** Sends one request, once. */
  protected carry(request: Request): Promise<Response> {
    const { fetch: given } = this.#options;
    if (given) return given(request);
    // Bun before 1.3 sends a form again when a connection that it used before closes, although the service may have had it. So it gets its own.
    return "Bun" in globalThis && request.method === "POST" ? fetch(request, { keepalive: false }) : fetch(request);
  }

  /** The authorization with that verifier of PKCE, whose SHA-256 is the challenge. */
  protected authorization(verifier: string, challenge: string): Authorization {
    const { baseUrl: base, clientId, callbackUrl, scopes } = this.#options;
    return begin({ base, clientId, callbackUrl, scopes, now: this.#now() }, verifier, challenge);
  }

  /**
   * Takes the browser back: exchanges the code of the callback's query for the first tokens, and stores the connection
   * under key in place of the one that may be there.
   *
   * The connection tells who else it concerns, as far as the store knows (`keysOf`). `sharedWith` are the other keys that connected the same
   * account: their tokens do not work any more, and they have become `ended`. `formerGrants` are those of accounts that this key had before,
   * which {@link disconnectFormer} disconnects.
   *
   * @throws StateError if the callback does not belong to begun, DeniedError if the user said no
   */
  async finish(key: string, begun: Authorization, callback: URLSearchParams): Promise<Connection> {
    if (!belongs(begun, callback, this.#now())) throw new StateError();
    if (callback.get("error") === "access_denied") throw new DeniedError();
    const code = callback.get("code");
    if (!code) throw new Error("connect: the callback has neither a code nor the user's no");
    const exchange = this.#exchange(key, code, begun.verifier);
    this.#exchanges.add(exchange);
    const connection = await exchange.finally(() => this.#exchanges.delete(exchange));
    const sharedWith = await this.#endOthers(key, connection.grantId, numbered(connection.version) - 1n);
    return { ...connection, ...(sharedWith.length && { sharedWith }) };
  }

  #exchange(key: string, code: string, verifier: string): Promise<Connection> {
    // The lock first: a code works once, and is not spent before there is a place for what it gives.
    return this.#locked(key, async (lock) => {
      const held = await lock.load().catch(() => undefined); // what cannot be read any more is replaced
      let asked = 0;
      const answer = await this.#retry.persist("oauth", () => {
        asked = this.#now();
        return this.#token({
          grant_type: "authorization_code", code, redirect_uri: this.#options.callbackUrl, code_verifier: verifier,
        });
      });
      if (answer.status !== 200) throw refusal("requestToken", answer);
      const next = connected(answer, asked);
      if (!next) throw unreadable();
      const formerGrants = held ? [...(held.formerGrants ?? []), held.grantId].filter((grant) => grant !== next.grantId) : [];
      const kept = { ...next, ...(formerGrants.length && { formerGrants }) };
      await this.#save(lock, kept);
      return withoutSecrets(kept);
    });
  }

  /** The connection as it was last stored. */
  async connection(key: string): Promise<Connection> {
    return withoutSecrets(there(await this.#store.load(key)));
  }

  /** An access token that works, as far as can be known; refreshed if it must be. The reads do this by themselves. */
  async accessToken(key: string): Promise<string> {
    return (await this.#fresh(key, undefined)).accessToken;
  }

  /**
   * Gets a new pair of tokens although the old one still works, unless another instance has just done so. It keeps a
   * connection alive that is seldom read: one that was not refreshed for 90 days, by default, lapses.
   */
  async refresh(key: string): Promise<Connection> {
    const held = there(await this.#store.load(key));
    return withoutSecrets(await this.#fresh(key, held.accessToken));
  }

  /** Step totals by day, of 31 days at most. A day without a record is absent, which is not zero. */
  dailySteps(key: string, { from, to, signal }: ReadOptions): Promise<DailyActivity> {
    return this.#read("readDailyActivity", key, signal, (grant_id, init) =>
      this.#api.GET("/connect-svc/v1/grants/{grant_id}/daily-activity", { params: { path: { grant_id }, query: { from, to } }, ...init }));
  }

  /** Cycling distance by day, of 31 days at most. */
  cyclingDaily(key: string, { from, to, signal }: ReadOptions): Promise<CyclingDaily> {
    return this.#read("readCyclingDaily", key, signal, (grant_id, init) =>
      this.#api.GET("/connect-svc/v1/grants/{grant_id}/cycling-daily", { params: { path: { grant_id }, query: { from, to } }, ...init }));
  }

  /**
   * {@link dailySteps} of any number of days, oldest first. It asks for the next 31 days when the loop comes there, waits for each 429 as all
   * reads do, and ends with the signal.
   */
  stepDays(key: string, options: ReadOptions): AsyncGenerator<DailySteps, void, undefined> {
    return rows(this.#days((part) => this.dailySteps(key, part), options), options.signal);
  }

  /** {@link stepDays} for the distances of {@link cyclingDaily}. */
  cyclingDays(key: string, options: ReadOptions): AsyncGenerator<CyclingDay, void, undefined> {
    return rows(this.#days((part) => this.cyclingDaily(key, part), options), options.signal);
  }

  /**
   * Rides of any number of days, oldest first; the next page, or the next 31 days, are asked for when the loop comes there. It ends with
   * the signal. A ride that changes meanwhile may be missed or come twice: store by id. After `invalid_cursor`, which is the answer when the
   * pages of 31 days take more than 15 minutes or the user connects anew meanwhile, begin again.
   */
  cyclingActivities(key: string, options: PageOptions): AsyncGenerator<CyclingActivity, void, undefined> {
    return rows(this.cyclingPages(key, options), options.signal);
  }

  /** {@link cyclingActivities} by whole pages, for those who store a page at a time. */
  async *cyclingPages(key: string, { from, to, pageSize, signal }: PageOptions): AsyncGenerator<CyclingActivities, void, undefined> {
    for (const part of parts(from, to)) {
      let cursor: string | null = null;
      do {
        const query = { ...part, ...(pageSize !== undefined && { limit: pageSize }), ...(cursor !== null && { cursor }) };
        const page: CyclingActivities = await this.#read("readCyclingActivities", key, signal, (grant_id, init) =>
          this.#api.GET("/connect-svc/v1/grants/{grant_id}/cycling-activities", { params: { path: { grant_id }, query }, ...init }));
        yield page;
        cursor = page.meta.next_cursor;
      } while (cursor !== null);
    }
  }

  /**
   * Gives the tokens of a connection back; none of them works any more. The user's consent stays: connecting again with
   * the same scopes keeps the first day that can be read. After a refresh of unknown outcome there is no token to revoke
   * with, which is a {@link ReconnectError}; {@link disconnect} works.
   */
  async revoke(key: string): Promise<void> {
    await this.#locked(key, async (lock) => {
      const held = there(await lock.load());
      if (held.state === "ended") return;
      if (held.state !== "active" || !held.refreshToken) throw new ReconnectError("uncertain");
      const body = { token: held.refreshToken, token_type_hint: "refresh_token" as const };
      const answer = await this.#retry.persist("oauth", () => this.#send((signal) =>
        this.#api.POST("/oauth/revoke", { body, ...this.#form(), signal, parseAs: "text" })));
      if (answer.status !== 200) throw refusal("revokeToken", answer);
      await this.#save(lock, over(held, "ended"));
    });
  }

  /**
   * Ends a connection, whatever its state, with those of its `formerGrants`, and forgets it. The user must consent anew to be connected again,
   * and can then be read from that day on.
   *
   * @throws SharedError if another key connected the same account, at the same time or since, and has not ended: then it would end that one.
   * Its `formerGrants` end all the same. {@link disconnectShared} ends it for all, and {@link forget} leaves it to the others. The store must have
   * `keysOf` to know
   */
  async disconnect(key: string): Promise<void> {
    await this.#disconnect(key, true, false);
  }

  /** {@link disconnect} although other keys connected the same account. They become `ended`. */
  async disconnectShared(key: string): Promise<void> {
    const { grantId } = await this.#disconnect(key, true, true);
    await this.#endOthers(key, grantId, undefined);
  }

  /**
   * Ends the connections of a key to accounts that it had before, at the service, and forgets each that has ended. It only forgets an
   * account that another key has connected meanwhile. The connection of the key itself stays.
   */
  async disconnectFormer(key: string): Promise<void> {
    await this.#disconnect(key, false, false);
  }

  /**
   * Deletes what the store has of a key, and tells the service nothing. It is for a key whose account another key connected since:
   * {@link SharedError}. A connection that no other key has stays open at the service.
   */
  async forget(key: string): Promise<void> {
    await this.#locked(key, (lock) => lock.delete());
  }

  /**
   * Notes what a `connection.revoked` webhook says, and throws the tokens away: those of that connection version and of all
   * before it do not work any more. Resolves to whether that was news: it is none of a connection that is not there, has
   * ended already, or was made again since, so that its version is a later one.
   *
   * The key is one whose connection has the `grant_id` of the webhook, as `keysOf` finds them. One that had it and has another account since is
   * none: versions of two grants cannot be compared.
   */
  async ended(key: string, version: string): Promise<boolean> {
    const seen = await this.#store.load(key);
    return this.#locked(key, async (lock) => {
      const held = await lock.load();
      if (held?.grantId !== seen?.grantId) return false; // the user connected another account while this waited for the lock
      if (!held || held.state === "ended" || BigInt(version) < numbered(held.version)) return false;
      await this.#save(lock, over(held, "ended"));
      return true;
    });
  }

  /**
   * Resolves when no refresh is under way any more, nor the exchange of a code. Await it before the process ends, after the last read began: a
   * refresh that is cut off costs the connection, and an exchange the tokens.
   */
  async wait(): Promise<void> {
    // Others may have begun meanwhile.
    while (this.#refreshes.size + this.#exchanges.size > 0) {
      await Promise.allSettled([...this.#exchanges, ...[...this.#refreshes.values()].map((refresh) => refresh.result)]);
    }
  }

  /**
   * Ends the former grants of a key and, with all, its connection, which it resolves to. It asks for the other keys before it takes the lock, which
   * may be the only connection to a database.
   */
  async #disconnect(key: string, all: boolean, shared: boolean): Promise<StoredConnection> {
    for (;;) {
      const seen = there(await this.#store.load(key));
      const others = all && !shared ? await this.#others(key, seen.grantId, numbered(seen.version)) : [];
      const theirs = new Set<string>();
      for (const grant of seen.formerGrants ?? []) if ((await this.#others(key, grant, 0n)).length > 0) theirs.add(grant);
      const ended = await this.#locked(key, async (lock) => {
        const held = there(await lock.load());
        let { formerGrants = [], ...rest } = held;
        if (held.grantId !== seen.grantId || String(formerGrants) !== String(seen.formerGrants ?? [])) return undefined; // connected anew meanwhile
        for (let grant; (grant = formerGrants[0]) !== undefined; ) {
          if (!theirs.has(grant)) await this.#endGrant(grant);
          formerGrants = formerGrants.slice(1);
          await this.#save(lock, { ...rest, ...(formerGrants.length && { formerGrants }) });
        }
        if (others.length > 0) throw new SharedError(others);
        if (all) {
          await this.#endGrant(held.grantId);
          await lock.delete();
        }
        return held;
      });
      if (ended) return ended;
    }
  }

  /** Has the service end a grant. One that has ended already stays so. */
  async #endGrant(grant_id: string): Promise<void> {
    const answer = await this.#retry.persist("oauth", () => this.#send((signal) =>
      this.#api.DELETE("/connect-svc/v1/customer/grants/{grant_id}", {
        params: { path: { grant_id } }, headers: { Authorization: this.#basic }, signal,
      })));
    if (answer.status !== 204) throw refusal("disconnectGrant", answer);
  }

  /** The keys beside key whose connections have the grant, in a version from the given one on, and have not ended. */
  async #others(key: string, grantId: string, since: bigint): Promise<string[]> {
    const others: string[] = [];
    for (const other of (await this.#store.keysOf?.(grantId)) ?? []) {
      if (other === key) continue;
      const held = await this.#store.load(other).catch(() => null); // null if it cannot be read
      if (held === null || held && held.grantId === grantId && held.state !== "ended" && numbered(held.version) >= since) others.push(other);
    }
    return others;
  }

  /**
   * Notes that the tokens of other keys do not work any more, whose connections have the grant in a version up to the given one, and resolves to
   * these keys. If that takes too long, their next refresh shows it. The caller holds no lock: two that waited for each other's would wait for ever.
   */
  async #endOthers(key: string, grantId: string, version: bigint | undefined): Promise<string[]> {
    let others: string[] = [];
    const end = async () => {
      others = await this.#others(key, grantId, 0n);
      for (const other of others) {
        await this.#locked(other, async (lock) => {
          const held = await lock.load();
          if (held?.grantId !== grantId || held.state === "ended" || version !== undefined && numbered(held.version) > version) return;
          await this.#save(lock, over(held, "ended"));
        }).catch(() => undefined);
      }
    };
    await within(othersTimeoutMs, end()).catch(() => undefined);
    return others;
  }

  async *#days<T>(read: (part: ReadOptions) => Promise<T>, options: ReadOptions): AsyncGenerator<T, void, undefined> {
    for (const part of parts(options.from, options.to)) yield await read({ ...options, ...part });
  }

  // One read with an access token that works; a second time with a new one if the service does not accept that. The types
  // of openapi-fetch leave out the fields that are always null: T is that of the document.
  async #read<T>(
    operation: string, key: string, signal: AbortSignal | undefined,
    send: (grantId: string, init: { headers: { Authorization: string }; signal: AbortSignal }) => Promise<Fetched<unknown>>,
  ): Promise<T> {
    for (let rejected: string | undefined; ; ) {
      const held = await abortable(this.#fresh(key, rejected), signal);
      const answer = await this.#retry.persist("read", () => this.#send((timeout) =>
        send(held.grantId, { headers: { Authorization: `Bearer ${held.accessToken}` }, signal: timeout }), signal), signal);
      if (answer.status === 401 && rejected === undefined) {
        rejected = held.accessToken;
        continue;
      }
      if (answer.status !== 200) throw refusal(operation, answer);
      if (answer.data === undefined) throw new UnreachableError(new Error(`${operation}: the answer is empty`));
      return answer.data as T;
    }
  }

  /** The connection with an access token that can be used and is not the rejected one. */
  async #fresh(key: string, rejected: string | undefined): Promise<StoredConnection & { accessToken: string }> {
    let held = there(await this.#store.load(key));
    for (;;) {
      if (this.#usable(held, rejected)) return held;
      if (held.state === "uncertain" || held.state === "ended") throw new ReconnectError(held.state);
      let refresh = this.#refreshes.get(key);
      if (!refresh) {
        refresh = { rejected, result: this.#refresh(key, rejected).finally(() => this.#refreshes.delete(key)) };
        this.#refreshes.set(key, refresh);
      }
      held = await refresh.result;
      if (hasToken(held) && (held.accessToken !== rejected || refresh.rejected === rejected)) return held; // however short it lives
    }
  }

  #usable(held: StoredConnection, rejected: string | undefined): held is StoredConnection & { accessToken: string } {
    return hasToken(held) && held.accessToken !== rejected && this.#now() < (held.useUntil ?? 0) &&
      (held.state === "active" || held.state === "refreshing");
  }

  /**
   * Gets the next pair of tokens, unless somebody else got one while it waited for the lock. It sends the token again only if the
   * service says that it was not used.
   */
  #refresh(key: string, rejected: string | undefined): Promise<StoredConnection> {
    return this.#locked(key, async (lock) => {
      const held = there(await lock.load());
      // The lock is ours, so whoever sent the token is gone, and did not hear the answer.
      if (held.state === "refreshing") return this.#end(lock, held, "uncertain");
      if (held.state !== "active") throw new ReconnectError(held.state);
      if (this.#usable(held, rejected)) return held;
      const { refreshToken } = held;
      if (!refreshToken) return this.#end(lock, held, "uncertain");
      const until = this.#now() + mostHoldMs;
      for (let tries = 1; ; tries++) {
        await lock.save({ ...held, state: "refreshing" }); // before it is sent: nothing can make us send it by mistake
        const asked = this.#now();
        let answer: Answer<TokenResponse>;
        try {
          answer = await this.#token({ grant_type: "refresh_token", refresh_token: refreshToken });
        } catch (error) {
          const failure = error as UnreachableError; // of #send
          if (!failure.unsent) return this.#end(lock, held, "uncertain", undefined, failure);
          await this.#save(lock, held);
          throw failure;
        }
        if (answer.status === 200) {
          const got = connected(answer, asked);
          if (!got) return this.#end(lock, held, "uncertain", undefined, unreadable());
          const next = { ...got, ...(held.formerGrants && { formerGrants: held.formerGrants }) };
          await this.#save(lock, next);
          return next;
        }
        const refused = refusal("requestToken", answer);
        if (answer.status === 400 && refused.code === "invalid_grant") return this.#end(lock, held, "ended", refused);
        const early = (answer.status === 400 || answer.status === 401) && refused.code !== undefined; // before it was looked at
        if (!early && !notAttempted(answer.headers)) return this.#end(lock, held, "uncertain", refused);
        await this.#save(lock, held);
        const wait = retryAfter(answer.headers);
        const { maxTries, maxWaitMs } = this.#retry.options;
        if (early || tries === maxTries || wait > maxWaitMs || this.#now() + wait > until) throw refused;
        await this.#retry.options.sleep(wait);
      }
    });
  }

  async #end(
    lock: Lock, held: StoredConnection, state: "uncertain" | "ended", cause?: ServiceError, failure?: UnreachableError,
  ): Promise<never> {
    await this.#save(lock, over(held, state));
    throw new ReconnectError(state, cause, failure);
  }

  /** Stores what was learned, and tries again: what is lost here is lost for good. */
  async #save(lock: Lock, connection: StoredConnection): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await lock.save(connection);
      } catch (cause) {
        if (tries === this.#retry.options.maxTries) throw new Error("connect: what the service answered could not be stored", { cause });
        await this.#retry.options.sleep(this.#retry.backoff(tries));
      }
    }
  }

  async #locked<T>(key: string, act: (lock: Lock) => Promise<T>): Promise<T> {
    const lock = await this.#store.lock(key);
    try {
      return await act(lock);
    } finally {
      await lock.unlock();
    }
  }

  #token(body: TokenRequest): Promise<Answer<TokenResponse>> {
    return this.#send((signal) => this.#api.POST("/oauth/token", { body, ...this.#form(), signal }));
  }

  #form() {
    return {
      headers: { Authorization: this.#basic, "Content-Type": "application/x-www-form-urlencoded" },
      bodySerializer: (fields: object) => sentOnce(new URLSearchParams(fields as Record<string, string>).toString()),
      duplex: "half" as const, // which a stream needs
    };
  }

  /** Sends one request and reads the answer, in the time that one request has. */
  async #send<T>(send: (signal: AbortSignal) => Promise<Fetched<T>>, signal?: AbortSignal): Promise<Answer<T>> {
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? 30_000);
    try {
      const { data, error, response } = await send(signal ? AbortSignal.any([signal, timeout]) : timeout);
      return { service: this.#options.baseUrl, status: response.status, headers: response.headers, data, error };
    } catch (cause) {
      throw cause instanceof UnreachableError ? cause : new UnreachableError(cause, neverLeft(cause));
    }
  }

  #now(): number {
    return this.#retry.options.now();
  }
}

/** What openapi-fetch returns. */
interface Fetched<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

function hasToken(held: StoredConnection): held is StoredConnection & { accessToken: string } {
  return held.accessToken !== undefined;
}

/** The connection of a token answer that was asked for at the given time; undefined if the answer cannot be read. */
function connected(answer: Answer<TokenResponse>, asked: number): StoredConnection | undefined {
  const tokens = answer.data;
  if (!tokens?.access_token || !tokens.refresh_token || !tokens.grant_id) return undefined;
  const lifetime = (tokens.expires_in || 0) * 1000;
  return {
    grantId: tokens.grant_id, version: tokens.connection_version, historyFrom: tokens.history_from, scope: tokens.scope,
    state: "active", accessToken: tokens.access_token, refreshToken: tokens.refresh_token,
    useUntil: asked + lifetime - Math.min(10_000, lifetime / 10),
  };
}

/** A version as a number, which is above zero; zero if it is none. */
function numbered(version: string): bigint {
  return /^\d{1,19}$/.test(version) ? BigInt(version) : 0n;
}

function unreadable(): UnreachableError {
  return new UnreachableError(new Error("the answer of the token endpoint cannot be read"));
}
