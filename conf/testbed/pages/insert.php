<?php
// SPDX-License-Identifier: Apache-2.0
// Ten inserts into PostgreSQL, each a transaction of its own.

$db = pg_connect('host=' . dirname(__DIR__, 2) . '/postgresql user=bed dbname=postgres');
if (!$db) {
    http_response_code(500);
    exit("no database\n");
}
for ($i = 1; $i <= 10; $i++) {
    if (!pg_query_params($db, 'INSERT INTO visits (number, words) VALUES ($1, $2)', [$i, "visit $i"])) {
        http_response_code(500);
        exit("not inserted\n");
    }
}
header('Content-Type: text/plain');
echo "inserted 10 rows\n";
