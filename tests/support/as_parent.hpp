// SPDX-License-Identifier: MIT
//
// A program that forked nothing has no children, whatever the library starts for it: no SIGCHLD,
// and nothing for a wait(). It is tried as an ordinary program, as one that the system gives
// orphans to, and as the first process of a name space, which it gives them to as well.
#ifndef VIPL_TESTS_AS_PARENT_HPP
#define VIPL_TESTS_AS_PARENT_HPP

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vipl_test {

enum class Parent { kProgram, kSubreaper, kFirst };

namespace as_parent {

inline volatile std::sig_atomic_t told = 0;
enum { kStarts = 1, kTold = 2, kFound = 4, kUnusual = 8 };

/** What a program with these children would notice; 0: nothing. */
inline int noticed()
{
    int status = 0, found = told > 0 ? kTold : 0;
    errno = 0;
    found |= waitpid(-1, &status, WNOHANG) != -1 || errno != ECHILD ? kFound : 0;
    errno = 0;
    found |= (found & kFound) == 0 && (waitpid(-1, &status, 0) != -1 || errno != ECHILD) ? kFound : 0;
    return found;
}

[[noreturn]] inline void run(const std::function<bool()> &start, const std::function<void()> &end)
{
    struct sigaction action = {};
    action.sa_handler = [](int) { told = told + 1; };
    sigaction(SIGCHLD, &action, nullptr);
    try {
        int found = start() ? 0 : static_cast<int>(kStarts);
        found |= noticed();
        end();
        _exit(found | noticed());
    } catch (const std::exception &error) { // which is not to be the caller's, in a process of its own
        std::fprintf(stderr, "as the parent: %s\n", error.what());
        _exit(kStarts);
    }
}

inline int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

} // namespace as_parent

/** In a forked process of that kind: start(), which says whether it succeeded, and end(), which
 * waits until what was started has ended. "": it has noticed no child; else what it has. "n/a":
 * there is no such process here. */
inline std::string noticed_as(Parent kind, const std::function<bool()> &start,
                              const std::function<void()> &end)
{
    using namespace as_parent;
    const pid_t child = fork();
    if (child == 0) {
        if (kind == Parent::kSubreaper) {
            prctl(PR_SET_CHILD_SUBREAPER, 1);
        }
        if (kind == Parent::kFirst) {
            if (unshare(CLONE_NEWPID) != 0) {
                _exit(kUnusual);
            }
            const pid_t first = fork();
            if (first != 0) {
                _exit(WEXITSTATUS(status_of(first)));
            }
        }
        run(start, end);
    }
    const int status = status_of(child);
    const int found = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kStarts);
    return std::string((found & kStarts) != 0 ? "it did not start, " : "") +
           ((found & kTold) != 0 ? "SIGCHLD, " : "") +
           ((found & kFound) != 0 ? "wait() finds a child, " : "") + ((found & kUnusual) != 0 ? "n/a" : "");
}

} // namespace vipl_test

#endif
