/* SPDX-License-Identifier: MIT */
/*
 * Starting the server. It is a program of its own, vipl-server, so that it has nothing of this
 * program but what it is given: its end of the first client's socket, the arena, and the shared
 * memory of the program. If there is no such program, or it says that it cannot be this program's
 * server (start.h), the server is a fork of this process.
 */
#include "share/client_start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "share/start.h"
#include "start/launch.h"
#include "vipl/version.h"

enum {
    MIB = 1 << 20,
    /* addresses may be taken in the server's process, which has other ones each time */
    ATTEMPTS = 4,
    TEXT = 24
};

/* What a server is started with. Element 0 of a pair of sockets is the client's end. */
struct startup {
    struct vipl_shm shm;
    struct vipl_arena *arena;
    int socket[2];
    int life[2];
    void (*forked)(void);
};

/* The heap lies after the arena's own part, at a multiple of its units, because a mapping need not
 * begin at one. */
static int make_arena(struct startup *b)
{
    size_t own = sizeof(struct vipl_arena) + VIPL_SHARE_PAGE;
    size_t heap = (size_t)vipl_config_number("VIPL_SHARED_MIB") * MIB;
    int error = vipl_shm_reserve(&b->shm, "vipl-shared", own + heap);
    if (error != 0) {
        return error;
    }
    uintptr_t end = (uintptr_t)b->shm.base + own;
    b->arena = b->shm.base;
    b->arena->heap.base = (unsigned char *)b->shm.base + own - end % VIPL_SHARE_PAGE;
    b->arena->heap.bytes = heap;
    return 0;
}

static void close_ends(int socket[2], int life[2], int end)
{
    vipl_fd_close(socket[end]);
    vipl_fd_close(life[end]);
    socket[end] = life[end] = -1;
}

static void abort_start(struct startup *b)
{
    close_ends(b->socket, b->life, 0);
    close_ends(b->socket, b->life, 1);
    vipl_shm_release(&b->shm);
}

static int prepare_start(struct startup *b)
{
    b->socket[0] = b->socket[1] = b->life[0] = b->life[1] = -1;
    int error = make_arena(b);
    if (error != 0) {
        return error;
    }
    error = vipl_local_pair(b->socket);
    error = error == 0 ? vipl_local_pair(b->life) : error;
    if (error != 0) {
        abort_start(b);
        return error;
    }
    vipl_local_name_senders(b->socket[1]);
    return 0;
}

/* --- a program of its own --- */

/* Runs vipl-server VERSION LAYOUT SOCKET LIFELINE, and for the arena and
 * each mapping FD:ADDRESS:BYTES:OFFSET. */
static enum vipl_server_start run_program(const char *path, struct startup *b,
                                          const struct vipl_shared_file *files, unsigned count)
{
    char numbers[3][TEXT];
    char mappings[1 + VIPL_SERVER_MAPPINGS][4 * TEXT];
    char *arguments[5 + 1 + VIPL_SERVER_MAPPINGS + 1] = {(char *)(uintptr_t)path,
                                                         (char *)(uintptr_t)VIPL_VERSION_STRING};
    int pass[3 + VIPL_SERVER_MAPPINGS] = {b->socket[1], b->life[1], b->shm.fd};
    const size_t values[3] = {VIPL_SERVER_LAYOUT, (size_t)b->socket[1], (size_t)b->life[1]};
    for (unsigned i = 0; i < 3; i++) {
        snprintf(numbers[i], TEXT, "%zu", values[i]);
        arguments[2 + i] = numbers[i];
    }
    for (unsigned i = 0; i <= count; i++) {
        struct vipl_shared_file arena = {b->shm.fd, (uintptr_t)b->shm.base, b->shm.bytes, 0};
        const struct vipl_shared_file *file = i == 0 ? &arena : &files[i - 1];
        snprintf(mappings[i], sizeof(mappings[i]), VIPL_SERVER_MAPPING, file->fd,
                 (unsigned long long)file->address, (unsigned long long)file->bytes,
                 (unsigned long long)file->offset);
        arguments[5 + i] = mappings[i];
        pass[2 + i] = file->fd;
    }
    unsigned char said;
    int error = vipl_launch_program(arguments, pass, 3 + count, b->life, &said);
    return error == 0                           ? (enum vipl_server_start)said
           : error == ENOENT || error == EACCES ? VIPL_SERVER_MISSING
                                                : VIPL_SERVER_FAILED;
}

