/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

/* Client of the server's control socket.  A command is a line of words with tabs between
 * them.  The answer is one JSON document, after which the server closes the connection. */

#include <sys/types.h>

#include "ctl.h"

typedef struct ctl_answer_t {
    char *text;                 /* the document as the server sent it */
    json_t *json;
    pid_t pid;                  /* of the server's parent process; 0: unknown */
    uid_t uid;                  /* its user when it made the socket; valid if pid is known */
} ctl_answer_t;

/* Sends the command and receives the answer.  socket: path of the control socket; NULL:
 * the usual places are searched.  words ends with NULL.  body: what follows the line of
 * words, or NULL.  Returns CTL_DONE, or fills in
 * *error: no server answers, it refuses the command, or it is not allowed. */
ctl_exit_e ctl_client_ask(const char *socket, const char *const words[],
                          const char *body, ctl_answer_t *ret_answer, ctl_error_t *error);

/* The same, but an answer that is no refusal is not parsed: ret_answer->json is NULL. */
ctl_exit_e ctl_client_ask_text(const char *socket, const char *const words[],
                               ctl_answer_t *ret_answer, ctl_error_t *error);

void ctl_client_free(ctl_answer_t *answer);

#endif
