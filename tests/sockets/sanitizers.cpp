// SPDX-License-Identifier: MIT
//
// What the sanitizers' runtimes ask the program for; they have no header for it.
#include <unistd.h>

#define FOR_RUNTIME extern "C" __attribute__((visibility("default")))

static const pid_t first = getpid();

/** AddressSanitizer looks for leaks at the end of each process. A forked child leaves what its
 * parent had allocated where it is, and has lost sight of it: the first process alone is looked
 * at. */
FOR_RUNTIME int __lsan_is_turned_off();
int __lsan_is_turned_off()
{
    return getpid() != first;
}

/** ThreadSanitizer ends a child that is forked from among threads and starts one itself. This lets
 * the child go on; it is not watched. */
FOR_RUNTIME const char *__tsan_default_options();
const char *__tsan_default_options()
{
    return "die_after_fork=0";
}
