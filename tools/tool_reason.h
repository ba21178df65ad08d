/* SPDX-License-Identifier: MIT */
/* What the library says of a call that fails, kept until the tool says that it failed. */
#ifndef VIPL_TOOL_REASON_H
#define VIPL_TOOL_REASON_H

#include <vipl/vipl.h>

/* From now on; before the first thread and the first NIC handle. Names what is wrong with the
 * settings, once for a process and those that it forks. */
void tool_reasons_begin(void);
/* The device is open. */
void tool_reasons_opened(void);
/* "NAME: WHAT: VIP_X: its sentence", and below it each reason, which is forgotten then. */
void tool_complain_rc(const char *what, VIP_RETURN rc);

#endif
