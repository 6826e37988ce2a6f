"""A request of the contract, and its answer."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Generic, Mapping, TypeVar
from urllib.parse import quote, urlencode

from .errors import ServiceError, UnreachableError

T = TypeVar("T")


def path_part(value: str) -> str:
    return quote(value, safe="")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, without the service's address and the credentials. T is what the answer's JSON holds."""

    operation: str
    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    form: Mapping[str, object] | None = field(default=None, repr=False)

    def target(self) -> str:
        query = {name: value for name, value in self.query.items() if value is not None}
        return self.path + ("?" + urlencode(query) if query else "")

    def body(self) -> bytes | None:
        return None if self.form is None else urlencode(self.form).encode()


@dataclass(frozen=True)
class Answer(Generic[T]):
    """An answer that was read whole."""

    call: Call[T]
    service: str
    """The origin of the service."""
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def value(self) -> T:
        """What the answer says. What json says of a text that it cannot read quotes it, which may be that of a token: it is left out."""
        value = _json(self.body)
        if not isinstance(value, dict):
            raise UnreachableError("the answer is not JSON")
        return value  # type: ignore[return-value]

    def refusal(self) -> ServiceError:
        """The error answer: that of the OAuth endpoints has a string where that of the reads has an object."""
        value = _json(self.body)
        code = value.get("error") if isinstance(value, dict) else None
        if isinstance(code, dict):
            code = code.get("code")
        if not (isinstance(code, str) and 0 < len(code) <= 40 and set(code) <= _CODE):
            code = None
        return ServiceError(
            self.call.operation, self.status, code, self.headers.get("x-request-id"), self.headers.get("x-connect-reason"),
            code and f"{self.service}/developers/error-codes.html#{code}",
        )

    def not_attempted(self) -> bool:
        """Whether an error says that the request had no effect, so that its credential may be sent again."""
        return self.headers.get("connect-outcome") == "not-attempted"

    def retry_after(self) -> float:
        """What an answer asks for, in whole seconds, at least one (specification section 8), at most a day."""
        text = self.headers.get("retry-after", "")
        seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
        return min(max(seconds, 1), 86_400)


_CODE = frozenset("abcdefghijklmnopqrstuvwxyz_")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
