<?php
// SPDX-License-Identifier: Apache-2.0
// burn.php?ms=N burns N ms of CPU time, as the kernel counts it; 10 s at most.

function used_us()
{
    $usage = getrusage();
    return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1000000
        + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
}

$ms = min((int)($_GET['ms'] ?? 10), 10000);
$until = used_us() + $ms * 1000;
while (used_us() < $until);
header('Content-Type: text/plain');
echo "burned $ms ms\n";
