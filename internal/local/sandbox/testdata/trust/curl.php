<?php
$curl = curl_init(getenv("CONNECT_BASE_URL") . "/.well-known/oauth-authorization-server");
curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
$text = curl_exec($curl);
if ($text === false) {
    exit(1);
}
echo json_decode($text)->issuer, "\n";
