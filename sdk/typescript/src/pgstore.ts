// Keeps connections in PostgreSQL, for backends of any number of processes. Table, rows and locks are those of package pgstore of the Go SDK:
// programs in both languages may share them.
import { concat, utf8 } from "./bytes.js";
import type { ConnectionState, Lock, Store, StoredConnection } from "./store.js";
import { within } from "./wait.js";

/** Makes the tables. Run it once, or again, or put it among your migrations. */
export const schema = `
create table if not exists connect_connections (
	key                text primary key,
	grant_id           uuid   not null,
	connection_version bigint not null,
	state              text   not null,
	sealed             bytea  not null,
	updated_at         timestamptz not null default now()
);
create index if not exists connect_connections_grant_id on connect_connections (grant_id);
create table if not exists connect_pace (
	client_id text primary key,
	last_at   timestamptz not null
);
`;

/** What the store needs of the package pg, or of another driver. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

/** A session that was taken out of the pool: a `PoolClient` of pg. */
export interface Session extends Queryable {
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  /** Gives it back to the pool, or ends it. */
  release(end: boolean): void;
}

/** A `Pool` of pg. */
export interface Pool extends Queryable {
  connect(): Promise<Session>;
}

type CryptoKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>; // whose global name not all libraries of types have

const keyBytes = 32;
const nonceBytes = 12;

/** Bounds what giving a lock back may take. After it the session is ended, which gives it back, too. */
const unlockTimeoutMs = 5_000;

// The wait for a lock is bounded: its holder needs about the time of a request. The setting ends with the statement.
const takeLock = "select set_config('lock_timeout', '90s', true), pg_advisory_lock(hashtextextended($1, 0))";

/**
 * A {@link Store} in PostgreSQL, whose table is in {@link schema}. The tokens lie encrypted, AES-256-GCM, under a key of 32 random bytes,
 * which does not belong in the database. To change it, give the new one first and the old one after it: the first seals, each opens.
 *
 * A lock is an advisory lock of a session: it ends with the process that holds it, and takes one session of the pool while a refresh is
 * under way. Through PgBouncer it needs the pool mode "session".
 */
export class PgStore implements Store {
  readonly #pool: Pool;
  readonly #raw: readonly Uint8Array<ArrayBuffer>[];
  #keys: Promise<CryptoKey[]> | undefined;

  constructor(pool: Pool, ...keys: readonly Uint8Array[]) {
    if (keys.length === 0) throw new TypeError("pgstore: a key is required");
    if (keys.some((key) => key.length !== keyBytes)) throw new TypeError(`pgstore: a key must have ${keyBytes} bytes`);
    this.#pool = pool;
    this.#raw = keys.map((key) => Uint8Array.from(key));
  }

  load(key: string): Promise<StoredConnection | undefined> {
    return this.#load(this.#pool, key);
  }

  /** The keys of a connection that a webhook names by its `grant_id`: several if the users of several keys connected the same account. */
  async keysOf(grantId: string): Promise<string[]> {
    const { rows } = await this.#pool.query("select key from connect_connections where grant_id = $1 order by key", [grantId]);
    return rows.map((row) => String(row["key"]));
  }

