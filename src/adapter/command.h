/* SPDX-License-Identifier: MIT */
/* The program vipl-rnicd. */
#ifndef ADAPTER_COMMAND_H
#define ADAPTER_COMMAND_H

/* The program's main function. */
int rnic_adapter_command(int count, char **arguments);

#endif
