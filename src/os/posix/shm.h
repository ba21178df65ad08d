/* SPDX-License-Identifier: MIT */
/* What the parts of shm.h share, inside src/os. */
#ifndef VIPL_OS_POSIX_SHM_H
#define VIPL_OS_POSIX_SHM_H

#include "os/shm.h"

/* Makes a segment and does not map it. `now`: allocates its pages. */
int vipl_shm_make(struct vipl_shm *shm, const char *label, size_t bytes, bool now);
/* Maps a segment at `address`; for NULL, at a retired address of the same size, or where the system
 * chooses. EEXIST: other memory is mapped there. */
int vipl_shm_map(struct vipl_shm *shm, bool writable, void *address);

/* --- what systems have differently --- */

/* Makes an empty file for a segment. Returns its descriptor, or -1 with errno. */
int vipl_shm_file_new(const char *label);
/* Fixes the size of the file, if the system can. */
int vipl_shm_file_seal(int fd);
/* Looks at a file from another process. EPERM: its size is not fixed, and could be. */
int vipl_shm_file_check(int fd);
/* In a forked child: forgets the memory that was published by vipl_shm_show(). */
void vipl_shm_shown_abandon(void);

#endif
