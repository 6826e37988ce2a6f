"""The pace of reads, as in the Go SDK. The service keeps a budget of requests, which refills evenly, and tells in each answer how fast
(RateLimit-Limit) and how many are left (RateLimit-Remaining). A read leaves in a slot. The distance of slots is such that what is left would be
spent within the horizon. So reads are fast after a pause, slow down until they are as fast as the refill, and keep a reserve; several
processes that do not know of each other share the rate, as all see the same budget. With a store that has `pace` they also take turns. All
times are in seconds."""
from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any, Awaitable, Callable, Protocol

from ._call import Answer

HORIZON = 10.0  # or what half of a full budget takes to refill, if that is less
FIRST_SLOTS = 0.1  # the distance of slots before the first answer
RESERVE_AHEAD = 0.5  # slots that are reserved at once lie in such a span
LATE = 1.0  # a slot that is older is not used any more; a clock that goes back by more was set back
FRESH = 2.0  # what an answer said is true for so long; then the refill is counted on
FORGET = 60.0  # and what a full budget takes to refill: after it, all is learned anew, such as a new policy
MOST_BUDGET = 1_000_000  # requests a minute, and left: more is as much

Pacer = Callable[[str, int, float, float], Awaitable[float]]
"""The `pace` of a store."""


class Turn(Protocol):
    """A signal for one who waits."""

    def set(self) -> None: ...

    async def wait(self) -> None: ...


