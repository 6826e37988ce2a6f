import createClient from "openapi-fetch";
import { baseUrl, basic, day, exchange, run } from "./partner";
import type { components, paths } from "./schema";

run(async () => {
  const api = createClient<paths>({ baseUrl });
  const token = (body: components["schemas"]["TokenRequest"]) => api.POST("/oauth/token", {
    body, headers: { Authorization: basic, "Content-Type": "application/x-www-form-urlencoded" },
    bodySerializer: (fields: object) => new URLSearchParams(fields as Record<string, string>).toString(),
  });
  const first = (await token(exchange)).data!;
  const tokens = (await token({ grant_type: "refresh_token", refresh_token: first.refresh_token })).data!;
  const options = {
    params: { path: { grant_id: tokens.grant_id }, query: { from: day, to: day } },
    headers: { Authorization: `Bearer ${tokens.access_token}` },
  };
  const steps = await api.GET("/connect-svc/v1/grants/{grant_id}/daily-activity", options);
  const cycling = await api.GET("/connect-svc/v1/grants/{grant_id}/cycling-daily", options);
  const rides = await api.GET("/connect-svc/v1/grants/{grant_id}/cycling-activities", options);
  options.params.query.from = "2000-01-01";
  const refused = await api.GET("/connect-svc/v1/grants/{grant_id}/daily-activity", options);
  return {
    steps: steps.data?.data.map((row) => row.steps),
    meters: cycling.data?.data.map((row) => row.distance_meters),
    rides: rides.data?.data.map((row) => row.distance_meters),
    refused: refused.response.status === 400 ? (refused.error as components["schemas"]["ActivityBadRequestError"]).error.code : undefined,
  };
});
