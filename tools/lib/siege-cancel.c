/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into siege.  Up to 4.0.7 siege allows its threads to be cancelled at any
 * instruction.  A thread cancelled inside malloc() keeps the heap locked, and siege
 * hangs at the end of nearly every timed run with many users (its issue 180).  With
 * cancellation points only, as in later versions, this does not happen. */

int pthread_setcanceltype(int type, int *old)
{
    (void)type;
    if (old)
        *old = 0;               /* PTHREAD_CANCEL_DEFERRED, the default */
    return 0;
}
