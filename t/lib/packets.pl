#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# packets.pl PORT STEP...       one connection, prints all that comes back
# packets.pl PORT --cut TEXT    TEXT in two packets, cut at every position in
#                               turn; prints each answer once, with how often
# packets.pl PORT --crowd N TEXT    N connections at once; prints how many got
#                               which status
# packets.pl PORT --idle N SECONDS [TEXT]   N connections that send no more than
#                               TEXT; says "open" when they all are
#
# A STEP is text to be sent in one packet (with \r \n \xHH), @MS to wait so many
# milliseconds, @bytes:MS to send the next text a byte at a time, or one of
# @half (no more will be sent) and @close (without reading).
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(sleep time);

my $READ_SECONDS = 15;    # for an answer, unless it is a crowd's
$SIG{PIPE} = 'IGNORE';

my $port = shift @ARGV;

sub dial {
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10)
        or die "cannot connect: $!\n";
    setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1);
    return $s;
}

sub unescape {
    my ($text) = @_;
    $text =~ s/\\(?:x([0-9a-fA-F]{2})|([rn]))/defined $1 ? chr(hex $1) : $2 eq 'r' ? "\r" : "\n"/ge;
    return $text;
}

# All answers, in the order of the sockets; what has not come by then is left.
sub answers {
    my ($seconds, @sockets) = @_;
    my %text = map { $_ => '' } @sockets;
    my $open = IO::Select->new(@sockets);
    my $end = time + $seconds;
    while ($open->count && time < $end) {
        for my $s ($open->can_read($end - time)) {
            $open->remove($s) unless sysread($s, $text{$s}, 65536, length $text{$s});
        }
    }
    return map { $text{$_} } @sockets;
}

sub status { my ($text) = @_; return $text =~ m{^HTTP/1\.[01] (\d+)} ? $1 : 'none' }

sub count {
    my %n;
    $n{$_}++ for @_;
    print "$n{$_} $_\n" for sort keys %n;
}

sub one {
    my $s = dial();
    my $pause;
    for (@_) {
        if (/^\@(\d+)$/)            { sleep $1 / 1000 }
        elsif (/^\@bytes:(\d+)$/)   { $pause = $1 / 1000 }
        elsif ($_ eq '@half')       { shutdown $s, 1 }
        elsif ($_ eq '@close')      { close $s; return }
        elsif (defined $pause) {
            for my $byte (split //, unescape($_)) { syswrite $s, $byte; sleep $pause }
            undef $pause;
        }
        else { syswrite $s, unescape($_) }
    }
    print answers($READ_SECONDS, $s);
}

sub cut {
    my $text = unescape(shift);
    my ($at, @got) = (1);
    while ($at < length $text) {
        my @batch = map { [$_, dial()] } $at .. ($at + 15 < length($text) - 1 ? $at + 15 : length($text) - 1);
        syswrite $_->[1], substr($text, 0, $_->[0]) for @batch;
        sleep 0.1;
        syswrite $_->[1], substr($text, $_->[0]) for @batch;
        push @got, answers($READ_SECONDS, map { $_->[1] } @batch);
        $at += 16;
    }
    s/^(?:Date|Last-Modified|ETag): .*\n//mg, s/\r?\n/ /g for @got;
    count(@got);
}

sub crowd {
    my ($n, $text) = (shift, unescape(shift));
    my @sockets = map { dial() } 1 .. $n;
    syswrite $_, $text for @sockets;
    count(map { status($_) } answers(35, @sockets));
}

sub idle {
    my ($n, $seconds, $text) = (@_, '');
    my @sockets = map { dial() } 1 .. $n;
    if (length $text) { syswrite $_, unescape($text) for @sockets }
    $| = 1;
    print "open\n";
    sleep $seconds;
}

my %modes = ('--cut' => \&cut, '--crowd' => \&crowd, '--idle' => \&idle);
my $mode = $modes{ $ARGV[0] // '' };
shift @ARGV if $mode;
($mode // \&one)->(@ARGV);
