/* SPDX-License-Identifier: MIT */
/* vipl-rnicd --stats */
#ifndef ADAPTER_STATS_PRINT_H
#define ADAPTER_STATS_PRINT_H

/* Asks the adapter of that socket and prints what it tells, once, or (seconds > 0) again and again. 0, or an errno value: it does not
 * run. */
int rnic_stats_print(const char *socket, unsigned seconds);

#endif
