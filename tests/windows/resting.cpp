// SPDX-License-Identifier: MIT
//
// The library's ways to sleep, by the linker's --wrap: a thread that is in one leaves how to see
// whether it still has to be. So it counts as at rest from the moment that what it sleeps for would
// wake it, and no longer once that has come, although it may not have run since.
#include "resting.hpp"

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "support/windows/ended.hpp"

#include "support/begin_call.hpp"
#include "support/check.hpp"
#include "support/environment.hpp"

extern "C" {
#include "os/os.h"

void __real_vipl_futex_wait(uint32_t *word, uint32_t while_equal);
void __wrap_vipl_futex_wait(uint32_t *word, uint32_t while_equal);
int __real_vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms);
int __wrap_vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms);
void __real_vipl_thread_join(struct vipl_thread *thread);
void __wrap_vipl_thread_join(struct vipl_thread *thread);
int __real_vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask);
int __wrap_vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask);
int __real_vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask);
int __wrap_vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask);
int __real_vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more,
                                 int timeout_ms, const void *mask, int cancel, void (*cancelled)(void *),
                                 void *arg);
int __wrap_vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more,
                                 int timeout_ms, const void *mask, int cancel, void (*cancelled)(void *),
                                 void *arg);
}

namespace {

thread_local bool g_is_task; // this_task() was called: somebody may ask
std::mutex g_mutex;
std::map<DWORD, std::function<bool()>> g_sleeps; // by the thread: whether it still has to sleep

/** The calling thread's sleep, while the object lives. */
class Asleep {
public:
    explicit Asleep(std::function<bool()> goes_on)
    {
        if (g_is_task) {
            const std::lock_guard<std::mutex> lock(g_mutex);
            g_sleeps[GetCurrentThreadId()] = std::move(goes_on);
        }
    }
    ~Asleep()
    {
        if (g_is_task) {
            const std::lock_guard<std::mutex> lock(g_mutex);
            g_sleeps.erase(GetCurrentThreadId());
        }
    }
    Asleep(const Asleep &) = delete;
    Asleep &operator=(const Asleep &) = delete;
};

Asleep asleep_for_word(const uint32_t *word, uint32_t while_equal)
{
    return Asleep([=] { return __atomic_load_n(word, __ATOMIC_RELAXED) == while_equal; });
}

Asleep asleep_for_fds(const int *fds, unsigned count)
{
    return Asleep([=] { return __real_vipl_poll(fds, count, 0, nullptr) == ETIMEDOUT; });
}

DWORD number_of(const std::string &task)
{
    return std::stoul(task);
}

} // namespace

void __wrap_vipl_futex_wait(uint32_t *word, uint32_t while_equal)
{
    const Asleep asleep = asleep_for_word(word, while_equal);
    __real_vipl_futex_wait(word, while_equal);
}

int __wrap_vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms)
{
    const Asleep asleep = asleep_for_word(word, while_equal);
    return __real_vipl_futex_wait_for(word, while_equal, ms);
}

void __wrap_vipl_thread_join(struct vipl_thread *thread)
{
    auto *const handle = reinterpret_cast<HANDLE>(thread->id);
    const Asleep asleep([=] { return WaitForSingleObject(handle, 0) == WAIT_TIMEOUT; });
    __real_vipl_thread_join(thread);
}

int __wrap_vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask)
{
    const Asleep asleep = asleep_for_fds(fds, count);
    return __real_vipl_poll(fds, count, timeout_ms, mask);
}

int __wrap_vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask)
{
    const Asleep asleep = asleep_for_fds(fds, count);
    return __real_vipl_poll_more(fds, count, more, timeout_ms, mask);
}

int __wrap_vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more,
                                 int timeout_ms, const void *mask, int cancel, void (*cancelled)(void *),
                                 void *arg)
{
    const Asleep asleep = asleep_for_fds(fds, count);
    return __real_vipl_poll_cancellable(fds, count, more, timeout_ms, mask, cancel, cancelled, arg);
}

bool windows_test::is_asleep(const std::string &task)
{
    const std::lock_guard<std::mutex> lock(g_mutex);
    const auto sleep = g_sleeps.find(number_of(task));
    return sleep != g_sleeps.end() && sleep->second();
}

namespace vipl_test {

std::string this_task()
{
    g_is_task = true;
    return std::to_string(GetCurrentThreadId());
}

void await_rest(const std::string &task)
{
    const HANDLE thread = OpenThread(SYNCHRONIZE, FALSE, number_of(task));
    const unsigned long long end = now_ms() + patience();
    bool in_time = true;
    for (int looks = 0; looks < 100 && in_time; ++looks) {
        const bool has_ended = thread == nullptr || WaitForSingleObject(thread, 0) == WAIT_OBJECT_0;
        looks = has_ended || windows_test::is_asleep(task) ? looks : 0;
        in_time = now_ms() < end;
        give_way();
    }
    if (thread != nullptr) {
        CloseHandle(thread);
    }
    EXPECT(in_time);
}

} // namespace vipl_test
