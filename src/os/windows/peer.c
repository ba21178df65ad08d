/* SPDX-License-Identifier: MIT */
/*
 * Other processes' memories. A process's handle stands for one program for as long as it is open:
 * the mark is compared once, when the handle is opened, and handles are kept for later copies.
 */
#include <errno.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/windows/descriptor.h"

/* A process whose mark has been compared. */
struct known {
    uint32_t references; /* atomic; the table has one */
    struct vipl_peer peer;
    HANDLE handle;
};

enum { KNOWN = 64 };
static SRWLOCK lock = SRWLOCK_INIT;
static struct known *table[KNOWN]; /* guarded by `lock`: by the number of the process */

/* --- the mark --- */

int vipl_peer_mark_make(struct vipl_peer_mark *mark)
{
    char *page = vipl_pages_map(vipl_page_bytes(), VIPL_PAGES_NOW);
    int error = page == NULL ? ENOMEM : vipl_entropy(&mark->value, sizeof(mark->value));
    if (error == 0) {
        memcpy(page, &mark->value, sizeof(mark->value));
        mark->address = (uint64_t)(uintptr_t)page;
    }
    return error;
}

/* --- processes --- */

static void put_known(struct known *known)
{
    if (known != NULL && vipl_fetch_add(&known->references, (uint32_t)-1) == 1) {
        (void)CloseHandle(known->handle);
        vipl_free(known);
    }
}

static struct known **place_in_table(const struct vipl_peer *peer)
{
    return &table[(unsigned)peer->pid / 4 % KNOWN]; /* Windows counts processes by fours */
}

static bool is_same(const struct vipl_peer *a, const struct vipl_peer *b)
{
    return a->pid == b->pid && a->mark.address == b->mark.address && a->mark.value == b->mark.value;
}

static struct known *find_known(const struct vipl_peer *peer)
{
    AcquireSRWLockShared(&lock);
    struct known *known = *place_in_table(peer);
    if (known != NULL && is_same(&known->peer, peer)) {
        vipl_fetch_add(&known->references, 1);
    } else {
        known = NULL;
    }
    ReleaseSRWLockShared(&lock);
    return known;
}

/* Puts a process into its place of the table, or NULL if `known` is still there. */
static void replace(const struct vipl_peer *peer, struct known *known, struct known *by)
{
    struct known *before = NULL;
    AcquireSRWLockExclusive(&lock);
    struct known **place = place_in_table(peer);
    if (by != NULL || *place == known) {
        before = *place;
        *place = by;
    }
    ReleaseSRWLockExclusive(&lock);
    put_known(before);
}

static int check_mark(HANDLE process, const struct vipl_peer_mark *mark)
{
    uint32_t seen = ~mark->value;
    SIZE_T done = 0;
    const void *at = (const void *)(uintptr_t)mark->address;
    BOOL good = ReadProcessMemory(process, at, &seen, sizeof(seen), &done);
    return good && done == sizeof(seen) && seen == mark->value ? 0 : ESRCH;
}

/* Opens a process, and compares its mark. */
static int open_peer(const struct vipl_peer *peer, struct known **out)
{
    HANDLE process = OpenProcess(PROCESS_VM_READ | PROCESS_VM_WRITE | PROCESS_VM_OPERATION | SYNCHRONIZE,
                                 FALSE, (DWORD)peer->pid);
    if (process == NULL) {
        DWORD why = GetLastError();
        return why == ERROR_INVALID_PARAMETER ? ESRCH : vipl_errno_of(why);
    }
    int error = check_mark(process, &peer->mark);
    struct known *known = error == 0 ? vipl_alloc(sizeof(*known)) : NULL;
    if (known == NULL) {
        (void)CloseHandle(process);
        return error == 0 ? ENOMEM : error;
    }
    *known = (struct known){.references = 2, .peer = *peer, .handle = process};
    replace(peer, NULL, known);
    *out = known;
    return 0;
}

/* --- copying --- */

typedef BOOL copy_piece(HANDLE process, char *there, char *here, SIZE_T bytes);

static BOOL read_piece(HANDLE process, char *there, char *here, SIZE_T bytes)
{
    SIZE_T done = 0;
    return ReadProcessMemory(process, there, here, bytes, &done) && done == bytes;
}

static BOOL write_piece(HANDLE process, char *there, char *here, SIZE_T bytes)
{
    SIZE_T done = 0;
    return WriteProcessMemory(process, there, here, bytes, &done) && done == bytes;
}

/* What is left of a list of pieces. */
struct rest {
    const struct vipl_iov *piece;
    unsigned count;
    size_t done; /* bytes of the first piece */
};

/* Goes to the next piece that has bytes left. Returns false if there is none. */
static bool skip_empty(struct rest *rest)
{
    while (rest->count > 0 && rest->done == rest->piece->len) {
        rest->piece++;
        rest->count--;
        rest->done = 0;
    }
    return rest->count > 0;
}

static bool copy_pieces(HANDLE process, struct rest here, struct rest there, size_t bytes, copy_piece *copy)
{
    while (bytes > 0 && skip_empty(&here) && skip_empty(&there)) {
        size_t n = here.piece->len - here.done;
        n = there.piece->len - there.done < n ? there.piece->len - there.done : n;
        n = bytes < n ? bytes : n;
        if (!copy(process, (char *)there.piece->base + there.done, (char *)here.piece->base + here.done, n)) {
            return false;
        }
        here.done += n;
        there.done += n;
        bytes -= n;
    }
    return bytes == 0;
}

/* The memory of a process that ends is gone, and its mark with it, before its handle tells. */
static bool is_ending(const struct known *known)
{
    return WaitForSingleObject(known->handle, 0) == WAIT_OBJECT_0 ||
           check_mark(known->handle, &known->peer.mark) != 0;
}

/* The first piece of each list is the mark's, which this system does not need in each call. */
static int copy_lists(const struct vipl_peer *peer, const struct vipl_iov *local, unsigned locals,
                      const struct vipl_iov *remote, unsigned remotes, size_t bytes, copy_piece *copy)
{
    struct known *known = find_known(peer);
    int error = known == NULL ? open_peer(peer, &known) : 0;
    if (error != 0) {
        return error;
    }
    struct rest here = {local + 1, locals - 1, 0};
    struct rest there = {remote + 1, remotes - 1, 0};
    error = copy_pieces(known->handle, here, there, bytes, copy) ? 0 : EFAULT;
    if ((error != 0 || bytes == 0) && is_ending(known)) {
        replace(peer, known, NULL);
        error = ESRCH;
    }
    put_known(known);
    return error;
}

int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    return copy_lists(peer, local, locals, remote, remotes, bytes, read_piece);
}

int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes)
{
    return copy_lists(peer, local, locals, remote, remotes, bytes, write_piece);
}
