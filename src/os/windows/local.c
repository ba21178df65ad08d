/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes of this host: named pipes. The pipe of a listener has a random name,
 * and a small shared segment has the name that the library knows: it says which pipe, and whose.
 * So a name ends with its listener, although the ends that it has accepted go on, and it is clear
 * that a process has it alone. Both are for one user alone, in one session.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/windows/channel.h"

enum {
    LISTENING = 4, /* ends that await a caller, as many as may come at once */
    BACKLOG = 128, /* ends that await one, or to be accepted */
    PIPE_BYTES = 64 * 1024,
    NAME = 512
};

/* What a named segment has. */
struct entry {
    uint32_t owner; /* atomic: the listener's process; 0: nobody has the name */
    uint32_t unused;
    uint64_t pipe[2]; /* of its name; 0: there is none yet */
};

struct vipl_listener {
    struct vipl_object object;    /* the first field */
    HANDLE section;               /* constant */
    struct entry *entry;          /* constant: mapped */
    struct vipl_owner_only ours;  /* constant */
    char pipe[NAME];              /* constant */
    struct vipl_channel *waiting; /* guarded by `lock`: ends without a caller */
    struct vipl_channel *callers; /* guarded by `lock`: the oldest first */
    struct vipl_channel **newest; /* guarded by `lock`: where the next caller goes */
    unsigned waiting_count;       /* guarded by `lock` */
    unsigned caller_count;        /* guarded by `lock` */
};

/* Guards the ends of all listeners; taken before the lock of an end. */
static SRWLOCK lock = SRWLOCK_INIT;

/* --- names --- */

