#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# compare_requests.pl PORT
#   Sends some hundred requests of all kinds, each on a connection of its own, and
#   prints each response: all bytes except what differs between two equal servers,
#   which are dates, the order in Allow, and the boundaries of multipart responses.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(sleep time);

my $port = shift @ARGV;
my $close = "Connection: close\r\n";
$SIG{PIPE} = 'IGNORE';

sub dial {
    return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) // die "cannot connect: $!\n";
}

# Reads until the server closes, or until the timeout.
sub rest {
    my ($s, $text) = (@_, '');
    my $end = time + 20;
    my $ready = IO::Select->new($s);
    while ($ready->can_read($end - time)) {
        my $n = sysread $s, $text, 65536, length $text;
        return $text . ($n ? '' : defined $n ? '' : '[reset]') unless $n;
    }
    return $text . '[still open]';
}

sub normal {
    my ($text) = @_;
    $text =~ s/^(Date|Expires): [^\r\n]*/$1: -/mg;
    # The order is that of a hash with a random seed in each process.
    $text =~ s/^(Allow: )([^\r\n]*)/$1 . join ',', sort split(',', $2)/meg;
    # The boundary contains the time and a pid, whose length varies.
    if ($text =~ /boundary=([0-9a-f]+)/) { my $was = $1; $text =~ s/\Q$was\E/boundary/g; $text =~ s/^(Content-Length: )\d+/$1-/mg }
    $text =~ s/[^\t\r\n -~]/sprintf '\\x%02x', ord $&/ge;
    return $text;
}

# Sends each part in a packet of its own, if there are several.
my @asks;
sub ask { push @asks, [@_] }

