"""Two users with one account, and one user with two."""
from __future__ import annotations

import json
import threading
import unittest
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import httpx

from connect_svc_sdk import Client, Connection, Lock, MemoryStore, NotConnectedError, ServiceError, SharedError, StoredConnection
from test_rules import REGISTRATION, tokens

ONE, TWO = "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", "1c9e6679-7425-40de-944b-e07fc1f90ae7"


class OldStore:
    """A store of the first version: it knows no other keys."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def load(self, key: str) -> StoredConnection | None:
        return self._store.load(key)

    def lock(self, key: str) -> Lock:
        return self._store.lock(key)


class Family(unittest.TestCase):
    """A partner whose users connect accounts: the code names the account."""

    def setUp(self, store: Any = None) -> None:
        self.version, self.ended, self.broken, self.mutex = 0, list[str](), False, threading.Lock()
        self.client = Client(
            **REGISTRATION, store=store or MemoryStore(), sleep=lambda _: None, http=httpx.Client(transport=httpx.MockTransport(self.answer))
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        with self.mutex:
            if request.method == "DELETE":
                if self.broken:
                    return httpx.Response(500, json={"error": "server_error"})
                self.ended.append(request.url.path.rsplit("/", 1)[1])
                return httpx.Response(204)
            self.version += 1
            grant = parse_qs(request.content.decode()).get("code", [TWO])[0]  # TWO is that of the one refresh
            return httpx.Response(200, content=json.dumps(tokens(self.version, grant_id=grant, connection_version=str(self.version))))

    def connect(self, key: str, account: str) -> Connection:
        begun = self.client.begin()
        return self.client.finish(key, begun, f"state={begun.state}&code={account}")

    def state(self, key: str) -> str:
        try:
            return self.client.connection(key).state
        except NotConnectedError:
            return "nothing"

    def test_two_users_one_account(self) -> None:
        anna = self.connect("anna", ONE)
        self.assertEqual((anna.shared_with, anna.former_grants), ((), ()))
        self.connect("carl", TWO)
        ben = self.connect("ben", ONE)
        self.assertEqual((ben.shared_with, ben.former_grants), (("anna",), ()))
        self.assertEqual([self.state(key) for key in ("anna", "ben", "carl")], ["ended", "active", "active"])
        with self.assertRaises(SharedError) as raised:
            self.client.disconnect("anna")
        self.assertEqual((raised.exception.keys, self.ended, self.state("anna")), (["ben"], [], "ended"))
        self.client.forget("anna")
        self.assertEqual((self.state("anna"), self.ended), ("nothing", []))
        self.client.disconnect("ben")
        self.assertEqual(self.ended, [ONE])

    def test_the_program_may_end_both(self) -> None:
        self.connect("anna", ONE)
        self.connect("ben", ONE)
        self.client.disconnect_shared("anna")
        self.assertEqual((self.state("anna"), self.state("ben")), ("nothing", "ended"))
        self.connect("anna", ONE)
        self.client.disconnect("anna")  # the latest is refused by nobody
        self.assertEqual(self.ended, [ONE, ONE])

    def test_two_who_finish_at_once_do_not_wait_for_each_other_for_ever(self) -> None:
        for _ in range(20):
            both = [threading.Thread(target=self.connect, args=(key, ONE)) for key in ("anna", "ben")]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
        self.client.wait()
        self.assertIn("active", (self.state("anna"), self.state("ben")))

    def test_one_user_two_accounts(self) -> None:
        self.connect("cora", ONE)
        self.assertEqual(self.connect("cora", TWO).former_grants, (ONE,))
        self.assertEqual(self.client.refresh("cora").former_grants, (ONE,))
        self.broken = True
        with self.assertRaises(ServiceError):
            self.client.disconnect_former("cora")
        self.broken = False
        self.assertEqual(self.client.connection("cora").former_grants, (ONE,))
        for _ in range(2):
            self.client.disconnect_former("cora")
            self.assertEqual(self.ended, [ONE])
        cora = self.client.connection("cora")
        self.assertEqual((cora.former_grants, cora.state), ((), "active"))
        # There and back: what is connected is not a former one. A disconnect ends both.
        self.connect("cora", ONE)
        self.assertEqual(self.connect("cora", TWO).former_grants, (ONE,))
        self.client.ended("cora", "99")
        self.assertEqual(self.client.connection("cora").former_grants, (ONE,))
        self.ended.clear()
        self.client.disconnect("cora")
        self.assertEqual(self.ended, [ONE, TWO])

    def test_a_former_grant_of_somebody_else_is_not_ended(self) -> None:
        self.connect("cora", ONE)
        self.connect("cora", TWO)
        self.connect("anna", ONE)
        self.client.disconnect_former("cora")
        self.assertEqual((self.ended, self.client.connection("cora").former_grants, self.state("anna")), ([], (), "active"))

    def test_a_store_without_the_new_methods(self) -> None:
        self.setUp(OldStore())
        self.connect("anna", ONE)
        self.assertEqual(self.connect("ben", ONE).shared_with, ())
        self.assertEqual(self.state("anna"), "active")
        self.connect("ben", TWO)
        self.client.disconnect("ben")
        self.assertEqual(self.ended, [ONE, TWO])

    def test_a_disconnect_that_is_refused_ends_the_former_account(self) -> None:
        self.connect("cora", ONE)
        self.connect("cora", TWO)
        self.connect("ben", TWO)
        self.broken = True
        with self.assertRaises(ServiceError):
            self.client.disconnect("cora")
        self.broken = False
        with self.assertRaises(SharedError):
            self.client.disconnect("cora")
        self.client.forget("cora")
        self.assertEqual((self.ended, self.state("ben")), ([ONE], "active"))

    def test_a_webhook_about_the_former_account_leaves_the_new_one_alone_that_is_connected_meanwhile(self) -> None:
        store = MemoryStore()
        self.setUp(store)
        self.connect("cora", ONE)
        self.connect("cora", ONE)
        lock, news = store.lock("cora"), list[bool]()
        webhook = threading.Thread(target=lambda: news.append(self.client.ended("cora", "2")))
        webhook.start()
        while store._locks._locks["cora"][1] < 2:  # it waits for the lock
            pass
        held = lock.load()
        assert held is not None
        lock.save(replace(held, grant_id=TWO, version="1"))
        lock.unlock()
        webhook.join()
        self.assertEqual((news, self.state("cora")), ([False], "active"))
