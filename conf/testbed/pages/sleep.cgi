#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
# sleep.cgi?ms=N sleeps N ms; 10 s at most.
use strict;
use warnings;
use Time::HiRes qw(usleep);

my ($ms) = ($ENV{QUERY_STRING} // '') =~ /\bms=(\d+)/;
$ms = 10 unless defined $ms;
$ms = 10000 if $ms > 10000;
usleep($ms * 1000);
print "Content-Type: text/plain\r\n\r\nslept $ms ms\n";
