<?php
// PHP's own client of HTTP/1.1.
$ask = json_decode(stream_get_contents(STDIN), true);
$host = getenv('CONNECT_HOST');
$lines = ["Host: $host"];
foreach ($ask['fields'] as [$name, $value]) {
    $lines[] = "$name: $value";
}
$body = file_get_contents('https://' . getenv('CONNECT_ADDRESS') . $ask['path'], false, stream_context_create([
    'http' => ['method' => $ask['method'], 'header' => $lines, 'content' => $ask['body'], 'ignore_errors' => true, 'follow_location' => 0],
    'ssl' => ['cafile' => getenv('CONNECT_ROOTS'), 'peer_name' => $host],
]));
$headers = [];
foreach (array_slice($http_response_header, 1) as $line) {
    $headers[] = explode(': ', $line, 2);
}
$text = preg_replace_callback('/[\x80-\xff]/', fn($m) => chr(0xC0 | ord($m[0]) >> 6) . chr(0x80 | ord($m[0]) & 0x3F), $body);
echo json_encode(['status' => (int) explode(' ', $http_response_header[0])[1], 'headers' => $headers, 'body' => $text]);
