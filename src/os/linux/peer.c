/* SPDX-License-Identifier: MIT */
/* Copying between two processes' memories in one system call, where the kernel allows it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "os/os.h"

_Static_assert(sizeof(struct vipl_iov) == sizeof(struct iovec) &&
                   offsetof(struct vipl_iov, base) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct vipl_iov, len) == offsetof(struct iovec, iov_len),
               "vipl_iov is handed to the kernel as an iovec");

/* --- the mark --- */

enum {
    GRAIN = 2 << 20, /* what vipl_address_apart() aligns to */
    TRIES = 8        /* more than vipl_address_apart() has candidates */
};

/* Maps a page at the nth candidate address, or where the system chooses if there is no such. NULL:
 * the address is taken. */
static char *map_page(unsigned nth, size_t page)
{
    uint64_t random = 0;
    uintptr_t place = vipl_address_apart(nth, GRAIN);
    (void)vipl_entropy(&random, sizeof(random));
    if (place != 0) {
        place += random % (GRAIN / page) * page;
    }
    void *at = mmap((void *)place, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED && place != 0 && at != (void *)place) {
        munmap(at, page);
        at = MAP_FAILED;
    }
    return at == MAP_FAILED ? NULL : at;
}

int vipl_peer_mark_make(struct vipl_peer_mark *mark)
{
    size_t page = vipl_page_bytes();
    char *at = NULL;
    int error = vipl_entropy(&mark->value, sizeof(mark->value));
    for (unsigned i = 0; error == 0 && at == NULL && i < TRIES; i++) {
        at = map_page(i, page);
    }
    if (error == 0 && at == NULL) {
        error = ENOMEM;
    }
    if (error == 0) {
        madvise(at, page, MADV_DONTFORK); /* a child is another program */
        memcpy(at, &mark->value, sizeof(mark->value));
        mark->address = (uint64_t)(uintptr_t)at;
    }
    return error;
}

/* --- copying --- */

/*
 * The system call looks the process's memory up once, whatever the process does meanwhile, and goes
 * through the pieces in order. The first piece is the mark: where it is not mapped, no other memory
 * is touched. A read compares the mark that it has read; a write stores the mark that is expected
 * there.
 */

/* The errno value for a call that moved that number of bytes: it failed at the mark, or stopped at
 * a page that is not there. */
static inline int copy_error(ssize_t moved, size_t bytes)
{
    if (moved < 0) {
        return errno == EFAULT ? ESRCH : errno;
    }
    return (size_t)moved == bytes ? 0 : EFAULT;
}

int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    uint32_t seen = ~peer->mark.value;
    local[0] = (struct vipl_iov){&seen, sizeof(seen)};
    remote[0] = (struct vipl_iov){(void *)(uintptr_t)peer->mark.address, sizeof(seen)};
    ssize_t moved = process_vm_readv(peer->pid, (const struct iovec *)local, locals,
                                     (const struct iovec *)remote, remotes, 0);
    int error = copy_error(moved, bytes + sizeof(seen));
    return moved > 0 && seen != peer->mark.value ? ESRCH : error;
}

int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    local[0] = (struct vipl_iov){(void *)(uintptr_t)&peer->mark.value, sizeof(peer->mark.value)};
    remote[0] = (struct vipl_iov){(void *)(uintptr_t)peer->mark.address, sizeof(peer->mark.value)};
    ssize_t moved = process_vm_writev(peer->pid, (const struct iovec *)local, locals,
                                      (const struct iovec *)remote, remotes, 0);
    return copy_error(moved, bytes + sizeof(peer->mark.value));
}
