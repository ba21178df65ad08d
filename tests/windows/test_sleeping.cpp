// SPDX-License-Identifier: MIT
//
// Threads, words, wakers, sleeping and sets of descriptors on Windows.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/os_hooks.hpp"

extern "C" {
#include "os/os_mutex.h"
}

namespace {

constexpr int kLong = 60000; // milliseconds: a wake-up comes before

struct Waker {
    Waker() { REQUIRE(vipl_waker_open(&waker) == 0); }
    ~Waker() { vipl_waker_close(&waker); }
    Waker(const Waker &) = delete;
    Waker &operator=(const Waker &) = delete;
    void signal() { vipl_waker_signal(&waker); }
    void reset() { vipl_waker_reset(&waker); }
    int fd() const { return waker.fd; }
    vipl_waker waker{};
};

struct Set {
    Set() { REQUIRE(vipl_pollset_open(&set) == 0); }
    ~Set() { vipl_pollset_close(&set); }
    Set(const Set &) = delete;
    Set &operator=(const Set &) = delete;
    std::multiset<void *> ready(unsigned most = 16)
    {
        std::vector<vipl_ready> found(most);
        found.resize(vipl_pollset_ready(&set, found.data(), most));
        std::multiset<void *> tags;
        for (const vipl_ready &each : found) {
            CHECK(each.readable);
            tags.insert(each.tag);
        }
        return tags;
    }
    vipl_pollset set{};
};

using Tags = std::multiset<void *>;

} // namespace

TEST_CASE("a sleep ends by a waker, and at its time", "[windows]")
{
    Waker waker, other;
    const int both[] = {waker.fd(), other.fd()}, only_other[] = {-1, other.fd()};
    CHECK(vipl_poll(both, 2, 0, nullptr) == ETIMEDOUT);
    const std::uint64_t start = vipl_now_ns();
    CHECK(vipl_poll(both, 2, 30, nullptr) == ETIMEDOUT);
    CHECK(vipl_now_ns() - start >= 30000000);
    for (int i = 0; i < 200; ++i) { // before the sleep, in it
        std::thread thread([&] { waker.signal(); });
        CHECK(vipl_poll(both, 2, kLong, nullptr) == 0);
        thread.join();
        CHECK(vipl_poll(both, 2, 0, nullptr) == 0); // until it is reset
        waker.reset();
        CHECK(vipl_poll(both, 2, 0, nullptr) == ETIMEDOUT);
    }
    other.signal();
    CHECK(vipl_poll(both, 2, kLong, nullptr) == VIPL_POLL_OTHERS);
    CHECK(vipl_poll(only_other, 2, kLong, nullptr) == 0);
    waker.signal();
    CHECK(vipl_poll(both, 2, -1, nullptr) == 0);
}

TEST_CASE("a descriptor that is closed ends the sleep for it, and its number is used again", "[windows]")
{
    vipl_waker waker{};
    REQUIRE(vipl_waker_open(&waker) == 0);
    const int fd = waker.fd;
    std::thread thread([&] {
        vipl_pause(20000000);
        vipl_fd_close(fd);
    });
    CHECK(vipl_poll(&fd, 1, kLong, nullptr) == 0);
    thread.join();
    vipl_fd_close(fd); // once more: it is nobody's
    Waker next;
    CHECK(next.fd() == fd);
}

TEST_CASE("a set reports each ready member in turn, and none that is not", "[windows]")
{
    Waker wakers[100]; // more than the system lets a thread wait for
    Set set;
    CHECK(vipl_pollset_add(&set.set, 60000, nullptr) == EBADF);
    for (Waker &each : wakers) {
        REQUIRE(vipl_pollset_add(&set.set, each.fd(), &each) == 0);
    }
    CHECK(set.ready().empty());
    CHECK(vipl_poll(&set.set.fd, 1, 0, nullptr) == ETIMEDOUT);
    wakers[99].signal();
    wakers[7].signal();
    CHECK(vipl_poll(&set.set.fd, 1, 0, nullptr) == 0);
    CHECK(set.ready() == Tags{&wakers[7], &wakers[99]});
    CHECK(set.ready(1) != set.ready(1)); // it is the other one's turn
    CHECK(set.ready() == Tags{&wakers[7], &wakers[99]});
    wakers[7].reset();
    CHECK(set.ready() == Tags{&wakers[99]});
    vipl_pollset_remove(&set.set, wakers[99].fd());
    CHECK(set.ready().empty());
    CHECK(vipl_poll(&set.set.fd, 1, 0, nullptr) == ETIMEDOUT);
    std::thread thread([&] {
        vipl_pause(5000000);
        wakers[50].signal();
    });
    CHECK(vipl_poll(&set.set.fd, 1, kLong, nullptr) == 0);
    thread.join();
    CHECK(set.ready() == Tags{&wakers[50]});
    Waker late; // ready before it is added, to a set that another thread sleeps for
    late.signal();
    wakers[50].reset();
    int added = -1;
    std::thread adder([&] {
        vipl_pause(5000000);
        added = vipl_pollset_add(&set.set, late.fd(), &late);
    });
    vipl_pollset_wait(&set.set, UINT64_MAX);
    adder.join();
    CHECK(added == 0);
    CHECK(set.ready() == Tags{&late});
}

