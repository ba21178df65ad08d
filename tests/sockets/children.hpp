// SPDX-License-Identifier: MIT
//
// Children that a case forks. The library's functions are not there: the program does not know it.
#ifndef VIPL_SOCKETS_CHILDREN_HPP
#define VIPL_SOCKETS_CHILDREN_HPP

#include <cerrno>
#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

namespace sockets_test {

/** Runs something in a forked child. Its exit status is 0 if it has not thrown. */
template <typename Run>
pid_t start_child(Run run)
{
    const pid_t child = fork();
    if (child == 0) {
        int status = 0;
        try {
            run();
        } catch (const std::exception &e) {
            fprintf(stderr, "child: %s\n", e.what());
            status = 1;
        }
        _exit(status);
    }
    return child;
}

/** Waits for its end. */
inline int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/** Runs something in a forked child, and something else meanwhile. Returns the exit status. */
template <typename Run, typename Meanwhile>
int in_child(Run run, Meanwhile meanwhile)
{
    const pid_t child = start_child(run);
    meanwhile();
    return status_of(child);
}

template <typename Run>
int in_child(Run run)
{
    return in_child(run, [] {});
}

} // namespace sockets_test

#endif
