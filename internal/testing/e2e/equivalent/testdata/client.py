"""Python's own client of HTTP/1.1."""
import http.client
import json
import os
import socket
import ssl
import sys

ask = json.load(sys.stdin)
address, port = os.environ["CONNECT_ADDRESS"].split(":")
host = os.environ["CONNECT_HOST"]


class Connection(http.client.HTTPSConnection):
    def connect(self):
        self.sock = context.wrap_socket(socket.create_connection((address, int(port))), server_hostname=host)


context = ssl.create_default_context(cafile=os.environ["CONNECT_ROOTS"])
connection = Connection(host, context=context)
headers = dict(ask["fields"])
body = ask["body"].encode() or None
if "chunked" in sys.argv:
    headers["Transfer-Encoding"] = "chunked"
    connection.request(ask["method"], ask["path"], iter([body] if body else []), headers, encode_chunked=True)
else:
    connection.request(ask["method"], ask["path"], body, headers)
answer = connection.getresponse()
print(json.dumps({"status": answer.status, "headers": answer.getheaders(), "body": answer.read().decode("latin1")}))
