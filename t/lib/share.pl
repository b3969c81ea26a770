#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# share.pl PORT SECONDS GROUP...   closed loops: each connection sends a request, reads the response
#                                  until the server closes, and begins again; prints the part of the
#                                  answers (status 200) that the first group got, in hundredths, and the
#                                  number of answers of each group
#
# A GROUP is NUMBER:LINES, the number of connections and the head without its last empty lines;
# %d in LINES is the number of the connection (1 to NUMBER).
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my ($port, $seconds, @groups) = @ARGV;
my ($select, %loops) = (IO::Select->new);
my @answers = (0) x @groups;

sub begin {
    my ($loop) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) or die "cannot connect: $!\n";
    @$loop{qw(socket text)} = ($s, '');
    syswrite $s, $loop->{head};
    $loops{ fileno $s } = $loop;
    $select->add($s);
}

for my $group (0 .. $#groups) {
    my ($number, $lines) = split /:/, $groups[$group], 2;
    $lines =~ s/\\r\\n/\r\n/g;
    for my $i (1 .. $number) {
        (my $head = $lines) =~ s/%d/$i/g;
        begin({ group => $group, head => "$head\r\nConnection: close\r\n\r\n" });
    }
}
my $end = time + $seconds;
while (time < $end) {
    for my $s ($select->can_read(0.1)) {
        my $loop = $loops{ fileno $s };
        next if sysread $s, $loop->{text}, 65536, length $loop->{text};
        $answers[$loop->{group}]++ if $loop->{text} =~ m,^HTTP/1\.1 200,;
        $select->remove($s);
        delete $loops{ fileno $s };
        close $s;
        begin($loop);
    }
}
my $all = 0;
$all += $_ for @answers;
printf "%d %s\n", $all ? 100 * $answers[0] / $all + 0.5 : -1, join ' ', @answers;
