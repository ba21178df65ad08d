/* SPDX-License-Identifier: MIT */
/* Starting a process of the library's own, and waiting for its byte. */
#include "start/launch.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/deadline.h"
#include "base/settings.h"

enum { START_MS = 30000, MAX_NAME = 64 };

const char *vipl_launch_path(const char *setting, const char *installed)
{
    const char *named = vipl_config_environment(setting);
    return named != NULL ? named : installed;
}

static bool may_pass(const char *variable)
{
    char name[MAX_NAME];
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, "VIPL_", 5) != 0 || variable[length] == '\0' || length >= sizeof(name)) {
        return false;
    }
    memcpy(name, variable, length);
    name[length] = '\0';
    return vipl_setting_find(name) != NULL && vipl_config_environment(name) != NULL;
}

/* The environment for a new process. A program with more rights than its user has an
 * environment that the user chose. The new process could not know that, so it gets only the
 * settings that vipl_config_environment() returns. */
static char **make_environment(void)
{
    unsigned count = 0;
    const char *variable;
    while (vipl_environment_at(count) != NULL) {
        count++;
    }
    char **environment = vipl_zalloc((count + 1) * sizeof(*environment));
    for (unsigned i = 0, next = 0;
         environment != NULL && i < count && (variable = vipl_environment_at(i)) != NULL; i++) {
        if (!vipl_has_more_rights() || may_pass(variable)) {
            environment[next++] = (char *)(uintptr_t)variable;
        }
    }
    return environment;
}

unsigned char vipl_launch_await(int lifeline)
{
    uint64_t end = vipl_deadline(START_MS);
    unsigned char byte = 0;
    size_t length = 0;
    int none[2];
    while (vipl_poll(&lifeline, 1, START_MS, NULL) != 0 && vipl_now_ns() < end) {
    }
    return vipl_local_receive(lifeline, &byte, 1, &length, none) == 0 && length == 1 ? byte : 0;
}

int vipl_launch_program(char *const arguments[], const int *pass, unsigned count, int lifeline[2],
                        unsigned char *said)
{
    char **environment = make_environment();
    int error = environment == NULL ? ENOMEM : vipl_spawn_program(arguments, environment, pass, count);
    vipl_free(environment);
    if (error == 0) {
        vipl_fd_close(lifeline[1]); /* so that the end of the program ends the wait */
        lifeline[1] = -1;
        *said = vipl_launch_await(lifeline[0]);
    }
    return error;
}

int vipl_launch_fork(const char *name, void (*run)(void *), void *arg, const int keep[2])
{
    vipl_fd_pass(keep[0], keep[1]);
    int error = vipl_spawn(name, run, arg, keep, 2);
    vipl_fd_pass(-1, -1);
    return error;
}
