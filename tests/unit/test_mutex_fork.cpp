// SPDX-License-Identifier: MIT
//
// Locks in a child that a signal handler forks in a thread which waits for one: the child does not
// wait for a thread that it does not have.
#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <thread>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.hpp"
#include "support/environment.hpp"
#include "support/forked.hpp"
#include "support/tasks.hpp"

#if !defined(__SANITIZE_THREAD__) // a child of a program with threads

namespace {

volatile std::sig_atomic_t g_child; // the handler's, or 0 in that

extern "C" void fork_here(int)
{
    if (g_child < 0) {
        g_child = fork();
        if (g_child == 0) {
            alarm(10 * vipl_test::timeout_scale());
        }
    }
}

/** In a process of its own: `hold` takes a lock in a thread that keeps it until the child has
 * ended, and `take` waits for that lock in the first thread, where a handler forks the child. */
template <typename Hold, typename Take>
void fork_while_waiting(int flags, Hold hold, Take take)
{
    vipl_test::Forked alone([&](const vipl_test::ParentLine &) {
        std::atomic<bool> held{false};
        const std::string first = vipl_test::this_task();
        const pthread_t waiter = pthread_self();
        struct sigaction action = {};
        action.sa_handler = fork_here;
        action.sa_flags = flags;
        g_child = -1;
        if (sigaction(SIGUSR1, &action, nullptr) != 0 || vipl_fork_watch([] {}, true) != 0) {
            _exit(2);
        }
        std::thread owner([&] {
            int status = -1;
            const auto give_back = hold();
            held = true;
            while (g_child < 0) { // the waiter may have slept elsewhere
                vipl_test::await_state(first, 'S');
                pthread_kill(waiter, SIGUSR1);
                vipl_test::give_way();
            }
            waitpid(static_cast<pid_t>(g_child), &status, 0);
            if (status != 0) {
                _exit(3);
            }
            give_back();
        });
        while (!held) {
            vipl_test::give_way();
        }
        const bool had = take();
        if (g_child == 0) {
            _exit(had ? 0 : 1);
        }
        owner.join();
    });
    alone.finish();
}

} // namespace

TEST_CASE("a child that is forked while its thread waits for a lock has the lock", "[mutex]")
{
    const int flags = GENERATE(0, SA_RESTART);
    vipl_mutex lock = {};
    vipl_mutex_init(&lock, VIPL_RANK_POOL);
    fork_while_waiting(
        flags,
        [&] {
            vipl_mutex_lock(&lock);
            return [&] { vipl_mutex_unlock(&lock); };
        },
        [&] {
            vipl_mutex_lock(&lock);
            const bool had = vipl_mutex_is_held(&lock);
            vipl_mutex_unlock(&lock);
            return had && !vipl_mutex_is_held(&lock);
        });
}

TEST_CASE("a child that is forked while its thread waits for an owner has the lock", "[mutex]")
{
    vipl_biased lock = {};
    vipl_barrier_prepare();
    vipl_biased_init(&lock, VIPL_RANK_POOL);
    vipl_biased_allow(&lock);
    fork_while_waiting(
        0,
        [&] {
            vipl_biased_lock_own(&lock);
            vipl_biased_unlock(&lock);
            vipl_biased_lock_own(&lock); // without the mutex
            return [&] { vipl_biased_unlock(&lock); };
        },
        [&] {
            vipl_biased_lock(&lock);
            const bool had = vipl_biased_is_held(&lock);
            vipl_biased_unlock(&lock);
            return had && !vipl_biased_is_held(&lock);
        });
}

#endif
