/* SPDX-License-Identifier: MIT */
/* exec: another program takes this process's place. Moved connections end, as connections do whose
 * last descriptor is closed by exec; the others are the new program's. A call that fails because
 * there is no such program changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockets/process.h"
#include "sockets/real.h"

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* Whether execvp() would find a program. */
static bool is_in_path(const char *file)
{
    const char *folders = getenv("PATH");
    if (strchr(file, '/') != NULL) {
        return is_program(file);
    }
    for (const char *at = folders != NULL ? folders : "/bin:/usr/bin"; *at != '\0';) {
        char path[PATH_MAX];
        size_t length = strcspn(at, ":");
        int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)length, at, length > 0 ? "/" : "", file);
        if (n > 0 && (size_t)n < sizeof(path) && is_program(path)) {
            return true;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    return false;
}

static void end_if(bool is_found)
{
    if (is_found) {
        sock_process_exec();
    }
}

int execve(const char *path, char *const argv[], char *const envp[])
{
    end_if(is_program(path));
    return SOCK_REAL(execve)(path, argv, envp);
}

int execv(const char *path, char *const argv[])
{
    end_if(is_program(path));
    return SOCK_REAL(execv)(path, argv);
}

int execvp(const char *file, char *const argv[])
{
    end_if(is_in_path(file));
    return SOCK_REAL(execvp)(file, argv);
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    end_if(is_in_path(file));
    return SOCK_REAL(execvpe)(file, argv, envp);
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
    end_if(fcntl(fd, F_GETFD) >= 0);
    return SOCK_REAL(fexecve)(fd, argv, envp);
}

/* Counts the arguments after the first, up to the NULL. */
static size_t count_list(va_list list)
{
    size_t count = 0;
    while (va_arg(list, char *) != NULL) {
        count++;
    }
    return count;
}

/* Runs `call` with the arguments of a list as `argv`, and with what follows them as `envp`. */
#define WITH_LIST(first, has_environment, call) \
    do { \
        va_list list; \
        va_start(list, first); \
        size_t count = count_list(list) + 1; \
        va_end(list); \
        char **argv = malloc((count + 1) * sizeof(*argv)); \
        if (argv == NULL) { \
            errno = ENOMEM; \
            return -1; \
        } \
        va_start(list, first); \
        argv[0] = (char *)(uintptr_t)(first); \
        for (size_t i = 1; i <= count; i++) { \
            argv[i] = va_arg(list, char *); \
        } \
        char *const *envp = (has_environment) ? va_arg(list, char *const *) : NULL; \
        va_end(list); \
        (void)envp; \
        int result = (call); \
        free(argv); \
        return result; \
    } while (false)

int execl(const char *path, const char *first, ...)
{
    WITH_LIST(first, false, execv(path, argv));
}

int execlp(const char *file, const char *first, ...)
{
    WITH_LIST(first, false, execvp(file, argv));
}

int execle(const char *path, const char *first, ...)
{
    WITH_LIST(first, true, execve(path, argv, envp));
}
