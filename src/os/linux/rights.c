/* SPDX-License-Identifier: MIT */
/*
 * What a process may do, as the system tells it: its users, groups and capabilities. The sender's identity comes with the
 * message and cannot be forged; the rest is read from /proc, where there is one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* A file that is read a character at a time; a list of groups may be longer than any buffer. */
struct reader {
    int fd;
    size_t at;
    size_t length;
    char bytes[1024];
};

static int next(struct reader *reader)
{
    if (reader->at == reader->length) {
        ssize_t n = read(reader->fd, reader->bytes, sizeof(reader->bytes));
        reader->at = 0;
        reader->length = n > 0 ? (size_t)n : 0;
    }
    return reader->at == reader->length ? -1 : (unsigned char)reader->bytes[reader->at++];
}

static bool is_about_rights(const char *name)
{
    static const char *const names[] = {"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Moves behind the name of the next line that is about rights. False: no more such lines. */
static bool find_line(struct reader *reader)
{
    char name[16];
    for (;;) {
        size_t length = 0;
        int c;
        while ((c = next(reader)) >= 0 && c != ':' && c != '\n') {
            name[length] = (char)c;
            length += length < sizeof(name) - 1 ? 1 : 0;
        }
        name[length] = '\0';
        if (c == ':' && is_about_rights(name)) {
            return true;
        }
        while (c >= 0 && c != '\n') {
            c = next(reader);
        }
        if (c < 0) {
            return false;
        }
    }
}

static bool is_same_line(struct reader *one, struct reader *other)
{
    int c;
    do {
        c = next(one);
        if (c != next(other)) {
            return false;
        }
    } while (c >= 0 && c != '\n');
    return true;
}

static bool open_status(struct reader *reader, int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    vipl_fd_begin();
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    vipl_fd_own(reader->fd);
    vipl_fd_end();
    reader->at = reader->length = 0;
    return reader->fd >= 0;
}

static bool is_same_status(struct reader *own, struct reader *other)
{
    bool found;
    bool same = true;
    do {
        found = find_line(own);
        same = find_line(other) == found && (!found || is_same_line(own, other));
    } while (found && same);
    return same;
}

bool vipl_has_same_rights(const struct vipl_sender *sender)
{
    struct reader own;
    struct reader other;
    if (sender->pid <= 0 || sender->user != (uint32_t)getuid() || sender->group != (uint32_t)getgid()) {
        return false;
    }
    if (!open_status(&own, (int)getpid())) {
        return true; /* no /proc here: the identity that came with the message has to do */
    }
    bool same = open_status(&other, sender->pid) && is_same_status(&own, &other);
    vipl_fd_close(own.fd);
    vipl_fd_close(other.fd);
    return same;
}
