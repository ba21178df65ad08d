/* SPDX-License-Identifier: MIT */
/* Copying payload between scatter/gather lists. */
#include "base/iov.h"

#include <string.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

uint32_t vipl_iov_safe;

void vipl_iov_set_safe(void)
{
    vipl_store_relaxed(&vipl_iov_safe, 1);
}

/* --- one run of bytes --- */

enum { MIN_PAGE = 4096 };

VIPL_COLD bool vipl_iov_finds(const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)from;
    uintptr_t end = at + bytes;
    bool there = true;
    while (there && at < end) {
        char seen;
        there = vipl_copy_checked(&seen, (const void *)at, 1) == 0;
        at = (at | (MIN_PAGE - 1)) + 1;
    }
    return there;
}

/* `is_safe` is a constant at each call, so that the case without VIPL_SAFE_COPY has no branch. */
static inline enum vipl_iov_result move(void *to, const void *from, size_t bytes, bool is_safe)
{
    if (!is_safe) {
        memmove(to, from, bytes);
        return VIPL_IOV_DONE;
    }
    return vipl_copy_checked(to, from, bytes) == 0 ? VIPL_IOV_DONE
           : vipl_iov_finds(from, bytes)           ? VIPL_IOV_FAULT_TO
                                                   : VIPL_IOV_FAULT_FROM;
}

VIPL_COLD bool vipl_iov_may_write(uint32_t *word)
{
    uint32_t held;
    return vipl_copy_checked(&held, word, sizeof(held)) == 0 &&
           vipl_copy_checked(word, &held, sizeof(held)) == 0;
}

static inline bool copy_bytes(void *to, const void *from, size_t bytes, bool is_safe)
{
    if (!is_safe) {
        memcpy(to, from, bytes);
        return true;
    }
    return vipl_copy_checked(to, from, bytes) == 0;
}

bool vipl_iov_bytes(void *to, const void *from, size_t bytes)
{
    return copy_bytes(to, from, bytes, vipl_iov_is_safe());
}

/* --- lists --- */

static inline enum vipl_iov_result copy_lists(const struct vipl_sg *to, const struct vipl_sg *from,
                                              bool is_safe)
{
    enum vipl_iov_result fault = VIPL_IOV_DONE;
    size_t to_at = 0;
    size_t from_at = 0;
    unsigned t = 0;
    unsigned f = 0;
    while (t < to->count && f < from->count && fault == VIPL_IOV_DONE) {
        size_t n = to->iov[t].len - to_at;
        if (n > from->iov[f].len - from_at) {
            n = from->iov[f].len - from_at;
        }
        fault = move((char *)to->iov[t].base + to_at, (const char *)from->iov[f].base + from_at, n, is_safe);
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
    return fault;
}

enum vipl_iov_result vipl_iov_copy(const struct vipl_sg *to, const struct vipl_sg *from)
{
    return vipl_iov_is_safe() ? copy_lists(to, from, true) : copy_lists(to, from, false);
}

static inline bool scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes,
                           bool is_safe)
{
    const unsigned char *next = from;
    bool good = true;
    for (unsigned i = 0; bytes > 0 && good && i < to->count; i++) {
        size_t len = to->iov[i].len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t n = len - offset < bytes ? len - offset : bytes;
        good = copy_bytes((char *)to->iov[i].base + offset, next, n, is_safe);
        next += n;
        bytes -= n;
        offset = 0;
    }
    return good;
}

bool vipl_iov_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes)
{
    return scatter(to, offset, from, bytes, vipl_iov_is_safe());
}

bool vipl_iov_scatter_checked(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes)
{
    return scatter(to, offset, from, bytes, true);
}

static inline bool gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes, bool is_safe)
{
    unsigned char *next = to;
    bool good = true;
    for (unsigned i = 0; bytes > 0 && good && i < from->count; i++) {
        size_t len = from->iov[i].len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t n = len - offset < bytes ? len - offset : bytes;
        good = copy_bytes(next, (const char *)from->iov[i].base + offset, n, is_safe);
        next += n;
        bytes -= n;
        offset = 0;
    }
    return good;
}

