/* SPDX-License-Identifier: MIT */
/*
 * Connected ends of pipes, which keep messages whole. Messages are read ahead, so that the end of
 * the peer is noticed however many wait. A section goes along as the number of a handle that the
 * sender keeps until its end closes, and that the receiver takes from the sender's process.
 */
#include "os/windows/channel.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum {
    MOST_AHEAD = 64, /* messages; more wait in the pipe */
    HEAD = offsetof(struct vipl_frame, bytes)
};

struct vipl_arrived {
    struct vipl_arrived *next;
    uint64_t passed[2];
    size_t length;
    unsigned char bytes[];
};

static struct vipl_channel *channel_of_io(struct vipl_io *io)
{
    return (struct vipl_channel *)(void *)((char *)io - offsetof(struct vipl_channel, io));
}

/* --- beginning and end --- */

int vipl_channel_open(HANDLE pipe, struct vipl_channel **out)
{
    struct vipl_channel *c = vipl_zalloc(sizeof(*c));
    int error = c == NULL ? ENOMEM : vipl_io_add(pipe);
    if (error == 0) {
        c->written = CreateEventW(NULL, TRUE, FALSE, NULL);
        error = c->written == NULL ? vipl_errno_of(GetLastError()) : 0;
    }
    if (error != 0) {
        vipl_free(c);
        (void)CloseHandle(pipe);
        return error;
    }
    InitializeSRWLock(&c->lock);
    c->pipe = pipe;
    c->last = &c->first;
    *out = c;
    return 0;
}

static void free_channel(struct vipl_channel *c)
{
    while (c->first != NULL) {
        struct vipl_arrived *message = c->first;
        c->first = message->next;
        vipl_free(message);
    }
    for (unsigned i = 0; i < c->passed_count; i++) {
        (void)CloseHandle(c->passed[i]);
    }
    if (c->peer.handle != NULL) {
        (void)CloseHandle(c->peer.handle);
    }
    (void)CloseHandle(c->written);
    vipl_free(c);
}

void vipl_channel_close(struct vipl_channel *c)
{
    AcquireSRWLockExclusive(&c->lock);
    (void)CancelIoEx(c->pipe, &c->io.overlapped);
    (void)CloseHandle(c->pipe);
    c->pipe = NULL;
    bool is_busy = c->is_busy;
    ReleaseSRWLockExclusive(&c->lock);
    if (!is_busy) {
        free_channel(c);
    }
}

/* Begins what the thread of port.c does with an end: takes its lock. Returns false if the end has
 * been closed, and is freed now. */
static bool enter(struct vipl_channel *c)
{
    AcquireSRWLockExclusive(&c->lock);
    if (c->pipe != NULL) {
        c->is_busy = false;
        return true;
    }
    ReleaseSRWLockExclusive(&c->lock);
    free_channel(c);
    return false;
}

bool vipl_channel_is_back(struct vipl_channel *c)
{
    bool is_open = enter(c);
    if (is_open) {
        ReleaseSRWLockExclusive(&c->lock);
    }
    return is_open;
}

static void end_channel(struct vipl_object *object)
{
    vipl_channel_close((struct vipl_channel *)(void *)object);
}

static struct vipl_channel *get_channel(int fd)
{
    return (struct vipl_channel *)(void *)vipl_object_get(fd, end_channel);
}

/* --- what arrives; the channel's lock is held --- */

static void note_end(struct vipl_channel *c)
{
    c->has_ended = true;
    vipl_object_hang_up(&c->object);
}

static void begin_read(struct vipl_channel *c)
{
    memset(&c->io.overlapped, 0, sizeof(c->io.overlapped));
    c->is_busy = true;
    if (!ReadFile(c->pipe, &c->in, sizeof(c->in), NULL, &c->io.overlapped) &&
        GetLastError() != ERROR_IO_PENDING && GetLastError() != ERROR_MORE_DATA) {
        c->is_busy = false;
        note_end(c);
    }
}

/* Has the thread of port.c read on. */
static void read_on(struct vipl_channel *c)
{
    c->is_busy = true;
    if (vipl_io_begin(&c->io) != 0) {
        c->is_busy = false;
        note_end(c);
    }
}

