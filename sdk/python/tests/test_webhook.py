from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unittest
from typing import Any

from connect_svc_sdk import BodyParsedError, WebhookError, verify_webhook

NOW = 1795255200
KEY = b"sdk-webhook-signing-key-of-32-by"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = json.dumps({
    "type": "connection.revoked", "timestamp": "2026-11-21T10:00:00.000Z",
    "data": {"grant_id": "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55", "connection_version": "3", "reason": "user_disconnected"},
}).encode()


def signature(body: bytes = BODY, key: bytes = KEY, at: int = NOW) -> str:
    return "v1," + base64.b64encode(hmac.new(key, f"msg_1.{at}.".encode() + body, hashlib.sha256).digest()).decode()


def headers(**changes: str) -> dict[str, str]:
    return {"Webhook-Id": "msg_1", "webhook-timestamp": str(NOW), "WEBHOOK-SIGNATURE": signature(), **changes}


class Webhook(unittest.TestCase):
    def test_genuine_calls(self) -> None:
        for name, given in {
            "one signature": headers(),
            "both secrets": headers(**{"WEBHOOK-SIGNATURE": signature(key=b"other" * 8) + " " + signature()}),
            "another version of signatures beside it": headers(**{"WEBHOOK-SIGNATURE": "v1a,AAAA v1,?? " + signature()}),
        }.items():
            with self.subTest(name):
                call = verify_webhook(SECRET, given, BODY, NOW + 299)
                assert call.event["type"] == "connection.revoked"  # from here on mypy knows which event it is
                self.assertEqual((call.id, call.event["data"]["reason"]), ("msg_1", "user_disconnected"))
        verify_webhook(SECRET, headers(), BODY.decode(), NOW)

    def test_others(self) -> None:
        not_event = b"ok"
        cases: dict[str, tuple[Any, ...]] = {
            "another secret": (SECRET, headers(**{"WEBHOOK-SIGNATURE": signature(key=b"other" * 8)}), BODY, NOW, "no signature"),
            "changed": (SECRET, headers(), BODY + b" ", NOW, "no signature"),
            "only another version": (SECRET, headers(**{"WEBHOOK-SIGNATURE": "v1a" + signature()[2:]}), BODY, NOW, "no signature"),
            "old": (SECRET, headers(), BODY, NOW + 301, "within 5 minutes"),
            "of the future": (SECRET, headers(), BODY, NOW - 301, "within 5 minutes"),
            "no number": (SECRET, headers(**{"webhook-timestamp": "+1"}), BODY, NOW, "not a number"),
            "no id": (SECRET, headers(**{"Webhook-Id": ""}), BODY, NOW, "no usable header webhook-id"),
            "an id that is not UTF-8, as aiohttp says it": (SECRET, headers(**{"Webhook-Id": "\udcff"}), BODY, NOW, "no signature"),
            "a body that is not": (SECRET, headers(), "\udcff", NOW, "no signature"),
            "two ids": (SECRET, headers(**{"webhook-id": "msg_2"}), BODY, NOW, "no usable header webhook-id"),
            "short secret": ("whsec_c2hvcnQ=", headers(), BODY, NOW, "signing secret"),
            "no secret": ("", headers(), BODY, NOW, "signing secret"),
            "no event": (SECRET, headers(**{"WEBHOOK-SIGNATURE": signature(not_event)}), not_event, NOW, "no event"),
        }
        for name, (secret, given, body, now, why) in cases.items():
            with self.subTest(name), self.assertRaisesRegex(WebhookError, why):
                verify_webhook(secret, given, body, now)
        with self.assertRaises(BodyParsedError):
            verify_webhook(SECRET, headers(), json.loads(BODY), NOW)
