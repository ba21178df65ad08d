/* SPDX-License-Identifier: MIT */
/*
 * The rights of a process, as the system tells them: its users, groups and capabilities. The
 * identity of a sender comes with its message and cannot be forged; the rest is read from /proc,
 * where there is one.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* A file that is read character by character, because a list of groups may be longer than any
 * buffer. */
struct reader {
    int fd;
    size_t at;
    size_t length;
    char bytes[1024];
};

enum { REAL, EFFECTIVE, SAVED, OF_FILES, KINDS };
enum { FEW_GROUPS = 32, MAX_GROUPS = 65536 };

struct rights {
    uint64_t pid; /* as /proc counts processes */
    uint32_t users[KINDS];
    uint32_t groups[KINDS];
    uint64_t capabilities[4]; /* inheritable, permitted, effective, ambient */
    gid_t *others;            /* supplementary groups, in the system's order */
    size_t count;
    size_t room;
};

static int next_character(struct reader *reader)
{
    if (reader->at == reader->length) {
        ssize_t n = read(reader->fd, reader->bytes, sizeof(reader->bytes));
        reader->at = 0;
        reader->length = n > 0 ? (size_t)n : 0;
    }
    return reader->at == reader->length ? -1 : (unsigned char)reader->bytes[reader->at++];
}

static unsigned digit_of(int c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* Reads the next number of a line, in decimal or hexadecimal. Returns false at the end of the
 * line. */
static bool read_status_number(struct reader *reader, unsigned base, uint64_t *number)
{
    int c;
    bool any = false;
    *number = 0;
    while ((c = next_character(reader)) >= 0 && c != '\n') {
        unsigned digit = digit_of(c);
        if (digit < base) {
            *number = *number * base + digit;
            any = true;
        } else if (any) {
            return true;
        }
    }
    reader->at -= c == '\n' ? 1 : 0; /* the next call finds the end of the line again */
    return any;
}

/* Returns false if there is no memory. */
static bool add_group(struct rights *rights, gid_t group)
{
    if (rights->count == rights->room) {
        size_t room = rights->room == 0 ? FEW_GROUPS : 2 * rights->room;
        gid_t *others = room > MAX_GROUPS ? NULL : vipl_alloc(room * sizeof(*others));
        if (others == NULL) {
            return false;
        }
        if (rights->count > 0) {
            memcpy(others, rights->others, rights->count * sizeof(*others));
        }
        vipl_free(rights->others);
        rights->others = others;
        rights->room = room;
    }
    rights->others[rights->count++] = group;
    return true;
}

static bool read_status_line(struct reader *reader, const char *name, struct rights *rights)
{
    static const char *const capabilities[] = {"CapInh", "CapPrm", "CapEff", "CapAmb"};
    uint64_t number;
    bool uid = strcmp(name, "Uid") == 0;
    if (uid || strcmp(name, "Gid") == 0) {
        for (unsigned i = 0; i < KINDS && read_status_number(reader, 10, &number); i++) {
            (uid ? rights->users : rights->groups)[i] = (uint32_t)number;
        }
        return true;
    }
    if (strcmp(name, "Pid") == 0) {
        read_status_number(reader, 10, &rights->pid);
    }
    bool fits = true;
    while (strcmp(name, "Groups") == 0 && fits && read_status_number(reader, 10, &number)) {
        fits = add_group(rights, (gid_t)number);
    }
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(name, capabilities[i]) == 0) {
            read_status_number(reader, 16, &rights->capabilities[i]);
        }
    }
    return fits;
}

/* Reads the name of the next line. Returns false if there is none. */
static bool read_status_name(struct reader *reader, char name[16])
{
    size_t length = 0;
    int c;
    while ((c = next_character(reader)) >= 0 && c != ':' && c != '\n') {
        name[length] = (char)c;
        length += length < 15 ? 1 : 0;
    }
    name[length] = '\0';
    reader->at -= c == '\n' ? 1 : 0;
    return c >= 0;
}

