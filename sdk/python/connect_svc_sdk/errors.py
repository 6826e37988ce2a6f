"""What can go wrong, each with a class of its own. No error has a token, a code or a secret in it."""
from __future__ import annotations

from typing import Literal


class ReconnectError(Exception):
    """The user must connect again; nothing else helps. Its `__cause__` is what says so: the answer (`ServiceError`), or the failure of the
    network (`UnreachableError`); None if it came to an earlier call."""

    def __init__(self, state: Literal["ended", "uncertain"]) -> None:
        super().__init__(
            "connect: the user must connect again: "
            + ("it is not known whether a refresh used up its token" if state == "uncertain" else "the connection was revoked, disconnected or lapsed")
        )
        self.state = state
        """`ended`: revoked, disconnected by the user or lapsed. `uncertain`: a refresh may have used up its token."""


class NotConnectedError(Exception):
    """The store has no connection of that key."""

    def __init__(self) -> None:
        super().__init__("connect: not connected")


class DeniedError(Exception):
    """The user did not agree. Nothing was connected."""

    def __init__(self) -> None:
        super().__init__("connect: the user did not agree")


class StateError(Exception):
    """The browser came back with an answer to another question than the one that it was sent with, or too late."""

    def __init__(self) -> None:
        super().__init__("connect: the callback does not belong to this authorization")


class SharedError(Exception):
    """The connection was not disconnected, because it is also that of other keys: two users connected the same account, and disconnecting the
    one would end the other."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(f"connect: not disconnected: {len(keys)} more of the keys have the same account")
        self.keys = keys
        """The others."""


class UnreachableError(Exception):
    """No answer, or one that broke off or cannot be read. Its `__cause__` is the failure of the network."""

    def __init__(self, why: str, never_left: bool = False) -> None:
        super().__init__(f"connect: the service cannot be reached: {why}")
        self.never_left = never_left
        """Whether it is known that no byte of the request reached the service: there was no connection, or not a verified one."""


class ServiceError(Exception):
    """An answer of the service that is an error: what is to be logged of it, and no more (specification section 7)."""

    def __init__(
        self, operation: str, status: int, code: str | None, request_id: str | None, reason: str | None = None, documentation: str | None = None
    ) -> None:
        super().__init__(
            f"connect: {operation}: the answer was {status}"
            + (f" {code}" if code else "") + (f" (request {request_id})" if request_id else "") + (f": {reason}" if reason else "")
        )
        self.operation = operation
        """Of the OpenAPI document, such as `readDailyActivity`."""
        self.status = status
        self.code = code
        """Such as `invalid_date_range`; None when the answer is not the service's own."""
        self.request_id = request_id
        """`X-Request-ID`, with which the operator finds the request."""
        self.reason = reason
        """What is wrong, in fixed words that name the parameter. Only a sandbox tells it."""
        self.documentation = documentation
        """The address of the page about the code; None without a code."""
