"""Eight processes of one backend, whose connections are in PostgreSQL."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest

from control import KINDS, User, clock, seen


class Backend:
    """A process that reads at each word of ours, and says how it went."""

    def __init__(self, user: User, mode: str = "") -> None:
        environment = {**os.environ, "PARTNER": json.dumps(user.partner), "KEY": user.key, "MODE": mode}
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(__file__), "backend.py")], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def begin(self, day: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"day": day, "now": clock.now()}) + "\n")
        self._process.stdin.flush()

    def says(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Processes(unittest.TestCase):
    def user(self) -> User:
        user = User(next(kind for kind in KINDS if kind.name == "threads/PostgreSQL"))
        self.addCleanup(user.kind.close)
        return user

    def backend(self, user: User, mode: str = "") -> Backend:
        backend = Backend(user, mode)
        self.addCleanup(backend.kill)
        return backend

    def test_8_processes_whose_tokens_expire_12_times_make_12_token_requests(self) -> None:
        user = self.user()
        day = user.connect().history_from
        backends = [self.backend(user) for _ in range(8)]
        before = seen("token")
        for expiry in range(1, 13):
            clock.advance(360)
            for backend in backends:
                backend.begin(day)
            self.assertEqual([backend.says() for backend in backends], ["4321"] * 8)
            self.assertEqual(seen("token") - before, expiry)

    def test_if_a_process_is_killed_in_the_middle_of_a_refresh_the_others_say_that_the_user_must_connect_again(self) -> None:
        user = self.user()
        day = user.connect().history_from
        clock.advance(360)
        killed, other = self.backend(user, "hang"), self.backend(user)
        before = seen("token")
        killed.begin(day)
        self.assertEqual(killed.says(), "sent")
        other.begin(day)
        killed.kill()
        self.assertEqual(other.says(), "ReconnectError uncertain")
        self.assertEqual(seen("token"), before)
