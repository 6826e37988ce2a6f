import { NotConnectedError } from "./errors.js";

/**
 * How a connection stands, as far as the partner knows. `refreshing`: its refresh token is on its way, and must not be
 * sent again whatever happens. `uncertain`, `ended`: the user must connect again.
 */
export type ConnectionState = "active" | "refreshing" | "uncertain" | "ended";

/** A connection without its secrets. */
export interface Connection {
  /** Names it in webhooks; the same after connecting again. */
  readonly grantId: string;
  /** A decimal number; a webhook below it is stale. */
  readonly version: string;
  /** The first day that can be read, `YYYY-MM-DD`. */
  readonly historyFrom: string;
  /** Space-separated. */
  readonly scope: string;
  readonly state: ConnectionState;
  /** Other keys that connected the same account. Only `finish` tells it, and nothing stores it. */
  readonly sharedWith?: readonly string[];
  /**
   * Those of other accounts that this key had before. They may still be open at the service, where the person sees them: `disconnectFormer`
   * ends them.
   */
  readonly formerGrants?: readonly string[];
}

/** What a store keeps for a key. The tokens are secret: keep them encrypted, and out of logs. */
export interface StoredConnection extends Connection {
  readonly accessToken?: string;
  /** When the access token is to be refreshed, in milliseconds of the epoch. */
  readonly useUntil?: number;
  readonly refreshToken?: string;
}

/**
 * Keeps connections by a key that the partner chooses, such as the id of its user. All instances of a backend must share
 * one: {@link MemoryStore} serves a single process.
 */
export interface Store {
  /** The connection as it was last saved, without waiting for a lock; undefined if there is none. */
  load(key: string): Promise<StoredConnection | undefined>;
  /**
   * Waits until nobody else holds the lock of key, in any process. The lock must end with the process that holds it, and
   * must not end by itself within three minutes.
   */
  lock(key: string): Promise<Lock>;
  /** The keys whose connections have a grant, in order. Without it the client does not know that two keys connected the same account. */
  keysOf?(grantId: string): Promise<string[]>;
  /**
   * Sets one pace for the reads of all processes. Without it, and while it fails, each process has its own. It gives away the next slots of a
   * registration: moments at which one read may leave, for any process. Slots lie interval apart, and so does the first of them from the last one
   * that was given to anybody. None is sooner than in hold, which is above zero after a 429. It resolves to the milliseconds until the first slot.
   */
  pace?(clientId: string, slots: number, intervalMs: number, holdMs: number): Promise<number>;
}

/** The right to change the connection of one key. */
export interface Lock {
  load(): Promise<StoredConnection | undefined>;
  /**
   * Stores the connection in place of the one that was there, durably before it returns. If the lock was lost, it must fail for the state
   * `refreshing`: another process may have used the refresh token since.
   */
  save(connection: StoredConnection): Promise<void>;
  /** Forgets the connection. It is no error if there is none. */
  delete(): Promise<void>;
  /** Gives the lock back. It is called once. */
  unlock(): Promise<void>;
}

/** A store for a single process, which forgets everything when that ends. */
export class MemoryStore implements Store {
  readonly #connections = new Map<string, StoredConnection>();
  readonly #last = new Map<string, Promise<void>>(); // when the last in the line for a lock gives it back

  async load(key: string): Promise<StoredConnection | undefined> {
    return this.#connections.get(key);
  }

  async keysOf(grantId: string): Promise<string[]> {
    return [...this.#connections].filter(([, held]) => held.grantId === grantId).map(([key]) => key).sort();
  }

  async lock(key: string): Promise<Lock> {
    const before = this.#last.get(key);
    let unlock!: () => void;
    const done = new Promise<void>((resolve) => (unlock = resolve));
    this.#last.set(key, done);
    await before;
    return {
      load: () => this.load(key),
      save: async (connection) => void this.#connections.set(key, connection),
      delete: async () => void this.#connections.delete(key),
      unlock: async () => {
        if (this.#last.get(key) === done) this.#last.delete(key);
        unlock();
      },
    };
  }
}

/** The connection without its secrets. */
export function withoutSecrets(held: StoredConnection): Connection {
  const { grantId, version, historyFrom, scope, state, formerGrants } = held;
  return { grantId, version, historyFrom, scope, state, ...(formerGrants?.length && { formerGrants }) };
}

/** What remains when the user must connect again: it names the connection, so that it can be disconnected. */
export function over(held: StoredConnection, state: "uncertain" | "ended"): StoredConnection {
  return { ...withoutSecrets(held), state };
}

export function there(held: StoredConnection | undefined): StoredConnection {
  if (!held) throw new NotConnectedError();
  return held;
}
