"""The rules without a service: what a script of answers makes of the clients."""
from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
import threading
import unittest
import unittest.mock
from datetime import date, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from connect_svc_sdk import (
    AsyncClient, AsyncMemoryStore, Authorization, Client, DeniedError, MemoryStore, ReconnectError, ServiceError, StateError, StoredConnection,
    UnreachableError,
)
from connect_svc_sdk.days import parts
from connect_svc_sdk.pace import _Gate

REGISTRATION: Any = {
    "base_url": "https://connect.example", "client_id": "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55", "client_secret": "svci_s:/+",
    "callback_url": "https://partner.example/callback", "scopes": ["daily_steps:read"],
}
HELD = StoredConnection("7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", "3", "2026-11-20", "daily_steps:read", "active", "svca_1", 1000.0, "svcr2_1")


def tokens(n: int, **changes: Any) -> dict[str, Any]:
    return {
        "grant_id": HELD.grant_id, "history_from": "2026-11-20", "connection_version": "3", "access_token": f"svca_{n}", "token_type": "Bearer",
        "expires_in": 300, "refresh_token": f"svcr2_{n}", "scope": "daily_steps:read", **changes,
    }


class Script(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers in order, or fails. It keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[httpx.Request]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body, *more = answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(status, content=content, headers=more[0] if more else {})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self.handle_request(request)


class Rules(unittest.TestCase):
    def client(self, *answers: Any, held: StoredConnection | None = HELD, now: float = 2000.0, **options: Any) -> tuple[Client, Script, MemoryStore]:
        self.slept: list[float] = []
        script, store = Script(*answers), MemoryStore()
        if held:
            lock = store.lock("ada")
            lock.save(held)
            lock.unlock()
        client = Client(
            **{**REGISTRATION, "store": store, "http": httpx.Client(transport=script), "now": lambda: now + sum(self.slept), "sleep": self.slept.append, "jitter": lambda _: 0.0, **options}
        )
        return client, script, store

    def test_begin(self) -> None:
        client, _, _ = self.client()
        begun = client.begin()
        query = parse_qs(urlsplit(begun.url).query)
        self.assertEqual(query["redirect_uri"], ["https://partner.example/callback"])
        self.assertEqual(len(query["code_challenge"][0]), 43)
        self.assertRegex(begun.verifier, r"^[A-Za-z0-9._~-]{43,128}$")
        self.assertNotIn(begun.verifier, repr(begun) + begun.url)
        self.assertNotEqual(begun.state, client.begin().state)
        self.assertEqual(Authorization(**json.loads(json.dumps(dataclasses.asdict(begun)))), begun)

    def test_finish(self) -> None:
        client, script, store = self.client((200, tokens(1)), held=None)
        begun = client.begin()
        for callback in ["", "state=x&code=c", f"state={begun.state}&state={begun.state}&code=c", f"code=c&state={begun.state}%00"]:
            with self.subTest(callback), self.assertRaises(StateError):
                client.finish("ada", begun, callback)
        with self.assertRaises(StateError):
            client.finish("ada", dataclasses.replace(begun, expires_at=2000.0), f"state={begun.state}&code=c")
        with self.assertRaises(DeniedError):
            client.finish("ada", begun, f"state={begun.state}&error=access_denied")
        connection = client.finish("ada", begun, f"https://partner.example/callback?code=c%2B1&state={begun.state}")
        self.assertEqual((connection.grant_id, connection.state), (HELD.grant_id, "active"))
        request = script.requests[0]
        self.assertEqual(parse_qs(request.content.decode()), {
            "grant_type": ["authorization_code"], "code": ["c+1"], "redirect_uri": ["https://partner.example/callback"], "code_verifier": [begun.verifier],
        })
        self.assertEqual(request.headers["authorization"], httpx.BasicAuth("8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55", "svci_s%3A%2F%2B")._auth_header)
        self.assertRegex(request.headers["user-agent"], r"^connect-svc-sdk-python/\d")
        held = store.load("ada")
        assert held is not None
        self.assertEqual(held.use_until, 2000.0 + 290)
        self.assertNotIn("svc", repr(connection).replace(HELD.scope, ""))

    def test_what_a_refresh_leaves(self) -> None:
        not_attempted = {"Connect-Outcome": "not-attempted", "Retry-After": "3"}
        cases: dict[str, tuple[list[Any], str, type[Exception], list[float]]] = {
            "refused at once": ([(400, {"error": "invalid_request"})], "active", ServiceError, []),
            "another client": ([(401, {"error": "invalid_client"})], "active", ServiceError, []),
            "ended": ([(400, {"error": "invalid_grant"})], "ended", ReconnectError, []),
            "a page of a proxy": ([(400, b"<html>")], "uncertain", ReconnectError, []),
            "500": ([(500, {"error": "server_error"})], "uncertain", ReconnectError, []),
            "a redirect": ([(302, b"", {"Location": "https://elsewhere.example/"})], "uncertain", ReconnectError, []),
            "unreadable": ([(200, b"{")], "uncertain", ReconnectError, []),
            "without a token": ([(200, tokens(2, refresh_token=""))], "uncertain", ReconnectError, []),
            "too long": ([(200, b" " * (9 << 20) + json.dumps(tokens(2)).encode())], "uncertain", ReconnectError, []),
            "lost": ([httpx.ReadError("reset")], "uncertain", ReconnectError, []),
            "no answer in time": ([httpx.ReadTimeout("late")], "uncertain", ReconnectError, []),
            "no connection": ([httpx.ConnectError("refused")], "active", UnreachableError, []),
            "no connection in time": ([httpx.ConnectTimeout("late")], "active", UnreachableError, []),
            "no proxy": ([httpx.ProxyError("502 Bad Gateway")], "active", UnreachableError, []),
            "not attempted": ([(500, {"error": "server_error"}, not_attempted)] * 4, "active", ServiceError, [3.0, 3.0, 3.0]),
            "not attempted for long": ([(500, {"error": "server_error"}, {**not_attempted, "Retry-After": "80"})] * 2, "active", ServiceError, [80.0]),
        }
        for name, (answers, state, error, slept) in cases.items():
            with self.subTest(name):
                client, script, store = self.client(*answers)
                with self.assertRaises(error) as raised:
                    client.refresh("ada")
                held = store.load("ada")
                assert held is not None
                self.assertEqual((held.state, held.refresh_token), (state, "svcr2_1" if state == "active" else None))
                self.assertEqual((len(script.answers), self.slept), (0, slept))
                if error is ReconnectError:
                    self.assertIsNotNone(raised.exception.__cause__)
                texts = []
                failure: BaseException | None = raised.exception
                while failure is not None:
                    texts.append(repr(failure))
                    if isinstance(failure, httpx.RequestError):
                        texts.append(f"{failure.request.headers} {failure.request.content!r}")
                    failure = failure.__cause__
                self.assertNotRegex(" ".join(texts), "svcr2_|Basic|authorization")

    def test_a_refresh_that_was_not_attempted_is_sent_again(self) -> None:
        client, script, _ = self.client((500, {"error": "server_error"}, {"Connect-Outcome": "not-attempted", "Retry-After": "3"}), (200, tokens(2)))
        self.assertEqual(client.refresh("ada").state, "active")
        self.assertEqual([parse_qs(request.content.decode())["refresh_token"] for request in script.requests], [["svcr2_1"]] * 2)
        self.assertEqual(client.access_token("ada"), "svca_2")

    def test_it_is_saved_that_a_token_is_on_its_way_before_it_leaves(self) -> None:
        client, script, store = self.client((200, tokens(2)))
        states: list[Any] = []
        answered = script.handle_request

        def look(request: httpx.Request) -> httpx.Response:
            held = store.load("ada")
            states.append(held and held.state)
            return answered(request)

        script.handle_request = look  # type: ignore[method-assign]
        client.refresh("ada")
        self.assertEqual(states, ["refreshing"])

    def test_what_was_learned_is_saved_again(self) -> None:
        client, _, store = self.client((200, tokens(2)))
        failures = [OSError("the database is away")] * 2
        lock_of, saved = store.lock, list[str]()

        def lock(key: str) -> Any:
            taken = lock_of(key)
            save = taken.save

            def fails(connection: StoredConnection) -> None:
                saved.append(connection.state)
                if connection.state == "active" and failures:
                    raise failures.pop()
                save(connection)

            taken.save = fails  # type: ignore[method-assign]
            return taken

        store.lock = lock  # type: ignore[method-assign]
        self.assertEqual(client.refresh("ada").state, "active")
        self.assertEqual((saved, self.slept), (["refreshing", "active", "active", "active"], [0.25, 0.5]))

    def test_a_read_waits_in_sum_no_longer_than_it_may(self) -> None:
        client, script, _ = self.client(*[(429, {"error": {"code": "rate_limited"}}, {"Retry-After": "20"})] * 3, now=500.0, max_wait=50.0)
        with self.assertRaises(ServiceError) as raised:
            client.daily_steps("ada", "2026-11-20", "2026-11-21")
        self.assertEqual((raised.exception.code, len(script.answers)), ("rate_limited", 0))
        self.assertEqual(raised.exception.documentation, "https://connect.example/developers/error-codes.html#rate_limited")
        self.assertGreaterEqual(sum(self.slept), 40)

    def test_pages_and_ranges(self) -> None:
        def page(cursor: str | None, *rows: str) -> tuple[int, Any]:
            return 200, {"data": [{"id": row} for row in rows], "meta": {"next_cursor": cursor}}

        client, script, _ = self.client(page("c1", "a", "b"), page(None, "c"), page(None, "d"), now=500.0)
        rides = client.cycling_activities("ada", date(2026, 1, 1), datetime(2026, 2, 2, 12), 2)
        self.assertEqual(next(rides)["id"], "a")
        self.assertEqual(len(script.requests), 1)
        self.assertEqual([ride["id"] for ride in rides], ["b", "c", "d"])
        self.assertEqual([str(request.url.query, "ascii") for request in script.requests], [
            "from=2026-01-01&to=2026-01-31&limit=2", "from=2026-01-01&to=2026-01-31&limit=2&cursor=c1", "from=2026-02-01&to=2026-02-02&limit=2",
        ])

    def test_a_clock_that_is_set_back_stops_no_read(self) -> None:
        answer = (200, {"data": [], "meta": {}}, {"RateLimit-Limit": "600", "RateLimit-Remaining": "5"})
        for name, first in {"after an answer": answer, "after a 429": (429, {"error": {"code": "rate_limited"}}, {**answer[2], "Retry-After": "20"})}.items():
            with self.subTest(name):
                time, slept = [10_000.0], list[float]()

                def sleep(seconds: float) -> None:
                    slept.append(seconds)
                    time[0] += seconds

                _, script, store = self.client(first, answer, answer)
                client = Client(
                    **REGISTRATION, store=store, http=httpx.Client(transport=script), now=lambda: time[0], sleep=sleep, max_wait=10.0, jitter=lambda _: 0.0
                )
                lock = store.lock("ada")
                lock.save(dataclasses.replace(HELD, use_until=9e9))
                lock.unlock()
                if first[0] == 429:
                    with self.assertRaises(ServiceError):
                        client.daily_steps("ada", "2026-11-20", "2026-11-21")
                time[0] -= 3600
                for _ in script.answers[:]:
                    client.daily_steps("ada", "2026-11-20", "2026-11-21")
                    time[0] -= 3600
                # All that is waited for are the slots, and what is left of the Retry-After.
                self.assertTrue(20 * (first[0] == 429) <= sum(slept) < 25, slept)

    def test_options(self) -> None:
        for change in [
            {"base_url": "http://connect.example"}, {"base_url": "https://connect.example/"}, {"base_url": "https://me@connect.example"},
            {"callback_url": "http://partner.example"}, {"client_secret": ""}, {"scopes": []}, {"scopes": "daily_steps:read"}, {"scopes": ["steps"]},
            {"max_tries": 0}, {"concurrent_reads": 0},
        ]:
            with self.subTest(change), self.assertRaises(ValueError):
                Client(**{**REGISTRATION, **change})

    def test_ranges(self) -> None:
        for first, last, want in [
            ("2026-11-20", "2026-11-20", [("2026-11-20", "2026-11-20")]),
            ("2026-01-01", "2026-01-31", [("2026-01-01", "2026-01-31")]),
            ("2026-01-01", "2026-02-01", [("2026-01-01", "2026-01-31"), ("2026-02-01", "2026-02-01")]),
            ("2024-02-01", "2024-03-03", [("2024-02-01", "2024-03-02"), ("2024-03-03", "2024-03-03")]),
            ("2026-11-21", "2026-11-20", [("2026-11-21", "2026-11-20")]),
            ("20260101", "2027-01-01", [("20260101", "2027-01-01")]),
            ("x", "2027-01-01", [("x", "2027-01-01")]),
        ]:
            self.assertEqual(list(parts(first, last)), want, (first, last))
        self.assertEqual(len(list(parts("2020-01-01", "2026-11-20"))), 82)


class Cancelled(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    def client(self, *answers: Any, **options: Any) -> tuple[AsyncClient, Script, AsyncMemoryStore]:
        script, store = Script(*answers), AsyncMemoryStore()
        answered = script.handle_async_request

        async def slow(request: httpx.Request) -> httpx.Response:
            self.asked.set()
            await self.may_answer.wait()
            return await answered(request)

        script.handle_async_request = slow  # type: ignore[method-assign]
        return AsyncClient(**REGISTRATION, store=store, http=httpx.AsyncClient(transport=script), **options), script, store

    async def hold(self, store: AsyncMemoryStore, held: StoredConnection = HELD) -> None:
        lock = await store.lock("ada")
        await lock.save(held)
        await lock.unlock()

    async def cancelled(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        await self.asked.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.may_answer.set()

    async def test_a_refresh_goes_on_when_its_caller_is_cancelled(self) -> None:
        client, script, store = self.client((200, tokens(2)))
        await self.hold(store)
        await self.cancelled(client.refresh("ada"))
        await client.wait()
        held = await store.load("ada")
        assert held is not None
        self.assertEqual((held.state, held.refresh_token, len(script.requests)), ("active", "svcr2_2", 1))

    async def test_a_refresh_that_begins_while_the_end_waits_is_waited_for_too(self) -> None:
        client, script, store = self.client()
        await self.hold(store)
        lock = await store.lock("bob")
        await lock.save(dataclasses.replace(HELD, refresh_token="svcr2_bob"))
        await lock.unlock()
        may_answer = {"svcr2_1": asyncio.Event(), "svcr2_bob": asyncio.Event()}

        async def service(request: httpx.Request) -> httpx.Response:
            self.asked.set()
            await may_answer[parse_qs(request.content.decode())["refresh_token"][0]].wait()
            return httpx.Response(200, json=tokens(2))

        script.handle_async_request = service  # type: ignore[method-assign]
        reads = [asyncio.ensure_future(client.refresh("ada"))]
        await self.asked.wait()
        end = asyncio.ensure_future(client.wait())
        await asyncio.sleep(0)
        self.asked.clear()
        reads.append(asyncio.ensure_future(client.refresh("bob")))
        await self.asked.wait()
        may_answer["svcr2_1"].set()
        await reads[0]
        await asyncio.sleep(0.01)
        self.assertFalse(end.done(), "the process ends in the middle of a refresh")
        may_answer["svcr2_bob"].set()
        await end
        self.assertEqual((await reads[1]).state, "active")

    async def test_so_does_an_exchange(self) -> None:
        client, _, store = self.client((200, tokens(1)))
        begun = client.begin()
        await self.cancelled(client.finish("ada", begun, f"code=c&state={begun.state}"))
        await client.wait()
        self.assertIsNotNone(await store.load("ada"))

    async def test_a_read_that_gives_up_hands_its_place_to_the_next(self) -> None:
        answer = (200, {"data": [], "meta": {}})
        client, _, store = self.client(answer, answer, concurrent_reads=1)
        await self.hold(store, dataclasses.replace(HELD, use_until=9e9))
        reads = [asyncio.ensure_future(client.daily_steps("ada", "2026-11-20", "2026-11-21")) for _ in range(3)]
        await self.asked.wait()
        reads[1].cancel()
        reads[0].cancel()
        self.may_answer.set()
        self.assertEqual((await reads[2])["data"], [])


    async def test_who_gives_up_with_the_place_in_hand_hands_it_on(self) -> None:
        gate = _Gate(AsyncClient(**REGISTRATION)._world.turn, 1)
        await gate.enter()
        second, third = asyncio.ensure_future(gate.enter()), asyncio.ensure_future(gate.enter())
        await asyncio.sleep(0)
        gate.leave()  # the place is the second's, who does not know yet
        second.cancel()
        await third
        self.assertTrue(second.cancelled())


class Races(unittest.TestCase):
    def test_an_access_token_that_is_rejected_during_a_refresh_of_another_is_replaced(self) -> None:
        """Two threads whose tokens are rejected refresh once."""
        script, store = Script((200, tokens(2))), MemoryStore()
        lock = store.lock("ada")
        lock.save(dataclasses.replace(HELD, use_until=9e9))
        lock.unlock()
        rejected, barrier = {"Bearer svca_1"}, threading.Barrier(2)
        mutex = threading.Lock()
        answered = script.handle_request

        def service(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/oauth/token":
                with mutex:
                    return answered(request)
            if request.headers["authorization"] in rejected:
                barrier.wait()
                return httpx.Response(401, json={"error": {"code": "invalid_access_token"}})
            return httpx.Response(200, json={"data": [], "meta": {}})

        script.handle_request = service  # type: ignore[method-assign]
        client = Client(**REGISTRATION, store=store, http=httpx.Client(transport=script))
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(client.daily_steps("ada", "2026-11-20", "2026-11-21")["data"])) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((results, len(script.requests)), ([[], []], 1))

    def test_a_refresh_that_begins_while_the_end_waits_is_waited_for_too(self) -> None:
        store, asked = MemoryStore(), threading.Semaphore(0)
        may_answer = {"svcr2_ada": threading.Event(), "svcr2_bob": threading.Event()}
        for key in ("ada", "bob"):
            lock = store.lock(key)
            lock.save(dataclasses.replace(HELD, refresh_token=f"svcr2_{key}"))
            lock.unlock()

        def service(request: httpx.Request) -> httpx.Response:
            asked.release()
            may_answer[parse_qs(request.content.decode())["refresh_token"][0]].wait(10)
            return httpx.Response(200, json=tokens(2))

        client = Client(**REGISTRATION, store=store, http=httpx.Client(transport=httpx.MockTransport(service)))
        reads = [threading.Thread(target=client.refresh, args=[key]) for key in ("ada", "bob")]
        reads[0].start()
        asked.acquire()
        end = threading.Thread(target=client.close)
        end.start()
        while not client._world._running.copy().pop()._condition._waiters:  # type: ignore[attr-defined] # the end waits
            pass
        reads[1].start()
        asked.acquire()
        may_answer["svcr2_ada"].set()
        reads[0].join()
        end.join(0.2)
        self.assertTrue(end.is_alive(), "the process ends in the middle of a refresh")
        may_answer["svcr2_bob"].set()
        for thread in (end, reads[1]):
            thread.join()
        held = store.load("bob")
        assert held is not None
        self.assertEqual(held.state, "active")

    def test_a_process_that_ends_waits_for_a_refresh_that_a_daemon_began(self) -> None:
        """The threads of many servers are daemons, for which Python does not wait."""
        program = f"""
import dataclasses, sys, threading, time
sys.path[:0] = {sys.path!r}
from test_rules import HELD, REGISTRATION, tokens
import httpx
from connect_svc_sdk import Client, MemoryStore

store, sent = MemoryStore(), threading.Event()
lock = store.lock("ada")
lock.save(HELD)
lock.unlock()

def service(request):
    sent.set()
    time.sleep(0.5)
    return httpx.Response(200, json=tokens(2))

class Told(dict):
    def __setitem__(self, key, held):
        dict.__setitem__(self, key, held)
        print(held.state, held.refresh_token, flush=True)

store._connections = Told(store._connections)
client = Client(**REGISTRATION, store=store, http=httpx.Client(transport=httpx.MockTransport(service)))
threading.Thread(target=client.refresh, args=["ada"], daemon=True).start()
sent.wait()
"""
        ended = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True)
        self.assertEqual((ended.stdout, ended.stderr), ("refreshing svcr2_1\nactive svcr2_2\n", ""))

    def test_a_refresh_for_which_there_was_no_thread_is_not_waited_for(self) -> None:
        store = MemoryStore()
        lock = store.lock("ada")
        lock.save(HELD)
        lock.unlock()
        client = Client(**REGISTRATION, store=store, http=httpx.Client(transport=Script()))
        with unittest.mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")), self.assertRaises(RuntimeError):
            client.refresh("ada")
        end = threading.Thread(target=client.close, daemon=True)
        end.start()
        end.join(10)
        self.assertFalse(end.is_alive(), "the process does not end")
