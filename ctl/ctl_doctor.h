/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include "ctl_facts.h"

/* Returns an array of findings, objects of the strings level ("good", "note" or "problem"),
 * check, finding and todo.  A finding that is not good has something to do. */
json_t *ctl_doctor_judge(const ctl_facts_t *facts);

#endif
