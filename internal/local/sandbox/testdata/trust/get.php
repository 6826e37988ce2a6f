<?php
$address = getenv("CONNECT_BASE_URL") . "/.well-known/oauth-authorization-server";
$text = file_get_contents($address);
if ($text === false) {
    exit(1);
}
echo json_decode($text)->issuer, "\n";
