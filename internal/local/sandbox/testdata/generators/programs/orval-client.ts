import * as api from "./orval";
import { baseUrl, basic, day, exchange, run } from "./partner";

run(async () => {
  const plain = globalThis.fetch; // the client asks for paths
  globalThis.fetch = (input, init) => plain(new URL(new URL(String(input), baseUrl).pathname + new URL(String(input), baseUrl).search, baseUrl), init);
  const token = async (body: api.TokenRequest) => {
    const answer = await api.requestToken(body, { headers: { Authorization: basic } });
    if (answer.status !== 200) throw new Error(`the answer was ${answer.status}`);
    return answer.data;
  };
  const first = await token(exchange);
  const tokens = await token({ grant_type: "refresh_token", refresh_token: first.refresh_token });
  const query = { from: day, to: day };
  const options = { headers: { Authorization: `Bearer ${tokens.access_token}` } };
  const steps = await api.readDailyActivity(tokens.grant_id, query, options);
  const cycling = await api.readCyclingDaily(tokens.grant_id, query, options);
  const rides = await api.readCyclingActivities(tokens.grant_id, query, options);
  const refused = await api.readDailyActivity(tokens.grant_id, { ...query, from: "2000-01-01" }, options);
  return {
    steps: steps.status === 200 ? steps.data.data.map((row) => row.steps) : undefined,
    meters: cycling.status === 200 ? cycling.data.data.map((row) => row.distance_meters) : undefined,
    rides: rides.status === 200 ? rides.data.data.map((row) => row.distance_meters) : undefined,
    refused: refused.status === 400 ? refused.data.error.code : undefined,
  };
});