/* Runs the server's program with all shared memory of this program, which the server needs too. */
static enum vipl_server_start run_with_mappings(const char *path, struct startup *b)
{
    struct vipl_shared_file files[VIPL_SERVER_MAPPINGS];
    unsigned count;
    enum vipl_server_start started = VIPL_SERVER_NO_DESCRIPTOR;
    if (vipl_shared_files(files, VIPL_SERVER_MAPPINGS, &count) == 0) {
        started = run_program(path, b, files, count);
    }
    for (unsigned i = 0; i < count; i++) {
        vipl_fd_close(files[i].fd);
    }
    return started;
}

static const char *server_program(void)
{
    return vipl_launch_path("VIPL_SERVER", VIPL_SERVER_PROGRAM);
}

static void log_fork(enum vipl_server_start started)
{
    static const char *const reasons[] = {[VIPL_SERVER_RUNS] = "",
                                          [VIPL_SERVER_FAILED] = "it failed",
                                          [VIPL_SERVER_MISSING] = "there is no such program",
                                          [VIPL_SERVER_OTHER_VERSION] = "it is of another version",
                                          [VIPL_SERVER_ADDRESS_TAKEN] = "addresses are taken there",
                                          [VIPL_SERVER_OTHER_RIGHTS] = "it would have other rights",
                                          [VIPL_SERVER_NO_DESCRIPTOR] =
                                              "shared memory cannot be handed over to it"};
    static uint32_t logged; /* atomic */
    size_t reason = started < sizeof(reasons) / sizeof(reasons[0]) ? started : VIPL_SERVER_FAILED;
    if (server_program()[0] != '\0' && vipl_exchange(&logged, 1) == 0) {
        vipl_log(VIPL_LOG_INFO, "the server of shared objects is a fork of the program, and not %s: %s",
                 server_program(), reasons[reason]);
    }
}

/* --- a fork --- */

static void run_forked(void *arg)
{
    struct startup *b = arg;
    b->forked();
    vipl_shm_close_fd(&b->shm);
    vipl_server_in_fork(b->arena, b->socket[1]);
}

static int fork_server(struct startup *b)
{
    int const servers[2] = {b->socket[1], b->life[1]};
    return vipl_launch_fork("vipl-server", run_forked, b, servers);
}

/* --- the program, or else the fork --- */

/* Blocks of the heap may also be registered with private NIC handles, whose peers
 * map them (loopback). */
static void finish_start(struct vipl_server_link *line, struct startup *b)
{
    close_ends(b->socket, b->life, 1);
    vipl_shm_show(&b->shm);
    *line = (struct vipl_server_link){b->arena, b->socket[0], b->life[0]};
}

/* Returns 0 or an errno value; ENOEXEC: the server must be a fork. */
static int start_program(struct vipl_server_link *line, struct startup *b)
{
    enum vipl_server_start said =
        server_program()[0] == '\0' ? VIPL_SERVER_MISSING : VIPL_SERVER_ADDRESS_TAKEN;
    for (int i = 0; said == VIPL_SERVER_ADDRESS_TAKEN && i < ATTEMPTS; i++) {
        int error = prepare_start(b);
        if (error != 0) {
            return error;
        }
        said = run_with_mappings(server_program(), b);
        if (said == VIPL_SERVER_RUNS) {
            finish_start(line, b);
            return 0;
        }
        abort_start(b);
    }
    log_fork(said);
    return ENOEXEC;
}

int vipl_share_start(struct vipl_server_link *line, void (*forked)(void))
{
    struct startup b = {.forked = forked};
    int error = start_program(line, &b);
    if (error != ENOEXEC) {
        return error;
    }
    error = prepare_start(&b);
    if (error != 0) {
        return error;
    }
    error = fork_server(&b);
    if (error == 0) {
        finish_start(line, &b);
    } else {
        abort_start(&b);
    }
    return error;
}
