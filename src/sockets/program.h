/* SPDX-License-Identifier: MIT */
/* What the program was called when it began. */
#ifndef VIPL_SOCKETS_PROGRAM_H
#define VIPL_SOCKETS_PROGRAM_H

enum { SOCK_PROGRAM_BYTES = 64 };

/* The file name of the program, cut to fit. */
const char *sock_program_name(void);

#endif
