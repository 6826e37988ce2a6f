"""Keeps connections in PostgreSQL, for backends of any number of processes. Tables, rows and locks are those of package pgstore of the Go SDK
and of `connect-svc-sdk/pgstore` of the TypeScript SDK: programs in all languages may share them.

It needs the packages `cryptography` and `psycopg` with `psycopg_pool`: `pip install cryptography 'psycopg[binary,pool]'`. Another driver will
do if its sessions have `cursor()`, `commit()`, `rollback()`, `close()` and `closed`, and its statements take `%s`.
"""
from __future__ import annotations

import asyncio
import json
import os
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Coroutine, Mapping, Protocol, Sequence, Union, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ._blocking import run
from .store import AsyncLock, Lock, StoredConnection

SCHEMA = """
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
"""
"""Makes the tables. Run it once, or again, or put it among your migrations."""

KEY_BYTES = 32
_NONCE_BYTES = 12

_MOST_BROKEN = 100
"""Sessions that a statement tries, if each is broken."""

_UNLOCK_TIMEOUT = 5.0
"""Seconds that giving a lock back may take with asyncio. After it the session is closed, which gives it back, too."""

# The wait for a lock is bounded: its holder needs about the time of a request. The setting ends with the transaction.
_TAKE_LOCK = "select set_config('lock_timeout', '90s', true), pg_advisory_lock(hashtextextended(%s, 0))"
_GIVE_LOCK = "select pg_advisory_unlock(hashtextextended(%s, 0))"
_LOAD = "select sealed from connect_connections where key = %s"
_DELETE = "delete from connect_connections where key = %s"
_KEYS_OF = "select key from connect_connections where grant_id = %s order by key"
# With the lock no version is newer, though the stored one may be higher: of a service that began anew, such as a sandbox, or was restored.
_SAVE = """insert into connect_connections as held (key, grant_id, connection_version, state, sealed)
	values (%s, %s, %s, %s, %s)
	on conflict (key) do update set grant_id = excluded.grant_id, connection_version = excluded.connection_version,
		state = excluded.state, sealed = excluded.sealed, updated_at = now()"""
_SAVE_UNLESS_NEWER = _SAVE + """
	where held.grant_id <> excluded.grant_id or held.connection_version <= excluded.connection_version"""


# The database's clock decides, and no slot is more than ten minutes ahead of it: a clock that was set back does not stop the reads.
_PACE = """insert into connect_pace as pace (client_id, last_at)
	values (%(client_id)s, clock_timestamp() + (%(hold)s::float8 + (%(slots)s::int - 1) * %(interval)s::float8) * interval '1 second')
	on conflict (client_id) do update set last_at = (%(slots)s::int - 1) * %(interval)s::float8 * interval '1 second' + least(
		clock_timestamp() + interval '10 minutes',
		greatest(pace.last_at + %(interval)s::float8 * interval '1 second', clock_timestamp() + %(hold)s::float8 * interval '1 second'))
	returning extract(epoch from last_at - clock_timestamp())::float8 - (%(slots)s::int - 1) * %(interval)s::float8"""


class Pool(Protocol):
    """A `psycopg_pool.ConnectionPool`."""

    def getconn(self) -> Any: ...

    def putconn(self, session: Any) -> None: ...


class AsyncPool(Protocol):
    """A `psycopg_pool.AsyncConnectionPool`."""

    async def getconn(self) -> Any: ...

    async def putconn(self, session: Any) -> None: ...


class PgStore:
    """A `Store` in PostgreSQL, whose tables are those of `SCHEMA`. The tokens lie encrypted, AES-256-GCM, under a key of 32 random bytes, which does
    not belong in the database. To change it, give the new one first and the old one after it: the first seals, each opens.

    A lock is an advisory lock of a session: it ends with the process that holds it, and takes one session of the pool while a refresh is
    under way. Through PgBouncer it needs the pool mode "session".
    """

    def __init__(self, pool: Pool, *keys: bytes) -> None:
        self._rules = _Rules(_Threads(pool), keys)

    def load(self, key: str) -> StoredConnection | None:
        return run(self._rules.load(key))

    def lock(self, key: str) -> Lock:
        return _BlockingLock(run(self._rules.lock(key)))

    def keys_of(self, grant_id: str) -> list[str]:
        """The keys of a connection that a webhook names by its `grant_id`: several if the users of several keys connected the same account."""
        return run(self._rules.keys_of(grant_id))

    def pace(self, client_id: str, slots: int, interval: float, hold: float) -> float:
        return run(self._rules.pace(client_id, slots, interval, hold))