  /**
   * {@link Store.pace} with one statement. The database's clock decides, and no slot is more than ten minutes ahead of it: a clock that was set
   * back does not stop the reads.
   */
  async pace(clientId: string, slots: number, intervalMs: number, holdMs: number): Promise<number> {
    const { rows: [row] } = await this.#pool.query(`insert into connect_pace as pace (client_id, last_at)
      values ($1, clock_timestamp() + ($4::float8 + ($2::int - 1) * $3::float8) * interval '1 second')
      on conflict (client_id) do update set last_at = ($2::int - 1) * $3::float8 * interval '1 second' + least(
        clock_timestamp() + interval '10 minutes',
        greatest(pace.last_at + $3::float8 * interval '1 second', clock_timestamp() + $4::float8 * interval '1 second'))
      returning extract(epoch from last_at - clock_timestamp())::float8 - ($2::int - 1) * $3::float8 as first`,
    [clientId, slots, intervalMs / 1000, holdMs / 1000]);
    return Number(row!["first"]) * 1000;
  }

  async lock(key: string): Promise<Lock> {
    const name = `connect_connections:${key}`;
    const held = new Held(await this.#pool.connect());
    try {
      await held.session.query(takeLock, [name]);
    } catch (error) {
      held.giveBack(true); // it may have the lock
      throw error;
    }
    /**
     * Uses the session of the lock. If that broke, any other is better than to lose what was learned, such as the only copy of new tokens;
     * then somebody else may have taken the lock, and all that they can have stored is that the outcome is not known, or a newer connection,
     * which stays. A note that the refresh token is on its way is not learned: without the lock, somebody else may have used the token already.
     */
    const execute = async (learned: boolean, act: (db: Queryable, locked: boolean) => Promise<unknown>): Promise<void> => {
      if (!held.broken) return void (await act(held.session, true));
      held.giveBack(true); // the pool may have no other place
      if (!learned) throw new Error("pgstore: the session of the lock broke");
      await act(this.#pool, false);
    };
    return {
      load: () => this.#load(held.session, key),
      save: (connection) => execute(connection.state !== "refreshing", (db, locked) => this.#save(db, key, connection, locked)),
      delete: () => execute(true, (db) => db.query("delete from connect_connections where key = $1", [key])),
      unlock: async () => {
        const freed = !held.broken && await within(unlockTimeoutMs,
          held.session.query("select pg_advisory_unlock(hashtextextended($1, 0)) as freed", [name])).then(({ rows: [row] }) => row?.["freed"] === true, () => false);
        held.giveBack(!freed);
      },
    };
  }

  async #load(db: Queryable, key: string): Promise<StoredConnection | undefined> {
    const { rows: [row] } = await db.query("select sealed from connect_connections where key = $1", [key]);
    if (!row) return undefined;
    const sealed = Uint8Array.from(row["sealed"] as Uint8Array);
    for (const opener of await this.#imported()) {
      const plain = await crypto.subtle.decrypt(cipher(sealed.subarray(0, nonceBytes), key), opener, sealed.subarray(nonceBytes)).catch(() => undefined);
      if (plain) return fromRow(JSON.parse(new TextDecoder().decode(plain)) as Row);
    }
    throw new Error("pgstore: none of the keys opens the row");
  }

  /**
   * Seals the connection to its key, so that a row cannot be put in the place of another. Without the lock it replaces no newer version. With it
   * there is none, though the version may be lower: that of a service that began anew, such as a sandbox, or was restored.
   */
  async #save(db: Queryable, key: string, connection: StoredConnection, locked: boolean): Promise<void> {
    const nonce = crypto.getRandomValues(new Uint8Array(nonceBytes));
    const sealer = (await this.#imported())[0]!;
    const sealed = await crypto.subtle.encrypt(cipher(nonce, key), sealer, utf8(JSON.stringify(toRow(connection))));
    await db.query(`insert into connect_connections as held (key, grant_id, connection_version, state, sealed)
      values ($1, $2, $3, $4, $5)
      on conflict (key) do update set grant_id = excluded.grant_id, connection_version = excluded.connection_version,
        state = excluded.state, sealed = excluded.sealed, updated_at = now()
      where $6::boolean or held.grant_id <> excluded.grant_id or held.connection_version <= excluded.connection_version`,
    [key, connection.grantId, connection.version, connection.state, concat([nonce, new Uint8Array(sealed)]), locked]);
  }

  #imported(): Promise<CryptoKey[]> {
    return this.#keys ??= Promise.all(this.#raw.map((key) => crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"])));
  }
}

/** A session out of the pool. */
class Held {
  broken = false;
  #given = false;
  readonly #broke = (): void => {
    this.broken = true;
  };

  constructor(readonly session: Session) {
    session.on("error", this.#broke); // without a listener it would end the process
  }

  giveBack(end: boolean): void {
    if (this.#given) return;
    this.#given = true;
    this.session.release(end);
    if (!end) this.session.removeListener("error", this.#broke);
  }
}

function cipher(iv: Uint8Array<ArrayBuffer>, key: string) {
  return { name: "AES-GCM", iv, additionalData: utf8(key) };
}

/** What is sealed, as the Go SDK writes it. */
interface Row {
  grant_id: string;
  connection_version: string;
  history_from: string;
  scope: string;
  state: ConnectionState;
  access_token?: string;
  use_until?: string;
  refresh_token?: string;
  former_grants?: string[];
}

function toRow({ grantId, version, historyFrom, scope, state, accessToken, useUntil, refreshToken, formerGrants }: StoredConnection): Row {
  return {
    grant_id: grantId, connection_version: version, history_from: historyFrom, scope, state,
    ...(accessToken !== undefined && { access_token: accessToken }),
    ...(useUntil !== undefined && { use_until: new Date(useUntil).toISOString() }),
    ...(refreshToken !== undefined && { refresh_token: refreshToken }),
    ...(formerGrants?.length && { former_grants: [...formerGrants] }),
  };
}

function fromRow(row: Row): StoredConnection {
  return {
    grantId: row.grant_id, version: row.connection_version, historyFrom: row.history_from, scope: row.scope, state: row.state,
    ...(row.access_token !== undefined && { accessToken: row.access_token }),
    ...(row.use_until !== undefined && row.access_token !== undefined && { useUntil: Date.parse(row.use_until) }),
    ...(row.refresh_token !== undefined && { refreshToken: row.refresh_token }),
    ...(row.former_grants?.length && { formerGrants: row.former_grants }),
  };
}
