#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# websocket_echo.pl PORT SECONDS [MS]
#   A back end for WebSockets.  It accepts the upgrade and sends back what it receives
#   for up to SECONDS: messages of less than 126 bytes, or any bytes as they are.  It
#   computes for MS milliseconds before.
use strict;
use warnings;
use Digest::SHA qw(sha1_base64);
use IO::Socket::INET;

my ($port, $seconds, $ms) = (@ARGV, 0);
my $door = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1)
    or die "cannot listen: $!\n";
$SIG{CHLD} = 'IGNORE';
alarm $seconds;

sub agreement {
    my ($head) = @_;
    my ($key) = $head =~ /^Sec-WebSocket-Key: *(\S+)/mi;
    my $accept = sha1_base64(($key // '') . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11') . '=';
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        . "Sec-WebSocket-Accept: $accept\r\n\r\n";
}

sub used { my ($user, $system) = times; return $user + $system }

sub compute {
    my $until = used() + $ms / 1000;
    1 while $ms && used() < $until;
}

# A client masks its messages, a server does not.
sub echo_of {
    my ($bytes) = @_;
    my ($first, $second, $mask, $text) = unpack 'CCa4a*', $bytes;
    return $bytes unless length $bytes >= 6 && $first & 0x80 && $second & 0x80;
    $text ^= substr $mask x (length($text) / 4 + 1), 0, length $text;
    return pack('CC', $first, length $text) . $text;
}

while (1) {
    my $s = $door->accept or next;
    if (fork) { close $s; next }
    alarm $seconds;
    my $head = '';
    until ($head =~ /\r\n\r\n/) { sysread $s, $head, 8192, length $head or exit }
    syswrite $s, agreement($head);
    while (sysread $s, my $bytes, 8192) { compute(); syswrite $s, echo_of($bytes) }
    exit;
}
