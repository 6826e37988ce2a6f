"""The rules of the contract, once for both clients. They are coroutines that leave all waiting to a `World`: that of asyncio waits in the
event loop; that of threads blocks instead, so that its coroutines run from beginning to end without a pause."""
from __future__ import annotations

import base64
import threading
from dataclasses import dataclass, field, replace
from typing import Any, AsyncIterator, Awaitable, Callable, Coroutine, Literal, NoReturn, Protocol, Sequence, TypeVar, get_args
from urllib.parse import quote_plus, urlsplit

from . import contract_gen as contract
from ._call import Answer, Call
from .authorize import Authorization, begin, belongs, query_of
from .days import Day, parts, text_of
from .errors import DeniedError, NotConnectedError, ReconnectError, SharedError, StateError, UnreachableError
from .pace import Clock, Pace, Pacer
from .store import AsyncLock, Connection, StoredConnection

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MOST_HOLD = 90.0
"""Seconds for which a refresh may hold its lock while it waits for Retry-After: the lock of a store may end by itself after three minutes."""

FIRST_BACKOFF, MOST_BACKOFF = 0.5, 30.0


OTHERS_TIMEOUT = 5.0
"""Seconds that may be spent on other keys of the same account: the browser of a user waits for it."""


class Running(Protocol[T_co]):
    """Work that goes on when nobody waits for it any more."""

    async def result(self) -> T_co: ...


class World(Clock, Protocol):
    """What the rules need of the world."""

    async def send(self, call: Call[T], authorization: str) -> Answer[T]:
        """Sends a request once, and reads the answer. Raises `UnreachableError`."""

    async def load(self, key: str) -> StoredConnection | None: ...

    async def lock(self, key: str) -> AsyncLock: ...

    keys_of: Callable[[str], Awaitable[list[str]]] | None
    """That of the store, as is the next, if it has them."""
    pacer: Pacer | None

    def start(self, work: Coroutine[Any, Any, T]) -> Running[T]: ...

    async def within(self, seconds: float, work: Running[None]) -> None:
        """Waits for work for so long, and does not say how it went."""


@dataclass(frozen=True)
class Options:
    base_url: str
    client_id: str
    client_secret: str = field(repr=False)
    callback_url: str
    scopes: Sequence[contract.Scope]
    timeout: float
    max_tries: int
    max_wait: float
    concurrent_reads: int
    jitter: Callable[[float], float]

    def __post_init__(self) -> None:
        base, callback = urlsplit(self.base_url), urlsplit(self.callback_url)
        if self.base_url != f"https://{base.netloc}" or not base.netloc or "@" in base.netloc:
            raise ValueError("connect: base_url must be an https origin, such as https://connect.example.com")
        if callback.scheme != "https" or not callback.netloc:
            raise ValueError("connect: callback_url must be the registered https address")
        if not self.client_id or not self.client_secret:
            raise ValueError("connect: client_id and client_secret are required")
        if isinstance(self.scopes, str) or not self.scopes or not set(self.scopes) <= set(get_args(contract.Scope)):
            raise ValueError(f"connect: scopes must be one or more of {', '.join(get_args(contract.Scope))}")
        if min(self.max_tries, self.concurrent_reads) < 1:
            raise ValueError("connect: max_tries and concurrent_reads must be 1 or more")


@dataclass
class _Flight:
    """A refresh under way in this process."""

    rejected: str | None
    """The access token that it is to replace."""
    running: Running[StoredConnection]


