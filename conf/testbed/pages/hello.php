<?php
// SPDX-License-Identifier: Apache-2.0
header('Content-Type: text/plain');
echo "Hello, world\n";
