/* SPDX-License-Identifier: MIT */
/* What memory is, as the kernel lists it: two processes share what has the same file and offset in both lists. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"

/* One line of the list. */
struct line {
    uint64_t begin;
    uint64_t end;
    uint64_t offset;
    uint64_t device;
    uint64_t inode;
    bool shared; /* and writable */
};

static bool read_line(FILE *file, struct line *line)
{
    char text[512];
    char rights[5];
    unsigned major;
    unsigned minor;
    if (fgets(text, sizeof(text), file) == NULL) {
        return false;
    }
    for (int c = 0; strchr(text, '\n') == NULL && c != '\n' && c != EOF;) { /* a long name: its rest */
        c = fgetc(file);
    }
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &line->begin, &line->end,
               rights, &line->offset, &major, &minor, &line->inode) != 7) {
        return false;
    }
    line->device = (uint64_t)major << 32 | minor;
    line->shared = rights[0] == 'r' && rights[1] == 'w' && rights[3] == 's';
    return true;
}

/* Lines are in order: the first one has the beginning, the next ones go on where it ends. */
int vipl_shared_mapping(const void *address, size_t bytes, struct vipl_mapping *out)
{
    uint64_t next = (uint64_t)(uintptr_t)address;
    uint64_t end = next + bytes;
    struct line line;
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    if (file == NULL) {
        return errno;
    }
    while (next < end && read_line(file, &line)) {
        if (line.end <= next) {
            continue;
        }
        uint64_t offset = line.offset + (next - line.begin);
        bool goes_on = found && line.device == out->device && line.inode == out->inode &&
                       offset == out->offset + (next - (uint64_t)(uintptr_t)address);
        if (line.begin > next || !line.shared || (found && !goes_on)) {
            break;
        }
        if (!found) {
            *out = (struct vipl_mapping){line.device, line.inode, offset};
            found = true;
        }
        next = line.end;
    }
    fclose(file);
    return next >= end ? 0 : EINVAL;
}
