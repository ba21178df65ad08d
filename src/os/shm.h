/* SPDX-License-Identifier: MIT */
/* Memory that processes share, and which file is mapped at an address. */
#ifndef VIPL_OS_SHM_H
#define VIPL_OS_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- shared memory: anonymous, of a fixed size, passed by descriptor -------------------------- */

struct vipl_shm {
    int fd;
    void *base;
    size_t bytes;
};
/* Makes and maps zeroed memory, and allocates its pages. Forked children do not have the
 * mapping. */
int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes);
/* The same, but the system allocates each page when it is first touched. */
int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes);
/* Allocates the pages of a part of mapped sparse memory, so that touching them cannot fail.
 * ENOTSUP: the system cannot do that. Async-signal-safe; leaves errno as it is. */
int vipl_shm_allocate(void *first, size_t bytes);
/* As vipl_shm_create_sparse(), but forked children have the mapping too, and its address is free in
 * most other programs, so that vipl_shared_file_map() can map it there. */
int vipl_shm_reserve(struct vipl_shm *shm, const char *label, size_t bytes);
/* Returns the nth candidate for an address, a multiple of 2 MiB, at which most programs have
 * nothing in the next `bytes`: a random one between where systems put programs and where they put
 * libraries and stacks. Returns 0 if there is no nth candidate. */
uintptr_t vipl_address_apart(unsigned nth, size_t bytes);
/* Gives shared pages back to the system: they read as zeros. */
void vipl_shm_clear(void *pages, size_t bytes);
/* Maps a peer's segment, whose descriptor becomes shm->fd. EPERM: the segment is not sealed against
 * shrinking, or, on Windows, is of a file; EINVAL: it has less than `bytes`. */
int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable);
void vipl_shm_close_fd(struct vipl_shm *shm); /* the mapping stays */
void vipl_shm_release(struct vipl_shm *shm);  /* unmaps and closes */
/* Releases memory that another thread may still read, to find that it means nothing any more: the
 * address stays mapped, reads as zeros, and is used again for later memory of the same size. On
 * Windows memory that another process has too stays as it is until that process has ended. */
void vipl_shm_retire(struct vipl_shm *shm);
/* In a forked child: forgets retired addresses and the memory that was published by
 * vipl_shm_show(). */
void vipl_shm_abandon(void);

/* Publishes one segment, in place of the one before, as memory that peers may map: processes that
 * the system allows to access this process's memory find it by its descriptor. Takes over
 * shm->fd. */
void vipl_shm_show(struct vipl_shm *shm);
/* A place in the segment that a process has published. */
struct vipl_mappable {
    /* of the publishing process, plus 1; 0: the memory is not in a published segment */
    uint32_t descriptor;
    uint64_t inode;
    uint64_t offset;
};
/* Writes where `bytes` at an address of this process lie in the segment that it has published. */
void vipl_shm_find_mappable(const void *address, size_t bytes, struct vipl_mappable *out);
/* Maps the whole segment that another process has published. What that process says is checked.
 * EPERM: the file is not sealed against shrinking; ESTALE: the descriptor is of another inode.
 * Other errno values: the system does not allow the access. */
int vipl_shm_fetch(struct vipl_shm *shm, int pid, const struct vipl_mappable *where);

/* Identifies shared memory: equal in every process that has the same memory mapped. */
struct vipl_mapping {
    uint64_t device;
    uint64_t inode;
    uint64_t offset; /* of the address */
};
/* EINVAL: the bytes are not all part of one shared mapping that may be read and written. */
int vipl_shared_mapping(const void *address, size_t bytes, struct vipl_mapping *out);

/* Whether the program may write to those of the bytes that are mapped now. */
bool vipl_may_write(const void *address, size_t bytes);
/* Writes the parts of the bytes that the program may read and write now and that other processes
 * reach by vipl_own_memory(), in order, at most `most`. Returns their number. */
struct vipl_part {
    uintptr_t first;
    size_t bytes;
};
unsigned vipl_plain_parts(const void *address, size_t bytes, struct vipl_part *out, unsigned most);

/* Opens the system's list of this process's mappings, for vipl_private_extent(): opening it takes
 * longer than asking it. */
int vipl_maps_open(int *out);
/* Widens a range of addresses to the whole mappings that it is in; `adjoining`: and to the mapping
 * before it and the one after it, if they are of the same kind and have the same rights. EINVAL:
 * not all of the range is private memory of no file, mapped now. */
int vipl_private_extent(int maps, bool adjoining, uintptr_t *first, uintptr_t *end);

/* A shared mapping of the program, to be made in another program at the same address. */
struct vipl_shared_file {
    int fd;
    uintptr_t address;
    size_t bytes;
    uint64_t offset;
};
/* Lists all shared mappings that may be read and written, except those of devices and the library's
 * own, at most `most`. The caller closes the descriptors of *count mappings, also after an error.
 * ENOTSUP: there are more mappings, or one of which no descriptor can be opened. */
int vipl_shared_files(struct vipl_shared_file *out, unsigned most, unsigned *count);
/* EEXIST: other memory is mapped there */
int vipl_shared_file_map(const struct vipl_shared_file *file);

#endif
