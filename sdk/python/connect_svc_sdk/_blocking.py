"""Coroutines without an event loop."""
from __future__ import annotations

from typing import Any, AsyncIterator, Callable, Coroutine, Iterator, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in this thread, from beginning to end: whatever it awaits blocks instead of suspending it."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("connect: a coroutine of threads must not suspend")


def each(rows: AsyncIterator[T]) -> Iterator[T]:
    """What an asynchronous iterator has, in this thread."""
    while True:
        try:
            yield run(rows.__anext__())  # type: ignore[arg-type]
        except StopAsyncIteration:
            return


def blocking(function: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """A function as one that can be awaited."""

    async def call(*arguments: Any) -> T:
        return function(*arguments)

    return call
