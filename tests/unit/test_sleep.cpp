// SPDX-License-Identifier: MIT
//
// Sleeping on descriptors under another signal mask, which is set in one step with the sleep, and
// the numbers and states that descriptors may have.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.hpp"
#include "support/environment.hpp"

namespace {

std::atomic<int> g_handled{0};

void on_signal(int)
{
    ++g_handled;
}

/** SIGUSR1 is blocked, and has a handler. */
struct Blocked {
    Blocked()
    {
        struct sigaction action {};
        action.sa_handler = on_signal;
        action.sa_flags = SA_RESTART;
        REQUIRE(sigaction(SIGUSR1, &action, &before_) == 0);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        REQUIRE(pthread_sigmask(SIG_BLOCK, &one, &let_in) == 0);
        g_handled = 0;
    }
    ~Blocked()
    {
        pthread_sigmask(SIG_SETMASK, &let_in, nullptr);
        sigaction(SIGUSR1, &before_, nullptr);
    }
    Blocked(const Blocked &) = delete;
    Blocked &operator=(const Blocked &) = delete;

    sigset_t let_in{}; // a mask without SIGUSR1

private:
    struct sigaction before_ {};
};

struct Waker {
    Waker() { REQUIRE(vipl_waker_open(&waker) == 0); }
    ~Waker() { vipl_waker_close(&waker); }
    Waker(const Waker &) = delete;
    Waker &operator=(const Waker &) = delete;
    vipl_waker waker{};
};

int patience_ms()
{
    return static_cast<int>(vipl_test::patience());
}

/** The descriptors of a program, for one sleep. */
struct Program {
    explicit Program(pollfd *fds, unsigned count) : fds_(fds)
    {
        REQUIRE(vipl_more_fds_begin(&more, fds, count) == 0);
    }
    ~Program() { vipl_more_fds_end(&more); }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    int sleep(int ms)
    {
        const int rc = vipl_poll_more(nullptr, 0, &more, ms, nullptr);
        vipl_more_fds_copy(&more, fds_, rc != ETIMEDOUT && rc != EINTR);
        return rc;
    }
    vipl_more_fds more{};

private:
    pollfd *fds_;
};

} // namespace

TEST_CASE("a signal that was pending before a sleep ends it, if the sleep's mask lets it in", "[sleep]")
{
    const Waker waker;
    Blocked blocked;
    REQUIRE(raise(SIGUSR1) == 0);
    CHECK(vipl_poll(&waker.waker.fd, 1, 20, nullptr) == ETIMEDOUT);
    CHECK(g_handled == 0);
    CHECK(vipl_poll(&waker.waker.fd, 1, patience_ms(), &blocked.let_in) == EINTR);
    CHECK(g_handled == 1);
    sigset_t now;
    REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &now) == 0);
    CHECK(sigismember(&now, SIGUSR1) == 1); // the mask is the thread's own again
    CHECK(vipl_poll(&waker.waker.fd, 1, 20, &blocked.let_in) == ETIMEDOUT);
}

TEST_CASE("a sleep ends by its descriptor, and at its time", "[sleep]")
{
    Waker waker;
    const int left_out[] = {-1, waker.waker.fd};
    const auto start = std::chrono::steady_clock::now();
    CHECK(vipl_poll(&waker.waker.fd, 1, 30, nullptr) == ETIMEDOUT);
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30));
    std::thread other([&] { vipl_waker_signal(&waker.waker); });
    CHECK(vipl_poll(&waker.waker.fd, 1, patience_ms(), nullptr) == 0);
    other.join();
    CHECK(vipl_poll(left_out, 2, 0, nullptr) == 0);
    CHECK(vipl_poll(&waker.waker.fd, 1, 0, nullptr) == 0);
    vipl_waker_reset(&waker.waker);
    CHECK(vipl_poll(&waker.waker.fd, 1, 0, nullptr) == ETIMEDOUT);
}

TEST_CASE("descriptors of all numbers are watched", "[sleep]")
{
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit before = limit;
    limit.rlim_cur = limit.rlim_max < 5000 ? limit.rlim_max : 5000;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    for (const int number : {1023, 1024, 1087, 4097}) { // sets of select() have 1024
        const int fd = fcntl(ends[0], F_DUPFD_CLOEXEC, number);
        REQUIRE(fd >= number);
        CHECK(vipl_poll(&fd, 1, 0, nullptr) == ETIMEDOUT);
        CHECK(vipl_poll(&fd, 1, 5, nullptr) == ETIMEDOUT);
        ssize_t written = 0;
        std::thread other([&] { written = write(ends[1], "", 1); });
        CHECK(vipl_poll(&fd, 1, patience_ms(), nullptr) == 0);
        other.join();
        REQUIRE(written == 1);
        char byte;
        REQUIRE(read(ends[0], &byte, 1) == 1);
        close(fd);
    }
    close(ends[0]);
    close(ends[1]);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("a program's descriptors end a sleep by what they are watched for", "[sleep]")
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    pollfd fds[] = {{ends[0], POLLIN, -1}, {-1, POLLIN, -1}};
    {
        Program program(fds, 2);
        CHECK(program.sleep(5) == ETIMEDOUT);
        CHECK(fds[0].revents == 0);
        ssize_t sent = 0;
        std::thread other([&] { sent = send(ends[1], "", 1, MSG_NOSIGNAL); });
        CHECK(program.sleep(patience_ms()) == 0);
        other.join();
        REQUIRE(sent == 1);
        CHECK(fds[0].revents == POLLIN);
        CHECK(fds[1].revents == 0);
    }
    { // room to write, which comes when the peer reads
        static char block[1 << 16];
        while (send(ends[1], block, sizeof block, MSG_NOSIGNAL) > 0) {
        }
        fds[0] = {ends[1], POLLOUT, -1};
        Program program(fds, 2);
        CHECK(program.sleep(5) == ETIMEDOUT);
        std::thread other([&] {
            while (recv(ends[0], block, sizeof block, 0) > 0) {
            }
        });
        CHECK(program.sleep(patience_ms()) == 0);
        other.join();
        CHECK(fds[0].revents == POLLOUT);
    }
    close(ends[1]);
    { // a peer that has gone, and a descriptor that is not open
        fds[0] = {ends[0], POLLIN, -1};
        fds[1] = {ends[1], POLLIN, -1};
        Program program(fds, 2);
        CHECK(program.sleep(patience_ms()) == 0);
        CHECK((fds[0].revents & (POLLIN | POLLHUP)) == (POLLIN | POLLHUP));
        CHECK(fds[1].revents == POLLNVAL);
    }
    close(ends[0]);
}
