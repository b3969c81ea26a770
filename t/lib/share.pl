#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# share.pl PORT END GROUP...   closed loops: each connection sends a request, reads the response, and
#                              begins again; prints the part of the answers (status 200) that the
#                              first group got, in hundredths, the number of answers of each group,
#                              and that of each other status, as in "3x503"
#
# END is a number of seconds (4s), or of answers (400).
# A GROUP is NUMBER:HEAD, the number of connections and the head without its last empty lines;
# %d in HEAD is the number of the connection (1 to NUMBER). The server closes each connection. If the
# GROUP is NUMBER:HEAD|HEAD..., the connections are kept, and their requests have these heads in turn.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my ($port, $most, @groups) = @ARGV;
my $seconds = $most =~ s/s$// ? $most : 0;
my ($select, $all, %loops, %other) = (IO::Select->new, 0);
my @answers = (0) x @groups;

sub ask {
    my ($loop) = @_;
    $loop->{text} = '';
    syswrite $loop->{socket}, $loop->{heads}[$loop->{asked}++ % @{ $loop->{heads} }];
}

sub begin {
    my ($loop) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) or die "cannot connect: $!\n";
    $loop->{socket} = $s;
    $loops{ fileno $s } = $loop;
    $select->add($s);
    ask($loop);
}

sub again {
    my ($loop) = @_;
    my $s = $loop->{socket};
    $select->remove($s);
    delete $loops{ fileno $s };
    close $s;
    begin($loop);
}

sub count {
    my ($loop) = @_;
    return unless $loop->{text} =~ m,^HTTP/1\.1 (\d+),;
    if ($1 == 200) { $answers[$loop->{group}]++; $all++ }
    else           { $other{$1}++ }
}

# Returns 1 if the response of a kept connection is complete.
sub is_complete {
    return 0 unless $_[0] =~ /^(.*?\r\n\r\n)(.*)/s;
    my ($head, $body) = ($1, $2);
    return $head =~ /^Content-Length: (\d+)/mi ? length $body >= $1 : $body =~ /(^|\r\n)0\r\n\r\n$/;
}

for my $group (0 .. $#groups) {
    my ($number, $heads) = split /:/, $groups[$group], 2;
    $heads =~ s/\\r\\n/\r\n/g;
    for my $i (1 .. $number) {
        (my $own = $heads) =~ s/%d/$i/g;
        my @heads = split /\|/, $own;
        my $end = @heads > 1 ? '' : "Connection: close\r\n";
        begin({ group => $group, asked => 0, kept => @heads > 1, heads => [map { "$_\r\n$end\r\n" } @heads] });
    }
}
my $begin = time;
while ($seconds ? time < $begin + $seconds : $all < $most && time < $begin + 60) {
    for my $s ($select->can_read(0.1)) {
        my $loop = $loops{ fileno $s };
        my $n = sysread $s, $loop->{text}, 65536, length $loop->{text};
        next if $n && !($loop->{kept} && is_complete($loop->{text}));
        count($loop);
        if ($n && $loop->{text} !~ /^Connection: close/mi) { ask($loop) }
        else                                               { again($loop) }
    }
}
printf "%d %s\n", $all ? 100 * $answers[0] / $all + 0.5 : -1, join ' ', @answers, map { "$other{$_}x$_" } sort keys %other;
