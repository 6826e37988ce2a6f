"""When reads may go: all reads of a client share it."""
from __future__ import annotations

import threading
from typing import Protocol


class Turn(Protocol):
    """A signal for one who waits."""

    def set(self) -> None: ...

    async def wait(self) -> None: ...


class Clock(Protocol):
    """What the pace needs of the world."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def turn(self) -> Turn: ...


class Pace:
    """No more reads at a time than allowed, and none before the time that the service asked for in a 429 to any of them."""

    def __init__(self, clock: Clock, concurrent_reads: int) -> None:
        self._clock, self._places = clock, concurrent_reads
        self._mutex = threading.Lock()
        self._running = 0
        self._waiting: list[Turn] = []  # in the order in which they came
        self._until = 0.0

    async def enter(self) -> None:
        """Takes a place, and waits in it while the service wants no reads. Who gives up meanwhile hands it to the next."""
        with self._mutex:
            turn = None
            if self._running < self._places:
                self._running += 1
            else:
                turn = self._clock.turn()
                self._waiting.append(turn)
        try:
            if turn is not None:
                await turn.wait()
            while (pause := self._until - self._clock.now()) > 0:
                await self._clock.sleep(pause)
        except BaseException:
            with self._mutex:
                waits = turn in self._waiting
                if turn is not None and waits:
                    self._waiting.remove(turn)
            if not waits:
                self.leave()
            raise

    def leave(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.pop(0).set()  # the place is theirs
            else:
                self._running -= 1

    def hold(self, seconds: float) -> None:
        with self._mutex:
            self._until = max(self._until, self._clock.now() + seconds)
