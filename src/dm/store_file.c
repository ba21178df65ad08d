/* SPDX-License-Identifier: MIT */
/*
 * Files as a store, `file:PATH`. Chunks go past the page cache (O_DIRECT) where the file system has
 * that and the caller keeps to its units; headers and ends go through it, by a second descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dm/queue.h"
#include "dm/reason.h"
#include "dm/store.h"

/* What O_DIRECT asks for on every disk. */
#define FILE_UNIT 4096U

struct file_store {
    struct dm_store base;
    struct dm_queue *queue;
    int fd;       /* for chunks */
    int buffered; /* for the rest */
};

static int fail_open(const char *path, int error, struct vipl_dm_reason *reason)
{
    return dm_fail(reason, error, "store \"file:%.150s\": %s", path, strerror(error));
}

/* The descriptor for chunks, or a negative errno value. */
static int open_chunks(const char *path, const struct dm_store_wish *wish, bool *is_direct)
{
    int flags = (wish->direction == DM_READ ? O_RDONLY : O_WRONLY) | O_CLOEXEC;
    int fd = -1;

    if (!wish->any_offset) {
        fd = open(path, flags | O_DIRECT);
    }
    *is_direct = fd >= 0;
    if (fd < 0) {
        fd = open(path, flags);
    }
    return fd >= 0 ? fd : -errno;
}

static struct dm_queue *create_queue(int fd, enum dm_direction direction)
{
    struct dm_queue *queue = NULL;

#if VIPL_DM_URING
    queue = dm_queue_uring.create(fd, direction); /* a kernel or a container may forbid it */
#endif
    return queue != NULL ? queue : dm_queue_thread.create(fd, direction);
}

/* Whether O_DIRECT is what it says: some file systems take it and copy, tmpfs for example. */
static bool is_direct_io(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx status;

    return statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
           (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_offset_align != 0;
#else
    (void)fd;
    return false;
#endif
}

/* The memory of a device is reached past the page cache alone, and where the file's disk can do
 * that: one block is moved. */
static int try_memory(const struct file_store *file, const char *path, const struct dm_store_wish *wish,
                      bool is_direct, struct vipl_dm_reason *reason)
{
    const struct dm_memory *memory = wish->memory;
    ssize_t moved;

    if (memory == NULL || !memory->is_physical) {
        return 0;
    }
    if (!is_direct || !is_direct_io(file->fd)) {
        return dm_fail(reason, ENOTSUP,
                       "store \"file:%.80s\" goes through the page cache, which is main memory, and not to "
                       "\"%s\"",
                       path, memory->text);
    }
    moved = wish->direction == DM_READ ? pread(file->fd, memory->base, FILE_UNIT, 0)
                                       : pwrite(file->fd, memory->base, FILE_UNIT, 0);
    if (moved < 0 || (wish->direction == DM_WRITE && ftruncate(file->buffered, 0) != 0)) {
        return dm_fail(reason, ENOTSUP, "store \"file:%.80s\": its disk does not reach memory \"%s\": %s",
                       path, memory->text, strerror(errno));
    }
    return 0;
}

static int open_both(struct file_store *file, const char *path, const struct dm_store_wish *wish,
                     struct vipl_dm_reason *reason)
{
    int flags = wish->direction == DM_READ ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    struct stat status;
    bool is_direct = false;
    int error;

    file->buffered = open(path, flags | O_CLOEXEC, 0666);
    if (file->buffered < 0 || fstat(file->buffered, &status) != 0) {
        return fail_open(path, errno, reason);
    }
    if (!S_ISREG(status.st_mode)) {
        return dm_fail(reason, EINVAL, "store \"file:%.150s\" is not a regular file", path);
    }
    file->base.bytes = (uint64_t)status.st_size;
    file->base.identity =
        (uint64_t)status.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)status.st_mtim.tv_nsec;
    file->fd = open_chunks(path, wish, &is_direct);
    if (file->fd < 0) {
        return fail_open(path, -file->fd, reason);
    }
    error = try_memory(file, path, wish, is_direct, reason);
    if (error != 0) {
        return error;
    }
    file->queue = create_queue(file->fd, wish->direction);
    if (file->queue == NULL) {
        return fail_open(path, errno, reason);
    }
    file->base.align = FILE_UNIT;
    snprintf(file->base.text, sizeof(file->base.text), "file:%.80s (%s, by %s)", path,
             is_direct ? "O_DIRECT" : "through the page cache", file->queue->kind->name);
    return 0;
}

static void file_close(struct dm_store *store)
{
    struct file_store *file = (struct file_store *)store;

    if (file->queue != NULL) {
        file->queue->kind->destroy(file->queue);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (file->buffered >= 0) {
        close(file->buffered);
    }
    free(file);
}

static int file_open(const char *argument, const struct dm_store_wish *wish, struct dm_store **store,
                     struct vipl_dm_reason *reason)
{
    struct file_store *file = calloc(1, sizeof(*file));
    int error;

    if (file == NULL) {
        return fail_open(argument, ENOMEM, reason);
    }
    file->base.kind = &dm_store_file;
    file->fd = -1;
    file->buffered = -1;
    error = open_both(file, argument, wish, reason);
    if (error != 0) {
        file_close(&file->base);
        return error;
    }
    *store = &file->base;
    return 0;
}

static int file_submit(struct dm_store *store, const struct dm_transfer *transfer)
{
    struct dm_queue *queue = ((struct file_store *)store)->queue;

    return queue->kind->submit(queue, transfer);
}

static unsigned file_reap(struct dm_store *store, struct dm_transferred *ended, unsigned room, bool wait)
{
    struct dm_queue *queue = ((struct file_store *)store)->queue;

    return queue->kind->reap(queue, ended, room, wait);
}

static int64_t file_read(struct dm_store *store, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    uint32_t got = 0;

    while (got < bytes) {
        ssize_t result =
            pread(((struct file_store *)store)->buffered, to + got, bytes - got, (off_t)(offset + got));
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result < 0) {
            return -errno;
        }
        if (result == 0) {
            break;
        }
        got += (uint32_t)result;
    }
    return got;
}

static int file_write(struct dm_store *store, uint64_t offset, const uint8_t *from, uint32_t bytes)
{
    uint32_t put = 0;

    while (put < bytes) {
        ssize_t result =
            pwrite(((struct file_store *)store)->buffered, from + put, bytes - put, (off_t)(offset + put));
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result <= 0) {
            return result < 0 ? errno : EIO;
        }
        put += (uint32_t)result;
    }
    return 0;
}

static int file_truncate(struct dm_store *store, uint64_t bytes)
{
    return ftruncate(((struct file_store *)store)->buffered, (off_t)bytes) == 0 ? 0 : errno;
}

static int file_remove(const char *argument)
{
    return unlink(argument) == 0 ? 0 : errno;
}

const struct dm_store_kind dm_store_file = {
    "file",    true,      file_open,  file_close,    file_submit,
    file_reap, file_read, file_write, file_truncate, file_remove,
};
