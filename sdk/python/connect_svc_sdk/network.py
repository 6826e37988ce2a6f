"""Sending with httpx, and knowing what left."""
from __future__ import annotations

import time
from typing import Any, Iterator, Mapping

import httpx

from ._call import Answer, Call, T
from ._version import __version__
from .errors import UnreachableError

MOST_ANSWER = 8 << 20
"""Bytes: a page of 500 activities has about 150 kB."""

CONNECT_TIMEOUT = 10.0
"""Seconds that the connection may take, and again its TLS handshake."""

REFUSED_STREAM = 7  # an error code of HTTP/2 (RFC 9113, section 7)


class Watch:
    """Notes, by the trace of httpcore, whether a byte of a request was handed to a connection to the service. A connection is handed out
    only after TCP, the proxy's CONNECT and the verified TLS handshake."""

    def __init__(self, traced: bool) -> None:
        self.sent = False
        self.stream: int | None = None
        self._traced = traced  # whether the transport is known to have a trace

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        self._traced = True
        if event in ("http11.send_request_headers.started", "http2.send_request_headers.started"):
            request = info.get("request")
            if getattr(request, "method", None) != b"CONNECT":  # which goes to the proxy, and has nothing of ours
                self.sent, self.stream = True, info.get("stream_id")

    async def note_async(self, event: str, info: Mapping[str, Any]) -> None:
        self.note(event, info)

    def never_left(self, failure: BaseException) -> bool:
        if not self.sent:
            return self._traced or isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))
        return self.stream is not None and any(_unprocessed(event, self.stream) for event in _events(failure))


def _events(failure: BaseException | None) -> Iterator[object]:
    """The events of HTTP/2 that httpcore gives as the reasons of its errors."""
    while failure is not None:
        yield from failure.args
        failure = failure.__cause__ or failure.__context__


def _unprocessed(event: object, stream: int) -> bool:
    """Whether the service says that nobody looked at a request: it refused the stream, or went away before it."""
    kind = type(event).__name__
    if kind == "StreamReset":
        return getattr(event, "error_code", None) == REFUSED_STREAM and getattr(event, "stream_id", None) == stream
    last = getattr(event, "last_stream_id", None)
    return kind == "ConnectionTerminated" and isinstance(last, int) and last < stream


class Exchange:
    """One request with its answer."""

    def __init__(self, service: str, call: Call[T], authorization: str, timeout: float, traced: bool) -> None:
        self._service, self._call, self._timeout = service, call, timeout
        self._ends = time.monotonic() + timeout
        self._body = bytearray()
        self.watch = Watch(traced)
        headers = {"Authorization": authorization, "User-Agent": f"connect-svc-sdk-python/{__version__}", "Accept": "application/json"}
        body = call.body()
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self.request = httpx.Request(call.method, service + call.target(), headers=headers, content=body)

    def extensions(self, trace: object) -> dict[str, Any]:
        limits = httpx.Timeout(self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout))
        return {"timeout": limits.as_dict(), "trace": trace}

    def take(self, piece: bytes) -> None:
        self._body += piece
        if len(self._body) > MOST_ANSWER:
            raise ValueError("the answer is too long")
        if time.monotonic() > self._ends:
            raise TimeoutError("the answer takes too long")

    def answer(self, response: httpx.Response) -> Answer[Any]:
        return Answer(self._call, self._service, response.status_code, response.headers, bytes(self._body))

    def failed(self, failure: Exception) -> UnreachableError:
        """The failure, without the request, which has credentials."""
        if isinstance(failure, httpx.RequestError):
            failure.request = httpx.Request(self._call.method, self._service)
        error = UnreachableError(f"{type(failure).__name__}: {failure}", self.watch.never_left(failure))
        error.__cause__ = failure
        return error
