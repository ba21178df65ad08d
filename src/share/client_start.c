/* SPDX-License-Identifier: MIT */
/*
 * Starting the server. It is a program of its own, vipl-server, so that it has nothing of this program's but what it is given: its
 * end of the first client's socket, the arena, and the shared memory that the program has. If there is no such program, or it
 * says that it cannot be this program's server (start.h), the server is a fork of this process.
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
    ATTEMPTS = 4, /* addresses may be taken in the server's program, which has others each time */
    TEXT = 24
};

/* What a server is started with. Of the sockets the client's ends come first. */
struct beginning {
    struct vipl_shm shm;
    struct vipl_arena *arena;
    int socket[2];
    int life[2];
    void (*forked)(void);
};

/* The heap lies behind the arena's own part, at a multiple of its units: a mapping does not begin at one. */
static int make_arena(struct beginning *b)
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

static void give_up(struct beginning *b)
{
    close_ends(b->socket, b->life, 0);
    close_ends(b->socket, b->life, 1);
    vipl_shm_release(&b->shm);
}

static int prepare(struct beginning *b)
{
    b->socket[0] = b->socket[1] = b->life[0] = b->life[1] = -1;
    int error = make_arena(b);
    if (error != 0) {
        return error;
    }
    error = vipl_local_pair(b->socket);
    error = error == 0 ? vipl_local_pair(b->life) : error;
    if (error != 0) {
        give_up(b);
        return error;
    }
    vipl_local_name_senders(b->socket[1]);
    return 0;
}

/* --- a program of its own --- */

/* vipl-server VERSION LAYOUT SOCKET LIFELINE, then for the arena and each mapping FD:ADDRESS:BYTES:OFFSET. */
static enum vipl_server_start run_program(const char *path, struct beginning *b,
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

/* With all shared memory that the program has: its server is to have it too. */
static enum vipl_server_start run_with_mappings(const char *path, struct beginning *b)
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

static const char *program(void)
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
    if (program()[0] != '\0' && vipl_exchange(&logged, 1) == 0) {
        vipl_log(VIPL_LOG_INFO, "the server of shared objects is a fork of the program, and not %s: %s",
                 program(), reasons[reason]);
    }
}

/* --- a fork --- */

static void run_forked(void *arg)
{
    struct beginning *b = arg;
    b->forked();
    vipl_shm_close_fd(&b->shm);
    vipl_server_in_fork(b->arena, b->socket[1]);
}

static int fork_server(struct beginning *b)
{
    int const servers[2] = {b->socket[1], b->life[1]};
    return vipl_launch_fork("vipl-server", run_forked, b, servers);
}

/* --- the one or the other --- */

/* What is in the heap may be memory of private NIC handles too, which peers map (loopback). */
static void finish(struct vipl_line *line, struct beginning *b)
{
    close_ends(b->socket, b->life, 1);
    vipl_shm_show(&b->shm);
    *line = (struct vipl_line){b->arena, b->socket[0], b->life[0]};
}

/* 0, or an errno value. ENOEXEC: there is to be a fork. */
static int start_program(struct vipl_line *line, struct beginning *b)
{
    enum vipl_server_start said = program()[0] == '\0' ? VIPL_SERVER_MISSING : VIPL_SERVER_ADDRESS_TAKEN;
    for (int i = 0; said == VIPL_SERVER_ADDRESS_TAKEN && i < ATTEMPTS; i++) {
        int error = prepare(b);
        if (error != 0) {
            return error;
        }
        said = run_with_mappings(program(), b);
        if (said == VIPL_SERVER_RUNS) {
            finish(line, b);
            return 0;
        }
        give_up(b);
    }
    log_fork(said);
    return ENOEXEC;
}

int vipl_share_start(struct vipl_line *line, void (*forked)(void))
{
    struct beginning b = {.forked = forked};
    int error = start_program(line, &b);
    if (error != ENOEXEC) {
        return error;
    }
    error = prepare(&b);
    if (error != 0) {
        return error;
    }
    error = fork_server(&b);
    if (error == 0) {
        finish(line, &b);
    } else {
        give_up(&b);
    }
    return error;
}
