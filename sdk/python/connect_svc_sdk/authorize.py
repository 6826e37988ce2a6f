"""The user's way to the service and back, with PKCE."""
from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Sequence
from urllib.parse import parse_qs, urlencode, urlsplit

LIFETIME = 11 * 60
"""Seconds: that of the service's authorization request (specification 5.3), and a little for the way back."""


@dataclass(frozen=True)
class Authorization:
    """One attempt to connect. Keep it on the backend, in the session of the user who began it, and take it out of there when the browser
    comes back: it works once, and for that user alone (specification 5.3). `dataclasses.asdict` makes JSON of it, and
    `Authorization(**…)` reads that."""

    url: str
    """Where to send the browser."""
    state: str
    """Comes back with the browser."""
    verifier: str = field(repr=False)
    """Of PKCE; secret."""
    expires_at: float
    """Seconds of the epoch."""


def begin(base_url: str, client_id: str, callback_url: str, scopes: Sequence[str], now: float) -> Authorization:
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urlencode({
        "client_id": client_id, "redirect_uri": callback_url, "response_type": "code", "scope": " ".join(scopes), "state": state,
        "code_challenge": challenge, "code_challenge_method": "S256",
    })
    return Authorization(f"{base_url}/oauth/authorize?{query}", state, verifier, now + LIFETIME)


def query_of(callback: str) -> dict[str, list[str]]:
    """The parameters of a callback: its address, with or without the host, or the query of it alone."""
    if callback.startswith(("https://", "http://", "/")):
        callback = urlsplit(callback).query
    return parse_qs(callback.removeprefix("?"), keep_blank_values=True)


def belongs(begun: Authorization, query: dict[str, list[str]], now: float) -> bool:
    """Whether the browser brings back the state that it was sent with, once and in time."""
    states = query.get("state", [])
    return len(states) == 1 and begun.state != "" and now < begun.expires_at and hmac.compare_digest(begun.state.encode(), states[0].encode())
