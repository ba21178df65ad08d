/* SPDX-License-Identifier: MIT */
/* Fork, and the descriptors of the library, which a forked child closes. */
#ifndef VIPL_OS_FORK_H
#define VIPL_OS_FORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- fork ------------------------------------------------------------------------------------- */

/* Returns 1 in the process that loaded the library, and another number in each forked child. */
uint32_t vipl_fork_generation(void);
/* Sets `child`, which the child of every later fork calls, and registers the fork handlers if
 * `handlers` is true. If this process was forked and the handlers did not run, `child` is called
 * now. To be called before the process has objects, any number of times. */
int vipl_fork_watch(void (*child)(void), bool handlers);

/* Registers functions that are called around every later fork: `before` it, and after it in the
 * parent and in the child. To be called once. */
int vipl_around_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* The library registers its descriptors, because a forked child closes its copies of them. No other
 * thread forks between vipl_fd_begin() and vipl_fd_end(), which enclose the call that makes a
 * descriptor and its registration; what comes between them must be short. */
void vipl_fd_begin(void);
void vipl_fd_end(void);
void vipl_fd_own(int fd); /* registers a descriptor */
bool vipl_fd_is_own(int fd);
/* Has later descriptors of the library be at this number or above it, so that the program's own
 * have the numbers that they would have without the library; if the limit of descriptors allows
 * that. */
void vipl_fd_keep_above(int least);
/* To be called before the descriptor is closed by other means than vipl_fd_close(). */
void vipl_fd_disown(int fd);
void vipl_fd_close(int fd); /* disowns and closes a descriptor; does nothing if fd < 0 */
/* Registers the descriptor that a system call has just returned, after moving it if its number is
 * below 3: even if the program has closed 0 to 2, the library has none there. Returns 0, or why
 * there is no descriptor: if *fd < 0, the errno of that call. On failure the descriptor is
 * closed. */
int vipl_fd_adopt(int *fd);
/* The same for two descriptors of one call: adopts both or none. */
int vipl_fd_adopt_pair(int fds[2]);
/* Whether the descriptor is open and of the kind that poll sets use. */
bool vipl_fd_is_poller(int fd);
/* Makes and registers a duplicate whose number is at least `least`, and at least 3. */
int vipl_fd_duplicate(int fd, int least, int *out);
/* Opens a file to append to, and makes it if it is missing. Forked children keep the descriptor.
 * ENXIO: the file is a pipe without readers. */
int vipl_fd_append(const char *path, int *fd);
/* Reads a whole regular file. *text is NUL-terminated, "" if the file is empty, and the caller's to
 * free. EISDIR, EINVAL: it is not a regular file; EFBIG: it has more than `most` bytes. */
int vipl_read_text(const char *path, size_t most, char **text);
/* Raises the limit of descriptors to what the system allows this process. */
void vipl_fd_raise_limit(void);
/* Names two descriptors (-1: none) that children forked by the calling thread keep, and register as
 * their own, until the next call. */
void vipl_fd_pass(int first, int second);
void vipl_fd_pass_report(int fd); /* names a third one, for vipl_hidden_child() */

#endif
