"""Reads a user's walking and cycling activity, with the user's consent: the client of an Activity Connect service.

`Client` is for threads, `AsyncClient` for asyncio. `pgstore` keeps connections in PostgreSQL, and `webhook` verifies webhooks.
"""
from ._version import __version__
from .aio import AsyncClient
from .authorize import Authorization
from .client import Client
from .contract_gen import CyclingActivities, CyclingActivity, CyclingDaily, CyclingDay, DailyActivity, DailySteps, Scope
from .errors import DeniedError, NotConnectedError, ReconnectError, ServiceError, SharedError, StateError, UnreachableError
from .store import AsyncLock, AsyncMemoryStore, AsyncStore, Connection, Lock, MemoryStore, State, Store, StoredConnection
from .webhook import BodyParsedError, WebhookCall, WebhookError, WebhookEvent, verify_webhook

__all__ = [
    "AsyncClient", "AsyncLock", "AsyncMemoryStore", "AsyncStore", "Authorization", "BodyParsedError", "Client", "Connection",
    "CyclingActivities", "CyclingActivity", "CyclingDaily", "CyclingDay", "DailyActivity", "DailySteps", "DeniedError", "Lock", "MemoryStore",
    "NotConnectedError", "ReconnectError", "Scope", "ServiceError", "SharedError", "State", "StateError", "Store", "StoredConnection", "UnreachableError",
    "WebhookCall", "WebhookError", "WebhookEvent", "__version__", "verify_webhook",
]
