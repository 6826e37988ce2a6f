"""One process of a partner's backend that reads as fast as it can. It prints how many requests it sent, how many of them were refused, and
when it began and ended."""
from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from typing import Any

import httpx
import psycopg_pool
from control import DATABASE, STORE_KEY, options

from connect_svc_sdk import Client
from connect_svc_sdk.pgstore import PgStore

workers, at_once, reads = map(int, sys.argv[1:])
partner, key, day = json.loads(os.environ["PARTNER"]), os.environ["KEY"], os.environ["DAY"]
sent: list[int] = []


class Counting(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.url.path.startswith("/connect-svc/"):
            sent.append(response.status_code)
        return response


client = Client(
    **options(partner), concurrent_reads=at_once, store=PgStore(psycopg_pool.ConnectionPool(DATABASE, min_size=1, max_size=4), STORE_KEY),
    http=httpx.Client(transport=Counting(verify=os.environ["SSL_CERT_FILE"])),
)
left: Any = iter(range(reads))
mutex = threading.Lock()


def work() -> None:
    while True:
        with mutex:
            if next(left, None) is None:
                return
        client.daily_steps(key, day, day)


begun = time.time()
threads = [threading.Thread(target=work) for _ in itertools.repeat(None, workers)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(sent), sent.count(429), begun, time.time(), flush=True)
