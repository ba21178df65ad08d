/* SPDX-License-Identifier: MIT */
/* vipl-run --stats-of: the counts of a running process are in memory that one of its descriptors
 * names. Reading them disturbs the process in no way. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "sockets/stats.h"
#include "tool_text.h"

/* Returns true if the descriptor's file is the memory, with counts of this process and layout. */
static bool read_counts(const char *path, unsigned process, struct sock_stats *stats)
{
    char target[64];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length < 0) {
        return false;
    }
    target[length] = '\0';
    if (strncmp(target, "/memfd:" SOCK_STATS_NAME, strlen("/memfd:" SOCK_STATS_NAME)) != 0) {
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool read = fd >= 0 && pread(fd, stats, sizeof(*stats), 0) == (ssize_t)sizeof(*stats) &&
                stats->magic == SOCK_STATS_MAGIC && stats->pid == process;
    if (fd >= 0) {
        close(fd);
    }
    return read;
}

int run_print_stats(unsigned process)
{
    char path[PATH_MAX];
    char text[SOCK_STATS_TEXT_BYTES];
    struct sock_stats stats;
    snprintf(path, sizeof(path), "/proc/%u/fd", process);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        tool_complain("process %u: %s", process, strerror(errno));
        return TOOL_FAILED;
    }
    bool found = false;
    for (struct dirent *each; !found && (each = readdir(folder)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%u/fd/%s", process, each->d_name);
        found = each->d_name[0] != '.' && read_counts(path, process, &stats);
    }
    closedir(folder);
    if (!found) {
        tool_complain(
            "process %u has no counts of connections: it has had none, does not run by vipl-run, or "
            "runs by another version",
            process);
        return TOOL_FAILED;
    }
    sock_stats_text(&stats, text);
    fputs(text, stdout);
    return fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
}
