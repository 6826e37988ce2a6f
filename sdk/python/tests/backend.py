"""One process of test_processes.py. At each line of standard input it reads the steps of a day."""
from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import httpx
import psycopg_pool
from control import DATABASE, STORE_KEY, options

from connect_svc_sdk import Client, ReconnectError
from connect_svc_sdk.pgstore import PgStore


class Hangs(httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        print("sent", flush=True)
        threading.Event().wait()
        raise AssertionError


asked: dict[str, Any] = {"now": 0}
client = Client(
    **options(json.loads(os.environ["PARTNER"])), now=lambda: asked["now"], sleep=lambda seconds: asked.update(now=asked["now"] + seconds), store=PgStore(psycopg_pool.ConnectionPool(DATABASE, min_size=1, max_size=2), STORE_KEY),
    http=httpx.Client(transport=Hangs()) if os.environ["MODE"] == "hang" else None,
)
for line in sys.stdin:
    asked.update(json.loads(line))
    try:
        print(client.daily_steps(os.environ["KEY"], asked["day"], asked["day"])["data"][0]["steps"], flush=True)
    except ReconnectError as error:
        print("ReconnectError", error.state, flush=True)
