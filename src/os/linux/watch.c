/* SPDX-License-Identifier: MIT */
/*
 * Watching memory by userfaultfd in write-protect mode, with nothing protected: the kernel reports
 * what takes pages away, and no access faults. docs/design/registration-cache.md has the proof of
 * what vipl_watch_is_current() says.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { BATCH = 32 }; /* events of one read */

/* One watch of the process: a mapping can be watched by one userfaultfd only. vipl_watch_begin()
 * and vipl_watch_end() write all but the atomic fields, while no thread uses them. */
static struct {
    uint32_t users;
    int fd;                /* the thread closes it */
    int maps;              /* of vipl_maps_open() */
    struct vipl_waker end; /* ends the thread */
    struct vipl_thread thread;
    void (*gone)(uintptr_t first, uintptr_t end);
    uint32_t is_running; /* atomic: the thread has begun; pairs with start_thread() */
    uint32_t begun;      /* atomic: reads that have begun; pairs with vipl_watch_is_current() */
    uint32_t done;       /* atomic: reads whose events are handled; pairs with the same */
} watch;

static int open_userfaultfd(void)
{
    const uint64_t needed = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP |
                            UFFD_FEATURE_PAGEFAULT_FLAG_WP;
    struct uffdio_api api = {.api = UFFD_API, .features = needed};
    vipl_fd_begin();
    watch.fd = vipl_resource_fails(EMFILE)
                   ? -1
                   : (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    int error = vipl_fd_adopt(&watch.fd);
    vipl_fd_end();
    if (error == 0 && ioctl(watch.fd, UFFDIO_API, &api) != 0) {
        error = errno;
        vipl_fd_close(watch.fd);
    }
    return error;
}

/* --- the thread --- */

static void handle_event(const struct uffd_msg *event)
{
    switch (event->event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        watch.gone((uintptr_t)event->arg.remove.start, (uintptr_t)event->arg.remove.end);
        break;
    case UFFD_EVENT_REMAP:
        watch.gone((uintptr_t)event->arg.remap.from,
                   (uintptr_t)(event->arg.remap.from + event->arg.remap.len));
        break;
    default:
        break;
    }
}

/* The read lets the calls return whose events it returns: so `begun` counts it before. No lock is
 * held before the read, because a thread in munmap() may hold any lock. */
static void read_events(void)
{
    struct uffd_msg events[BATCH];
    vipl_fetch_add(&watch.begun, 1);
    ssize_t n = read(watch.fd, events, sizeof(events));
    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(events[0]); i++) {
        handle_event(&events[i]);
    }
    vipl_fetch_add(&watch.done, 1);
}

/* The thread's own memory may be in a watched mapping: the system gives a thread's stack an address
 * next to other memory, and makes one mapping of both. So this thread takes no memory away while
 * the descriptor is open, or it would wait for itself: it allocates and frees nothing, and it
 * closes the descriptor before it ends, because its end gives its stack back. */
static void watch_thread(void *unused)
{
    (void)unused;
    watch.gone(0, 0); /* has the system allocate the thread-local memory of what it calls */
    vipl_store_release(&watch.is_running, 1); /* pairs with start_thread() */
    for (;;) {
        struct pollfd fds[2] = {{.fd = watch.fd, .events = POLLIN}, {.fd = watch.end.fd, .events = POLLIN}};
        (void)poll(fds, 2, -1);
        if (fds[1].revents != 0) {
            vipl_fd_close(watch.fd);
            return;
        }
        if (fds[0].revents != 0) {
            read_events();
        }
    }
}

/* --- for the caches --- */

static int start_thread(void)
{
    vipl_store_relaxed(&watch.is_running, 0);
    int error = vipl_waker_open(&watch.end);
    if (error == 0 && (error = vipl_thread_start(&watch.thread, watch_thread, NULL)) != 0) {
        vipl_waker_close(&watch.end);
    }
    /* no memory is watched before the thread has freed what started it, and has its own memory */
    while (error == 0 && vipl_load_acquire(&watch.is_running) == 0) {
        vipl_yield();
    }
    return error;
}

