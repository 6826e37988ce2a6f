"""The stores in PostgreSQL by themselves. Those of Go and TypeScript are tested in the same way. The test that starts this program names an empty
database, in which it has stored a connection with the Go SDK, and a lock that Go holds."""
from __future__ import annotations

import threading
import unittest
from dataclasses import replace
from typing import Any

import psycopg
import psycopg.conninfo
import psycopg_pool
from control import DATABASE, STORE_KEY, Blocking, loop, thread_pool

from connect_svc_sdk import StoredConnection
from connect_svc_sdk.pgstore import AsyncPgStore, PgStore

NEW_KEY = b"n" * 32
EXAMPLE = StoredConnection(
    "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4", "3", "2026-11-20", "daily_steps:read", "active", "svca_a", 1795255200.0, "svcr2_r"
)
OVER = StoredConnection(EXAMPLE.grant_id, "4", "2026-11-20", "", "ended")


def observe(statement: str, *values: object) -> list[Any]:
    with psycopg.connect(DATABASE, autocommit=True) as session:
        cursor = session.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def break_sessions() -> None:
    observe("""select pg_terminate_backend(pid, 60000) from pg_locks where locktype = 'advisory' and granted
        and database = (select oid from pg_database where datname = current_database())""")


def waiting() -> None:
    """Returns when a session waits for the lock of a key."""
    while not observe("""select 1 from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())"""):
        pass


class StoreOfThreads(unittest.TestCase):
    def setUp(self) -> None:
        thread_pool()  # makes the table
        observe("delete from connect_connections where key in ('ada', 'eve')")  # of a test that failed, or of the other store

    def open(self, *keys: bytes, most: int = 4, least: int = 1, database: str = DATABASE, lock_timeout: str | None = None) -> Any:
        """The store of another process, as far as PostgreSQL can tell."""
        store = self.opened(keys or (STORE_KEY,), database, {"min_size": least, "max_size": most})
        if lock_timeout:
            database = getattr(store, "wrapped", store)._rules._database
            execute = database.execute
            database.execute = lambda session, statement, values: execute(session, statement.replace("'90s'", lock_timeout), values)
        return store

    def opened(self, keys: tuple[bytes, ...], database: str, size: Any) -> Any:
        pool = psycopg_pool.ConnectionPool(database, **size)
        self.addCleanup(pool.close)
        return PgStore(pool, *keys)

    def test_a_connection_is_kept_sealed_under_its_key(self) -> None:
        store = self.open()
        self.assertIsNone(store.load("ada"))
        lock = store.lock("ada")
        self.assertIsNone(lock.load())
        lock.save(EXAMPLE)
        self.assertEqual(store.load("ada"), EXAMPLE)
        self.assertEqual(lock.load(), EXAMPLE)
        self.assertIn("ada", store.keys_of(EXAMPLE.grant_id))
        text = observe("select encode(sealed, 'escape') || key || state from connect_connections where key = 'ada'")[0][0]
        self.assertNotRegex(text, "svca_|svcr2_")
        self.assertNotRegex(repr(EXAMPLE), "svca_|svcr2_")
        # The service began anew, such as a sandbox with the same seed: the grant is the same, and its versions begin again.
        anew = replace(EXAMPLE, version="1", refresh_token="svcr2_anew")
        lock.save(anew)
        self.assertEqual(store.load("ada"), anew)
        over = replace(OVER, version="10", state="uncertain")
        lock.save(over)
        self.assertEqual(store.load("ada"), over)
        observe("update connect_connections set key = 'eve' where key = 'ada'")
        with self.assertRaisesRegex(RuntimeError, "none of the keys"):
            store.load("eve")
        observe("delete from connect_connections where key = 'eve'")
        lock.delete()
        lock.save(EXAMPLE)
        lock.delete()
        self.assertIsNone(lock.load())
        lock.unlock()

    def test_keys_are_replaced(self) -> None:
        before = self.open()
        lock = before.lock("keys")
        lock.save(EXAMPLE)
        lock.unlock()
        between = self.open(NEW_KEY, STORE_KEY)
        lock = between.lock("keys")
        lock.save(lock.load())
        lock.unlock()
        self.assertEqual(self.open(NEW_KEY).load("keys"), EXAMPLE)
        with self.assertRaisesRegex(RuntimeError, "none of the keys"):
            before.load("keys")
        for keys in [], [b"short"]:
            with self.assertRaises(ValueError):
                PgStore(thread_pool(), *keys)

    def test_a_lock_is_that_of_all_processes_of_one_key_and_ends_with_its_session(self) -> None:
        one, other = self.open(most=1), self.open(most=2)
        lock = one.lock("ada")
        other.lock("bob").unlock()
        got: list[Any] = []
        second = threading.Thread(target=lambda: got.append(other.lock("ada")))
        second.start()
        waiting()
        self.assertEqual(got, [])
        lock.unlock()
        second.join()
        got[0].unlock()

        lock = one.lock("ada")
        break_sessions()
        other.lock("ada").unlock()  # it does not wait
        lock.unlock()
        one.lock("ada").unlock()  # the pool has its only place back

    def test_the_wait_for_a_lock_ends(self) -> None:
        one, other = self.open(), self.open(most=1, lock_timeout="'10ms'")
        lock = one.lock("ada")
        with self.assertRaises(psycopg.errors.LockNotAvailable):
            other.lock("ada")
        lock.unlock()
        other.lock("ada").unlock()  # nothing is left behind

    def test_what_was_learned_is_stored_although_the_session_broke_with_a_pool_of_one(self) -> None:
        one, other = self.open(most=1), self.open()
        lock = one.lock("ada")
        break_sessions()
        theirs = other.lock("ada")
        theirs.save(replace(EXAMPLE, state="uncertain"))
        theirs.unlock()
        lock.save(EXAMPLE)
        lock.unlock()
        self.assertEqual(other.load("ada").state, "active")

        lock = one.lock("ada")
        break_sessions()
        theirs = other.lock("ada")
        theirs.save(replace(EXAMPLE, version="10", refresh_token="svcr2_newer"))  # a number, not a text
        theirs.unlock()
        lock.save(EXAMPLE)
        lock.unlock()
        self.assertEqual(other.load("ada").refresh_token, "svcr2_newer", "an older version replaced a newer one")

    def test_what_was_learned_is_stored_although_the_database_was_restarted(self) -> None:
        database = psycopg.conninfo.make_conninfo(DATABASE, application_name="restarted")
        one, other = self.open(most=10, least=10, database=database), self.open()
        count = "select count(*) from pg_stat_activity where application_name = 'restarted'"
        while observe(count)[0][0] < 10:
            pass
        lock = one.lock("ada")
        observe("select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'restarted'")
        for tries in range(1, 5):  # as the client does
            try:
                lock.save(EXAMPLE)
                break
            except psycopg.OperationalError:
                self.assertLess(tries, 4, "the new tokens are lost")
        lock.unlock()
        self.assertEqual(other.load("ada"), EXAMPLE)
        while observe(count)[0][0] < 10:
            pass
        observe("select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'restarted'")
        self.assertEqual(one.load("ada"), EXAMPLE)
        one.lock("ada").unlock()

    def test_a_process_that_lost_the_lock_sends_nothing(self) -> None:
        one, other = self.open(), self.open()
        lock = one.lock("ada")
        lock.save(EXAMPLE)
        break_sessions()
        theirs = other.lock("ada")
        theirs.save(replace(EXAMPLE, refresh_token="svcr2_next"))
        theirs.unlock()
        for _ in range(3):
            with self.assertRaises(Exception):
                lock.save(replace(EXAMPLE, state="refreshing"))
        lock.unlock()
        self.assertEqual(other.load("ada").refresh_token, "svcr2_next")


    def test_all_processes_have_one_pace(self) -> None:
        one, other, client = self.open(), self.open(), f"client-{id(self)}"
        for store, slots, interval, hold, want in [
            (one, 1, 100.0, 0.0, 0), (other, 3, 100.0, 0.0, 100), (one, 1, 150.0, 0.0, 450), (other, 1, 1.0, 520.0, 520), (one, 1, 6000.0, 0.0, 600),
        ]:
            first = store.pace(client, slots, interval, hold)
            self.assertTrue(want - 60 < first < want + 0.1, (first, want))  # time passes meanwhile

    def test_without_its_table_there_is_no_pace_and_the_connections_stay_readable(self) -> None:
        store = self.open(most=1)
        observe("alter table connect_pace rename to connect_pace_of_old")
        self.addCleanup(observe, "alter table connect_pace_of_old rename to connect_pace")
        with self.assertRaises(psycopg.errors.UndefinedTable):
            store.pace("client", 1, 1.0, 0.0)
        self.assertIsNone(store.load("ada"))

    def test_former_grants_are_kept(self) -> None:
        lock = self.open().lock("ada")
        former = replace(EXAMPLE, former_grants=("1c9e6679-7425-40de-944b-e07fc1f90ae7",))
        lock.save(former)
        self.assertEqual(lock.load(), former)
        self.assertEqual(lock.load().over("ended").former_grants, former.former_grants)
        lock.delete()
        lock.unlock()