/* Adds the message that has been read. Returns false if it breaks the rules, or there is no
 * memory. */
static bool add_message(struct vipl_channel *c, size_t bytes)
{
    struct vipl_arrived *message = bytes < HEAD ? NULL : vipl_alloc(sizeof(*message) + bytes - HEAD);
    if (message == NULL) {
        return false;
    }
    message->next = NULL;
    message->length = bytes - HEAD;
    memcpy(message->passed, c->in.passed, sizeof(message->passed));
    memcpy(message->bytes, c->in.bytes, message->length);
    *c->last = message;
    c->last = &message->next;
    c->count++;
    vipl_object_mark(&c->object, true);
    return true;
}

/* Takes the oldest message; NULL: there is none. */
static struct vipl_arrived *take_oldest(struct vipl_channel *c)
{
    struct vipl_arrived *message = c->first;
    if (message == NULL) {
        return NULL;
    }
    c->first = message->next;
    c->last = c->first == NULL ? &c->first : c->last;
    if (c->count-- == MOST_AHEAD && !c->has_ended) {
        read_on(c);
    }
    if (c->count == 0 && !c->has_ended) {
        vipl_object_mark(&c->object, false);
    }
    return message;
}

/* --- the thread of port.c --- */

static void on_begin(struct vipl_io *io)
{
    struct vipl_channel *c = channel_of_io(io);
    if (enter(c)) {
        begin_read(c);
        ReleaseSRWLockExclusive(&c->lock);
    }
}

static void on_message_read(struct vipl_io *io, DWORD error, DWORD bytes)
{
    struct vipl_channel *c = channel_of_io(io);
    if (!enter(c)) {
        return;
    }
    if (error != ERROR_SUCCESS || !add_message(c, bytes)) {
        note_end(c);
    } else if (c->count < MOST_AHEAD) {
        begin_read(c);
    }
    ReleaseSRWLockExclusive(&c->lock);
}

/* --- beginning --- */

int vipl_channel_begin(struct vipl_channel *c)
{
    AcquireSRWLockExclusive(&c->lock);
    int error = vipl_io_begin(&c->io);
    c->is_busy = error == 0;
    ReleaseSRWLockExclusive(&c->lock);
    return error;
}

enum vipl_caller vipl_channel_await(struct vipl_channel *c)
{
    enum vipl_caller caller = VIPL_CALLER_LATER;
    AcquireSRWLockExclusive(&c->lock);
    memset(&c->io.overlapped, 0, sizeof(c->io.overlapped));
    if (!ConnectNamedPipe(c->pipe, &c->io.overlapped) && GetLastError() != ERROR_IO_PENDING) {
        DWORD why = GetLastError();
        bool has_come = why == ERROR_PIPE_CONNECTED || why == ERROR_NO_DATA; /* and may have gone */
        caller = has_come ? VIPL_CALLER_HERE : VIPL_CALLER_NEVER;
    }
    c->is_busy = caller == VIPL_CALLER_LATER;
    ReleaseSRWLockExclusive(&c->lock);
    return caller;
}

int vipl_channel_connected(struct vipl_channel *c, bool is_server, int *fd)
{
    if (c->peer.pid == 0) {
        c->peer = vipl_owner_of_other_end(c->pipe, is_server);
    }
    if (!is_server && c->peer.user != vipl_local_user()) {
        return ECONNREFUSED;
    }
    c->io.begin = on_begin;
    c->io.done = on_message_read;
    int error = vipl_object_add(&c->object, end_channel, fd);
    if (error == 0) {
        AcquireSRWLockExclusive(&c->lock);
        read_on(c);
        ReleaseSRWLockExclusive(&c->lock);
    }
    return error;
}

/* --- messages --- */

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    struct vipl_channel *c = get_channel(fd);
    if (c == NULL) {
        return EBADF;
    }
    *pid = (int)c->peer.pid;
    *user = c->peer.user;
    vipl_object_put(&c->object);
    return 0;
}

