"""The client for threads."""
from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, wait
from typing import Any, Awaitable, Callable, Coroutine, Generic, Iterator, Sequence, TypeVar

import httpx

from . import contract_gen as contract
from ._blocking import blocking, each, run
from ._call import Answer, Call
from .authorize import Authorization
from .days import Day
from .network import Exchange
from .pace import Pacer
from .rules import Options, Rules, Running
from .store import Connection, Lock, MemoryStore, Store, StoredConnection

T = TypeVar("T")


class Client:
    """Speaks to the service for one registration. Make one for a process, after it forked; it may be used by several threads at once.

    `base_url` is the service: an https origin without a path. `client_id`, `client_secret` and `callback_url` are those of the registration.
    `scopes` are what users are asked for: all of it or nothing. `store` is by default a `MemoryStore`, which forgets when the process ends.

    `http` sends the requests; it must not repeat them by itself. By default it is one that takes the proxy and the trusted authorities from
    the environment (`HTTPS_PROXY`, `SSL_CERT_FILE`), and knows better than any other whether a refresh token has left.

    `timeout` is that of one request with its answer, in seconds. `max_tries` bounds one request that fails with a 5xx or by the network.
    `max_wait` is the most that one read waits for its own 429s, in sum, in seconds. `concurrent_reads` are the reads of this process at a
    time, at most.

    `now` and `sleep` are the clock, in seconds, and `jitter` returns a number from 0 to below its argument: for tests.
    """

    def __init__(
        self, *, base_url: str, client_id: str, client_secret: str, callback_url: str, scopes: Sequence[contract.Scope],
        store: Store | None = None, http: httpx.Client | None = None, timeout: float = 30.0, max_tries: int = 4, max_wait: float = 300.0,
        concurrent_reads: int = 10, now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[float], float] = lambda most: random.random() * most,
    ) -> None:
        options = Options(base_url, client_id, client_secret, callback_url, scopes, timeout, max_tries, max_wait, concurrent_reads, jitter)
        self._world = _Threads(options, store or MemoryStore(), http, now, sleep)
        self._rules = Rules(options, self._world)

    def begin(self) -> Authorization:
        """Makes the address to send the user's browser to, with a fresh state and PKCE verifier. It sends nothing."""
        return self._rules.begin()

    def finish(self, key: str, begun: Authorization, callback: str) -> Connection:
        """Takes the browser back: exchanges the code of the callback for the first tokens, and stores the connection under key in place of
        the one that may be there. `callback` is the address that the browser came to, or its query.

        The connection tells who else it concerns, as far as the store knows. `shared_with` are the other keys that connected the same account:
        their tokens do not work any more, and they have become `ended`. `former_grants` are the accounts that this key had before, which
        `disconnect_former` disconnects.

        Raises `StateError` if the callback does not belong to begun, `DeniedError` if the user said no, and `ServiceError` if the service
        refuses the code.
        """
        return run(self._rules.finish(key, begun, callback))

    def connection(self, key: str) -> Connection:
        """The connection as it was last stored. It sends nothing."""
        return run(self._rules.connection(key))

    def access_token(self, key: str) -> str:
        """An access token that works, as far as can be known; refreshed if it must be. The reads do this by themselves."""
        return run(self._rules.access_token(key))

    def refresh(self, key: str) -> Connection:
        """Gets a new pair of tokens although the old one still works, unless another process has just done so. It keeps a connection alive
        that is seldom read: one that was not refreshed for 90 days, by default, lapses."""
        return run(self._rules.refresh(key))

    def daily_steps(self, key: str, first: Day, last: Day) -> contract.DailyActivity:
        """Step totals by day, of 31 days at most, both included. A day without a record is absent, which is not zero."""
        return run(self._rules.daily_steps(key, first, last))

    def cycling_daily(self, key: str, first: Day, last: Day) -> contract.CyclingDaily:
        """Cycling distance by day, of 31 days at most, both included."""
        return run(self._rules.cycling_daily(key, first, last))

    def step_days(self, key: str, first: Day, last: Day) -> Iterator[contract.DailySteps]:
        """`daily_steps` of any number of days, oldest first. It asks for the next 31 days when the loop comes there."""
        return each(self._rules.step_days(key, first, last))

    def cycling_days(self, key: str, first: Day, last: Day) -> Iterator[contract.CyclingDay]:
        """`step_days` for the distances of `cycling_daily`."""
        return each(self._rules.cycling_days(key, first, last))

    def cycling_activities(self, key: str, first: Day, last: Day, page_size: int | None = None) -> Iterator[contract.CyclingActivity]:
        """Rides of any number of days, oldest first; the next page, or the next 31 days, are asked for when the loop comes there. A page has
        1 to 500 rides, by default 100. A ride that changes meanwhile may be missed or come twice: store by id. After `invalid_cursor`, which
        is the answer when the pages of 31 days take more than 15 minutes or the user connects anew meanwhile, begin again."""
        return each(self._rules.cycling_activities(key, first, last, page_size))

    def cycling_pages(self, key: str, first: Day, last: Day, page_size: int | None = None) -> Iterator[contract.CyclingActivities]:
        """`cycling_activities` by whole pages, for those who store a page at a time."""
        return each(self._rules.cycling_pages(key, first, last, page_size))

    def revoke(self, key: str) -> None:
        """Gives the tokens of a connection back; none of them works any more. The user's consent stays: connecting again with the same scopes
        keeps the first day that can be read. After a refresh of unknown outcome there is no token to revoke with, which is a
        `ReconnectError`; `disconnect` works."""
        run(self._rules.revoke(key))

    def disconnect(self, key: str) -> None:
        """Ends a connection, whatever its state, with those of its `former_grants`, and forgets it. The user must consent anew to be connected
        again, and can then be read from that day on.

        Raises `SharedError` if another key connected the same account, at the same time or since, and has not ended: then it would end that
        one. Its `former_grants` end all the same. `disconnect_shared` ends it for all, and `forget` leaves it to the others. The store must have
        `keys_of` to know.
        """
        run(self._rules.disconnect(key))

    def disconnect_shared(self, key: str) -> None:
        """`disconnect` although other keys connected the same account. They become `ended`."""
        run(self._rules.disconnect_shared(key))

    def disconnect_former(self, key: str) -> None:
        """Ends the connections of a key to accounts that it had before, at the service, and forgets each that has ended. What another key has
        connected meanwhile is only forgotten. The connection of the key itself stays."""
        run(self._rules.disconnect_former(key))

    def forget(self, key: str) -> None:
        """Deletes what the store has of a key, and tells the service nothing. It is for a key whose account another key connected since:
        `SharedError`. A connection that no other key has stays open at the service."""
        run(self._rules.forget(key))

    def ended(self, key: str, version: str) -> bool:
        """Notes what a `connection.revoked` webhook says, and throws the tokens away: those of that connection version and of all before it do
        not work any more. Returns whether that was news: it is none of a connection that is not there, has ended already, or was made again
        since, so that its version is a later one.

        `key` is one whose connection has the `grant_id` of the webhook, as `keys_of` finds them. One that had it and has another account
        since is none: versions of two grants cannot be compared."""
        return run(self._rules.ended(key, version))

    def wait(self) -> None:
        """Returns when no refresh is under way any more."""
        self._world.wait()

    def close(self) -> None:
        """Waits for the refreshes under way, then closes the connections: a refresh that is cut off costs the user's connection."""
        self._world.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Threads:
    """The `World` of threads."""

    def __init__(self, options: Options, store: Store, http: httpx.Client | None, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._options, self._store, self._given, self._sleep = options, store, http, sleep
        self._http = http or httpx.Client()
        self.now = now
        self.keys_of: Callable[[str], Awaitable[list[str]]] | None = None
        self.pacer: Pacer | None = None
        if (keys_of := getattr(store, "keys_of", None)) is not None:
            self.keys_of = blocking(keys_of)
        if (pace := getattr(store, "pace", None)) is not None:
            self.pacer = blocking(pace)
        self._running: set[Future[Any]] = set()

    async def sleep(self, seconds: float) -> None:
        self._sleep(seconds)

    def turn(self) -> _Turn:
        return _Turn()

    async def send(self, call: Call[T], authorization: str) -> Answer[T]:
        exchange = Exchange(self._options.base_url, call, authorization, self._options.timeout, self._given is None)
        exchange.request.extensions = exchange.extensions(exchange.watch.note)
        try:
            # A redirect would carry a code or a refresh token to another address, and send it twice.
            response = self._http.send(exchange.request, stream=True, follow_redirects=False)
            try:
                for piece in response.iter_bytes():
                    exchange.take(piece)
            finally:
                response.close()
        except Exception as failure:
            raise exchange.failed(failure)
        return exchange.answer(response)

    async def load(self, key: str) -> StoredConnection | None:
        return self._store.load(key)

    async def lock(self, key: str) -> _Blocking:
        return _Blocking(self._store.lock(key))

    def start(self, work: Coroutine[Any, Any, T]) -> _Running[T]:
        """Runs work in a thread of its own, which Python waits for at its end, whoever calls: Ctrl-C in the caller does not cut it off."""
        future: Future[T] = Future()
        self._running.add(future)
        future.add_done_callback(self._running.discard)

        def carry_out() -> None:
            try:
                future.set_result(run(work))
            except BaseException as failure:
                future.set_exception(failure)

        try:
            threading.Thread(target=carry_out, name="connect-refresh", daemon=False).start()  # servers' own threads are daemons
        except BaseException as failure:  # the machine has no thread left
            work.close()
            future.set_exception(failure)  # nobody waits for it
            raise
        return _Running(future)

    async def within(self, seconds: float, work: Running[None]) -> None:
        assert isinstance(work, _Running)
        work.ends(seconds)

    def wait(self) -> None:
        while running := list(self._running):  # others may have begun meanwhile
            for future in running:
                future.exception()

    def close(self) -> None:
        self.wait()
        if self._given is None:
            self._http.close()


class _Turn:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        self._event.wait()


class _Running(Generic[T]):
    def __init__(self, future: Future[T]) -> None:
        self._future = future

    async def result(self) -> T:
        return self._future.result()

    def ends(self, seconds: float) -> None:
        """Waits for the end for so long."""
        wait([self._future], seconds)


class _Blocking:
    """A `Lock` as an `AsyncLock`."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    async def load(self) -> StoredConnection | None:
        return self._lock.load()

    async def save(self, connection: StoredConnection) -> None:
        self._lock.save(connection)

    async def delete(self) -> None:
        self._lock.delete()

    async def unlock(self) -> None:
        self._lock.unlock()
