"""What the test that starts these programs gives them: a service, and a control to play the user and to plant faults."""
from __future__ import annotations

import asyncio
import atexit
import inspect
import json
import os
import threading
import time
import urllib.request
import uuid
from typing import Any, Callable, Iterator

import psycopg_pool

from connect_svc_sdk import AsyncClient, AsyncMemoryStore, Client, MemoryStore, StoredConnection
from connect_svc_sdk.pgstore import SCHEMA, AsyncPgStore, PgStore

CONTROL, DATABASE = os.environ.get("CONTROL_URL", ""), os.environ.get("DATABASE_URL", "")
STORE_KEY = b"k" * 32
SCOPES: Any = ["daily_steps:read", "cycling_daily:read", "cycling_activities:read"]


def ask(to: str, /, **body: object) -> Any:
    with urllib.request.urlopen(urllib.request.Request(CONTROL + to, json.dumps(body).encode(), method="POST")) as answer:
        return json.load(answer)


class ServiceClock:
    """The service's clock, which is ours, too."""

    def __init__(self) -> None:
        self._offset, self._mutex = 0.0, threading.Lock()

    def now(self) -> float:
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        with self._mutex:
            self._offset += seconds
            ask("/advance", seconds=seconds)


clock = ServiceClock()


def seen(end: str) -> int:
    return int(ask("/seen", end=end)["count"])


def plant(path: str, kind: str) -> None:
    ask("/plant", path=path, kind=kind)


class Loop:
    """An event loop in a thread of its own. What is asynchronous looks to the tests as if it were not."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def make(self, what: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def made() -> Any:
            return what(*arguments, **named)

        return Blocking(self.run(made()), self)


class Blocking:
    """Something asynchronous, made to block."""

    def __init__(self, wrapped: Any, loop: Loop) -> None:
        self.wrapped, self._loop = wrapped, loop

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.wrapped, name)

        def call(*arguments: Any, **named: Any) -> Any:
            result = attribute(*arguments, **named)
            if inspect.isasyncgen(result):
                return self._each(result)
            if inspect.iscoroutine(result):
                result = self._loop.run(result)
            return Blocking(result, self._loop) if hasattr(result, "unlock") else result

        return call if callable(attribute) else attribute

    def _each(self, rows: Any) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run(rows.__anext__())
            except StopAsyncIteration:
                return


loop = Loop()
_pools: list[Any] = []


def thread_pool() -> Any:
    """The sessions of all stores for threads. It is opened once, and makes the table."""
    if not _pools:
        _pools.append(psycopg_pool.ConnectionPool(DATABASE, min_size=1, max_size=8))
        with _pools[0].connection() as session:
            session.execute(SCHEMA)

        async def opened() -> Any:
            pool = psycopg_pool.AsyncConnectionPool(DATABASE, min_size=1, max_size=8, open=False)
            await pool.open()
            return pool

        _pools.append(loop.run(opened()))
        atexit.register(_pools[0].close)
        atexit.register(lambda: loop.run(_pools[1].close()))
    return _pools[0]


def loop_pool() -> Any:
    thread_pool()
    return _pools[1]


class Kind:
    """A kind of client with a kind of store."""

    def __init__(self, name: str, new_store: Callable[[], Any]) -> None:
        self.name, self.new_store, self.threads = name, new_store, name.startswith("threads")

        self.clients: list[Any] = []

    def client(self, store: Any, **options: Any) -> Any:
        self.clients.append(self._client(store, options))
        return self.clients[-1]

    def close(self) -> None:
        while self.clients:
            self.clients.pop().close()

    def _client(self, store: Any, options: dict[str, Any]) -> Any:
        if self.threads:
            return Client(store=store, **options)
        sleep = options.pop("sleep", None)
        if sleep is not None:
            async def slept(seconds: float) -> None:
                await asyncio.to_thread(sleep, seconds)

            options["sleep"] = slept
        return loop.make(AsyncClient, store=store.wrapped, **options)


KINDS = [
    Kind("threads/memory", MemoryStore),
    Kind("threads/PostgreSQL", lambda: PgStore(thread_pool(), STORE_KEY)),
    Kind("asyncio/memory", lambda: loop.make(AsyncMemoryStore)),
    Kind("asyncio/PostgreSQL", lambda: loop.make(AsyncPgStore, loop_pool(), STORE_KEY)),
]


class User:
    """One partner with a client of the SDK, and one user with data of today: 4321 steps and three rides."""

    def __init__(self, kind: Kind, **policy: int) -> None:
        self.kind, self.partner = kind, ask("/partner", **policy)
        self.key, self.store = f"member-{uuid.uuid4()}", kind.new_store()
        self.slept: list[float] = []
        self.sleep: Callable[[float], None] = clock.advance
        self.client = self.instance(self.store)

    def instance(self, store: Any) -> Any:
        def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.sleep(seconds)

        return self.kind.client(store, **options(self.partner), now=clock.now, jitter=lambda _: 0.0, sleep=sleep)

    def authorize(self, url: str) -> str:
        return str(ask("/authorize", url=url, email=self.partner["email"])["query"])

    def connect(self) -> Any:
        begun = self.client.begin()
        return self.client.finish(self.key, begun, self.authorize(begun.url))

    def steps(self) -> Any:
        day = self.client.connection(self.key).history_from
        return self.client.daily_steps(self.key, day, day)

    def held(self) -> StoredConnection:
        held = self.store.load(self.key)
        assert held is not None
        return held  # type: ignore[no-any-return]


def options(partner: dict[str, str]) -> dict[str, Any]:
    return {
        "base_url": partner["baseUrl"], "client_id": partner["clientId"], "client_secret": partner["clientSecret"],
        "callback_url": partner["callbackUrl"], "scopes": SCOPES,
    }