class Clock(Protocol):
    """What the pace needs of the world."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def turn(self) -> Turn: ...


class _Gate:
    """Lets so many in at a time, in the order in which they came. Who gives up meanwhile hands the place to the next."""

    def __init__(self, new_turn: Callable[[], Turn], places: float) -> None:
        self._new_turn, self.places = new_turn, places
        self._mutex = threading.Lock()
        self._taken = 0
        self.queue: list[Turn] = []

    async def enter(self) -> None:
        turn = self._new_turn()
        with self._mutex:
            self.queue.append(turn)
        self.admit()
        try:
            await turn.wait()
        except BaseException:
            with self._mutex:
                waits = turn in self.queue
                if waits:
                    self.queue.remove(turn)
            if not waits:
                self.leave()
            raise

    def admit(self) -> None:
        with self._mutex:
            while self.queue and self._taken < int(self.places):
                self._taken += 1
                self.queue.pop(0).set()

    def leave(self) -> None:
        with self._mutex:
            self._taken -= 1
        self.admit()


@dataclass(frozen=True)
class _Told:
    """What the service said of its budget."""

    at: float | None = None  # None: nothing yet
    limit: int = 0  # requests a minute; 0 if it does not say
    remaining: int = 0
    most: int = 0  # the most that remaining was

    def refill(self) -> float:
        """What one request takes to come back."""
        return 60.0 / max(1, self.limit)

    def old(self, now: float) -> bool:
        return self.at is None or now - self.at > FORGET + self.most * self.refill()

    def interval(self, now: float) -> float:
        """The distance of slots."""
        if self.at is None or self.old(now):
            return FIRST_SLOTS
        if self.limit == 0:
            return 0.0
        refill = self.refill()
        spend = min(HORIZON, (self.most + 1) * refill / 2)
        remaining = min(self.most, self.remaining + int(max(0.0, now - self.at - FRESH) / refill))
        if remaining <= 0:
            return max(spend, refill * 1.05)  # a little slower than the refill: the network is not punctual
        return spend / remaining


class Pace:
    """What all reads of a client share: a number of places, which adapts, and slots."""

    def __init__(self, clock: Clock, client_id: str, places: int, jitter: Callable[[float], float], pacer: Pacer | None) -> None:
        self._clock, self._client_id, self._places, self._jitter, self._pacer = clock, client_id, places, jitter, pacer
        self._gate = _Gate(clock.turn, min(2.0, places))
        self._turn = _Gate(clock.turn, 1)
        self._mutex = threading.Lock()
        self._refused = False  # by a 429 for too many reads at one time
        self._waiting = 0  # reads without a slot
        self._slots: list[float] = []  # reserved, in order
        self._last = 0.0  # the last slot of this process's own pace
        self._alone = 0.0  # until when the pacer is not asked
        self._until = 0.0  # no read leaves earlier, after a 429
        self._seen = 0.0  # the latest time that the clock showed
        self._told = _Told()

    async def enter(self) -> None:
        """Takes a place, and waits in it for a slot, and while the service wants no reads."""
        with self._mutex:
            self._waiting += 1
        try:
            await self._gate.enter()
            try:
                # One at a time: a slot that is reserved far ahead was reserved by what is old when it comes.
                await self._turn.enter()
                try:
                    await self._leave()
                finally:
                    self._turn.leave()
            except BaseException:
                self._gate.leave()
                raise
        finally:
            with self._mutex:
                self._waiting -= 1

    def leave(self) -> None:
        """Gives the place back."""
        self._gate.leave()

    async def _leave(self) -> None:
        while (pause := await self._take()) > 0:
            await self._clock.sleep(pause)

    async def _take(self) -> float:
        """Takes the first slot if it has come, and returns zero or less; else it returns when to come again. If none is reserved, it reserves as
        many as are waited for. The caller has the turn."""
        now = self._now()
        with self._mutex:
            self._slots = [slot for slot in self._slots if now - slot <= LATE and slot >= self._until]
            reserved = bool(self._slots)
        if not reserved:
            await self._reserve(now)
        with self._mutex:
            if not self._slots:
                return 0.001  # a 429 took them away meanwhile
            pause = self._slots[0] - now
            if pause <= 0:
                self._slots.pop(0)
                self._told = replace(self._told, remaining=self._told.remaining - 1)  # until an answer says it
            return pause

    def _now(self) -> float:
        """The time. If the clock was set back, all that is kept goes back with it: nobody waits for the difference."""
        with self._mutex:
            now = self._clock.now()
            back = self._seen - now
            if back <= LATE:
                self._seen = max(self._seen, now)
                return now
            self._seen, self._last, self._alone, self._until = now, self._last - back, self._alone - back, self._until - back
            self._slots = [slot - back for slot in self._slots]
            if self._told.at is not None:
                self._told = replace(self._told, at=self._told.at - back)
            return now

    async def _reserve(self, now: float) -> None:
        with self._mutex:
            interval, hold = self._told.interval(now), max(0.0, self._until - now)
            shared = self._pacer is not None and now >= self._alone and interval > 0
            slots, first = 1, 0.0
            if shared:
                slots = max(1, min(self._waiting, int(RESERVE_AHEAD / interval), self._told.remaining // 4))
        if shared and self._pacer is not None:
            try:
                first = await self._pacer(self._client_id, slots, interval, min(hold, 60.0))
            except Exception:
                slots, shared, self._alone = 1, False, now + 60.0
        with self._mutex:
            if not shared:
                first = max(self._last + interval - now, hold)
                self._last = now + first
            first = max(first, self._until - now)  # a 429 may have come meanwhile
            self._slots = [now + first + i * interval for i in range(slots)]

    def learn(self, answer: Answer[Any]) -> None:
        """Takes up what an answer to a read says, before its place is given to another."""
        now = self._now()
        limit, remaining = _number(answer, "ratelimit-limit"), _number(answer, "ratelimit-remaining")
        with self._mutex:
            told = self._told
            if limit and remaining is not None:
                self._told = _Told(now, limit, remaining, max(0 if told.old(now) else told.most, remaining))
            elif answer.status == 200:
                self._told = _Told(now)
            waited_for = bool(self._gate.queue)
            if answer.status == 429:
                if limit and remaining and now >= self._until:  # too many at one time; counted once for all that were
                    self._gate.places, self._refused = max(1.0, self._gate.places / 2), True
                spread = min(1.0, self._told.interval(now))
                self._until = max(self._until, now + answer.retry_after() + self._jitter(spread))
                self._slots = []
            elif answer.status == 200 and waited_for:
                self._gate.places = min(float(self._places), self._gate.places + (0.01 if self._refused else 0.25))


def _number(answer: Answer[Any], header: str) -> int | None:
    text = answer.headers.get(header, "")
    return min(int(text), MOST_BUDGET) if text.isascii() and text.isdigit() and len(text) < 20 else None