TEST_CASE("a member that was added for its signals is reported once for each series", "[windows]")
{
    Waker waker;
    Set set;
    REQUIRE(vipl_pollset_add_signals(&set.set, waker.fd(), &waker) == 0);
    waker.signal();
    waker.signal();
    CHECK(set.ready() == Tags{&waker});
    CHECK(set.ready().empty());
    CHECK(vipl_poll(&set.set.fd, 1, 0, nullptr) == ETIMEDOUT);
    waker.signal();
    CHECK(vipl_poll(&set.set.fd, 1, 0, nullptr) == 0);
    CHECK(set.ready() == Tags{&waker});
}

TEST_CASE("a set in a set, and members and sets that go", "[windows]")
{
    Set outer;
    auto inner = std::make_unique<Set>();
    auto waker = std::make_unique<Waker>();
    REQUIRE(vipl_pollset_add(&inner->set, waker->fd(), waker.get()) == 0);
    REQUIRE(vipl_pollset_add(&outer.set, inner->set.fd, inner.get()) == 0);
    waker->signal();
    CHECK(outer.ready() == Tags{inner.get()});
    waker.reset();
    CHECK(outer.ready().empty());
    CHECK(inner->ready().empty());
    Waker another;
    another.signal();
    REQUIRE(vipl_pollset_add(&inner->set, another.fd(), &another) == 0);
    CHECK(outer.ready() == Tags{inner.get()});
    inner.reset();
    CHECK(outer.ready().empty());
    another.reset(); // which knows nothing of the set any more
}

TEST_CASE("calls that make descriptors fail when they are to, and leave nothing", "[windows]")
{
    Waker waker;
    vipl_waker made{};
    vipl_pollset set{};
    for (int count = 1; count <= 2; ++count) {
        vipl_alloc_fail_after(1);
        CHECK(vipl_waker_open(&made) == ENOMEM);
        vipl_resource_fail_after(1);
        CHECK(vipl_waker_open(&made) == EMFILE);
        vipl_resource_fail_after(1);
        CHECK(vipl_pollset_open(&set) == EMFILE);
        Set good;
        vipl_resource_fail_after(1);
        CHECK(vipl_pollset_add(&good.set, waker.fd(), nullptr) == ENOSPC);
        waker.signal();
        CHECK(good.ready().empty());
    }
}

TEST_CASE("a word wakes who waits for it, and a lock excludes", "[windows]")
{
    std::uint32_t word = 0;
    CHECK(vipl_futex_wait_for(&word, 0, 20) == ETIMEDOUT);
    CHECK(vipl_futex_wait_for(&word, 1, kLong) == 0);
    vipl_mutex lock;
    vipl_mutex_init(&lock, 1);
    unsigned count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int turn = 0; turn < 5000; ++turn) {
                vipl_mutex_lock(&lock);
                ++count;
                if (turn % 64 == 0) {
                    vipl_yield();
                }
                vipl_mutex_unlock(&lock);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(count == 20000);
}

TEST_CASE("each thread has a waker of its own, until it ends", "[windows]")
{
    vipl_waker *const mine = vipl_thread_waker();
    REQUIRE(mine != nullptr);
    CHECK(vipl_thread_waker() == mine);
    std::atomic<int> theirs{-1};
    struct Work {
        std::atomic<int> &fd;
        vipl_thread thread{};
        std::atomic<bool> is_self{false};
    } work{theirs};
    const auto run = [](void *arg) {
        auto &known = *static_cast<Work *>(arg);
        known.is_self = vipl_thread_is_self(&known.thread);
        known.fd = vipl_thread_waker()->fd;
    };
    REQUIRE(vipl_thread_start(&work.thread, run, &work) == 0);
    vipl_thread_join(&work.thread);
    CHECK(theirs != mine->fd);
    const int gone = theirs;
    CHECK(vipl_poll(&gone, 1, 0, nullptr) == 0); // it is not open any more
    CHECK(vipl_poll(&mine->fd, 1, 0, nullptr) == ETIMEDOUT);
}
