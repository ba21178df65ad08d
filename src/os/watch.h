/* SPDX-License-Identifier: MIT */
/* Watching memory for pages that are taken away. */
#ifndef VIPL_OS_WATCH_H
#define VIPL_OS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Begins to watch: a thread of the library's own calls `gone` for addresses whose pages are not
 * there any more, or are about to go, by a call of this process: munmap(), mmap(), mremap(), brk(),
 * madvise(). That call does not return before the thread has begun to handle it
 * (vipl_watch_is_current()). `gone` does not allocate, and does not wait for a thread that may be
 * in such a call. It is called once for no memory before vipl_watch_begin() returns. ENOTSUP and
 * other errors: the system has nothing of the kind, or does not allow it. The caller calls begin
 * and end one at a time, and end once for each begin that succeeded. */
int vipl_watch_begin(void (*gone)(uintptr_t first, uintptr_t end));
void vipl_watch_end(void);
/* Adds whole pages, some or all of which may be watched already, with the mappings that they are
 * in: a mapping of which a part were watched would be two for the system, and mremap() refuses
 * that. Mappings of the same kind that adjoin are watched, too. They are watched for as long as
 * they are mapped. EINVAL: they are not mapped, or are of a
 * kind that cannot be watched, because a page could be taken away without this process. EBUSY: the
 * program itself watches them. */
int vipl_watch_add(uintptr_t first, uintptr_t end);
/* Returns true if `gone` has returned for all calls that have returned so far. `exactly`: and for
 * all after which another thread may have mapped the same addresses again, though they have not
 * returned: a system call. */
bool vipl_watch_is_current(bool exactly);
void vipl_watch_abandon(void); /* in a forked child, which has no watch */

/* Makes whole pages present and writable, as a device does that locks them. */
int vipl_memory_populate(uintptr_t first, uintptr_t end);

#endif
