import json
import os
import urllib.request

address = os.environ["CONNECT_BASE_URL"] + "/.well-known/oauth-authorization-server"
print(json.load(urllib.request.urlopen(address))["issuer"])
