import { client } from "./hey/client.gen";
import * as api from "./hey";
import { baseUrl, basic, day, exchange, run } from "./partner";

run(async () => {
  client.setConfig({ baseUrl });
  const token = async (body: api.TokenRequest) => (await api.requestToken({ body, headers: { Authorization: basic } })).data!;
  const first = await token(exchange);
  const tokens = await token({ grant_type: "refresh_token", refresh_token: first.refresh_token });
  const options = { path: { grant_id: tokens.grant_id }, query: { from: day, to: day }, auth: tokens.access_token };
  const steps = await api.readDailyActivity(options);
  const cycling = await api.readCyclingDaily(options);
  const rides = await api.readCyclingActivities(options);
  options.query.from = "2000-01-01";
  const refused = await api.readDailyActivity(options);
  return {
    steps: steps.data?.data.map((row) => row.steps),
    meters: cycling.data?.data.map((row) => row.distance_meters),
    rides: rides.data?.data.map((row) => row.distance_meters),
    refused: refused.response?.status === 400 ? (refused.error as api.ActivityBadRequestError).error.code : undefined,
  };
});
