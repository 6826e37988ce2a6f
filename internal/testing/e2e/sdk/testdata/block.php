

// What follows is the driver of the blocks above, as sdk/scenarios.yaml describes it: no more than connecting and refreshing.
$begun = null;
$store = [];

function act(array $command): array
{
    global $begun, $store, $seconds;
    $key = $command['key'] ?? '';
    $save = function (array $connection) use ($key): void {
        $GLOBALS['store'][$key] = $connection;
    };
    switch ($command['do']) {
        case 'open':
            foreach (['CONNECT_BASE_URL' => 'base_url', 'CONNECT_CLIENT_ID' => 'client_id', 'CONNECT_CLIENT_SECRET' => 'client_secret', 'CONNECT_CALLBACK_URL' => 'callback_url'] as $variable => $field) {
                putenv("$variable=$command[$field]");
            }
            $seconds = isset($command['timeout_ms']) ? intdiv($command['timeout_ms'], 1000) : null;
            break;
        case 'begin':
            [$begun, $url] = begin();
            return ['url' => $url];
        case 'finish':
            parse_str($command['callback'], $query);
            $connection = finish($begun, $query);
            if ($connection === null) {
                return ['outcome' => 'denied'];
            }
            $save($connection);
            break;
        case 'refresh':
            refresh($store[$key], $save);
            break;
        case 'state':
            if (!isset($store[$key])) {
                return ['outcome' => 'not-connected'];
            }
            return ['state' => isset($store[$key]['refresh_token']) && !isset($store[$key]['refreshing']) ? 'active' : 'over'];
    }
    return [];
}

function outcome(Exception $error): string
{
    return match (true) {
        $error instanceof Reconnect => 'reconnect',
        $error instanceof NotNow => $error->getMessage() === 'not attempted' ? 'refused' : 'network',
        $error->getMessage() === 'this user did not begin it' => 'state',
        $error instanceof RuntimeException => 'refused',
        default => 'error',
    };
}

while (($line = fgets(STDIN)) !== false) {
    try {
        $answer = act(json_decode($line, true)) + ['outcome' => 'ok'];
    } catch (Exception $error) {
        $answer = ['outcome' => outcome($error), 'code' => $error->getMessage(), 'causes' => [get_class($error), $error->getMessage()]];
    }
    print json_encode($answer) . "\n";
}
