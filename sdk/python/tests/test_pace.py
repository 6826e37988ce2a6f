"""Three processes that read as fast as they can, in virtual time: the rate is what the policy allows, and hardly a request is refused."""
from __future__ import annotations

import asyncio
import math
import unittest
from dataclasses import replace
from typing import Any

import httpx

from connect_svc_sdk import AsyncClient, AsyncMemoryStore, ServiceError
from test_rules import HELD, REGISTRATION


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time passes when nobody has anything to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def now() -> float:
    return asyncio.get_running_loop().time()


class Budget(httpx.AsyncBaseTransport):
    """A service with a rate policy, as the specification's section 8 has it."""

    def __init__(self, per_minute: int = 600, burst: int = 60, at_once: int = 10, takes: float = 0.03) -> None:
        self.per_minute, self.burst, self.at_once, self.takes = per_minute, burst, at_once, takes
        self.credit, self.at = float(burst), now()
        self.running, self.denied, self.told = 0, 0, True
        self.sent: list[float] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.credit = min(float(self.burst), self.credit + (now() - self.at) * self.per_minute / 60)
        self.at = now()
        self.sent.append(now())
        headers = {}
        refused = self.credit < 1 or self.running >= self.at_once
        if self.credit < 1:
            headers["Retry-After"] = str(max(1, math.ceil((1 - self.credit) * 60 / self.per_minute)))
        else:
            self.credit -= 1
            if refused:
                headers["Retry-After"] = "1"
        if self.told:
            headers.update({"RateLimit-Limit": str(self.per_minute), "RateLimit-Remaining": str(max(0, int(self.credit)))})
        if refused:
            self.denied += 1
            return httpx.Response(429, json={"error": {"code": "rate_limited"}}, headers=headers)
        self.running += 1
        await asyncio.sleep(self.takes)
        self.running -= 1
        return httpx.Response(200, json={"data": [], "meta": {}}, headers=headers)


class PacedStore(AsyncMemoryStore):
    """A store with one pace for those who share it."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fails, self.last, self.asked = fails, 0.0, 0

    async def pace(self, client_id: str, slots: int, interval: float, hold: float) -> float:
        self.asked += 1
        if self.fails:
            raise OSError("there is no such table")
        first = max(self.last + interval, now() + hold)
        self.last = first + (slots - 1) * interval
        return first - now()


async def process(budget: Budget, store: AsyncMemoryStore, at_once: int = 10, **options: Any) -> AsyncClient:
    lock = await store.lock("ada")
    await lock.save(replace(HELD, use_until=9e9))
    await lock.unlock()
    return AsyncClient(**REGISTRATION, store=store, http=httpx.AsyncClient(transport=budget), concurrent_reads=at_once, now=now, **options)


async def read(client: AsyncClient) -> None:
    await client.daily_steps("ada", "2026-11-20", "2026-11-20")


async def read_all(reads: int, workers: int, *processes: AsyncClient) -> float:
    """Has workers of each process read so often in sum, and returns how long that took."""
    begun, left = now(), iter(range(reads))

    async def work(client: AsyncClient) -> None:
        for _ in left:
            await read(client)

    await asyncio.gather(*[work(client) for client in processes for _ in range(workers)])
    return now() - begun


def play(test: Any) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(test)
    finally:
        loop.close()


class Pace(unittest.TestCase):
    def test_processes_keep_the_budget(self) -> None:
        async def run(policy: dict[str, Any], at_once: int, shared: bool, reads: int) -> tuple[Budget, float]:
            budget, store = Budget(**policy), PacedStore()
            processes = [await process(budget, store if shared else PacedStore(fails=True), at_once) for _ in range(3)]
            return budget, await read_all(reads, 10, *processes)

        for name, policy, at_once, shared, reads, least in [
            ("3 x 10, one pace", {}, 10, True, 1530, 0.9),
            ("3 x 3, one pace", {}, 3, True, 1530, 0.9),
            ("3 x 10, each its own", {}, 10, False, 600, 0.9),
            ("3 x 10, slow answers", {"takes": 0.4}, 10, True, 600, 0.9),
            ("3 x 10, five back to back", {"burst": 5, "takes": 0.02}, 10, True, 600, 0.7),  # each keeps away from the end of so little
            ("3 x 10, one a second", {"per_minute": 60, "burst": 10, "takes": 0.02}, 10, True, 200, 0.9),
        ]:
            with self.subTest(name):
                budget, took = play(run(policy, at_once, shared, reads))
                rate = reads / took * 60 / budget.per_minute
                self.assertLessEqual(100 * budget.denied, len(budget.sent), f"{budget.denied} of {len(budget.sent)}")
                self.assertGreaterEqual(rate, least)
                self.assertEqual(len(budget.sent), reads + budget.denied)

    def test_after_retry_after_the_reads_do_not_leave_together(self) -> None:
        async def run() -> list[float]:
            budget = Budget()
            client = await process(budget, AsyncMemoryStore(), jitter=lambda most: most)
            await read_all(40, 10, client)
            budget.credit = -20.0  # somebody else spent it
            before = len(budget.sent)
            await read_all(20, 20, client)
            return budget.sent[before:]

        sent = play(run())
        again = [at for at in sent if at > sent[0] + 1]
        self.assertGreaterEqual(len(again), 19)
        self.assertGreaterEqual(min(again), sent[0] + 3 + 0.99)  # Retry-After, and the jitter
        self.assertLessEqual(max(sum(1 for other in again if 0 <= other - at < 0.1) for at in again), 3)

    def test_too_many_at_one_time_are_fewer_from_then_on(self) -> None:
        async def run() -> tuple[int, int]:
            budget = Budget(per_minute=60_000, burst=6_000, at_once=3, takes=0.2)
            client = await process(budget, AsyncMemoryStore())
            await read_all(300, 20, client)
            first = budget.denied
            await read_all(300, 20, client)
            return first, budget.denied - first

        first, then = play(run())
        self.assertGreater(first, 0)
        self.assertLess(then, 20)

    def test_a_service_that_says_nothing_is_read_without_a_pace(self) -> None:
        async def run() -> float:
            budget = Budget(per_minute=60_000, burst=6_000, takes=0.01)
            budget.told = False
            client = await process(budget, AsyncMemoryStore())
            await read(client)
            return await read_all(500, 10, client)

        self.assertLess(play(run()), 3.0)

    def test_a_store_that_fails_is_asked_again_after_a_minute(self) -> None:
        async def run() -> tuple[int, int, int]:
            budget, store = Budget(), PacedStore(fails=True)
            client = await process(budget, store)
            await read_all(50, 10, client)
            first = store.asked
            store.fails = False
            await asyncio.sleep(30)
            await read(client)
            second = store.asked
            await asyncio.sleep(31)
            await read(client)
            return first, second, store.asked

        self.assertEqual(play(run()), (1, 1, 2))

    def test_what_a_read_waits_for_its_429s_is_bounded(self) -> None:
        async def run() -> float:
            budget = Budget(per_minute=1, burst=1)
            budget.credit = 0.0
            client = await process(budget, AsyncMemoryStore(), max_wait=90.0)
            budget.per_minute, begun = 0, now()
            budget.handle_async_request = refuse  # type: ignore[method-assign]
            with self.assertRaises(ServiceError):
                await read(client)
            return now() - begun

        async def refuse(request: httpx.Request) -> httpx.Response:
            return httpx.Response(429, json={"error": {"code": "rate_limited"}}, headers={"Retry-After": "40"})

        self.assertTrue(80 <= play(run()) < 90)