sub answer_to {
    my ($name, @parts) = @_;
    my $s = dial();
    for my $i (0 .. $#parts) { sleep 0.05 if $i; syswrite $s, $parts[$i] }
    return "### $name\n" . normal(rest($s)) . "\n";
}

# Four clients run at once. Requests that depend on each other belong to the same client.
sub ask_all {
    my @pipes;
    for my $client (0 .. 3) {
        my $pid = open(my $pipe, '-|') // die "cannot fork: $!\n";
        if (!$pid) {
            for my $i (0 .. $#asks) {
                my $whose = $asks[$i][0] =~ /dav/ ? 0 : $i % 4;
                print answer_to(@{ $asks[$i] }) if $whose == $client;
            }
            exit 0;
        }
        push @pipes, $pipe;
    }
    for my $pipe (@pipes) { print while <$pipe> }
}

sub head { my ($line, @fields) = @_; return join '', map { "$_\r\n" } $line, @fields, '' }
sub get  { my ($path, @fields) = @_; return head("GET $path HTTP/1.1", 'Host: a.test', 'Connection: close', @fields) }

my @paths = qw(/ /page.html /nope /sub /sub/ /ssi.shtml /private/ /private/nope /neg /list/ /secret.txt
  /cgi/echo.sh /cgi/fail.sh /cgi/redirect.sh /cgi/none.sh /proxy/page.html /proxy/nope /dead/ /old /moved/x /rewritten
  /gone /text.txt /text.txt.gz /page.html/more /page.html?q=1 /%70age.html /a%2fb /%00 /../x //page.html /dav/new /%zz);
my @methods = qw(GET HEAD POST PUT DELETE OPTIONS TRACE PATCH PROPFIND get NONSENSE);

for my $method (@methods) {
    for my $path (@paths) {
        my $body = $method =~ /POST|PUT|PATCH/ ? 'body=1' : '';
        my @fields = ('Host: a.test', 'Connection: close', $body ? 'Content-Length: ' . length $body : ());
        ask("$method $path", head("$method $path HTTP/1.1", @fields) . $body);
    }
}
ask("1.0 $_", head("GET $_ HTTP/1.0", 'Host: a.test')) for @paths;

my @fields = (
    'Range: bytes=0-99', 'Range: bytes=-5', 'Range: bytes=100-', 'Range: bytes=0-0,2-3,7-', 'Range: bytes=9999999-', 'Range: bytes=5-1',
    'Range: lines=1-2', 'Range: bytes=' . join(',', map { 2 * $_ . '-' . 2 * $_ } 1 .. 300), 'If-Match: "x"', 'If-Match: *',
    'If-None-Match: *', 'If-None-Match: "x", W/"y"', 'If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT',
    'If-Modified-Since: Mon, 01 Jan 2001 00:00:00 GMT', 'If-Unmodified-Since: Mon, 01 Jan 2001 00:00:00 GMT',
    "Range: bytes=0-9\r\nIf-Range: \"x\"", 'Accept-Encoding: gzip', 'Accept-Encoding: gzip;q=0, identity', 'Accept-Encoding: nonsense',
    'Accept-Language: de', 'Accept-Language: fr, en;q=0.5', 'Accept: text/plain', 'Accept: image/png', 'Authorization: Basic dXNlcjpwYXNz',
    'Authorization: Basic dXNlcjp3cm9uZw==', 'Authorization: Digest x', 'Authorization: nonsense', 'Cookie: a=b; c=d', 'Expect: 100-continue',
    'Expect: nonsense', 'TE: trailers', 'Upgrade: websocket', "Upgrade: h2c\r\nConnection: Upgrade", 'Max-Forwards: 0', 'X-Forwarded-For: 192.0.2.1',
    'Content-Length: 0', 'Transfer-Encoding: identity', 'Host: b.test', ' folded: x', 'No-Colon', ': empty', 'Bad Name: x', "X: a\tb", "X: \x01", 'X: ' . 'y' x 8000,
    'X: ' . 'y' x 65536, join("\r\n", map { "X$_: $_" } 1 .. 101));
for my $path (qw(/text.txt /page.html /private/ /neg /cgi/echo.sh /proxy/text.txt)) {
    ask("$path with " . substr($_, 0, 60), get($path, $_)) for @fields;
}

my @hosts = ('a.test', "a.test:$port", 'A.Test', 'a.test.', 'b.test', 'unknown.test', '', ' ', 'a_b', 'a/b', 'a b', '[::1]', 'a.test:', 'a.test:99999', 'a.test,b.test', 'x' x 300, "a\x00b", '..', '127.0.0.1');
ask('Host: ' . substr($_, 0, 40), head('GET /page.html HTTP/1.1', "Host: $_", 'Connection: close')) for @hosts;
ask('no Host', head('GET /page.html HTTP/1.1', 'Connection: close'));

my @lines = ('GET /page.html', 'GET /page.html ', 'GET  /page.html HTTP/1.1', 'GET /page.html HTTP/1.2', 'GET /page.html HTTP/2.0', 'GET /page.html HTTP/0.9',
    'GET /page.html HTTP/1.1 x', 'GET /page.html http/1.1', 'GET page.html HTTP/1.1', 'GET * HTTP/1.1', 'OPTIONS * HTTP/1.1', 'GET http://b.test/page.html HTTP/1.1',
    'GET http://user@a.test:1/page.html HTTP/1.1', 'GET https://a.test/ HTTP/1.1', 'GET ftp://a.test/ HTTP/1.1', 'CONNECT a.test:80 HTTP/1.1', 'GET', ' ', 'GET /pa ge.html HTTP/1.1',
    "GET /\x00 HTTP/1.1", "GET /\xff HTTP/1.1", 'GET /' . 'x' x 9000 . ' HTTP/1.1', "G\x00T / HTTP/1.1", '{"json": 1}', "\x16\x03\x01\x00\x02\x01\x00", 'PRI * HTTP/1.1', "\r\nGET /page.html HTTP/1.1");
ask('line ' . substr($_, 0, 50), head($_, 'Host: a.test', 'Connection: close')) for @lines;
ask('LF only', "GET /page.html HTTP/1.1\nHost: a.test\nConnection: close\n\n");
ask('CR only', "GET /page.html HTTP/1.1\rHost: a.test\r\r\n\r\n");

my $post = "POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\n$close";
my @bodies = (
    "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody!", "Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody", "Content-Length: 4, 5\r\n\r\nbody!", "Content-Length: -1\r\n\r\n",
    "Content-Length: x\r\n\r\n", "Content-Length: 99999999999999999999\r\n\r\n", "Content-Length: +4\r\n\r\nbody", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nTrailer: x\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", "Transfer-Encoding: xchunked\r\n\r\n", "Transfer-Encoding: chunked, identity\r\n\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody", "Content-Length: 100000\r\n\r\n" . 'x' x 100000, "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbody");
ask('body ' . $_, $post . $bodies[$_]) for 0 .. $#bodies;
ask("parts $_", map { "$_" } $post . "Content-Length: 8\r\n\r\n", 'four', 'more') for 1 .. 3;

# Keep-alive and pipelined requests: prints all responses of the connection.
my $next = sub { my ($path, $host, @more) = @_; return head("GET $path HTTP/1.1", "Host: $host.test", @more) };
my @chains = (
    [map { $next->('/page.html', 'a') } 1 .. 20], [map { $next->($_ % 2 ? '/nope' : '/text.txt', 'a') } 1 .. 6],
    [$next->('/page.html', 'a'), $next->('/page.html', 'b'), $next->('/page.html', 'a')], [$next->('/', 'a', 'Connection: keep-alive'), $next->('/cgi/echo.sh', 'a')],
    ["POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody", $next->('/page.html', 'a')], [head('HEAD /text.txt HTTP/1.1', 'Host: a.test'), $next->('/page.html', 'a')],
    ["POST /cgi/echo.sh HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", $next->('/page.html', 'a')],
    [$next->('/page.html', 'a', 'If-None-Match: *'), $next->('/page.html', 'a')], [$next->('/proxy/page.html', 'a'), $next->('/private/', 'a'), $next->('/ssi.shtml', 'a')],
    [head('GET /page.html HTTP/1.0', 'Host: a.test', 'Connection: keep-alive'), $next->('/page.html', 'a')], [$next->('/page.html', 'a'), "nonsense\r\n\r\n"],
    ["\r\n" . $next->('/page.html', 'a') . "\r\n", $next->('/page.html', 'a')], ["POST /nope HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody", $next->('/page.html', 'a')]);
for my $i (0 .. $#chains) {
    my @chain = (@{ $chains[$i] }, get('/page.html'));
    ask("pipelined $i", join '', @chain);
    ask("kept alive $i", @chain) if @chain < 8;
}
ask_all();
