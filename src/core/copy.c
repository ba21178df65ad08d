/* SPDX-License-Identifier: MIT */
/* Payload from list to list. */
#include "core/copy.h"

#include <string.h>

#include "os/os_atomic.h"

void vipl_copy(const struct vipl_sg *to, const struct vipl_sg *from)
{
    size_t to_at = 0;
    size_t from_at = 0;
    unsigned t = 0;
    unsigned f = 0;
    while (t < to->count && f < from->count) {
        size_t n = to->iov[t].len - to_at;
        if (n > from->iov[f].len - from_at) {
            n = from->iov[f].len - from_at;
        }
        memmove((char *)to->iov[t].base + to_at, (const char *)from->iov[f].base + from_at, n);
        to_at += n;
        from_at += n;
        if (to_at == to->iov[t].len) {
            t++;
            to_at = 0;
        }
        if (from_at == from->iov[f].len) {
            f++;
            from_at = 0;
        }
    }
}

void vipl_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes)
{
    const unsigned char *next = from;
    for (unsigned i = 0; bytes > 0 && i < to->count; i++) {
        size_t len = to->iov[i].len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t n = len - offset < bytes ? len - offset : bytes;
        memcpy((char *)to->iov[i].base + offset, next, n);
        next += n;
        bytes -= n;
        offset = 0;
    }
}

void vipl_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes)
{
    unsigned char *next = to;
    for (unsigned i = 0; bytes > 0 && i < from->count; i++) {
        size_t len = from->iov[i].len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t n = len - offset < bytes ? len - offset : bytes;
        memcpy(next, (const char *)from->iov[i].base + offset, n);
        next += n;
        bytes -= n;
        offset = 0;
    }
}

unsigned vipl_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes)
{
    unsigned n = 0;
    for (unsigned i = 0; bytes > 0 && i < sg->count; i++) {
        size_t len = sg->iov[i].len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t take = len - offset < bytes ? len - offset : bytes;
        out[n++] = (struct vipl_iov){(char *)sg->iov[i].base + offset, take};
        bytes -= take;
        offset = 0;
    }
    return n;
}

/* How much of what goes to `to` is one store: the largest aligned item that fits. */
static size_t item_bytes(const unsigned char *to, size_t n)
{
    if (sizeof(void *) == 8 && n >= 8 && (uintptr_t)to % 8 == 0) {
        return 8;
    }
    return n >= 4 && (uintptr_t)to % 4 == 0 ? 4 : 1;
}

/* Pairs with the acquire load of whoever spins on the item. */
static void store_item(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n == sizeof(void *) && n == 8) {
        void *word;
        memcpy(&word, from, sizeof(word));
        vipl_store_ptr((void **)(void *)to, word);
    } else if (n == 4) {
        uint32_t word;
        memcpy(&word, from, sizeof(word));
        vipl_store_release((uint32_t *)(void *)to, word);
    } else {
        __atomic_store_n(to, *from, __ATOMIC_RELEASE);
    }
}

/* A C library moves long runs by words or more, but short ones by bytes on some targets: here those go
 * by items. They are held in between, for source and target may overlap. */
enum { SHORT_RUN = 32 };

static void copy_short(unsigned char *to, const unsigned char *from, size_t n)
{
    unsigned char held[SHORT_RUN];
    memcpy(held, from, n);
    for (size_t done = 0; done < n;) {
        size_t item = item_bytes(to + done, n - done);
        store_item(to + done, held + done, item);
        done += item;
    }
}

/* The last item of a long run, with which its reader knows that all is there. */
static size_t tail_bytes(const unsigned char *end)
{
    return (uintptr_t)end % sizeof(void *) == 0 ? sizeof(void *) : item_bytes(end, 4);
}

static void copy_long(unsigned char *to, const unsigned char *from, size_t n)
{
    unsigned char last[sizeof(void *)];
    size_t tail = tail_bytes(to + n);
    memcpy(last, from + n - tail, tail);
    memmove(to, from, n - tail);
    store_item(to + n - tail, last, tail);
}

void vipl_copy_ordered(unsigned char *to, const struct vipl_sg *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        size_t n = from->iov[i].len;
        if (n <= SHORT_RUN) {
            copy_short(to, from->iov[i].base, n);
        } else {
            copy_long(to, from->iov[i].base, n);
        }
        to += n;
    }
}
