#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
# burn.cgi?ms=N burns N ms of CPU time, its own start included; 10 s at most.
use strict;
use warnings;
use Time::HiRes qw(clock);

my ($ms) = ($ENV{QUERY_STRING} // '') =~ /\bms=(\d+)/;
$ms = 10 unless defined $ms;
$ms = 10000 if $ms > 10000;
1 while clock() < $ms / 1000;
print "Content-Type: text/plain\r\n\r\nburned $ms ms\n";
