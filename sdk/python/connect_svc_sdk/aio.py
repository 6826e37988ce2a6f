"""The client for asyncio."""
from __future__ import annotations

import asyncio
import random
import time
from typing import Any, AsyncIterator, Awaitable, Callable, Coroutine, Generic, Sequence, TypeVar

import httpx

from . import contract_gen as contract
from ._call import Answer, Call
from .authorize import Authorization
from .days import Day
from .network import Exchange
from .pace import Pacer
from .rules import Options, Rules, Running
from .store import AsyncLock, AsyncMemoryStore, AsyncStore, Connection, StoredConnection

T = TypeVar("T")

PACE_TIMEOUT = 2.0
"""Seconds that a question to the store for slots may take; after a failure the process goes on by itself for a minute."""


class AsyncClient:
    """`Client` for asyncio: the same methods, each to be awaited or, if it has rows, to be looped over with `async for`. It belongs to one
    event loop. A task that is cancelled stops waiting; a refresh or an exchange under way goes on."""

    def __init__(
        self, *, base_url: str, client_id: str, client_secret: str, callback_url: str, scopes: Sequence[contract.Scope],
        store: AsyncStore | None = None, http: httpx.AsyncClient | None = None, timeout: float = 30.0, max_tries: int = 4,
        max_wait: float = 300.0, concurrent_reads: int = 10, now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, jitter: Callable[[float], float] = lambda most: random.random() * most,
    ) -> None:
        options = Options(base_url, client_id, client_secret, callback_url, scopes, timeout, max_tries, max_wait, concurrent_reads, jitter)
        self._world = _Loop(options, store or AsyncMemoryStore(), http, now, sleep)
        self._rules = Rules(options, self._world)

    def begin(self) -> Authorization:
        return self._rules.begin()

    async def finish(self, key: str, begun: Authorization, callback: str) -> Connection:
        return await self._rules.finish(key, begun, callback)

    async def connection(self, key: str) -> Connection:
        return await self._rules.connection(key)

    async def access_token(self, key: str) -> str:
        return await self._rules.access_token(key)

    async def refresh(self, key: str) -> Connection:
        return await self._rules.refresh(key)

    async def daily_steps(self, key: str, first: Day, last: Day) -> contract.DailyActivity:
        return await self._rules.daily_steps(key, first, last)

    async def cycling_daily(self, key: str, first: Day, last: Day) -> contract.CyclingDaily:
        return await self._rules.cycling_daily(key, first, last)

    def step_days(self, key: str, first: Day, last: Day) -> AsyncIterator[contract.DailySteps]:
        return self._rules.step_days(key, first, last)

    def cycling_days(self, key: str, first: Day, last: Day) -> AsyncIterator[contract.CyclingDay]:
        return self._rules.cycling_days(key, first, last)

    def cycling_activities(self, key: str, first: Day, last: Day, page_size: int | None = None) -> AsyncIterator[contract.CyclingActivity]:
        return self._rules.cycling_activities(key, first, last, page_size)

    def cycling_pages(self, key: str, first: Day, last: Day, page_size: int | None = None) -> AsyncIterator[contract.CyclingActivities]:
        return self._rules.cycling_pages(key, first, last, page_size)

    async def revoke(self, key: str) -> None:
        await self._rules.revoke(key)

    async def disconnect(self, key: str) -> None:
        await self._rules.disconnect(key)

    async def disconnect_shared(self, key: str) -> None:
        await self._rules.disconnect_shared(key)

    async def disconnect_former(self, key: str) -> None:
        await self._rules.disconnect_former(key)

    async def forget(self, key: str) -> None:
        await self._rules.forget(key)

    async def ended(self, key: str, version: str) -> bool:
        return await self._rules.ended(key, version)

    async def wait(self) -> None:
        """Returns when no refresh is under way any more. Await it before the loop ends: a refresh that is cut off costs the connection."""
        await self._world.wait()

    async def close(self) -> None:
        """Waits for the refreshes under way, then closes the connections."""
        await self._world.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Loop:
    """The `World` of asyncio."""

    def __init__(
        self, options: Options, store: AsyncStore, http: httpx.AsyncClient | None, now: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._options, self._store, self._given, self._sleep = options, store, http, sleep
        self._http = http or httpx.AsyncClient()
        self.now = now
        self.keys_of: Callable[[str], Awaitable[list[str]]] | None = getattr(store, "keys_of", None)
        self.pacer: Pacer | None = None
        if (pace := getattr(store, "pace", None)) is not None:
            self.pacer = _bounded(pace)
        self._running: set[asyncio.Task[Any]] = set()

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)

    def turn(self) -> _Turn:
        return _Turn()

    async def send(self, call: Call[T], authorization: str) -> Answer[T]:
        exchange = Exchange(self._options.base_url, call, authorization, self._options.timeout, self._given is None)
        exchange.request.extensions = exchange.extensions(exchange.watch.note_async)
        try:
            return await asyncio.wait_for(self._exchange(exchange), self._options.timeout)
        except Exception as failure:
            raise exchange.failed(failure)

    async def _exchange(self, exchange: Exchange) -> Answer[Any]:
        response = await self._http.send(exchange.request, stream=True, follow_redirects=False)
        try:
            async for piece in response.aiter_bytes():
                exchange.take(piece)
        finally:
            await response.aclose()
        return exchange.answer(response)

    async def load(self, key: str) -> StoredConnection | None:
        return await self._store.load(key)

    async def lock(self, key: str) -> AsyncLock:
        return await self._store.lock(key)

    def start(self, work: Coroutine[Any, Any, T]) -> _Running[T]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return _Running(task)

    async def within(self, seconds: float, work: Running[None]) -> None:
        assert isinstance(work, _Running)
        await work.ends(seconds)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left who asks

    async def wait(self) -> None:
        while self._running:  # others may have begun meanwhile
            await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self) -> None:
        await self.wait()
        if self._given is None:
            await self._http.aclose()


def _bounded(pace: Pacer) -> Pacer:
    return lambda *arguments: asyncio.wait_for(pace(*arguments), PACE_TIMEOUT)


class _Turn:
    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class _Running(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    async def result(self) -> T:
        return await asyncio.shield(self._task)

    async def ends(self, seconds: float) -> None:
        """Waits for the end for so long."""
        await asyncio.wait([self._task], timeout=seconds)
