#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# random_heads.pl PORT COUNT SEED [proxy]   sends COUNT request heads with odd methods, targets, Host
#                                           lines and forwarded addresses, each on a new connection;
#                                           prints how many got each status. proxy: behind PROXY headers,
#                                           from 127.0.0.2
# random_heads.pl --show NUMBER SEED [proxy]   prints the head with this number
#
# Each head has its number in the field X-N. COOKIE in the environment is a cookie of a known client.
use strict;
use warnings;
use IO::Socket::INET;

my ($port, $count, $seed, $proxy) = @ARGV;
my $CLIENTS = 4;
$SIG{PIPE} = 'IGNORE';

sub one { return $_[int rand @_] }
sub sometimes { my ($percent, $text) = @_; return rand(100) < $percent ? $text : '' }

my @segments = (qw(api %61pi api a%2Fb a%2fb health .. . %2e%2e x %zz %00 %25 a;p ä %C3%A4 page.html), '', "\xff", '%7e', 'a+b', 'a:b');
my @hosts = (qw(a.test b.test c.test A.Test a.test. b.test:80 c.test:99999 x.c.test Y.c.test unknown.test [::1] [::1]:80 127.0.0.1 a_b 1234 a.test: a..test),
    'a.test,b.test', 'a b', 'a/b', '', 'a.test@b.test', 'n' x 300 . '.c.test', '-x.c.test');

sub path {
    my $path = sometimes(5, '/') . join '', map { '/' . one(@segments) } 1 .. 1 + int rand 3;
    $path = one('/api/x', '/api/a%2Fb', '/health', '/%68ealth', '//health', '/x/../health', '/health/') if rand(100) < 30;
    return $path . sometimes(15, one('?k=1', '?', '?/api/', '?k=%2F&#x', '#f')) . sometimes(1, '/' . 'y' x 9000);
}

sub target {
    my $kind = rand 100;
    return path() if $kind < 75;
    return one('http', 'http', 'https', 'HTTP', 'ftp') . '://' . sometimes(5, 'me:pw@') . one(@hosts) . one('', '/', path()) if $kind < 93;
    return '*' if $kind < 97;
    return one('a.test:80', 'b.test', 'page.html', '', '?k', 'api/x', '%2Fapi/x', '*x');
}

sub address { return one('192.0.2.1', '192.0.2.2', '127.0.0.1', '10.0.0.1', '2001:db8::1', '198.51.100.7') }

# Words that are no addresses are not resolved: they are not valid names either.
sub forwarded {
    my @words = map { one(address(), address(), address(), 'un known', '', '192.0.2.1:80', '[2001:db8::1]', '192.0.2', '0xc0.2', '300.1.1.1', 'fe80::1%lo', "\t192.0.2.9") } 1 .. 1 + int rand 3;
    return join one(',', ', ', ' , '), @words;
}

sub fields {
    my @fields;
    my $hosts = rand(100) < 85 ? 1 : int rand 3;
    push @fields, one('Host', 'host', 'HOST') . ':' . one('', ' ', "\t ") . (rand(100) < 60 ? one('a.test', 'b.test', 'c.test', 'x.c.test') : one(@hosts)) . sometimes(10, ' ') for 1 .. $hosts;
    push @fields, one('X-Forwarded-For', 'x-forwarded-for') . ': ' . forwarded() for 1 .. one(0, 0, 1, 1, 2);
    push @fields, 'User-Agent: ' . one('bot', 'browser', '') if rand(100) < 40;
    push @fields, 'Cookie: ' . one('a=b', 'vhostlimit-known=1.0', $ENV{COOKIE} // 'c=d', ($ENV{COOKIE} // 'c=d') . '; a=b') for 1 .. one(0, 0, 1, 2);
    push @fields, "X-Class: " . one('early', 'late') for 1 .. one(0, 0, 1, 2);
    push @fields, one('Content-Length: 0', 'Content-Length: x', 'Transfer-Encoding: x', 'Expect: x', 'Bad Name: x', 'no colon', ': empty', "X: \x01", 'X : y', 'X: ' . 'y' x 7000, 'X: ' . 'y' x 9000) if rand(100) < 12;
    push @fields, "X-Folded: a\r\n b", "X-Class: ea\r\n\trly" if rand(100) < 4;
    push @fields, one("Host:\r\n " . one(@hosts), "Host: a.test\r\n\tx", "X-Folded: a\r\n Host: b.test", 'Host : ' . one(@hosts)) if rand(100) < 4;
    push @fields, map { "X-Long$_: " . 'y' x one(3000, 8000) } 1 .. 1 + int rand 4 if rand(100) < 4;
    @fields = map { $_->[1] } sort { $a->[0] <=> $b->[0] } map { [rand, $_] } @fields;
    return @fields;
}

sub proxy_header {
    my $address = address();
    my $v6 = $address =~ /:/;
    my $kind = rand 100;
    return '' if $kind < ($proxy ? 3 : 97);
    return "PROXY UNKNOWN\r\n" if $kind < 8;
    return "PROXY TCP4 nonsense\r\n" if $kind < 10;
    return 'PROXY ' . ($v6 ? "TCP6 $address ::1" : "TCP4 $address 127.0.0.1") . " 1111 80\r\n" if $kind < 60;
    return "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0" if $kind < 63;
    return $v6 ? proxy_header() : "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" . pack('C4 C4 n n', split(/\./, $address), 127, 0, 0, 1, 1111, 80);
}

sub head {
    my ($number) = @_;
    srand($seed * 1000003 + $number);
    my $eol = rand(100) < 97 ? "\r\n" : "\n";
    my $method = rand(100) < 60 ? 'GET' : one(qw(POST HEAD OPTIONS OPTIONS PUT DELETE PROPFIND CONNECT get NONSENSE G@T));
    my $version = rand(100) < 80 ? ' HTTP/1.1' : one(' HTTP/1.0', ' HTTP/1.0', ' HTTP/1.2', ' HTTP/2.0', ' http/1.1', '', ' HTTP/1.1 ', '  HTTP/1.1', ' HTTP/3', ' FTP/1.1');
    my @fields = ("X-N: $number", 'Connection: close', fields());
    return proxy_header() . sometimes(4, $eol) . $method . sometimes(2, ' ') . ' ' . target() . $version . $eol . join('', map { $_ . $eol } @fields) . $eol;
}

sub status_of {
    my ($number) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10, $proxy ? (LocalAddr => '127.0.0.2') : ()) or return 'none';
    my ($text, $input) = ('', '');
    syswrite $s, head($number);
    local $SIG{ALRM} = sub { die "no end\n" };
    alarm 20;
    eval { $text .= $input while sysread $s, $input, 65536 };
    alarm 0;
    return $text =~ m,^HTTP/1\.\d (\d+), ? $1 : length $text ? 'text' : 'none';
}

if ($port eq '--show') {
    print head($count);
    exit 0;
}
my (%statuses, @pipes);
for my $client (0 .. $CLIENTS - 1) {
    my $pid = open(my $pipe, '-|') // die "cannot fork: $!\n";
    if (!$pid) {
        for (my $i = $client; $i < $count; $i += $CLIENTS) { print status_of($i), "\n" }
        exit 0;
    }
    push @pipes, $pipe;
}
for my $pipe (@pipes) { while (<$pipe>) { chomp; $statuses{$_}++ } }
print join(' ', map { "$_=$statuses{$_}" } sort keys %statuses), "\n";
