#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# packets.pl PORT STEP...       one connection; prints all that the server sends
# packets.pl PORT --cut TEXT    sends TEXT in two packets, cut at each position in
#                               turn; prints each different answer with its number
# packets.pl PORT --crowd N TEXT    N connections at once; prints how many got each
#                               status
# packets.pl PORT --idle N SECONDS [TEXT]   N connections that send TEXT or nothing;
#                               prints "open" when all are open
# packets.pl PORT --kept N FILE TEXT [NEXT]    N connections, each of which sends
#                               TEXT, waits for its response, and sends NEXT (or TEXT
#                               again) when FILE exists; prints the statuses of both
#                               rounds, and closes HOLD seconds later
#
# packets.pl PORT --raw         sends standard input, and prints what the server sends
#                               until it closes
#
# The connections come from the address LOCAL_ADDRESS of the environment, if it is set. Those of
# --kept send PAUSE seconds after each other: Apache closes kept connections when no thread is idle.
#
# A STEP is a text to send in one packet (with \r \n \xHH), or one of
#   @MS             waits for MS milliseconds
#   @bytes:MS       sends the next text byte by byte, MS milliseconds apart
#   @send:N         sends N bytes
#   @until:REGEX    reads until the input matches
#   @take:N         reads until N bytes have arrived
#   @when:FILE      waits until the file exists
#   @slow:MS        pauses for MS milliseconds before each later read
#   @half           closes the sending side
#   @close          closes without reading
#   @reset          closes with an RST
# "[reset]" at the end of the output means that the server has sent an RST.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER TCP_NODELAY);
use Time::HiRes qw(sleep time);

my $READ_SECONDS = 15;    # for an answer, unless it is a crowd's
$SIG{PIPE} = 'IGNORE';

my $port = shift @ARGV;

sub dial {
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10,
        $ENV{LOCAL_ADDRESS} ? (LocalAddr => $ENV{LOCAL_ADDRESS}) : ())
        or die "cannot connect: $!\n";
    setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1);
    return $s;
}

sub unescape {
    my ($text) = @_;
    $text =~ s/\\(?:x([0-9a-fA-F]{2})|([rn]))/defined $1 ? chr(hex $1) : $2 eq 'r' ? "\r" : "\n"/ge;
    return $text;
}

# Reads all responses, in the order of the sockets, until the timeout.
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

# Reads until enough($text) or to the end. Returns 0 after the timeout.
sub read_until {
    my ($s, $text, $pause, $enough) = @_;
    my $end = time + $READ_SECONDS;
    my $ready = IO::Select->new($s);
    until ($enough->($$text)) {
        return 0 if time > $end || !$ready->can_read($end - time);
        sleep $pause if $pause;
        my $n = sysread $s, $$text, 65536, length $$text;
        $$text .= '[reset]' unless defined $n;
        return 0 unless $n;
    }
    return 1;
}

sub wait_for_file {
    my $end = time + 3 * $READ_SECONDS;
    sleep 0.02 until -e $_[0] || time > $end;
}

sub close_with_reset {
    my ($s) = @_;
    setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
    close $s;
}

sub send_bytes { my ($s, $n) = @_; $n -= syswrite($s, 'x' x ($n < 65536 ? $n : 65536)) || $n while $n > 0 }

sub one {
    my $s = dial();
    my ($text, $slow, $pause) = ('', 0);
    for (@_) {
        if (/^\@(\d+)$/)            { sleep $1 / 1000 }
        elsif (/^\@bytes:(\d+)$/)   { $pause = $1 / 1000 }
        elsif (/^\@send:(\d+)$/)    { send_bytes($s, $1) }
        elsif (/^\@slow:(\d+)$/)    { $slow = $1 / 1000 }
        elsif (/^\@until:(.*)$/s)    { my $re = qr/$1/s; read_until($s, \$text, $slow, sub { $_[0] =~ $re }) or last }
        elsif (/^\@take:(\d+)$/)     { my $n = $1; read_until($s, \$text, $slow, sub { length $_[0] >= $n }) or last }
        elsif (/^\@when:(.*)$/)      { wait_for_file($1) }
        elsif ($_ eq '@half')       { shutdown $s, 1 }
        elsif ($_ eq '@close')      { close $s; return }
        elsif ($_ eq '@reset')      { close_with_reset($s); print $text; return }
        elsif (defined $pause) {
            for my $byte (split //, unescape($_)) { syswrite $s, $byte; sleep $pause }
            undef $pause;
        }
        else { syswrite $s, unescape($_) }
    }
    read_until($s, \$text, $slow, sub { 0 }) unless $text =~ /\[reset\]$/;
    print $text;
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

# Prints the status of each socket's next response, which fits into one read.
sub next_answers {
    my ($text, @sockets) = @_;
    my %got = map { $_ => 'none' } @sockets;
    my $open = IO::Select->new(@sockets);
    my $end = time + 35;
    # The rest of a response that arrived in several packets.
    sysread $_, my $rest, 65536 for $open->can_read(0);
    for (@sockets) { syswrite $_, $text; sleep $ENV{PAUSE} // 0 }
    while ($open->count && time < $end) {
        for my $s ($open->can_read($end - time)) {
            sysread $s, my $answer, 65536;
            $got{$s} = status($answer // '');
            $open->remove($s);
        }
    }
    return values %got;
}

# Fifty at a time, so that no queue is long.
sub ask_all {
    my ($text, @sockets) = @_;
    my @got;
    push @got, next_answers($text, splice @sockets, 0, 50) while @sockets;
    count(@got);
}

sub kept {
    my ($n, $file, $text, $next) = (@_[0, 1], unescape($_[2]), unescape($_[3] // $_[2]));
    my @sockets = map { dial() } 1 .. $n;
    $| = 1;
    ask_all($text, @sockets);
    wait_for_file($file);
    ask_all($next, @sockets);
    sleep $ENV{HOLD} // 0;
}

# Sends while it reads, so that neither side waits for the other.
sub raw {
    my $s = dial();
    my $text = do { local $/; <STDIN> } // '';
    $s->blocking(0);
    $| = 1;
    my ($reads, $writes) = (IO::Select->new($s), IO::Select->new($s));
    while (1) {
        my ($in, $out) = IO::Select->select($reads, length $text ? $writes : undef, undef, $READ_SECONDS) or return;
        if (@$out) { my $n = syswrite $s, $text; $text = defined $n ? substr($text, $n) : $!{EAGAIN} ? $text : '' }
        next unless @$in;
        my $n = sysread $s, my $bytes, 65536;
        next if !defined $n && $!{EAGAIN};
        return unless $n;
        print $bytes;
    }
}

my %modes = ('--raw' => \&raw, '--cut' => \&cut, '--crowd' => \&crowd, '--idle' => \&idle, '--kept' => \&kept);
my $mode = $modes{ $ARGV[0] // '' };
shift @ARGV if $mode;
($mode // \&one)->(@ARGV);