bool vipl_iov_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes)
{
    return gather(to, from, offset, bytes, vipl_iov_is_safe());
}

bool vipl_iov_gather_checked(void *to, const struct vipl_sg *from, size_t offset, size_t bytes)
{
    return gather(to, from, offset, bytes, true);
}

unsigned vipl_iov_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes)
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

/* Returns the size of the next store to `to`: the largest aligned item that fits into n bytes. */
static size_t item_bytes(const unsigned char *to, size_t n)
{
    if (sizeof(void *) == 8 && n >= 8 && (uintptr_t)to % 8 == 0) {
        return 8;
    }
    return n >= 4 && (uintptr_t)to % 4 == 0 ? 4 : 1;
}

/* Pairs with the acquire load of the program that spins on the item. */
static inline void store_item(unsigned char *to, const unsigned char *from, size_t n)
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

static void copy_by_items(unsigned char *to, const unsigned char *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t item = item_bytes(to + done, n - done);
        store_item(to + done, from + done, item);
        done += item;
    }
}

/* A run of up to this length is copied through a buffer, because source and target may overlap. */
enum { SHORT_RUN = 32 };

static void copy_short(unsigned char *to, const unsigned char *from, size_t n)
{
    unsigned char held[SHORT_RUN];
    memcpy(held, from, n);
    copy_by_items(to, held, n);
}

/* Long runs are copied by aligned stores of whole items, and not by memmove(): memmove() may use an
 * instruction for strings (REP MOVSB on x86), which can be interrupted at any byte, and whose
 * stores can become visible in any order. `volatile` keeps the compiler from using that
 * instruction. For ThreadSanitizer only words can be atomic. */
#if (defined(__SSE2__) || defined(__aarch64__)) && !defined(__SANITIZE_THREAD__)
typedef uint32_t wide __attribute__((vector_size(16), may_alias));

static inline void put_wide(unsigned char *to, wide held)
{
    *(volatile wide *)(void *)to = held;
}
#else
typedef uintptr_t wide __attribute__((may_alias));

static inline void put_wide(unsigned char *to, wide held)
{
    __atomic_store_n((wide *)(void *)to, held, __ATOMIC_RELAXED);
}
#endif

static inline void move_wide(unsigned char *to, const unsigned char *from)
{
    wide held;
    memcpy(&held, from, sizeof(held));
    put_wide(to, held);
}

/* Copies by four stores of 32 bytes per turn, if the processor has them. copy_widest() copies as
 * many bytes as fit, and returns their number. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
enum { MIN_WIDER = 512 };
typedef uint32_t wider __attribute__((vector_size(32), may_alias));

__attribute__((target("avx"))) static void copy_wider(unsigned char *to, const unsigned char *from, size_t n)
{
    const size_t each = sizeof(wider);
    for (size_t done = 0; done < n; done += 4 * each) {
        for (size_t i = 0; i < 4; i++) {
            wider held;
            memcpy(&held, from + done + i * each, sizeof(held));
            *(volatile wider *)(void *)(to + done + i * each) = held;
        }
    }
}

/* Returns true if processor and system have AVX registers. __builtin_cpu_supports() would need a
 * constructor in the library. */
static bool has_wider(void)
{
    enum { UNKNOWN, NO, YES };
    enum { AVX_AND_XGETBV = 3 << 27, KEPT = 3 << 1 };
    static uint8_t known; /* atomic, relaxed: each thread computes the same value */
    uint8_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == UNKNOWN) {
        uint32_t a = 1, b, c = 0, d, kept = 0;
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        if ((c & AVX_AND_XGETBV) == AVX_AND_XGETBV) {
            __asm__ volatile("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
        }
        answer = (kept & KEPT) == KEPT ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == YES;
}

static size_t copy_widest(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n < MIN_WIDER || !has_wider()) {
        return 0;
    }
    size_t head = (uintptr_t)to % sizeof(wider);
    if (head != 0) {
        move_wide(to, from);
    }
    size_t body = (n - head) / (4 * sizeof(wider)) * (4 * sizeof(wider));
    copy_wider(to + head, from + head, body);
    return head + body;
}
#else
static size_t copy_widest(unsigned char *to, const unsigned char *from, size_t n)
{
    (void)to;
    (void)from;
    (void)n;
    return 0;
}
#endif