class StoreOfAsyncio(StoreOfThreads):
    def opened(self, keys: tuple[bytes, ...], database: str, size: Any) -> Any:
        async def opened() -> Any:
            pool = psycopg_pool.AsyncConnectionPool(database, **size, open=False)
            await pool.open()
            return pool

        pool = loop.run(opened())
        self.addCleanup(lambda: loop.run(pool.close()))
        return Blocking(AsyncPgStore(pool, *keys), loop)


class Go(StoreOfThreads):
    """The first one by its name: others end the session that has Go's lock."""

    def test_connections_of_go_are_read_and_its_lock_is_respected(self) -> None:
        with self.assertRaises(psycopg.errors.LockNotAvailable):
            self.open(lock_timeout="'10ms'").lock("held-by-go")
        store = self.open()
        self.assertEqual(store.load("from-go"), EXAMPLE)
        self.assertEqual(store.load("from-go-over"), OVER)
        former = replace(EXAMPLE, former_grants=("1c9e6679-7425-40de-944b-e07fc1f90ae7",))
        self.assertEqual(store.load("from-go-former"), former)
        self.assertGreater(store.pace("given by Go", 1, 1.0, 0.0), 60)
        for name, connection in {"": EXAMPLE, "-over": OVER, "-former": former}.items():
            lock = store.lock("from-python" + name)
            lock.save(connection)
            lock.unlock()


def load_tests(loader: unittest.TestLoader, tests: object, pattern: object) -> unittest.TestSuite:
    suite = unittest.TestSuite([Go("test_connections_of_go_are_read_and_its_lock_is_respected")])
    suite.addTests(loader.loadTestsFromTestCase(StoreOfThreads))
    suite.addTests(loader.loadTestsFromTestCase(StoreOfAsyncio))
    return suite
