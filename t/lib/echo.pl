#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# echo.pl PORT SECONDS      a back end for WebSockets: it agrees to the upgrade and
#                           sends back what comes, for so long at most
use strict;
use warnings;
use IO::Socket::INET;

my ($port, $seconds) = @ARGV;
my $door = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1)
    or die "cannot listen: $!\n";
$SIG{CHLD} = 'IGNORE';
alarm $seconds;
while (1) {
    my $s = $door->accept or next;
    if (fork) { close $s; next }
    alarm $seconds;
    my $head = '';
    until ($head =~ /\r\n\r\n/) { sysread $s, $head, 8192, length $head or exit }
    syswrite $s, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    while (sysread $s, my $bytes, 8192) { syswrite $s, $bytes }
    exit;
}