class Rules:
    def __init__(self, options: Options, world: World) -> None:
        self._options, self._world = options, world
        self._pace = Pace(world, options.client_id, options.concurrent_reads, options.jitter, world.pacer)
        # Both parts form-encoded, then joined (specification 5.1).
        pair = f"{quote_plus(options.client_id)}:{quote_plus(options.client_secret)}"
        self._basic = "Basic " + base64.b64encode(pair.encode()).decode()
        self._mutex = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    # The user's way to the service and back.

    def begin(self) -> Authorization:
        o = self._options
        return begin(o.base_url, o.client_id, o.callback_url, o.scopes, self._world.now())

    async def finish(self, key: str, begun: Authorization, callback: str) -> Connection:
        query = query_of(callback)
        if not belongs(begun, query, self._world.now()):
            raise StateError()
        if query.get("error") == ["access_denied"]:
            raise DeniedError()
        code = query.get("code", [""])[0]
        if not code:
            raise ValueError("connect: the callback has neither a code nor the user's no")
        # A browser that leaves now does not cost the tokens that its code gives.
        return await self._world.start(self._exchange(key, begun, code)).result()

    async def _exchange(self, key: str, begun: Authorization, code: str) -> Connection:
        call = contract.request_token({
            "grant_type": "authorization_code", "code": code, "redirect_uri": self._options.callback_url, "code_verifier": begun.verifier,
        })
        # The lock first: a code works once, and is not spent before there is a place for what it gives.
        lock = await self._world.lock(key)
        try:
            try:
                former = await lock.load()
            except Exception:
                former = None  # what cannot be read any more is replaced
            asked, answer = await self._persist("oauth", call, self._basic)
            if answer.status != 200:
                raise answer.refusal()
            connection = _connected(answer, asked)
            if former is not None:
                grants = [grant for grant in (*former.former_grants, former.grant_id) if grant != connection.grant_id]
                connection = replace(connection, former_grants=tuple(grants))
            await self._save(lock, connection)
        finally:
            await lock.unlock()
        others = await self._end_others(key, connection.grant_id, _number(connection) - 1)
        return replace(connection.without_secrets(), shared_with=tuple(others))

    # The tokens.

    async def connection(self, key: str) -> Connection:
        return _there(await self._world.load(key)).without_secrets()

    async def access_token(self, key: str) -> str:
        return _token(await self._fresh(key, None))

    async def refresh(self, key: str) -> Connection:
        held = _there(await self._world.load(key))
        return (await self._fresh(key, held.access_token)).without_secrets()

    async def _fresh(self, key: str, rejected: str | None) -> StoredConnection:
        """The connection with an access token that can be used and is not the rejected one."""
        held = _there(await self._world.load(key))
        while not self._usable(held, rejected):
            if held.state == "uncertain" or held.state == "ended":
                raise ReconnectError(held.state)
            with self._mutex:
                flight = self._flights.get(key)
                if flight is None:
                    flight = _Flight(rejected, self._world.start(self._fly(key, rejected)))
                    self._flights[key] = flight
            held = await flight.running.result()
            if held.access_token != rejected or flight.rejected == rejected:
                return held  # however short it lives
            # It is that of a refresh that began before our token was rejected.
        return held

    def _usable(self, held: StoredConnection, rejected: str | None) -> bool:
        return (
            held.access_token is not None and held.access_token != rejected and self._world.now() < held.use_until
            and held.state in ("active", "refreshing")
        )

    async def _fly(self, key: str, rejected: str | None) -> StoredConnection:
        try:
            lock = await self._world.lock(key)
            try:
                return await self._refresh(lock, rejected)
            finally:
                await lock.unlock()
        finally:
            with self._mutex:
                del self._flights[key]

    async def _refresh(self, lock: AsyncLock, rejected: str | None) -> StoredConnection:
        """Gets the next pair of tokens, unless somebody else got one while it waited for the lock. It sends the token again only if the
        service says that it was not used."""
        held = _there(await lock.load())
        if held.state == "refreshing" or held.state == "active" and not held.refresh_token:
            # The lock is ours: whoever sent the token has gone, and did not hear the answer.
            await self._end(lock, held, "uncertain", None)
        if held.state != "active":
            raise ReconnectError("ended" if held.state == "ended" else "uncertain")
        if self._usable(held, rejected):
            return held
        call = contract.request_token({"grant_type": "refresh_token", "refresh_token": held.refresh_token or ""})
        until = self._world.now() + MOST_HOLD
        tries = 1
        while True:
            await lock.save(replace(held, state="refreshing"))  # before it is sent: nothing can make us send it by mistake
            asked = self._world.now()
            try:
                answer = await self._world.send(call, self._basic)
            except UnreachableError as failure:
                if not failure.never_left:
                    await self._end(lock, held, "uncertain", failure)
                await self._save(lock, held)
                raise
            if answer.status == 200:
                try:
                    connection = _connected(answer, asked)
                except UnreachableError as failure:
                    await self._end(lock, held, "uncertain", failure)
                connection = replace(connection, former_grants=held.former_grants)
                await self._save(lock, connection)
                return connection
            refused = answer.refusal()
            if answer.status == 400 and refused.code == "invalid_grant":
                await self._end(lock, held, "ended", refused)
            early = answer.status in (400, 401) and refused.code is not None  # refused before it was looked at
            if not early and not answer.not_attempted():
                await self._end(lock, held, "uncertain", refused)
            await self._save(lock, held)
            wait = answer.retry_after()
            if early or tries == self._options.max_tries or wait > self._options.max_wait or self._world.now() + wait > until:
                raise refused
            tries += 1
            await self._world.sleep(wait)

    async def _end(self, lock: AsyncLock, held: StoredConnection, state: Literal["ended", "uncertain"], cause: Exception | None) -> NoReturn:
        await self._save(lock, held.over(state))
        raise ReconnectError(state) from cause

    async def _save(self, lock: AsyncLock, connection: StoredConnection) -> None:
        """Stores what was learned, and tries again: what is lost here is lost for good."""
        tries = 1
        while True:
            try:
                return await lock.save(connection)
            except Exception as failure:
                if tries == self._options.max_tries:
                    raise RuntimeError("connect: what the service answered could not be stored") from failure
            await self._world.sleep(self._backoff(tries))
            tries += 1

    # The reads.

    async def daily_steps(self, key: str, first: Day, last: Day) -> contract.DailyActivity:
        return await self._read(key, lambda grant_id: contract.read_daily_activity(grant_id, text_of(first), text_of(last)))

    async def cycling_daily(self, key: str, first: Day, last: Day) -> contract.CyclingDaily:
        return await self._read(key, lambda grant_id: contract.read_cycling_daily(grant_id, text_of(first), text_of(last)))

    async def step_days(self, key: str, first: Day, last: Day) -> AsyncIterator[contract.DailySteps]:
        for start, end in parts(first, last):
            for row in (await self.daily_steps(key, start, end))["data"]:
                yield row

    async def cycling_days(self, key: str, first: Day, last: Day) -> AsyncIterator[contract.CyclingDay]:
        for start, end in parts(first, last):
            for row in (await self.cycling_daily(key, start, end))["data"]:
                yield row

    async def cycling_activities(self, key: str, first: Day, last: Day, page_size: int | None) -> AsyncIterator[contract.CyclingActivity]:
        async for page in self.cycling_pages(key, first, last, page_size):
            for row in page["data"]:
                yield row

    async def cycling_pages(self, key: str, first: Day, last: Day, page_size: int | None) -> AsyncIterator[contract.CyclingActivities]:
        for start, end in parts(first, last):
            cursor: str | None = None
            while True:
                page = await self._read(
                    key, lambda grant_id: contract.read_cycling_activities(grant_id, start, end, page_size, cursor)
                )
                yield page
                cursor = page["meta"]["next_cursor"]
                if cursor is None:
                    break

    async def _read(self, key: str, call_of: Callable[[str], Call[T]]) -> T:
        """One read with an access token that works; a second time with a new one if the service does not accept that."""
        rejected: str | None = None
        while True:
            held = await self._fresh(key, rejected)
            _, answer = await self._persist("read", call_of(held.grant_id), "Bearer " + _token(held))
            if answer.status == 401 and rejected is None:
                rejected = held.access_token
                continue
            if answer.status != 200:
                raise answer.refusal()
            return answer.value()

    # The end of a connection.

    async def revoke(self, key: str) -> None:
        lock = await self._world.lock(key)
        try:
            held = _there(await lock.load())
            if held.state == "ended":
                return
            if held.state != "active" or not held.refresh_token:
                raise ReconnectError("uncertain")
            call = contract.revoke_token({"token": held.refresh_token, "token_type_hint": "refresh_token"})
            _, answer = await self._persist("oauth", call, self._basic)
            if answer.status != 200:
                raise answer.refusal()
            await self._save(lock, held.over("ended"))
        finally:
            await lock.unlock()

    async def disconnect(self, key: str) -> None:
        await self._disconnect(key, whole=True, shared=False)

    async def disconnect_shared(self, key: str) -> None:
        held = await self._disconnect(key, whole=True, shared=True)
        await self._end_others(key, held.grant_id, None)

    async def disconnect_former(self, key: str) -> None:
        await self._disconnect(key, whole=False, shared=False)

    async def _disconnect(self, key: str, whole: bool, shared: bool) -> StoredConnection:
        """Ends the former grants of a key and, if it is to be the whole of it, its connection. What other keys have is asked before the lock is
        taken: a lock may be the only connection to a database."""
        while True:
            seen = _there(await self._world.load(key))
            others = await self._others(key, seen.grant_id, _number(seen)) if whole and not shared else []
            theirs = {grant for grant in seen.former_grants if await self._others(key, grant, 0)}
            lock = await self._world.lock(key)
            try:
                held = _there(await lock.load())
                if (held.grant_id, held.former_grants) != (seen.grant_id, seen.former_grants):
                    continue  # it was connected anew meanwhile
                while held.former_grants:
                    if held.former_grants[0] not in theirs:
                        await self._end_grant(held.former_grants[0])
                    held = replace(held, former_grants=held.former_grants[1:])
                    await self._save(lock, held)
                if others:
                    raise SharedError(others)
                if whole:
                    await self._end_grant(held.grant_id)
                    await lock.delete()
                return held
            finally:
                await lock.unlock()

    async def _end_grant(self, grant_id: str) -> None:
        """Has the service end a grant. One that has ended already stays so."""
        _, answer = await self._persist("oauth", contract.disconnect_grant(grant_id), self._basic)
        if answer.status != 204:
            raise answer.refusal()

    async def forget(self, key: str) -> None:
        lock = await self._world.lock(key)
        try:
            await lock.delete()
        finally:
            await lock.unlock()

    async def _others(self, key: str, grant_id: str, since: int) -> list[str]:
        """The keys beside key whose connections have the grant, in a version from the given one on, and have not ended. A store without
        `keys_of` knows none."""
        others = []
        for other in await self._world.keys_of(grant_id) if self._world.keys_of else []:
            if other == key:
                continue
            try:
                held = await self._world.load(other)
            except Exception:
                others.append(other)  # it cannot be read
                continue
            if held is not None and held.grant_id == grant_id and held.state != "ended" and _number(held) >= since:
                others.append(other)
        return others

    async def _end_others(self, key: str, grant_id: str, version: int | None) -> list[str]:
        """Notes that the tokens of other keys do not work any more, whose connections have the grant in a version up to the given one, and
        returns these keys. What cannot be noted in time shows itself at their next refresh. The caller holds no lock: two that waited for each
        other's would wait for ever."""
        others: list[str] = []

        async def note() -> None:
            others.extend(await self._others(key, grant_id, 0))
            for other in others:
                try:
                    await self._end_other(other, grant_id, version)
                except Exception:
                    pass  # the next refresh shows it

        await self._world.within(OTHERS_TIMEOUT, self._world.start(note()))
        return others

    async def _end_other(self, key: str, grant_id: str, version: int | None) -> None:
        lock = await self._world.lock(key)
        try:
            held = await lock.load()
            if held is not None and held.grant_id == grant_id and held.state != "ended" and (version is None or _number(held) <= version):
                await self._save(lock, held.over("ended"))
        finally:
            await lock.unlock()

    async def ended(self, key: str, version: str) -> bool:
        seen = await self._world.load(key)
        lock = await self._world.lock(key)
        try:
            held = await lock.load()
            if seen is None or held is None or held.grant_id != seen.grant_id:
                return False  # the user connected another account while this waited for the lock
            if held.state == "ended" or int(version) < int(held.version):
                return False
            await self._save(lock, held.over("ended"))
            return True
        finally:
            await lock.unlock()

    # Trying again.

    async def _persist(self, kind: Literal["read", "oauth"], call: Call[T], authorization: str) -> tuple[float, Answer[T]]:
        """Sends a request until it succeeds, is refused for good (specification 7.4 for reads, 7.3 for the others; a refresh has a rule of
        its own) or was tried often enough. Returns the last answer, and when it was asked for."""
        waited, failures = 0.0, 0
        while True:
            answer: Answer[T] | None = None
            failure: UnreachableError | None = None
            if kind == "read":
                await self._pace.enter()
            try:
                asked = self._world.now()
                answer = await self._world.send(call, authorization)
                if kind == "read":
                    self._pace.learn(answer)
            except UnreachableError as unreachable:
                failure = unreachable
            finally:
                if kind == "read":
                    self._pace.leave()
            if kind == "read" and answer is not None and answer.status == 429:
                waited += answer.retry_after()
                if waited > self._options.max_wait:
                    return asked, answer
                continue
            failures += 1
            again = kind == "read" if answer is None else answer.status >= 500
            if not again or failures == self._options.max_tries:
                if answer is None:
                    assert failure is not None
                    raise failure
                return asked, answer
            pause = min(answer.retry_after(), self._options.max_wait) if answer is not None and answer.not_attempted() else 0.0
            await self._world.sleep(max(self._backoff(failures), pause))

    def _backoff(self, failures: int) -> float:
        """The wait after so many failures: twice as long each time, the upper half of it by chance."""
        most = min(FIRST_BACKOFF * 2.0 ** (failures - 1), MOST_BACKOFF)
        return most / 2 + self._options.jitter(most / 2)


def _there(held: StoredConnection | None) -> StoredConnection:
    if held is None:
        raise NotConnectedError()
    return held


def _number(held: StoredConnection) -> int:
    """The version as a number, which is above zero, or zero if it is none."""
    return int(held.version) if held.version.isascii() and held.version.isdigit() else 0


def _token(held: StoredConnection) -> str:
    assert held.access_token is not None
    return held.access_token


def _connected(answer: Answer[contract.TokenResponse], asked: float) -> StoredConnection:
    """The connection of a token answer that was asked for at the given time."""
    tokens = answer.value()
    try:
        lifetime = float(tokens["expires_in"])
        texts = [tokens["grant_id"], tokens["connection_version"], tokens["history_from"], tokens["scope"], tokens["access_token"], tokens["refresh_token"]]
        if not all(isinstance(text, str) for text in texts) or not tokens["access_token"] or not tokens["refresh_token"]:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise UnreachableError("the answer of the token endpoint cannot be read") from None
    return StoredConnection(
        tokens["grant_id"], tokens["connection_version"], tokens["history_from"], tokens["scope"], "active",
        tokens["access_token"], asked + lifetime - min(10.0, lifetime / 10), tokens["refresh_token"],
    )