static bool is_plain_byte(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Writes what the segment of a name is called: bytes other than digits and those of A-Z and a-z are
 * hexadecimal numbers. */
static int write_name(char text[NAME], const void *name, size_t length)
{
    const unsigned char *from = name;
    size_t at = (size_t)snprintf(text, NAME, "Local\\vipl-");
    for (size_t i = 0; i < length; i++) {
        if (at + 4 > NAME) {
            return ENAMETOOLONG;
        }
        at += (size_t)snprintf(text + at, NAME - at, is_plain_byte(from[i]) ? "%c" : "_%02x", from[i]);
    }
    return 0;
}

static void write_pipe_name(char text[NAME], const uint64_t pipe[2])
{
    (void)snprintf(text, NAME, "\\\\.\\pipe\\vipl-%016llx%016llx", (unsigned long long)pipe[0],
                   (unsigned long long)pipe[1]);
}

/* Maps a named segment; NULL: it has not what an entry needs. Another process may have made it. */
static struct entry *map_entry(HANDLE section, DWORD access)
{
    MEMORY_BASIC_INFORMATION info;
    void *entry = MapViewOfFile(section, access, 0, 0, 0);
    if (entry != NULL && (VirtualQuery(entry, &info, sizeof(info)) == 0 || info.State != MEM_COMMIT ||
                          info.RegionSize < sizeof(struct entry))) {
        (void)UnmapViewOfFile(entry);
        entry = NULL;
    }
    return entry;
}

static void give_up_name(struct vipl_listener *l)
{
    if (l->entry != NULL) {
        (void)UnmapViewOfFile(l->entry);
    }
    if (l->section != NULL) {
        (void)CloseHandle(l->section);
    }
    l->entry = NULL;
    l->section = NULL;
}

/* Makes the named segment, and puts this process into it. A segment that is there without an owner
 * is one that a caller is still looking at. */
static int take_name(struct vipl_listener *l, const void *name, size_t length)
{
    char text[NAME];
    int error = write_name(text, name, length);
    if (error != 0) {
        return error;
    }
    l->section = CreateFileMappingA(INVALID_HANDLE_VALUE, &l->ours.attributes, PAGE_READWRITE, 0,
                                    sizeof(struct entry), text);
    if (l->section == NULL) { /* of another user, or of another kind: the name is taken */
        DWORD why = GetLastError();
        return why == ERROR_ACCESS_DENIED || why == ERROR_INVALID_HANDLE ? EADDRINUSE : vipl_errno_of(why);
    }
    l->entry = map_entry(l->section, FILE_MAP_WRITE);
    if (l->entry == NULL || !vipl_compare_exchange(&l->entry->owner, 0, GetCurrentProcessId())) {
        give_up_name(l);
        return EADDRINUSE;
    }
    return 0;
}

/* Reads which pipe has a name, and which process that is. Returns false if there is none. */
static bool look_up(const char *text, struct entry *out)
{
    HANDLE section = OpenFileMappingA(FILE_MAP_READ, FALSE, text);
    struct entry *entry = section == NULL ? NULL : map_entry(section, FILE_MAP_READ);
    *out = (struct entry){0};
    if (entry != NULL) {
        out->owner = vipl_load_acquire(&entry->owner); /* pairs with end_listener() */
        memcpy(out->pipe, entry->pipe, sizeof(out->pipe));
        (void)UnmapViewOfFile(entry);
    }
    if (section != NULL) {
        (void)CloseHandle(section);
    }
    return out->owner != 0;
}

/* --- ends that wait for a caller; `lock` is held --- */

static struct vipl_channel *channel_of_io(struct vipl_io *io)
{
    return (struct vipl_channel *)(void *)((char *)io - offsetof(struct vipl_channel, io));
}

static void leave_waiting(struct vipl_listener *l, const struct vipl_channel *c)
{
    struct vipl_channel **at = &l->waiting;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    l->waiting_count--;
}

static int make_end(struct vipl_listener *l, DWORD flags);

/* Keeps some ends ready for callers. The others come when callers have been accepted. */
static void keep_listening(struct vipl_listener *l)
{
    int error = 0;
    while (error == 0 && l->waiting_count < LISTENING && l->waiting_count + l->caller_count < BACKLOG) {
        error = make_end(l, 0);
    }
}

static void add_caller(struct vipl_listener *l, struct vipl_channel *c)
{
    leave_waiting(l, c);
    c->next = NULL;
    *l->newest = c;
    l->newest = &c->next;
    l->caller_count++;
    vipl_object_mark(&l->object, true);
    keep_listening(l);
}

/* A caller has come, or none can come. */
static void on_caller(struct vipl_listener *l, struct vipl_channel *c, enum vipl_caller caller)
{
    if (caller == VIPL_CALLER_HERE) {
        add_caller(l, c);
    } else if (caller == VIPL_CALLER_NEVER) {
        leave_waiting(l, c);
        vipl_channel_close(c);
    }
}

/* --- the thread of port.c --- */

/* Returns the listener of an end with which that thread is done, and takes the lock. NULL: the end
 * has been closed, or will be. */
static struct vipl_listener *listener_of(struct vipl_channel *c)
{
    AcquireSRWLockExclusive(&lock);
    struct vipl_listener *l = c->of;
    if (vipl_channel_is_back(c) && l != NULL) {
        return l;
    }
    ReleaseSRWLockExclusive(&lock);
    return NULL;
}

static void on_begin(struct vipl_io *io)
{
    struct vipl_channel *c = channel_of_io(io);
    struct vipl_listener *l = listener_of(c);
    if (l != NULL) {
        on_caller(l, c, vipl_channel_await(c));
        ReleaseSRWLockExclusive(&lock);
    }
}

static void on_done(struct vipl_io *io, DWORD error, DWORD bytes)
{
    struct vipl_channel *c = channel_of_io(io);
    struct vipl_listener *l = listener_of(c);
    (void)bytes;
    if (l != NULL) {
        on_caller(l, c, error == ERROR_SUCCESS ? VIPL_CALLER_HERE : VIPL_CALLER_NEVER);
        ReleaseSRWLockExclusive(&lock);
    }
}

/* --- listening --- */

static int make_end(struct vipl_listener *l, DWORD flags)
{
    struct vipl_channel *c;
    HANDLE pipe = CreateNamedPipeA(l->pipe, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | flags,
                                   PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS,
                                   PIPE_UNLIMITED_INSTANCES, PIPE_BYTES, PIPE_BYTES, 0, &l->ours.attributes);
    if (pipe == INVALID_HANDLE_VALUE) {
        return vipl_errno_of(GetLastError());
    }
    int error = vipl_channel_open(pipe, &c);
    if (error != 0) {
        return error;
    }
    c->io.begin = on_begin;
    c->io.done = on_done;
    error = vipl_channel_begin(c);
    if (error != 0) {
        vipl_channel_close(c);
        return error;
    }
    c->of = l;
    c->next = l->waiting;
    l->waiting = c;
    l->waiting_count++;
    return 0;
}

static void close_all(struct vipl_channel *c)
{
    while (c != NULL) {
        struct vipl_channel *next = c->next;
        vipl_channel_close(c);
        c = next;
    }
}

static void disown_all(struct vipl_channel *c)
{
    for (; c != NULL; c = c->next) {
        c->of = NULL;
    }
}

static void end_listener(struct vipl_object *object)
{
    struct vipl_listener *l = (struct vipl_listener *)(void *)object;
    if (l->entry != NULL) {
        memset(l->entry->pipe, 0, sizeof(l->entry->pipe));
        vipl_store_release(&l->entry->owner, 0);
    }
    give_up_name(l);
    AcquireSRWLockExclusive(&lock);
    disown_all(l->waiting);
    disown_all(l->callers);
    ReleaseSRWLockExclusive(&lock);
    close_all(l->waiting);
    close_all(l->callers);
    vipl_free(l);
}

/* Makes the pipe, with its first ends. */
static int open_pipe(struct vipl_listener *l)
{
    uint64_t id[2];
    int error = vipl_entropy(id, sizeof(id));
    write_pipe_name(l->pipe, id);
    AcquireSRWLockExclusive(&lock);
    error = error == 0 ? make_end(l, FILE_FLAG_FIRST_PIPE_INSTANCE) : error;
    if (error == 0) {
        keep_listening(l);
        memcpy(l->entry->pipe, id, sizeof(id));
    }
    ReleaseSRWLockExclusive(&lock);
    return error;
}

int vipl_local_listen(const void *name, size_t length, int *fd, int *lock_out)
{
    struct vipl_listener *l = vipl_zalloc(sizeof(*l));
    if (l == NULL) {
        return ENOMEM;
    }
    l->newest = &l->callers;
    int error = vipl_owner_only(&l->ours);
    error = error == 0 ? take_name(l, name, length) : error;
    error = error == 0 ? open_pipe(l) : error;
    error = error == 0 ? vipl_object_add(&l->object, end_listener, fd) : error;
    if (error != 0) {
        end_listener(&l->object);
        return error;
    }
    *lock_out = -1;
    return 0;
}

void vipl_local_unlisten(const void *name, size_t length, int fd, int held)
{
    (void)name;
    (void)length;
    (void)held;
    vipl_fd_close(fd);
}

/* --- accepting --- */

/* Takes the caller that has waited longest; NULL: there is none. */
static struct vipl_channel *take_caller(struct vipl_listener *l)
{
    AcquireSRWLockExclusive(&lock);
    struct vipl_channel *c = l->callers;
    if (c != NULL) {
        l->callers = c->next;
        l->newest = l->callers == NULL ? &l->callers : l->newest;
        l->caller_count--;
        c->of = NULL;
        keep_listening(l);
    }
    if (l->callers == NULL) {
        vipl_object_mark(&l->object, false);
    }
    ReleaseSRWLockExclusive(&lock);
    return c;
}

/* Makes the caller the first one again. */
static void give_back(struct vipl_listener *l, struct vipl_channel *c)
{
    AcquireSRWLockExclusive(&lock);
    c->of = l;
    c->next = l->callers;
    l->newest = l->callers == NULL ? &c->next : l->newest;
    l->callers = c;
    l->caller_count++;
    vipl_object_mark(&l->object, true);
    ReleaseSRWLockExclusive(&lock);
}

int vipl_local_accept(int listener, int *fd)
{
    struct vipl_object *object = vipl_object_get(listener, end_listener);
    if (object == NULL) {
        return EBADF;
    }
    struct vipl_listener *l = (struct vipl_listener *)(void *)object;
    struct vipl_channel *c = take_caller(l);
    int error = EAGAIN;
    if (c != NULL) {
        error = vipl_channel_connected(c, true, fd);
        if (error != 0) {
            give_back(l, c);
        }
    }
    vipl_object_put(object);
    return error;
}

/* --- connecting --- */

/* Opens the pipe, if the process that has the name has it. */
static int open_end(const struct entry *entry, struct vipl_channel **out)
{
    char text[NAME];
    DWORD mode = PIPE_READMODE_MESSAGE;
    write_pipe_name(text, entry->pipe);
    HANDLE pipe = CreateFileA(text, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
                              FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, NULL);
    if (pipe == INVALID_HANDLE_VALUE) {
        return GetLastError() == ERROR_PIPE_BUSY ? EAGAIN : ECONNREFUSED;
    }
    ULONG pid = 0;
    if (!GetNamedPipeServerProcessId(pipe, &pid) || pid != entry->owner ||
        !SetNamedPipeHandleState(pipe, &mode, NULL, NULL)) {
        (void)CloseHandle(pipe);
        return ECONNREFUSED;
    }
    return vipl_channel_open(pipe, out);
}

int vipl_local_connect(const void *name, size_t length, int *fd)
{
    char text[NAME];
    struct entry entry;
    struct vipl_channel *c;
    int error = write_name(text, name, length);
    if (error != 0) {
        return error;
    }
    if (!look_up(text, &entry)) {
        return ECONNREFUSED;
    }
    error = open_end(&entry, &c);
    if (error != 0) {
        return error;
    }
    error = vipl_channel_connected(c, false, fd);
    if (error != 0) {
        vipl_channel_close(c);
    }
    return error;
}
