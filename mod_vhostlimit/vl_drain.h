/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_DRAIN_H
#define VL_DRAIN_H

/* Connections whose request is done while the client has not taken all of the
 * answer.  They hold no slot and no thread, but the event MPM takes only so many
 * connections per child: an account that has too many of them is granted nothing
 * in that child until some have ended. */

#include "vl_shm.h"

/* most: such connections of a child that leave the MPM room for as many others as
 * it has threads; 0: it does not keep them. */
void vl_drain_set(vl_shm_t *shm, apr_uint32_t most);

/* One more of the account in this child, or one less. */
void vl_drain_begin(vl_shm_t *shm, apr_uint32_t account);
void vl_drain_end(vl_shm_t *shm, apr_uint32_t account);

/* 1: the account, which runs `held` requests in that child, may have one more:
 * each of them may come to drain. */
int vl_drain_leaves_room(const vl_shm_t *shm, apr_uint32_t child,
                         apr_uint32_t account, apr_uint32_t held);

#endif
