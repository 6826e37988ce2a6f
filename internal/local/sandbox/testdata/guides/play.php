
// What follows plays the guides' functions against a sandbox.
$user = getenv('CONNECT_USER');
$taken = [];

function inbox(string $id, string $body): void
{
    $GLOBALS['taken'][$id] = $body;
}

function drive(string $method, string $path, ?array $body = null): ?array
{
    $curl = curl_init(getenv('DRIVER_URL') . '/sandbox' . $path);
    curl_setopt_array($curl, [CURLOPT_CUSTOMREQUEST => $method, CURLOPT_RETURNTRANSFER => true, CURLOPT_FAILONERROR => true]);
    if ($body !== null) {
        curl_setopt_array($curl, [CURLOPT_POSTFIELDS => json_encode($body), CURLOPT_HTTPHEADER => ['Content-Type: application/json']]);
    }
    $answer = curl_exec($curl);
    check($answer !== false, "$method $path: " . curl_error($curl));
    return json_decode($answer, true);
}

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new Error($what);
    }
}

function decide(string $url, string $decision): array
{
    $redirect = drive('POST', '/authorizations', ['authorization_url' => $url, 'user_id' => $GLOBALS['user'], 'decision' => $decision]);
    parse_str(parse_url($redirect['redirect_url'], PHP_URL_QUERY), $query);
    return $query;
}

function raises(string $kind, callable $act): string
{
    try {
        $act();
    } catch (Exception $error) {
        check($error instanceof $kind, "it is $error");
        return $error->getMessage();
    }
    throw new Error("no $kind");
}

[$begun, $url] = begin();
raises('RuntimeException', fn () => finish(['state' => 'another', 'verifier' => ''], decide($url, 'allow')));
[$begun, $url] = begin();
check(finish($begun, decide($url, 'deny')) === null, 'cancelled');

[$begun, $url] = begin();
$connection = finish($begun, decide($url, 'allow'));
$day = $connection['history_from'];
$ride = fn (int $n): array => ['source_id' => "8c7be7a0-9d0b-4c1e-8f6b-00000000000$n", 'recorded_start_time' => "{$day}T0$n:00:00", 'distance_meters' => $n];
drive('POST', "/users/$user/activity", ['daily_steps' => [['date' => $day, 'steps' => 8421]], 'cycling_activities' => array_map($ride, [1, 2, 3])]);
$today = new DateTimeImmutable(substr(drive('GET', '')['now'], 0, 10), new DateTimeZone('UTC'));
check(iterator_to_array(steps($connection, $today)) === [$day => 8421], 'steps');
check(array_keys(iterator_to_array(steps($connection, $today->modify('-1 day')))) === [$day], 'where the day is ahead of that of UTC');
check(iterator_to_array(steps($connection, $today->modify('-2 days'))) === [], 'no steps before');
check(array_column(iterator_to_array(rides($connection, $day, $day)), 'distance_meters') === [1, 2, 3], 'rides');

$range = ['from' => $day, 'to' => $day];
drive('POST', '/answers', ['operation_id' => 'readDailyActivity', 'status' => 503, 'code' => 'data_unavailable']);
drive('POST', '/answers', ['operation_id' => 'readDailyActivity', 'status' => 429, 'code' => 'rate_limited']);
check(patiently(fn () => read($connection, 'daily-activity', $range))[0] === 200, 'patiently');
check(codeOf(read($connection, 'daily-activity', ['from' => '2000-01-01', 'to' => $day])[2]) === 'invalid_date_range', 'code of a read');
check(codeOf(send('POST', '/oauth/token', ['grant_type' => 'password'])[2]) === 'unsupported_grant_type', 'code of a token request');

$saved = [];
$save = function (array $connection) use (&$saved): void {
    $saved[] = $connection;
};
$second = refresh($connection, $save);
check($saved === [$connection + ['refreshing' => true], $second] && $second['refresh_token'] !== $connection['refresh_token'], 'refresh');
check(read($second, 'daily-activity', $range)[0] === 200, 'read after the refresh');
raises('Reconnect', fn () => refresh($saved[0], $save)); // as a process would find it that came after a crash
check(count($saved[2]) === 4 && !isset($saved[2]['refresh_token']), 'no token is left');
raises('Reconnect', fn () => refresh($saved[2], $save));
drive('POST', '/answers', ['operation_id' => 'requestToken', 'status' => 401, 'code' => 'invalid_client']);
check(raises('RuntimeException', fn () => refresh($second, $save)) === 'invalid_client' && end($saved) === $second, 'invalid_client');
drive('POST', '/answers', ['operation_id' => 'requestToken', 'status' => 500, 'code' => 'server_error']);
raises('Reconnect', fn () => refresh($second, $save));
check(end($saved) == $saved[2], 'nothing is left');
drive('POST', '/answers', ['operation_id' => 'requestToken', 'status' => 500, 'code' => 'server_error', 'not_attempted' => true]);
check(raises('NotNow', fn () => refresh($second, $save)) === 'not attempted' && end($saved) === $second, 'not attempted');

disconnect($second['grant_id']);
do {
    usleep(20_000);
    $sent = array_values(array_filter(drive('GET', '/webhooks')['data'],
        fn (array $call): bool => $call['type'] === 'connection.revoked' && str_contains($call['body'], $second['grant_id'])));
} while ($sent === []);
['id' => $id, 'body' => $body] = $sent[0];
$headers = array_change_key_case($sent[0]['headers']);
check(receive($headers, $body) === 204 && $taken === [$id => $body], 'received');
check(receive($headers, "$body ") === 401, 'another body');
check(receive(['webhook-timestamp' => (string) ($headers['webhook-timestamp'] - 301)] + $headers, $body) === 401, 'old');
check(receive(['webhook-signature' => 'v1,AAAA'] + $headers, $body) === 401, 'another signature');
check(receive([], $body) === 401, 'no headers');
print "played\n";
