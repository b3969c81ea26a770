# SPDX-License-Identifier: Apache-2.0
#
# limit_delay.pl PORT SOCKET NUMBER [COMMAND...]
#   Measures how long a changed limit takes to have its effect.  NUMBER requests for
#   a.test wait because of its concurrency of 1.  That is then raised by a line to the
#   control SOCKET, or by COMMAND.  Prints the time in µs until each request has its
#   response, and until the line has its answer, or COMMAND has ended.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(time sleep);

my ($port, $path, $number, @command) = @ARGV;
$SIG{ALRM} = sub { die "too late\n" };
alarm 60;

sub say_to_server {
    my $s = IO::Socket::UNIX->new(Peer => $path) or die "$path: $!\n";
    $s->syswrite("$_[0]\n");
    return $s;
}

sub ask_server { my $s = say_to_server(@_); local $/; return scalar <$s> }

sub client {
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die "client: $!\n";
    $s->syswrite("GET /page.html HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    return $s;
}

sub lift {
    return say_to_server("set\ta.test\tconcurrency=0") if !@command;
    open(my $out, '-|', @command) or die "$command[0]: $!\n";
    return $out;
}

ask_server("set\ta.test\tconcurrency=1") =~ /"concurrency":1,/ or die "not set\n";
my @clients = map { client() } 1 .. $number;
sleep 0.02 until ask_server("status\ta.test") =~ /"waiting":$number,/;

my $start = time;
my $asked = lift();
my ($effect, $answer);
my $all = IO::Select->new($asked, @clients);
while ($all->count) {
    for my $s ($all->can_read) {
        my $n = sysread($s, my $bytes, 65536) // 0;
        if ($s == $asked) { $answer = time; $all->remove($s) if !$n; next }
        die "a request failed\n" if $bytes !~ m{^HTTP/1\.1 200 };
        $effect = time;
        $all->remove($s);
    }
}
printf "%d %d\n", 1e6 * ($effect - $start), 1e6 * ($answer - $start);
