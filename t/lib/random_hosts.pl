#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Usage: random_hosts.pl PORT NUMBER SUFFIX
# Opens NUMBER connections to 127.0.0.1, one after the other, each with a request for another
# host: 24 random hexadecimal digits and SUFFIX. Prints the number of answers with status 200.
use strict;
use warnings;
use IO::Socket::INET;

my ($port, $number, $suffix) = @ARGV;
my $answered = 0;
for (1 .. $number) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die "connect: $!\n";
    my $host = join('', map { sprintf '%06x', int(rand(1 << 24)) } 1 .. 4) . $suffix;
    print $socket "GET /page.html HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n\r\n";
    my $line = <$socket> // '';
    $answered++ if $line =~ m{^HTTP/1\.1 200 };
    1 while <$socket>;
    close $socket;
}
print "$answered\n";