/* Opens all that a watch has, or nothing. */
static int open_watch(void)
{
    int error = vipl_maps_open(&watch.maps);
    if (error != 0) {
        return error;
    }
    error = open_userfaultfd();
    if (error == 0 && (error = start_thread()) != 0) {
        vipl_fd_close(watch.fd);
    }
    if (error != 0) {
        vipl_fd_close(watch.maps);
    }
    return error;
}

int vipl_watch_begin(void (*gone)(uintptr_t first, uintptr_t end))
{
    if (watch.users == 0) {
        watch.gone = gone;
        int error = open_watch();
        if (error != 0) {
            return error;
        }
    }
    watch.users++;
    return 0;
}

/* A thread that is in munmap() meanwhile sleeps until the descriptor is closed. */
void vipl_watch_end(void)
{
    if (--watch.users == 0) {
        vipl_waker_signal(&watch.end);
        vipl_thread_join(&watch.thread);
        vipl_waker_close(&watch.end);
        vipl_fd_close(watch.maps);
    }
}

static int watch_range(uintptr_t first, uintptr_t end)
{
    struct uffdio_register range = {.range = {.start = first, .len = end - first},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    if (ioctl(watch.fd, UFFDIO_REGISTER, &range) != 0) {
        return errno == EBUSY ? EBUSY : EINVAL;
    }
    return 0;
}

/* Another thread may change the mappings between the question where they end and the ioctl: it may
 * give the end of one back, and put a mapping of its own across that address. The kernel has then
 * made two of the new mapping, and mremap() refuses it. It makes one again when both parts are
 * watched. So what adjoins is watched, too, until the kernel's answer after the ioctl names nothing
 * but what was watched.
 *
 * That last answer also says that the memory is still private: from the ioctl on, a mapping that
 * takes the place of what is there causes an event. */
int vipl_watch_add(uintptr_t first, uintptr_t end)
{
    uintptr_t watched_first = UINTPTR_MAX;
    uintptr_t watched_end = 0;
    bool adjoining = true;
    for (;;) {
        uintptr_t from = first;
        uintptr_t to = end;
        if (vipl_private_extent(watch.maps, adjoining, &from, &to) != 0) {
            return EINVAL;
        }
        if (from >= watched_first && to <= watched_end) {
            return 0;
        }
        int error = watch_range(from, to);
        if (error == 0) {
            watched_first = from;
            watched_end = to;
        } else if (adjoining) { /* what adjoins may be what cannot be watched */
            adjoining = false;
        } else {
            return error;
        }
    }
}

/* Between the moment when munmap() has given the addresses back and the one when its event can be
 * read, another thread may map them again. The kernel counts such calls, and refuses to change
 * pages meanwhile, before it looks at which pages: these are none. */
static bool is_changing(void)
{
    struct uffdio_writeprotect none = {.range = {.start = 0, .len = 0}};
    int saved = errno;
    bool is = ioctl(watch.fd, UFFDIO_WRITEPROTECT, &none) != 0 && errno == EAGAIN;
    errno = saved;
    return is;
}

bool vipl_watch_is_current(bool exactly)
{
    if (exactly && is_changing()) {
        return false;
    }
    uint32_t begun = vipl_load_ordered(&watch.begun);
    return vipl_load_ordered(&watch.done) == begun;
}

int vipl_memory_populate(uintptr_t first, uintptr_t end)
{
    enum { POPULATE_WRITE = 23 }; /* since Linux 5.14 */
    return madvise((void *)first, end - first, POPULATE_WRITE) == 0 ? 0 : errno;
}

void vipl_watch_abandon(void)
{
    watch.users = 0; /* the child has closed the descriptors, and has no thread */
    vipl_store_relaxed(&watch.begun, 0);
    vipl_store_relaxed(&watch.done, 0);
}