static bool read_status_file(struct reader *reader, struct rights *rights)
{
    char name[16];
    while (read_status_name(reader, name)) {
        if (!read_status_line(reader, name, rights)) {
            return false;
        }
        for (int c = 0; c >= 0 && c != '\n';) {
            c = next_character(reader);
        }
    }
    return true;
}

/* Returns false if the process has ended, its status may not be read, or there is no memory. The
 * caller frees rights->others in any case. */
static bool read_rights(const char *path, struct rights *rights)
{
    struct reader reader = {0};
    memset(rights, 0, sizeof(*rights));
    vipl_fd_begin();
    reader.fd = open(path, O_RDONLY | O_CLOEXEC);
    vipl_fd_own(reader.fd);
    vipl_fd_end();
    if (reader.fd < 0) {
        return false;
    }
    bool read_all = read_status_file(&reader, rights);
    vipl_fd_close(reader.fd);
    return read_all;
}

/* Returns false also if /proc has the process numbers of another name space: it would tell of other
 * processes. */
static bool read_own(struct rights *rights)
{
    return read_rights("/proc/self/status", rights) && rights->pid == (uint64_t)getpid();
}

static bool read_other(int pid, struct rights *rights)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    return read_rights(path, rights);
}

static bool same_groups(const struct rights *one, const struct rights *other)
{
    return one->count == other->count &&
           (one->count == 0 || memcmp(one->others, other->others, one->count * sizeof(gid_t)) == 0);
}

static enum vipl_rights compare_identities(const struct rights *own, const struct rights *other)
{
    if (memcmp(own->users, other->users, sizeof(own->users)) != 0 ||
        memcmp(own->groups, other->groups, sizeof(own->groups)) != 0 || !same_groups(own, other)) {
        return VIPL_RIGHTS_OTHER;
    }
    enum vipl_rights found = VIPL_RIGHTS_SAME;
    for (unsigned i = 0; i < 4; i++) {
        if ((own->capabilities[i] & ~other->capabilities[i]) != 0) {
            return VIPL_RIGHTS_OTHER;
        }
        found = own->capabilities[i] == other->capabilities[i] ? found : VIPL_RIGHTS_FEWER;
    }
    return found;
}

bool vipl_is_own_identity(const struct vipl_sender *sender)
{
    return sender->user == (uint32_t)getuid() && sender->group == (uint32_t)getgid();
}

enum vipl_rights vipl_compare_rights(int pid)
{
    struct rights own;
    struct rights other = {0};
    enum vipl_rights found = VIPL_RIGHTS_UNKNOWN;
    if (read_own(&own)) {
        found = pid > 0 && read_other(pid, &other) ? compare_identities(&own, &other) : VIPL_RIGHTS_OTHER;
    }
    vipl_free(own.others);
    vipl_free(other.others);
    return found;
}

/* Takes root's rights back first, if the process had set them aside: changing groups needs them.
 * The users are changed last, because that gives these rights away. */
static int take_identity(const struct rights *own, const struct rights *wanted)
{
    bool is_aside = own->users[EFFECTIVE] != 0 && (own->users[REAL] == 0 || own->users[SAVED] == 0);
    if (is_aside && seteuid(0) != 0) {
        return errno;
    }
    if (!same_groups(own, wanted) && setgroups(wanted->count, wanted->others) != 0) {
        return errno;
    }
    const uint32_t *groups = wanted->groups;
    const uint32_t *users = wanted->users;
    return setresgid(groups[REAL], groups[EFFECTIVE], groups[SAVED]) == 0 &&
                   setresuid(users[REAL], users[EFFECTIVE], users[SAVED]) == 0
               ? 0
               : errno;
}

int vipl_take_rights(int pid, int socket)
{
    struct rights own;
    struct rights wanted = {0};
    int error = ESRCH;
    /* checked last: pid is still that process */
    if (read_own(&own) && read_other(pid, &wanted) && !vipl_local_has_hung_up(socket)) {
        error = take_identity(&own, &wanted);
    }
    vipl_free(own.others);
    vipl_free(wanted.others);
    return error;
}
