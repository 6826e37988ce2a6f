"""The scenarios of the SDKs against a running service, with threads and with asyncio; Go plays the same, by the same names:
internal/testing/e2e/sdk/go_test.go. The test that starts this program starts the service, too."""
from __future__ import annotations

import base64
import threading
import unittest
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable

import httpx
from control import KINDS, Kind, User, clock, plant, seen

from connect_svc_sdk import DeniedError, NotConnectedError, ReconnectError, ServiceError, StateError

Scenario = Callable[["Played", Kind], None]
scenarios: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def add(play: Scenario) -> Scenario:
        scenarios[name] = play
        return play

    return add


class Played(unittest.TestCase):
    """One scenario with one kind of client and store."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__("play")
        self._kind, self._name = kind, name

    def __str__(self) -> str:
        return f"{self._kind.name}/{self._name}"

    def play(self) -> None:
        self.addCleanup(self._kind.close)
        scenarios[self._name](self, self._kind)

    def reconnects(self, state: str, act: Callable[[], object]) -> ReconnectError:
        with self.assertRaises(ReconnectError) as raised:
            act()
        self.assertEqual(raised.exception.state, state)
        return raised.exception


def load_tests(loader: unittest.TestLoader, tests: object, pattern: object) -> unittest.TestSuite:
    return unittest.TestSuite(Played(kind, name) for kind in KINDS for name in scenarios)


@scenario("connect and read all three datasets with paging")
def reads(t: Played, kind: Kind) -> None:
    user = User(kind)
    day = user.connect().history_from
    t.assertEqual(user.steps()["data"][0]["steps"], 4321)
    cycling = user.client.cycling_daily(user.key, day, day)
    t.assertEqual([(row["distance_meters"], row["updated_at"]) for row in cycling["data"]], [(6000, None)])
    before = seen("cycling-activities")
    t.assertEqual([ride["distance_meters"] for ride in user.client.cycling_activities(user.key, day, day, 2)], [1000, 2000, 3000])
    t.assertEqual(seen("cycling-activities") - before, 2)
    t.assertEqual([row["steps"] for row in user.client.step_days(user.key, day, day)], [4321])
    with t.assertRaises(ServiceError) as raised:
        user.client.daily_steps(user.key, day, "2099-01-01")
    t.assertEqual((raised.exception.code, raised.exception.status), ("invalid_date_range", 400))
    t.assertIsNotNone(raised.exception.request_id)


@scenario("a user says no")
def denied(t: Played, kind: Kind) -> None:
    user = User(kind)
    before = seen("token")
    begun = user.client.begin()
    with t.assertRaises(DeniedError):
        user.client.finish(user.key, begun, f"state={begun.state}&error=access_denied")
    with t.assertRaises(StateError):
        user.client.finish(user.key, user.client.begin(), user.authorize(begun.url))
    with t.assertRaises(NotConnectedError):
        user.steps()
    t.assertEqual(seen("token"), before)


@scenario("eight reads at once refresh once")
def refreshes_once(t: Played, kind: Kind) -> None:
    user = User(kind)
    first = user.connect()
    token = user.held().refresh_token
    clock.advance(360)
    instances = [user.client, user.instance(user.store)]
    before = seen("token")
    with ThreadPoolExecutor(8) as pool:
        day = first.history_from
        answers = list(pool.map(lambda i: instances[i % 2].daily_steps(user.key, day, day), range(8)))
    t.assertEqual([answer["data"][0]["steps"] for answer in answers], [4321] * 8)
    t.assertEqual(seen("token") - before, 1)
    second = user.held()
    t.assertNotEqual(second.refresh_token, token)
    t.assertEqual((second.grant_id, second.version), (first.grant_id, first.version))


@scenario("a used refresh token is never sent again")
def replay(t: Played, kind: Kind) -> None:
    user = User(kind)
    user.connect()
    for _ in range(3):
        user.client.refresh(user.key)  # a chain: each token once
    # The process ends while its refresh is on the way: the next one must not send the token again.
    lock = user.store.lock(user.key)
    lock.save(replace(user.held(), state="refreshing"))
    lock.unlock()
    clock.advance(360)
    before = seen("token")
    t.reconnects("uncertain", user.steps)
    t.assertEqual(seen("token"), before)
    # Somebody stole a token and used it: the service ends the connection, and the SDK says so.
    user.connect()
    thief = next(other for other in KINDS if other.threads == kind.threads).new_store()
    theirs = thief.lock(user.key)
    theirs.save(user.held())
    theirs.unlock()
    user.instance(thief).refresh(user.key)
    error = t.reconnects("ended", lambda: user.client.refresh(user.key))
    assert isinstance(error.__cause__, ServiceError)
    t.assertEqual(error.__cause__.code, "invalid_grant")


@scenario("a 429 holds back the whole pool")
def rate_limited(t: Played, kind: Kind) -> None:
    user = User(kind, RequestsPerMinute=1, Burst=2)
    day = user.connect().history_from
    user.steps()
    # Another program spends the rest of the budget, and the client does not know.
    answer = httpx.get(
        f"{user.partner['baseUrl']}/connect-svc/v1/grants/{user.held().grant_id}/cycling-activities", params={"from": day, "to": day},
        headers={"Authorization": "Bearer " + user.client.access_token(user.key)},
    )
    t.assertEqual(answer.status_code, 200)
    steps, cycling = seen("daily-activity"), seen("cycling-daily")
    # The wait after the 429 begins a second read, which is not to be sent before the time has come.
    second = threading.Thread(target=lambda: user.client.cycling_daily(user.key, day, day))

    def sleep(seconds: float) -> None:
        if seconds > 30 and second.ident is None:
            second.start()
        clock.advance(seconds)

    user.sleep = sleep
    user.steps()
    second.join()
    t.assertEqual((seen("daily-activity") - steps, seen("cycling-daily") - cycling), (2, 1), user.slept)


@scenario("a 503 is tried again")
def unavailable(t: Played, kind: Kind) -> None:
    user = User(kind)
    user.connect()
    for _ in range(3):
        plant("daily-activity", "unavailable")
    t.assertEqual(len(user.steps()["data"]), 1)
    # Beside these it waits for slots, which the database gives by its own clock.
    t.assertEqual([wait for wait in user.slept if wait in (0.25, 0.5, 1.0)], [0.25, 0.5, 1.0], user.slept)
    for _ in range(4):
        plant("daily-activity", "unavailable")
    with t.assertRaises(ServiceError) as raised:
        user.steps()
    t.assertEqual(raised.exception.code, "data_unavailable")
    plant("daily-activity", "lost")
    t.assertEqual(len(user.steps()["data"]), 1)


@scenario("a refresh of unknown outcome is not repeated")
def uncertain(t: Played, kind: Kind) -> None:
    user = User(kind)
    for fault in ["lost", "swallowed", "unavailable"]:
        first = user.connect()
        clock.advance(360)
        plant("/oauth/token", fault)
        before = seen("token")
        t.assertIsNotNone(t.reconnects("uncertain", user.steps).__cause__, fault)
        t.reconnects("uncertain", user.steps)
        t.assertEqual(seen("token") - before, 1, fault)
        held = user.held()
        t.assertEqual(held.without_secrets(), replace(first, state="uncertain"))
        t.assertEqual((held.access_token, held.refresh_token), (None, None))
        t.reconnects("uncertain", lambda: user.client.revoke(user.key))
    user.connect()
    user.steps()


@scenario("a rejected access token is refreshed once")
def rejected(t: Played, kind: Kind) -> None:
    user = User(kind)
    user.connect()
    pair = f"{user.partner['clientId']}:{user.partner['clientSecret']}"
    answer = httpx.post(
        user.partner["baseUrl"] + "/oauth/revoke", data={"token": user.client.access_token(user.key)},
        headers={"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()},
    )
    t.assertEqual(answer.status_code, 200)
    before = seen("token")
    user.steps()
    t.assertEqual(seen("token") - before, 1)


@scenario("revoke")
def revoke(t: Played, kind: Kind) -> None:
    user = User(kind)
    first = user.connect()
    plant("/oauth/revoke", "unavailable")  # tried again
    before = seen("revoke")
    user.client.revoke(user.key)
    user.client.revoke(user.key)
    t.reconnects("ended", user.steps)
    t.assertEqual(seen("revoke") - before, 2)
    again = user.connect()
    t.assertEqual((again.grant_id, again.history_from), (first.grant_id, first.history_from))
    t.assertNotEqual(again.version, first.version)


@scenario("disconnect")
def disconnect(t: Played, kind: Kind) -> None:
    user = User(kind)
    grant = user.connect().grant_id
    plant(urllib.parse.quote(grant), "swallowed")  # tried again
    user.client.disconnect(user.key)
    for act in (user.steps, lambda: user.client.disconnect(user.key)):
        with t.assertRaises(NotConnectedError):
            act()
    user.connect()
    user.steps()


@scenario("what a webhook says is noted once")
def ended(t: Played, kind: Kind) -> None:
    user = User(kind)
    version = user.connect().version
    t.assertFalse(user.client.ended("nobody", version))
    t.assertFalse(user.client.ended(user.key, "0"))
    t.assertTrue(user.client.ended(user.key, version))
    t.assertFalse(user.client.ended(user.key, version))
    t.reconnects("ended", user.steps)


