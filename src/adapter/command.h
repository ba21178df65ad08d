/* SPDX-License-Identifier: MIT */
/* The program vipl-rnicd: its options, and what it does. */
#ifndef ADAPTER_COMMAND_H
#define ADAPTER_COMMAND_H

/* The program's main function. */
int rnic_adapter_command(int count, char **arguments);
/* For a program that has no vipl-rnicd: the same in a fork of it, as if it had been started with --socket PATH --linger (rnic/start.h). */
void rnic_adapter_fork(const char *path, int lifeline);

#endif
