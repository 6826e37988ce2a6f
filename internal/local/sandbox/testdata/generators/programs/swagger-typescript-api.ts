import { type ActivityBadRequestError, Api, type TokenRequest } from "./api";
import { baseUrl, basic, day, exchange, run } from "./partner";

run(async () => {
  const { oauth, connectSvc } = new Api({ baseUrl });
  const token = async (body: TokenRequest) => (await oauth.requestToken(body, { headers: { Authorization: basic } })).data;
  const first = await token(exchange);
  const tokens = await token({ grant_type: "refresh_token", refresh_token: first.refresh_token });
  const query = { from: day, to: day };
  const options = { headers: { Authorization: `Bearer ${tokens.access_token}` } };
  const steps = await connectSvc.readDailyActivity(tokens.grant_id, query, options);
  const cycling = await connectSvc.readCyclingDaily(tokens.grant_id, query, options);
  const rides = await connectSvc.readCyclingActivities(tokens.grant_id, query, options);
  const refused = await connectSvc.readDailyActivity(tokens.grant_id, { ...query, from: "2000-01-01" }, options).catch((answer) => answer);
  return {
    steps: steps.data.data.map((row) => row.steps),
    meters: cycling.data.data.map((row) => row.distance_meters),
    rides: rides.data.data.map((row) => row.distance_meters),
    refused: refused.status === 400 ? (refused.error as ActivityBadRequestError).error.code : undefined,
  };
});