class AsyncPgStore:
    """`PgStore` for asyncio, with a `psycopg_pool.AsyncConnectionPool`."""

    def __init__(self, pool: AsyncPool, *keys: bytes) -> None:
        self._rules = _Rules(_Loop(pool), keys)

    async def load(self, key: str) -> StoredConnection | None:
        return await self._rules.load(key)

    async def lock(self, key: str) -> AsyncLock:
        return await self._rules.lock(key)

    async def keys_of(self, grant_id: str) -> list[str]:
        return await self._rules.keys_of(grant_id)

    async def pace(self, client_id: str, slots: int, interval: float, hold: float) -> float:
        return await self._rules.pace(client_id, slots, interval, hold)


Values = Union[Sequence[object], Mapping[str, object]]


class _Database(Protocol):
    """A pool, for threads or for asyncio."""

    async def get(self) -> Any: ...

    async def put(self, session: Any, close: bool) -> None: ...

    async def execute(self, session: Any, statement: str, values: Values) -> list[tuple[Any, ...]]: ...

    async def bounded(self, work: Coroutine[Any, Any, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]: ...


class _Rules:
    def __init__(self, database: _Database, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("pgstore: a key is required")
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"pgstore: a key must have {KEY_BYTES} bytes")
        self._database = database
        self._keys = [AESGCM(key) for key in keys]

    async def elsewhere(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Uses any session."""
        session, rows = await self._execute(statement, values)
        await self._database.put(session, close=False)
        return rows

    async def _execute(self, statement: str, values: Values) -> tuple[Any, list[tuple[Any, ...]]]:
        """Takes a session out of the pool, executes a statement in it, and returns both. Sessions that broke while nobody used them, as all do when
        the database is restarted, are passed over."""
        tries = 1
        while True:
            session = await self._database.get()
            try:
                return session, await self._database.execute(session, statement, values)
            except BaseException as failure:
                broken = isinstance(failure, Exception) and session.closed
                await self._database.put(session, close=statement == _TAKE_LOCK)  # it may have the lock
                if not broken or tries == _MOST_BROKEN:
                    raise
            tries += 1

    async def load(self, key: str) -> StoredConnection | None:
        return self.opened(key, await self.elsewhere(_LOAD, [key]))

    async def keys_of(self, grant_id: str) -> list[str]:
        return [str(key) for key, in await self.elsewhere(_KEYS_OF, [grant_id])]

    async def pace(self, client_id: str, slots: int, interval: float, hold: float) -> float:
        rows = await self.elsewhere(_PACE, {"client_id": client_id, "slots": slots, "interval": interval, "hold": hold})
        return float(rows[0][0])

    async def lock(self, key: str) -> _PgLock:
        session, _ = await self._execute(_TAKE_LOCK, [_lock_name(key)])
        return _PgLock(self, self._database, session, key)

    def opened(self, key: str, rows: list[tuple[Any, ...]]) -> StoredConnection | None:
        if not rows:
            return None
        sealed = bytes(rows[0][0])
        for opener in self._keys:
            try:
                return _from_row(json.loads(opener.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key.encode())))
            except InvalidTag:
                continue
        raise RuntimeError("pgstore: none of the keys opens the row")

    def sealed(self, key: str, connection: StoredConnection) -> list[object]:
        """The values of a row. The connection is sealed to its key, so that a row cannot be put in the place of another."""
        nonce = os.urandom(_NONCE_BYTES)
        plain = json.dumps(_to_row(connection)).encode()
        return [key, connection.grant_id, int(connection.version), connection.state, nonce + self._keys[0].encrypt(nonce, plain, key.encode())]


class _PgLock:
    def __init__(self, rules: _Rules, database: _Database, session: Any, key: str) -> None:
        self._rules, self._database, self._session, self._key = rules, database, session, key

    async def load(self) -> StoredConnection | None:
        return self._rules.opened(self._key, await self._execute(_LOAD, None, self._key))

    async def save(self, connection: StoredConnection) -> None:
        elsewhere = None if connection.state == "refreshing" else _SAVE_UNLESS_NEWER
        await self._execute(_SAVE, elsewhere, *self._rules.sealed(self._key, connection))

    async def delete(self) -> None:
        await self._execute(_DELETE, _DELETE, self._key)

    async def unlock(self) -> None:
        if self._session is None:
            return
        freed = False
        try:
            rows = await self._database.bounded(self._database.execute(self._session, _GIVE_LOCK, [_lock_name(self._key)]))
            freed = rows[0][0] is True
        except Exception:
            pass  # below
        finally:
            session, self._session = self._session, None
            await self._database.put(session, close=not freed)

    async def _execute(self, statement: str, elsewhere: str | None, *values: object) -> list[tuple[Any, ...]]:
        """Uses the session of the lock. If that broke, any other is better than to lose what was learned, such as the only copy of new
        tokens; then somebody else may have taken the lock, and all that they can have stored is that the outcome is not known, or a newer
        connection, which stays. A note that the refresh token is on its way is not learned, and not stored elsewhere: without the lock,
        somebody else may have used the token already."""
        if self._session is not None:
            try:
                return await self._database.execute(self._session, statement, values)
            except Exception:
                if not self._session.closed:
                    raise
                session, self._session = self._session, None
                await self._database.put(session, close=True)  # the pool may have no other place
        if elsewhere is None:
            raise RuntimeError("pgstore: the session of the lock broke")
        return await self._rules.elsewhere(elsewhere, values)


class _Threads:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self) -> Any:
        return self._pool.getconn()

    async def put(self, session: Any, close: bool) -> None:
        if close:
            session.close()
        self._pool.putconn(session)

    async def execute(self, session: Any, statement: str, values: Values) -> list[tuple[Any, ...]]:
        try:
            cursor = session.cursor()
            cursor.execute(statement, values)
            rows = cursor.fetchall() if cursor.description else []
            session.commit()
            return cast("list[tuple[Any, ...]]", rows)
        except Exception:
            if not session.closed:
                session.rollback()
            raise

    async def bounded(self, work: Coroutine[Any, Any, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        return await work


class _Loop:
    def __init__(self, pool: AsyncPool) -> None:
        self._pool = pool

    async def get(self) -> Any:
        return await self._pool.getconn()

    async def put(self, session: Any, close: bool) -> None:
        if close:
            await session.close()
        await self._pool.putconn(session)

    async def execute(self, session: Any, statement: str, values: Values) -> list[tuple[Any, ...]]:
        try:
            cursor = session.cursor()
            await cursor.execute(statement, values)
            rows = await cursor.fetchall() if cursor.description else []
            await session.commit()
            return cast("list[tuple[Any, ...]]", rows)
        except Exception:
            if not session.closed:
                await session.rollback()
            raise

    async def bounded(self, work: Coroutine[Any, Any, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        return await asyncio.wait_for(work, _UNLOCK_TIMEOUT)


class _BlockingLock:
    def __init__(self, lock: _PgLock) -> None:
        self._lock = lock

    def load(self) -> StoredConnection | None:
        return run(self._lock.load())

    def save(self, connection: StoredConnection) -> None:
        run(self._lock.save(connection))

    def delete(self) -> None:
        run(self._lock.delete())

    def unlock(self) -> None:
        run(self._lock.unlock())


def _lock_name(key: str) -> str:
    return "connect_connections:" + key


def _to_row(held: StoredConnection) -> dict[str, Any]:
    """What is sealed, as the Go SDK writes it."""
    row: dict[str, Any] = {
        "grant_id": held.grant_id, "connection_version": held.version, "history_from": held.history_from, "scope": held.scope, "state": held.state,
    }
    if held.access_token is not None:
        row["access_token"] = held.access_token
        row["use_until"] = datetime.fromtimestamp(held.use_until, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if held.refresh_token is not None:
        row["refresh_token"] = held.refresh_token
    if held.former_grants:
        row["former_grants"] = list(held.former_grants)
    return row


def _from_row(row: dict[str, Any]) -> StoredConnection:
    token = row.get("access_token")
    return StoredConnection(
        row["grant_id"], row["connection_version"], row["history_from"], row["scope"], row["state"],
        token, _seconds(row.get("use_until", "")) if token else 0.0, row.get("refresh_token"), former_grants=tuple(row.get("former_grants") or ()),
    )


_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|([+-])(\d\d):(\d\d))")


def _seconds(text: str) -> float:
    """The instant of RFC 3339, which Go writes with up to nine digits after the second; 0 if there is none."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return 0.0
    whole, fraction, sign, hours, minutes = match.groups()
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    return datetime.fromisoformat(whole).replace(tzinfo=timezone(zone)).timestamp() + float(fraction or 0)
