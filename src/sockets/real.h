/* SPDX-License-Identifier: MIT */
/*
 * The C library's own functions behind those that this library puts in their place.
 * SOCK_REAL(close)(fd) is the C library's close(); it works before the constructors.
 *
 * The names in sock_names.h are exported (interpose*.c defines them), and each reference to one of
 * them from the rest of this library goes to the C library's: the linker is told so for each name
 * of the list (cmake/vipl_sockets.cmake), and real.c has the targets.
 */
#ifndef VIPL_SOCKETS_REAL_H
#define VIPL_SOCKETS_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The times of sock_names_time64.h. The nanoseconds are in one half of 64 bits, and the other half
 * may have anything. */
struct sock_timespec64 {
    int64_t tv_sec;
    int32_t tv_nsec[2];
};
struct sock_timeval64 {
    int64_t tv_sec;
    int64_t tv_usec;
};

struct sock_real {
// NOLINTBEGIN(bugprone-macro-parentheses): these are declarations
#define SOCK_NAME(type, name, parameters, arguments) type(*name) parameters;
#define SOCK_VARIADIC(type, name, command) type (*name)(int, command, ...);
#define SOCK_LIST(name)
#include "sockets/sock_names.h"
#undef SOCK_NAME
#undef SOCK_VARIADIC
#undef SOCK_LIST
    // NOLINTEND(bugprone-macro-parentheses)
};
/* Looks all of them up at the first call. */
const struct sock_real *sock_real(void);
#define SOCK_REAL(name) (sock_real()->name)

/* --- calls of the program that are inside this library ------------------------------------------
 *
 * An exported function enters before it does anything but the kernel's call, and leaves at its end.
 * A signal handler of the program may run meanwhile, and call again: sock_enter() then returns
 * false, and the function makes the kernel's call if the descriptor is the kernel's, and fails with
 * EAGAIN if not. */
bool sock_enter(void);
void sock_leave(void);

#endif
