# SPDX-License-Identifier: Apache-2.0
#
# A server at a control socket that gives the answer in TEXT, for a minute.
#   answer.pl SOCKET TEXT [close|hang [NUMBER]]
# TEXT has \n and \xHH. After the answer the connection is closed, or kept open (hang).
# Answers before that with the NUMBER are cut in half.
use strict;
use warnings;
use Socket;

my ($path, $text, $end, $from) = @ARGV;
$end //= 'close';
$from //= 1;
$text =~ s/\\n/\n/g;
$text =~ s/\\x([0-9a-f]{2})/chr(hex($1))/ge;
alarm 60;
$SIG{PIPE} = 'IGNORE';
socket(my $server, PF_UNIX, SOCK_STREAM, 0) or die "$!\n";
# The name appears when connections are accepted.
bind($server, pack_sockaddr_un("$path.new")) && listen($server, 9) && rename("$path.new", $path) or die "$path: $!\n";
my @kept;
for (my $n = 1; accept(my $client, $server); $n++) {
    sysread($client, my $line, 4096);
    syswrite($client, $n < $from ? substr($text, 0, length($text) / 2) : $text);
    push @kept, $client if $end eq 'hang';
}
