"""The driver of the Python SDK, as sdk/scenarios.yaml describes it: of its client for threads or, with the argument asyncio, of that for asyncio."""
import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import httpx
from connect_svc_sdk import (
    AsyncClient, AsyncMemoryStore, Client, DeniedError, MemoryStore, NotConnectedError, ReconnectError, ServiceError, SharedError, StateError,
    UnreachableError, WebhookError, verify_webhook,
)

ASYNC = "asyncio" in sys.argv
store = AsyncMemoryStore() if ASYNC else MemoryStore()
client = begun = None
now = datetime(2026, 11, 21, 10, tzinfo=timezone.utc).timestamp()
slept = 0.0


def pause(seconds):
    global now, slept
    now += seconds
    slept += seconds


async def pause_task(seconds):
    pause(seconds)


async def act(command):
    global client, begun, now
    do, key = command["do"], command.get("key")
    if do == "open":
        client = (AsyncClient if ASYNC else Client)(
            **{name: command[name] for name in ("base_url", "client_id", "client_secret", "callback_url", "scopes")}, store=store,
            http=(httpx.AsyncClient if ASYNC else httpx.Client)(http1=False, http2=True) if command.get("http") == 2 else None,
            timeout=command.get("timeout_ms", 30_000) / 1000, now=lambda: now, sleep=pause_task if ASYNC else pause, jitter=lambda most: 0.0)
    elif do == "begin":
        begun = client.begin()
        return {"url": begun.url}
    elif do == "finish":
        connection = await done(client.finish, key, begun, command["callback"])
        return ({"shared_with": list(connection.shared_with)} if connection.shared_with else {}) | (
            {"former_grants": len(connection.former_grants)} if connection.former_grants else {})
    elif do in ("refresh", "revoke", "disconnect", "disconnect_shared", "disconnect_former", "forget"):
        await done(getattr(client, do), key)
    elif do == "read":
        return {"rows": await rows(command)}
    elif do == "ended":
        return {"changed": await done(client.ended, key, command["version"])}
    elif do == "state":
        return {"state": (await done(client.connection, key)).state}
    elif do == "advance":
        now += command["seconds"]
    elif do == "verify":
        call = verify_webhook(command["secret"], command["headers"], command["body"].encode(), command["at"])
        return {"id": call.id, "type": call.event["type"]}
    elif do == "together":
        return {"answers": list(await asyncio.gather(*map(answered, command["commands"])))}
    else:
        raise ValueError(f"the driver does not know {do}")
    return {}


async def done(method, *arguments):
    """What a method returns: that of threads runs in one of its own."""
    if ASYNC:
        return await method(*arguments)
    return await asyncio.get_running_loop().run_in_executor(threads, method, *arguments)


async def rows(command):
    read = {"daily-activity": client.step_days, "cycling-daily": client.cycling_days, "cycling-activities": client.cycling_activities}[command["dataset"]]
    arguments = [command["key"], command["from"], command["to"]] + ([command["page_size"]] if "page_size" in command else [])
    if ASYNC:
        return len([row async for row in read(*arguments)])
    return await done(lambda: len(list(read(*arguments))))


async def answered(command):
    try:
        return {"outcome": "ok"} | await act(command)
    except Exception as error:
        answer = {"outcome": outcome(error), "causes": []}
        if isinstance(error, ServiceError):
            answer |= {"status": error.status, "code": error.code}
        if isinstance(error, SharedError):
            answer["keys"] = list(error.keys)
        cause = error
        while cause is not None:
            answer["causes"].append(str(cause) or type(cause).__name__)
            cause = cause.__cause__
        return answer


def outcome(error):
    if isinstance(error, ReconnectError):
        return f"reconnect-{error.state}"
    kinds = {
        UnreachableError: "network", ServiceError: "refused", NotConnectedError: "not-connected", DeniedError: "denied", StateError: "state",
        SharedError: "shared",
        WebhookError: "not-genuine",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "error")


async def main():
    global slept
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer = await answered(json.loads(line))
        print(json.dumps(answer | {"slept": 1000 * slept}), flush=True)
        slept = 0.0


threads = ThreadPoolExecutor(32)
asyncio.run(main())
