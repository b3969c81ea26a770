#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
#
# Forks until fork fails, a hundred times at most, and writes the number for the test. Ends
# all children when the test says so or after ten seconds.
use strict;
use warnings;

my ($hold) = $0 =~ m{^(.*/)};
$hold .= "../hold/$ENV{QUERY_STRING}";
my @children;
for (1 .. 100) {
    my $pid = fork // last;
    if (!$pid) { sleep 10; exit }
    push @children, $pid;
}
open my $out, '>', "$hold.in.part" or die;
print $out scalar(@children), "\n";
close $out;
rename "$hold.in.part", "$hold.in";
for (1 .. 100) {
    last if -e "$hold.go";
    select undef, undef, undef, 0.1;
}
kill KILL => @children;
1 while wait != -1;
print "Content-Type: text/plain\r\n\r\n", scalar(@children), "\n";
