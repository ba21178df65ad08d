/* SPDX-License-Identifier: MIT */
/* The C library's functions, found once; and what references to them from the library itself lead
 * to: __wrap_close() is what the linker makes of close() in all objects but interpose*.c. */
#include "sockets/real.h"

#include <dlfcn.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"

static struct sock_real real; /* written by any thread before `is_found` is 1, always the same values */
static uint32_t is_found;     /* atomic, pairs with itself in sock_real() */

/* A function that an older C library lacks stays NULL; no program calls it then. */
static void find(void)
{
#define SOCK_NAME(type, name, parameters, arguments) *(void **)(void *)&real.name = dlsym(RTLD_NEXT, #name);
#define SOCK_VARIADIC(type, name, command) *(void **)(void *)&real.name = dlsym(RTLD_NEXT, #name);
#define SOCK_LIST(name)
#include "sockets/sock_names.h"
#undef SOCK_NAME
#undef SOCK_VARIADIC
#undef SOCK_LIST
    vipl_store_release(&is_found, 1);
}

const struct sock_real *sock_real(void)
{
    if (vipl_load_acquire(&is_found) == 0) {
        find();
    }
    return &real;
}

/* --- calls from the library itself --- */

#define SOCK_NAME(type, name, parameters, arguments) \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        return sock_real()->name arguments; \
    }
#define SOCK_VARIADIC(type, name, command) \
    type __wrap_##name(int fd, command what, void *argument); \
    type __wrap_##name(int fd, command what, void *argument) \
    { \
        return sock_real()->name(fd, what, argument); \
    }
#define SOCK_LIST(name)
#include "sockets/sock_names.h"
#undef SOCK_NAME
#undef SOCK_VARIADIC
#undef SOCK_LIST

/* --- calls of the program --- */

static _Thread_local volatile bool is_inside VIPL_FAST_THREAD_LOCAL;

bool sock_enter(void)
{
    if (is_inside) {
        return false;
    }
    is_inside = true;
    vipl_signal_fence();
    return true;
}

void sock_leave(void)
{
    vipl_signal_fence();
    is_inside = false;
}