/* Copies n bytes, a multiple of the wide item, to an address aligned for wide stores. */
static void copy_wide(unsigned char *to, const unsigned char *from, size_t n)
{
    const size_t each = sizeof(wide);
    size_t done = copy_widest(to, from, n);
    for (; n - done >= 4 * each; done += 4 * each) {
        move_wide(to + done, from + done);
        move_wide(to + done + each, from + done + each);
        move_wide(to + done + 2 * each, from + done + 2 * each);
        move_wide(to + done + 3 * each, from + done + 3 * each);
    }
    for (; done < n; done += each) {
        move_wide(to + done, from + done);
    }
}

/* Copies a long run. The last item is stored last, by copy_by_items(): a reader that sees it knows
 * that all bytes are there. */
static void copy_long(unsigned char *to, const unsigned char *from, size_t n)
{
    size_t head = (size_t)(-(uintptr_t)to % sizeof(wide));
    size_t body = (n - head) / sizeof(wide) * sizeof(wide);
    body -= head + body == n ? sizeof(wide) : 0;
    copy_by_items(to, from, head);
    copy_wide(to + head, from + head, body);
    copy_by_items(to + head + body, from + head + body, n - head - body);
}

/* Copies one run so that a program may spin on any item of the target. */
static inline void copy_run(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n == item_bytes(to, n)) {
        store_item(to, from, n);
    } else if (n <= SHORT_RUN) {
        copy_short(to, from, n);
    } else if ((uintptr_t)to - (uintptr_t)from < n) {
        memmove(to, from, n);
    } else {
        copy_long(to, from, n);
    }
}

static size_t tail_bytes(const unsigned char *end)
{
    return (uintptr_t)end % sizeof(void *) == 0 ? sizeof(void *) : item_bytes(end, 4);
}

/* Copies one run through the kernel, with the tail in a call of its own. */
static enum vipl_iov_result copy_run_safely(unsigned char *to, const unsigned char *from, size_t n)
{
    size_t tail = n > sizeof(void *) ? tail_bytes(to + n) : item_bytes(to, n) == n ? n : 1;
    enum vipl_iov_result fault = move(to, from, n - tail, true);
    return fault != VIPL_IOV_DONE ? fault : move(to + n - tail, from + n - tail, tail, true);
}

void vipl_iov_put(unsigned char *to, const void *from, size_t bytes)
{
    copy_run(to, from, bytes);
}

bool vipl_iov_put_checked(unsigned char *to, const void *from, size_t bytes)
{
    return copy_run_safely(to, from, bytes) == VIPL_IOV_DONE;
}

enum vipl_iov_result vipl_iov_ordered_piece(unsigned char *to, const void *from, size_t bytes)
{
    if (vipl_iov_is_safe()) {
        return copy_run_safely(to, from, bytes);
    }
    copy_run(to, from, bytes);
    return VIPL_IOV_DONE;
}

enum vipl_iov_result vipl_iov_ordered(unsigned char *to, const struct vipl_sg *from)
{
    bool is_safe = vipl_iov_is_safe();
    enum vipl_iov_result fault = VIPL_IOV_DONE;
    for (unsigned i = 0; i < from->count && fault == VIPL_IOV_DONE; i++) {
        size_t n = from->iov[i].len;
        if (is_safe) {
            fault = copy_run_safely(to, from->iov[i].base, n);
        } else {
            copy_run(to, from->iov[i].base, n);
        }
        to += n;
    }
    return fault;
}
