// SPDX-License-Identifier: MIT
//
// White box: the rights of other processes, as the server of shared objects reads them.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "internal.hpp"

namespace {

/** What a child finds out; it is in a name space of processes of its own, if that is asked for. -1:
 * it may not be. */
int found_by_child(bool isolated)
{
    const int parent = getpid();
    const pid_t maker = fork(); // whose children are in the name space, but not itself
    if (maker == 0) {
        if (isolated && unshare(CLONE_NEWPID) != 0) {
            _exit(255);
        }
        const pid_t child = fork();
        if (child == 0) {
            _exit(vipl_compare_rights(parent));
        }
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    REQUIRE(waitpid(maker, &status, 0) == maker);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

} // namespace

TEST_CASE("a process has the rights of its parent", "[share]")
{
    REQUIRE(found_by_child(false) == VIPL_RIGHTS_SAME);
}

TEST_CASE("no rights are known where /proc numbers processes otherwise", "[share]")
{
    const int found = found_by_child(true);
    REQUIRE((found == -1 || found == VIPL_RIGHTS_UNKNOWN)); // only root may try
}

TEST_CASE("a process that is not there has other rights", "[share]")
{
    REQUIRE(vipl_compare_rights(0) == VIPL_RIGHTS_OTHER);
    REQUIRE(vipl_compare_rights(INT32_MAX) == VIPL_RIGHTS_OTHER);
}