bool vipl_local_has_hung_up(int fd)
{
    struct vipl_channel *c = get_channel(fd);
    if (c == NULL) {
        return true;
    }
    AcquireSRWLockShared(&c->lock);
    bool hung_up = c->has_ended;
    ReleaseSRWLockShared(&c->lock);
    vipl_object_put(&c->object);
    return hung_up;
}

/* Writes all or nothing: what the pipe has no room for is taken back. An event whose lowest bit is
 * set has nothing posted to the port. The channel's lock is held. */
static int write_frame(struct vipl_channel *c, const struct vipl_frame *frame, size_t bytes)
{
    OVERLAPPED write = {.hEvent = (HANDLE)((uintptr_t)c->written | 1)};
    DWORD written;
    if (WriteFile(c->pipe, frame, (DWORD)bytes, NULL, &write)) {
        return 0;
    }
    if (GetLastError() != ERROR_IO_PENDING) {
        return vipl_errno_of(GetLastError());
    }
    (void)CancelIoEx(c->pipe, &write);
    if (GetOverlappedResult(c->pipe, &write, &written, TRUE)) {
        return 0;
    }
    return GetLastError() == ERROR_OPERATION_ABORTED ? EAGAIN : vipl_errno_of(GetLastError());
}

/* Makes the duplicates of what goes along. The channel's lock is held. */
static int pass_all(struct vipl_channel *c, const int *fds, unsigned count, struct vipl_frame *frame)
{
    int error = count > 2 ? EINVAL : 0;
    for (unsigned i = 0; i < count && error == 0; i++) {
        HANDLE *made = &c->passed[c->passed_count];
        error =
            c->passed_count == VIPL_CHANNEL_PASSED ? EMFILE : vipl_section_pass(fds[i], c->peer.handle, made);
        if (error == 0) {
            frame->passed[i] = (uint64_t)(uintptr_t)*made;
            c->passed_count++;
        }
    }
    return error;
}

int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count)
{
    struct vipl_frame frame = {{0, 0}, {0}};
    struct vipl_channel *c = length > VIPL_CHANNEL_BYTES ? NULL : get_channel(fd);
    if (c == NULL) {
        return length > VIPL_CHANNEL_BYTES ? EMSGSIZE : EBADF;
    }
    memcpy(frame.bytes, bytes, length);
    AcquireSRWLockExclusive(&c->lock);
    unsigned before = c->passed_count;
    int error = pass_all(c, pass_fds, fd_count, &frame);
    error = error == 0 ? write_frame(c, &frame, HEAD + length) : error;
    while (error != 0 && c->passed_count > before) {
        (void)CloseHandle(c->passed[--c->passed_count]);
    }
    ReleaseSRWLockExclusive(&c->lock);
    vipl_object_put(&c->object);
    return error;
}

/* Takes a section from the peer; returns -1 if none came, or it cannot be had. */
static int take_section(const struct vipl_channel *c, uint64_t number)
{
    HANDLE made = NULL;
    int fd = -1;
    if (number == 0 || c->peer.handle == NULL ||
        !DuplicateHandle(c->peer.handle, (HANDLE)(uintptr_t)number, GetCurrentProcess(), &made, 0, FALSE,
                         DUPLICATE_SAME_ACCESS) ||
        vipl_section_adopt(made, c->peer.handle, &fd) != 0) {
        return -1;
    }
    return fd;
}

int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2])
{
    struct vipl_channel *c = get_channel(fd);
    fds[0] = fds[1] = -1;
    if (c == NULL) {
        return EBADF;
    }
    AcquireSRWLockExclusive(&c->lock);
    struct vipl_arrived *message = take_oldest(c);
    int error = message == NULL && !c->has_ended ? EAGAIN : 0;
    ReleaseSRWLockExclusive(&c->lock);
    if (message != NULL) {
        *length = message->length < size ? message->length : size;
        memcpy(bytes, message->bytes, *length);
        fds[0] = take_section(c, message->passed[0]);
        fds[1] = take_section(c, message->passed[1]);
        vipl_free(message);
    } else if (error == 0) {
        *length = 0;
    }
    vipl_object_put(&c->object);
    return error;
}
