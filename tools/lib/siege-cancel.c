/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into siege.  Up to 4.0.7 siege lets its threads be cancelled at any
 * instant; one that dies inside malloc() keeps the heap locked, and siege hangs
 * at the end of nearly every timed run with many users (its issue 180).
 * Cancelling only at cancellation points, as later versions do, cures that. */

int pthread_setcanceltype(int type, int *old)
{
    (void)type;
    if (old)
        *old = 0;               /* PTHREAD_CANCEL_DEFERRED, the default */
    return 0;
}
