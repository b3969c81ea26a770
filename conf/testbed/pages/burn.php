<?php
// SPDX-License-Identifier: Apache-2.0
// burn.php?ms=N burns N ms of CPU time, as the kernel counts it; 10 s at most.  With
// sleep=N it first sleeps N ms, as one that waits for a database.

function used_us()
{
    $usage = getrusage();
    return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1000000
        + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
}

$ms = min((int)($_GET['ms'] ?? 10), 10000);
usleep(max(0, min((int)($_GET['sleep'] ?? 0), 10000)) * 1000);
$until = used_us() + $ms * 1000;
while (used_us() < $until);
header('Content-Type: text/plain');
echo "burned $ms ms\n";
