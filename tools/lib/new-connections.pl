#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# new-connections.pl PORT HOST FILE
#   Sends a request on a new connection every 5 ms until FILE exists.  Prints the longest time in
#   ms from connect() to the end of the response, and how many responses were not 200.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my ($port, $host, $file) = @ARGV;
my ($all, $unsent) = (IO::Select->new, IO::Select->new);
my ($next, $longest, $failed, %began, %is_good) = (time, 0, 0);

while (1) {
    my $ends = -e $file;
    last if $ends && !$all->count;
    while (!$ends && time >= $next) {
        my $new = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp', Blocking => 0)
            or die "cannot connect: $!\n";
        $began{$new} = time;
        $_->add($new) for $all, $unsent;
        $next += 0.005;
    }
    my ($readable, $writable) = IO::Select->select($all, $unsent, undef, 0.001);
    for my $socket (@{ $writable || [] }) {
        $unsent->remove($socket);
        syswrite $socket, "GET / HTTP/1.0\r\nHost: $host\r\n\r\n";
    }
    for my $socket (@{ $readable || [] }) {
        my $n = sysread $socket, my $text, 65536;
        $is_good{$socket} = 1 if $n && $text =~ m{^HTTP/1\.. 200};
        next if $n;
        my $took = time - delete $began{$socket};
        $longest = $took if $took > $longest;
        $failed++ if !delete $is_good{$socket};
        $_->remove($socket) for $all, $unsent;
        close $socket;
    }
}
printf "%.0f %d\n", $longest * 1000, $failed;
