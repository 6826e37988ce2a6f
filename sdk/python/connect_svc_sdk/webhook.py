"""Verifies the calls that the service makes to a webhook address, and reads the events in them (Standard Webhooks 1.0)."""
from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from dataclasses import dataclass
from typing import Mapping, Union

from .contract_gen import ActivityUpdatedEvent, ConnectionRevokedEvent

TOLERANCE = 5 * 60
"""How far the time of a call may be from ours, in seconds, in both directions."""

WebhookEvent = Union[ConnectionRevokedEvent, ActivityUpdatedEvent]
"""`event["type"]` tells which one. There may be types that are newer than this code: answer as to any other, and ignore it."""


class WebhookError(Exception):
    """A call that is not to be believed, or not to be understood; the message says why."""


class BodyParsedError(WebhookError):
    """The body is what a framework made of the bytes, which cannot be verified any more."""

    def __init__(self) -> None:
        super().__init__("the body was parsed already: pass the bytes that came, such as request.get_data() of Flask, request.body of Django or await request.body() of Starlette")


@dataclass(frozen=True)
class WebhookCall:
    """A call that the service made."""

    id: str
    """The same in every attempt to deliver the event: take each id once."""
    event: WebhookEvent


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes | str, now: float | None = None) -> WebhookCall:
    """Tells whether the service made a call, now, and reads its event. The body must be the bytes that came. While the secret is rotated,
    each call is signed with both: the one that you have is enough. `now` is in seconds of the epoch, for a call that waited in a queue.

    Raises `BodyParsedError` if the body is what a framework made of the bytes, and `WebhookError` if the call is not to be believed.
    """
    if isinstance(body, str):
        body = body.encode(errors="replace")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise BodyParsedError()
    body = bytes(body)
    key = _base64(secret[len("whsec_"):])
    if not secret.startswith("whsec_") or key is None or len(key) < 24:
        raise WebhookError("the signing secret is not whsec_ and base64 of 24 bytes or more")
    given: dict[str, list[str]] = {}
    for name, value in headers.items():
        given.setdefault(name.lower(), []).append(value)

    def header(name: str) -> str:
        values = given.get(name, [])
        if len(values) != 1 or not isinstance(values[0], str) or not values[0]:
            raise WebhookError(f"the call has no usable header {name}")
        return values[0]

    call_id, timestamp = header("webhook-id"), header("webhook-timestamp")
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise WebhookError("webhook-timestamp is not a number of seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE:
        raise WebhookError("the call was not signed within 5 minutes of now")
    want = hmac.new(key, f"{call_id}.{timestamp}.".encode(errors="replace") + body, hashlib.sha256).digest()
    signatures = [_base64(part[len("v1,"):]) for part in header("webhook-signature").split(" ") if part.startswith("v1,")]
    if not any([hmac.compare_digest(want, signature) for signature in signatures if signature is not None]):
        raise WebhookError("no signature of the call matches")
    try:
        event = json.loads(body)
    except ValueError:
        event = None
    if not (isinstance(event, dict) and isinstance(event.get("type"), str) and isinstance(event.get("data"), dict)):
        raise WebhookError("the call is genuine, but its body is no event")
    return WebhookCall(call_id, event)  # type: ignore[arg-type]


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
