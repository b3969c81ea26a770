<?php
// SPDX-License-Identifier: Apache-2.0
// sleep.php?ms=N sleeps N ms, as one that waits for a database; 10 s at most.

$ms = max(0, min((int)($_GET['ms'] ?? 10), 10000));
usleep($ms * 1000);
header('Content-Type: text/plain');
echo "slept $ms ms\n";
