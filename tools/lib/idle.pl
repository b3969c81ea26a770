#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# idle.pl PORT NAME
#   A back end for WebSockets and server-sent events on which nothing is sent: after the
#   response head a connection stays silent until its client ends it.  NAME is ignored; it
#   tells the process from others.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

# The answer to the key of the example in RFC 6455, which crowd.c sends.
my $upgraded = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    . "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
my $events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n: open\n\n";

my $door = IO::Socket::INET->new(Listen => 1024, LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], ReuseAddr => 1)
    or die "cannot listen: $!\n";
my $open = IO::Select->new($door);
my %head;

while (1) {
    for my $ready ($open->can_read) {
        if ($ready == $door) {
            my $new = $door->accept or next;
            $head{$new} = '';
            $open->add($new);
        }
        elsif (!sysread $ready, $head{$ready}, 8192, length $head{$ready}) {
            delete $head{$ready};
            $open->remove($ready);
            close $ready;
        }
        elsif ($head{$ready} =~ /\r\n\r\n/) {
            syswrite $ready, $head{$ready} =~ /^Upgrade: *websocket/mi ? $upgraded : $events;
            $head{$ready} = '';
        }
    }
}
