<?php
// SPDX-License-Identifier: Apache-2.0
// call.php?site=S asks the site S of this server for a page of 1 ms, or with page=static for
// its static page, over the scheme of the request itself.  It answers 502 if that page does
// not come.

$site = preg_match('/^site[1-4]$/D', $_GET['site'] ?? '') ? $_GET['site'] : 'site1';
$page = ($_GET['page'] ?? '') === 'static' ? 'index.html' : 'burn.php?ms=1';
$context = stream_context_create([
    'http' => ['protocol_version' => 1.1, 'timeout' => 60, 'header' => "Host: $site.test\r\nConnection: close"],
    'ssl' => ['peer_name' => "$site.test", 'verify_peer' => false, 'verify_peer_name' => false],
]);
$text = @file_get_contents("$_SERVER[REQUEST_SCHEME]://$_SERVER[SERVER_ADDR]/$page", false, $context);
header('Content-Type: text/plain');
if ($text === false) {
    http_response_code(502);
    $text = "$site did not answer\n";
}
echo $text;
