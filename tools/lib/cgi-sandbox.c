/* SPDX-License-Identifier: Apache-2.0
 *
 * A CGI that starts another one in bubblewrap: the test bed's hello.cgi, with
 * namespaces of its own and nothing but /usr and its own folder to see.
 * Static and without a shell, so that what it costs is what bubblewrap costs. */

#include <unistd.h>

int main(void)
{
    execl(BWRAP, "bwrap", "--unshare-all", "--die-with-parent",
          "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
          "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
          "--proc", "/proc", "--dev", "/dev", "--ro-bind", DIR, DIR,
          "--chdir", DIR, DIR "/hello.cgi", (char *)NULL);
    return 127;
}
