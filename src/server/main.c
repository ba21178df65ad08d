/* SPDX-License-Identifier: MIT */
/* The program vipl-server. The library runs it when a program opens its first shareable
 * NIC handle (client_start.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"
#include "vipl/version.h"

enum { VERSION = 1, LAYOUT, SOCKET, LIFELINE, ARENA };

static bool read_mapping(const char *text, struct vipl_shared_file *file)
{
    unsigned long long address;
    unsigned long long bytes;
    unsigned long long offset;
    if (sscanf(text, VIPL_SERVER_MAPPING, &file->fd, &address, &bytes, &offset) != 4) {
        return false;
    }
    file->address = (uintptr_t)address;
    file->bytes = (size_t)bytes;
    file->offset = offset;
    return true;
}

static int map_all(char *const mappings[], struct vipl_arena **arena)
{
    int error = 0;
    for (int i = 0; error == 0 && mappings[i] != NULL; i++) {
        struct vipl_shared_file file;
        error = read_mapping(mappings[i], &file) ? vipl_shared_file_map(&file) : EINVAL;
        *arena = error == 0 && i == 0 ? (struct vipl_arena *)file.address : *arena;
    }
    return error;
}

/* Checks everything that may keep this program from being the server, and maps the arena. */
static enum vipl_server_start prepare(char **arguments, struct vipl_arena **arena)
{
    int program = 0;
    uint32_t user;
    int error = vipl_local_peer(atoi(arguments[LIFELINE]), &program, &user);
    enum vipl_rights rights = error == 0 ? vipl_compare_rights(program) : VIPL_RIGHTS_OTHER;
    if (strcmp(arguments[VERSION], VIPL_VERSION_STRING) != 0 ||
        atol(arguments[LAYOUT]) != (long)VIPL_SERVER_LAYOUT) {
        return VIPL_SERVER_OTHER_VERSION;
    }
    if (rights != VIPL_RIGHTS_SAME && rights != VIPL_RIGHTS_UNKNOWN) {
        return VIPL_SERVER_OTHER_RIGHTS;
    }
    return map_all(arguments + ARENA, arena) == 0 ? VIPL_SERVER_RUNS : VIPL_SERVER_ADDRESS_TAKEN;
}

int main(int count, char **arguments)
{
    struct vipl_arena *arena = NULL;
    if (count <= ARENA) {
        fputs("vipl-server is run by the VIPL library, for programs that share VIs with their children.\n",
              stderr);
        return 2;
    }
    int const keep[2] = {atoi(arguments[SOCKET]), atoi(arguments[LIFELINE])};
    unsigned char said = (unsigned char)prepare(arguments, &arena);
    if (said != VIPL_SERVER_RUNS) {
        vipl_local_send(keep[1], &said, 1, NULL, 0);
        return 0;
    }
    if (vipl_detach("vipl-server", keep, 2) == 0 && vipl_local_send(keep[1], &said, 1, NULL, 0) == 0) {
        vipl_server_run(arena, keep[0]);
    }
    vipl_process_end(); /* ends without a C program's exit functions: threads may still run */
    return 0;
}
