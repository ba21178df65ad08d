/* SPDX-License-Identifier: MIT */
/*
 * Which process has the path of a socket. A path outlives its process, so that a file beside it,
 * PATH.lock, says whether a process listens: the listener holds a lock on the file for as long as
 * it lives, and removes the file before it unlocks it.
 */
#ifndef VIPL_OS_POSIX_PATH_LOCK_H
#define VIPL_OS_POSIX_PATH_LOCK_H

#include <stdbool.h>

/* Takes the path for this process. EADDRINUSE: another process has it. */
int vipl_path_lock(const char *path, int *lock);
/* Gives the path back, and closes the lock file. `lock` may be -1. */
void vipl_path_unlock(const char *path, int lock);
/* Whether this process still has the path: nobody has removed the lock file. */
bool vipl_path_is_locked(const char *path, int lock);
/* Removes a socket from the path: it belongs to a dead process, because the caller holds the lock.
 * A file of another kind stays, and is EEXIST. */
int vipl_path_remove_stale(const char *path);

#endif
