# What a program with openapi-generator's client in Python reads. The token comes from a request of its own, as in the guide.
import datetime
import json
import os
import sys

import requests

sys.path.insert(0, sys.argv[1])
import openapi_client
from openapi_client.api.activity_api import ActivityApi

given = os.environ
tokens = requests.post(given["BASE_URL"] + "/oauth/token", auth=(given["CLIENT_ID"], given["CLIENT_SECRET"]), verify=given["SSL_CERT_FILE"], data={
    "grant_type": "authorization_code", "code": given["CODE"], "redirect_uri": given["CALLBACK_URL"], "code_verifier": given["CODE_VERIFIER"],
}).json()
configuration = openapi_client.Configuration(host=given["BASE_URL"])
configuration.access_token, configuration.ssl_ca_cert = tokens["access_token"], given["SSL_CERT_FILE"]
api, grant, day = ActivityApi(openapi_client.ApiClient(configuration)), tokens["grant_id"], datetime.date.fromisoformat(given["DAY"])
try:
    api.read_daily_activity(grant, day - datetime.timedelta(days=1), day)
except openapi_client.ApiException as error:
    refused = json.loads(error.body)["error"]["code"]
print(json.dumps({
    "steps": [row.steps for row in api.read_daily_activity(grant, day, day).data],
    "meters": [row.distance_meters for row in api.read_cycling_daily(grant, day, day).data],
    "rides": [row.distance_meters for row in api.read_cycling_activities(grant, day, day).data],
    "refused": refused,
}))
