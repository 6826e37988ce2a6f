"""What is kept of a connection, and where."""
from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol, TypeVar

State = Literal["active", "refreshing", "uncertain", "ended"]
"""How a connection stands, as far as the partner knows. `refreshing`: its refresh token is on its way, and must not be sent again whatever
happens. `uncertain`, `ended`: the user must connect again."""


@dataclass(frozen=True)
class Connection:
    """A connection without its secrets."""

    grant_id: str
    """Names it in webhooks; the same after connecting again."""
    version: str
    """A decimal number; a webhook below it is stale."""
    history_from: str
    """The first day that can be read, `YYYY-MM-DD`."""
    scope: str
    """Space-separated."""
    state: State
    shared_with: tuple[str, ...] = field(default=(), kw_only=True)
    """The other keys that connected the same account. Only `finish` tells it, and nothing stores it."""
    former_grants: tuple[str, ...] = field(default=(), kw_only=True)
    """Those of other accounts that this key had before. They may still be open at the service, where the person sees them:
    `disconnect_former` ends them."""


@dataclass(frozen=True)
class StoredConnection(Connection):
    """What a store keeps for a key. The tokens are secret: keep them encrypted, and out of logs."""

    access_token: str | None = field(default=None, repr=False)
    use_until: float = 0.0
    """When the access token is to be refreshed, in seconds of the epoch."""
    refresh_token: str | None = field(default=None, repr=False)

    def without_secrets(self) -> Connection:
        return Connection(self.grant_id, self.version, self.history_from, self.scope, self.state, former_grants=self.former_grants)

    def over(self, state: Literal["uncertain", "ended"]) -> StoredConnection:
        """What remains when the user must connect again: it names the connection, so that it can be disconnected."""
        return replace(self, state=state, access_token=None, use_until=0.0, refresh_token=None)


class Lock(Protocol):
    """The right to change the connection of one key."""

    def load(self) -> StoredConnection | None: ...

    def save(self, connection: StoredConnection) -> None:
        """Stores the connection in place of the one that was there, durably before it returns. If the lock was lost, it must fail for the
        state `refreshing`: another process may have used the refresh token since."""

    def delete(self) -> None:
        """Forgets the connection. It is no error if there is none."""

    def unlock(self) -> None:
        """Gives the lock back. It is called once."""


class Store(Protocol):
    """Keeps connections by a key that the partner chooses, such as the id of its user. All instances of a backend must share one:
    `MemoryStore` serves a single process. It is called from several threads at once.

    A store may have two more methods. Without `keys_of(grant_id: str) -> list[str]`, which returns the keys whose connections have a grant, the
    client does not know that two keys connected the same account. With `pace(client_id: str, slots: int, interval: float, hold: float) -> float` it
    sets one pace for the reads of all processes: it gives away the next slots of a registration, moments at which one read may leave. They lie
    interval seconds apart, and so does the first of them from the last one that was given to anybody. None is sooner than in hold seconds.
    It returns in how many seconds the first slot is. While it fails, each process has its own pace.
    """

    def load(self, key: str) -> StoredConnection | None:
        """The connection as it was last saved, without waiting for a lock; None if there is none."""

    def lock(self, key: str) -> Lock:
        """Waits until nobody else holds the lock of key, in any process. The lock must end with the process that holds it, and must not
        end by itself within three minutes."""


class AsyncLock(Protocol):
    """`Lock` for asyncio."""

    async def load(self) -> StoredConnection | None: ...

    async def save(self, connection: StoredConnection) -> None: ...

    async def delete(self) -> None: ...

    async def unlock(self) -> None: ...


class AsyncStore(Protocol):
    """`Store` for asyncio. What it may have more is asynchronous, too."""

    async def load(self, key: str) -> StoredConnection | None: ...

    async def lock(self, key: str) -> AsyncLock: ...


L = TypeVar("L")


class _Locks(Generic[L]):
    """The locks of keys, for as long as somebody holds or wants them."""

    def __init__(self, new: type[L]) -> None:
        self._new = new
        self._mutex = threading.Lock()
        self._locks: dict[str, tuple[L, int]] = {}

    def want(self, key: str) -> L:
        with self._mutex:
            lock, wanted = self._locks.get(key) or (self._new(), 0)
            self._locks[key] = (lock, wanted + 1)
            return lock

    def leave(self, key: str) -> None:
        with self._mutex:
            lock, wanted = self._locks.pop(key)
            if wanted > 1:
                self._locks[key] = (lock, wanted - 1)


def _keys_of(connections: dict[str, StoredConnection], grant_id: str) -> list[str]:
    return sorted(key for key, held in connections.copy().items() if held.grant_id == grant_id)


class MemoryStore:
    """A store for a single process, which forgets everything when that ends."""

    def __init__(self) -> None:
        self._connections: dict[str, StoredConnection] = {}
        self._locks = _Locks(_Mutex)

    def load(self, key: str) -> StoredConnection | None:
        return self._connections.get(key)

    def keys_of(self, grant_id: str) -> list[str]:
        return _keys_of(self._connections, grant_id)

    def lock(self, key: str) -> Lock:
        mutex = self._locks.want(key)
        mutex.lock.acquire()
        return _MemoryLock(self, key, mutex)


class _Mutex:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class _MemoryLock:
    def __init__(self, store: MemoryStore, key: str, mutex: _Mutex) -> None:
        self._store, self._key, self._mutex = store, key, mutex

    def load(self) -> StoredConnection | None:
        return self._store.load(self._key)

    def save(self, connection: StoredConnection) -> None:
        self._store._connections[self._key] = connection

    def delete(self) -> None:
        self._store._connections.pop(self._key, None)

    def unlock(self) -> None:
        self._mutex.lock.release()
        self._store._locks.leave(self._key)


class AsyncMemoryStore:
    """`MemoryStore` for asyncio, and for one event loop."""

    def __init__(self) -> None:
        self._connections: dict[str, StoredConnection] = {}
        self._locks = _Locks(asyncio.Lock)

    async def load(self, key: str) -> StoredConnection | None:
        return self._connections.get(key)

    async def keys_of(self, grant_id: str) -> list[str]:
        return _keys_of(self._connections, grant_id)

    async def lock(self, key: str) -> AsyncLock:
        mutex = self._locks.want(key)
        try:
            await mutex.acquire()
        except BaseException:  # the caller has gone
            self._locks.leave(key)
            raise
        return _AsyncMemoryLock(self, key, mutex)


class _AsyncMemoryLock:
    def __init__(self, store: AsyncMemoryStore, key: str, mutex: asyncio.Lock) -> None:
        self._store, self._key, self._mutex = store, key, mutex

    async def load(self) -> StoredConnection | None:
        return await self._store.load(self._key)

    async def save(self, connection: StoredConnection) -> None:
        self._store._connections[self._key] = connection

    async def delete(self) -> None:
        self._store._connections.pop(self._key, None)

    async def unlock(self) -> None:
        self._mutex.release()
        self._store._locks.leave(self._key)
