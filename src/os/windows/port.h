/* SPDX-License-Identifier: MIT */
/*
 * Input and output that goes on without a thread of the program, inside src/os/windows. The system
 * ends what a thread has begun when that thread ends: one thread of the library's own, which lasts
 * as long as the process, begins everything and hears of its end.
 */
#ifndef VIPL_OS_WINDOWS_PORT_H
#define VIPL_OS_WINDOWS_PORT_H

#include "os/windows/descriptor.h"

/* One operation at a time. Both functions are called by that thread alone, which holds no lock
 * meanwhile; either may free the memory that this is in. */
struct vipl_io {
    OVERLAPPED overlapped;                                      /* the first field */
    void (*begin)(struct vipl_io *io);                          /* what vipl_io_begin() asked for */
    void (*done)(struct vipl_io *io, DWORD error, DWORD bytes); /* an operation has ended */
};

/* Has the ends of a handle's operations reported to that thread, which is started if need be. */
int vipl_io_add(HANDLE handle);
/* Has that thread call io->begin(). */
int vipl_io_begin(struct vipl_io *io);

#endif
