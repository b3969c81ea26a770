#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# abuse.pl PORT flood SECONDS     connects and closes without sending, every other time
#                                 with an RST; prints the number of connections
# abuse.pl PORT names N           N requests for unknown hosts; prints their statuses
# abuse.pl PORT unread N          N clients that request 64 MB each from a.test and read
#                                 nothing for 40 seconds, or until this program ends
# abuse.pl PORT bytes SECONDS     clients that send random bytes and close
# abuse.pl PORT idle N            N clients that connect and send nothing until this
#                                 program ends; prints "open" when all have tried
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(sleep time);

$SIG{PIPE} = 'IGNORE';
my ($port, $what, $much) = @ARGV;
srand 20261121;

sub dial { return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) }

sub leave {
    my ($s, $reset) = @_;
    setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) if $reset;
    close $s;
}

sub flood {
    my ($seconds, $bytes) = @_;
    my ($n, $end) = (0, time + $seconds);
    while (time < $end) {
        my $s = dial() or next;
        syswrite $s, $bytes->() if $bytes;
        leave($s, $n++ % 2);
    }
    print "$n\n";
}

sub noise { return join '', map { chr int rand 256 } 1 .. 1 + int rand 2000 }

sub name { return join('', map { chr(97 + int rand 26) } 1 .. 1 + int rand 60) . '.' . ('com', 'test', 'x')[rand 3] }

sub names {
    my %got;
    for (1 .. $_[0]) {
        my ($s, $text) = (dial(), '');
        syswrite $s, 'GET /page.html HTTP/1.1' . "\r\nHost: " . name() . "\r\nConnection: close\r\n\r\n";
        1 while sysread $s, $text, 65536, length $text;
        $got{ $text =~ m{^HTTP/1\.1 (\d+)} ? $1 : 'none' }++;
    }
    print join(' ', map { "$got{$_} $_" } sort keys %got), "\n";
}

sub unread {
    my @all = grep { defined } map { dial() } 1 .. $_[0];
    for my $s (@all) {
        setsockopt($s, SOL_SOCKET, SO_RCVBUF, pack('i', 4096));
        syswrite $s, "GET /big.bin HTTP/1.1\r\nHost: a.test\r\n\r\n";
    }
    sleep 40;
    print scalar @all, "\n";
}

# Connects as fast as the kernel accepts. A socket that is not connected after a second
# keeps trying.
sub idle {
    my @all;
    while (@all < $_[0]) {
        my @some = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Blocking => 0) } 1 .. 100;
        my ($trying, $end) = (IO::Select->new(@some), time + 1);
        $trying->remove($trying->can_write($end - time)) while $trying->count && time < $end;
        push @all, @some;
        last if $trying->count;
    }
    push @all, map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Blocking => 0) } @all + 1 .. $_[0];
    $| = 1;
    print "open\n";
    # Closes with an RST, a hundred sockets at a time. A client's socket in TIME-WAIT would
    # answer late SYN-ACKs, and the server would keep connections of closed clients. The
    # same happens if the kernel drops packets because thousands close at once.
    my $waits = 1;
    local $SIG{TERM} = sub { $waits = 0 };
    sleep 1 while $waits;
    while (my @some = splice @all, 0, 100) {
        setsockopt($_, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) for @some;
        @some = ();
        sleep 0.01;
    }
}

if    ($what eq 'flood') { flood($much) }
elsif ($what eq 'bytes') { flood($much, \&noise) }
elsif ($what eq 'names') { names($much) }
elsif ($what eq 'unread') { unread($much) }
elsif ($what eq 'idle') { idle($much) }
