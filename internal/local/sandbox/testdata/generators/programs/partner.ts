// What the programs share: how the test tells them what to do, and how they tell what they read.
const given = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
};

export const baseUrl = given("BASE_URL");
export const day = given("DAY");
export const basic = `Basic ${Buffer.from(`${given("CLIENT_ID")}:${given("CLIENT_SECRET")}`).toString("base64")}`;
export const exchange = {
  grant_type: "authorization_code" as const,
  code: given("CODE"), redirect_uri: given("CALLBACK_URL"), code_verifier: given("CODE_VERIFIER"),
};

interface Read {
  steps: number[] | undefined;
  meters: number[] | undefined;
  rides: number[] | undefined;
  /** Of a read whose dates are refused. */
  refused: "invalid_request" | "invalid_date_range" | undefined;
}

export function run(read: () => Promise<Read>): void {
  read().then((found) => console.log(JSON.stringify(found)), (error) => {
    console.error(error);
    process.exitCode = 1;
  });
}
