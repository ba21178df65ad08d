// SPDX-License-Identifier: MIT
//
// White box: a process that the library forks, and that is so slow that the caller starts another
// one in its place. Only one of the two may run: they would have the same sockets.
#include <atomic>
#include <string>

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "internal.hpp"
#include "support/as_parent.hpp"
#include "support/environment.hpp"

using namespace vipl_test;

extern "C" {
int __real_kill(pid_t process, int number);
int __wrap_kill(pid_t process, int number);
int __real_shutdown(int socket, int how);
int __wrap_shutdown(int socket, int how);
}

namespace {

/** What the processes of a case share. */
struct Shared {
    std::atomic<int> slow{1};          // how many processes are to be late
    std::atomic<bool> given_up{false}; // the caller waits no longer
};

Shared *g_shared = nullptr;  // null: no case is under way
int g_running[2] = {-1, -1}; // a pipe: a byte from each process that runs, and its end with the last of them

bool is_readable(int fd)
{
    pollfd entry = {fd, POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(patience())) == 1;
}

/** In a process that has just been forked. */
void come_late()
{
    const unsigned long long end = now_ms() + patience();
    if (g_shared->slow.fetch_sub(1) == 1) {
        while (!g_shared->given_up && now_ms() < end) {
            give_way();
        }
    }
}

void run(void *)
{
    (void)!write(g_running[1], "r", 1);
}

/** Whether of all that vipl_spawn() has started one process has run. */
bool one_runs()
{
    if (pipe(g_running) != 0 || pthread_atfork(nullptr, nullptr, come_late) != 0 ||
        vipl_spawn("late", run, nullptr, &g_running[1], 1) != 0) {
        return false;
    }
    close(g_running[1]);
    char bytes[8];
    std::string ran;
    for (ssize_t got = 1; got > 0 && is_readable(g_running[0]);) {
        got = read(g_running[0], bytes, sizeof bytes);
        ran.append(bytes, got > 0 ? static_cast<size_t>(got) : 0);
    }
    return ran == "r";
}

} // namespace

int __wrap_shutdown(int socket, int how)
{
    const int rc = __real_shutdown(socket, how);
    if (g_shared != nullptr) {
        g_shared->given_up = true;
    }
    return rc;
}

int __wrap_kill(pid_t process, int number)
{
    if (g_shared != nullptr && !g_shared->given_up.exchange(true)) {
        is_readable(g_running[0]); // the late process reports, and runs, before its parent ends
    }
    return __real_kill(process, number);
}

TEST_CASE("a forked process that comes late does not run beside the one in its place", "[process]")
{
    void *const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    for (const Parent kind : {Parent::kProgram, Parent::kSubreaper, Parent::kFirst}) {
        g_shared = new (memory) Shared;
        const std::string noticed = noticed_as(kind, one_runs, [] {});
        INFO(noticed);
        CHECK((noticed.empty() || noticed == "n/a"));
        CHECK(g_shared->given_up == noticed.empty());
        g_shared = nullptr;
    }
    munmap(memory, sizeof(Shared));
}
