<?php
// SPDX-License-Identifier: Apache-2.0
// sql.php?ms=N makes the database compute for about N ms. With keep=1 the connection is kept for
// further pages, with sleep=N the query sleeps for N ms. many=N sends 10 short queries in a second on each
// of N kept connections (MariaDB only). sql.ini says which database it is.

http_response_code(500);
$db = parse_ini_file(__DIR__ . '/sql.ini');
$ms = min((int)($_GET['ms'] ?? 10), 10000);
$sleep = min((int)($_GET['sleep'] ?? 0), 10000) / 1000;
$many = min((int)($_GET['many'] ?? 0), 20);
$keep = $many || !empty($_GET['keep']);
if ($db['kind'] == 'mariadb') {
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    [$host, $socket] = $db['at'][0] == '/' ? ['localhost', $db['at']] : [$db['at'], ''];
    $open = fn() => new mysqli(($keep ? 'p:' : '') . $host, $db['user'], '', '', (int)($db['port'] ?? 0), $socket);
    for ($links = []; count($links) < $many;) $links[] = $open();
    for ($i = 0; $i < 10 * $many; $i++, usleep((int)(1e5 / $many))) $links[$i % $many]->query('SELECT 1');
    if (!$many) $open()->query($sleep ? "SELECT SLEEP($sleep)" : 'SELECT BENCHMARK(' . $ms * 90000 . ', 1 + 1)');
} else {
    $open = $keep ? 'pg_pconnect' : 'pg_connect';
    $link = $open("host={$db['at']} port={$db['port']} user={$db['user']} dbname=postgres");
    pg_query($link, $sleep ? "SELECT pg_sleep($sleep)" : 'DO $$BEGIN FOR i IN 1..' . $ms * 160000 . ' LOOP END LOOP; END$$');
}
http_response_code(200);
header('Content-Type: text/plain');
echo "asked\n";
