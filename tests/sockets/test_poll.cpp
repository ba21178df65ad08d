// SPDX-License-Identifier: MIT
//
// poll(), select() and their relatives, with connections that are moved if vipl-run runs this.
#include <atomic>
#include <csignal>

#include <sys/select.h>

#include "waiting.hpp"

using namespace sockets_test;

namespace {

constexpr short kAll = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLPRI;
constexpr short kRead = POLLIN | POLLRDNORM;
constexpr short kWrite = POLLOUT | POLLWRNORM;

/** revents of one descriptor; -1 if the call fails. */
int look(int fd, short events = kAll, int ms = 0)
{
    pollfd one = {fd, events, 0};
    const int n = poll(&one, 1, ms);
    REQUIRE(n == (one.revents != 0 ? 1 : 0));
    return one.revents;
}

std::atomic<int> signals{0};

void count_signal(int)
{
    signals++;
}

struct Handler {
    explicit Handler(int flags)
    {
        struct sigaction action = {};
        action.sa_handler = count_signal;
        action.sa_flags = flags;
        must(sigaction(SIGUSR1, &action, &before_) == 0, "sigaction");
        signals = 0;
    }
    ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }
    Handler(const Handler &) = delete;
    Handler &operator=(const Handler &) = delete;

private:
    struct sigaction before_ = {};
};

/** Signals a thread until its call has ended. */
void interrupt(std::thread &thread, const std::atomic<bool> &ended)
{
    const auto end = vipl_test::now_ms() + static_cast<unsigned long long>(in_time());
    while (!ended && vipl_test::now_ms() < end) {
        pthread_kill(thread.native_handle(), SIGUSR1);
        poll(nullptr, 0, 1);
    }
}

} // namespace

TEST_CASE("poll tells of bytes, of room and of each end's end")
{
    Pair pair;
    CHECK(look(pair.server) == kWrite);
    CHECK(look(pair.server, POLLIN) == 0);
    send_all(pair.client, "abc");
    CHECK(look(pair.server, POLLIN, in_time()) == POLLIN);
    CHECK(look(pair.server) == (kRead | kWrite));
    CHECK(try_receive(pair.server, 2) == 2);
    CHECK(look(pair.server) == (kRead | kWrite));
    CHECK(try_receive(pair.server, 2) == 1);
    CHECK(look(pair.server) == kWrite);

    REQUIRE(shutdown(pair.client, SHUT_WR) == 0);
    CHECK(look(pair.server, POLLRDHUP, in_time()) == POLLRDHUP);
    CHECK(look(pair.server) == (kRead | kWrite | POLLRDHUP));
    CHECK(look(pair.client) == kWrite);
    CHECK(try_receive(pair.server, 1) == 0);
    REQUIRE(shutdown(pair.server, SHUT_WR) == 0);
    CHECK(look(pair.server, 0, in_time()) == POLLHUP);
    CHECK(look(pair.client, 0, in_time()) == POLLHUP);
    CHECK(look(pair.client) == (kRead | kWrite | POLLRDHUP | POLLHUP));
}

TEST_CASE("poll tells of a reset, and SO_ERROR takes the error")
{
    Pair pair;
    const linger at_once = {1, 0};
    REQUIRE(setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
    pair.client.close();
    CHECK(look(pair.server, POLLRDHUP, in_time()) != 0);
    CHECK(look(pair.server) == (kRead | kWrite | POLLRDHUP | POLLHUP | POLLERR));
    int error = 0;
    socklen_t length = sizeof(error);
    REQUIRE(getsockopt(pair.server, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    CHECK(error == ECONNRESET);
    CHECK(look(pair.server) == (kRead | kWrite | POLLRDHUP | POLLHUP));
    CHECK(try_receive(pair.server, 1) == 0);
}

TEST_CASE("a poll waits for the time, and no longer")
{
    Pair pair;
    const auto before = vipl_test::now_ms();
    CHECK(look(pair.server, POLLIN, 2 * kMoment) == 0);
    CHECK(vipl_test::now_ms() - before >= 2 * kMoment);
    timespec time = {0, 2 * kMoment * 1000000};
    pollfd one = {pair.server, POLLIN, POLLIN};
    CHECK(ppoll(&one, 1, &time, nullptr) == 0);
    CHECK(one.revents == 0);
    CHECK(vipl_test::now_ms() - before >= 4 * kMoment);
    time.tv_nsec = 1000000000;
    CHECK(ppoll(&one, 1, &time, nullptr) == -1);
    CHECK(errno == EINVAL);
}

TEST_CASE("a thread sleeps until bytes come, a hundred times")
{
    Pair pair;
    Task peer([&] {
        for (int i = 0; i < 100; i++) {
            pollfd one = {pair.server, POLLIN, 0};
            must(poll(&one, 1, in_time()) == 1 && one.revents == POLLIN, "poll");
            send_all(pair.server, receive_polled(pair.server, 1));
        }
    });
    for (int i = 0; i < 100; i++) {
        send_all(pair.client, "x");
        CHECK(look(pair.client, POLLIN, in_time()) == POLLIN);
        CHECK(try_receive(pair.client, 2) == 1);
    }
    peer.finish();
}

TEST_CASE("plain descriptors and connections are told of together")
{
    Pair pair, other;
    Pipe pipe;
    pollfd fds[] = {{pipe.in, POLLIN, 0},      {pair.server, POLLIN, 0},  {-1, POLLIN, POLLIN},
                    {other.server, POLLIN, 0}, {pair.server, POLLOUT, 0}, {pipe.out, POLLOUT, 0}};
    CHECK(poll(fds, 4, 0) == 0);
    CHECK(fds[2].revents == 0);
    pipe.put();
    CHECK(poll(fds, 4, in_time()) == 1);
    CHECK(fds[0].revents == POLLIN);
    send_all(pair.client, "a");
    CHECK(look(pair.server, POLLIN, in_time()) == POLLIN);
    CHECK(poll(fds, 6, in_time()) == 4);
    CHECK(fds[0].revents == POLLIN);
    CHECK(fds[1].revents == POLLIN);
    CHECK(fds[3].revents == 0);
    CHECK(fds[4].revents == POLLOUT);
    CHECK(fds[5].revents == POLLOUT);
    const int closed = dup(pipe.in);
    close(closed);
    fds[2].fd = closed;
    fds[2].events = 0;
    CHECK(poll(fds, 4, 0) == 3);
    CHECK(fds[2].revents == POLLNVAL);
}

TEST_CASE("a plain descriptor wakes a thread that waits for a connection too")
{
    Pair pair;
    Pipe pipe, begun;
    for (int i = 0; i < 20; i++) {
        Task waiter([&] {
            pollfd fds[] = {{pair.server, POLLIN, 0}, {pipe.in, POLLIN, 0}};
            begun.put();
            must(poll(fds, 2, in_time()) == 1, "poll");
            must(fds[0].revents == 0 && fds[1].revents == POLLIN, "revents");
            pipe.take();
        });
        begun.take();
        pipe.put();
        waiter.finish();
    }
}

TEST_CASE("each of two threads is woken for its own connection")
{
    Pair one, two;
    auto echo = [](int fd) {
        return [fd] {
            for (int i = 0; i < 200; i++) {
                pollfd own = {fd, POLLIN, 0};
                must(poll(&own, 1, in_time()) == 1, "poll");
                send_all(fd, receive_polled(fd, 1));
            }
        };
    };
    Task first(echo(one.server)), second(echo(two.server));
    for (int i = 0; i < 200; i++) {
        send_all(i % 2 == 0 ? one.client : two.client, "x");
        send_all(i % 2 == 0 ? two.client : one.client, "y");
        CHECK(receive_polled(one.client, 1).size() == 1);
        CHECK(receive_polled(two.client, 1).size() == 1);
    }
    first.finish();
    second.finish();
}

TEST_CASE("a thread that waits sees what another thread leaves")
{
    Pair pair;
    std::atomic<bool> reading{true};
    Task reader([&] {
        long got = 0;
        while (got < 300) {
            const long n = try_receive(pair.server, 1);
            must(n == 1 || n == -EAGAIN, "recv");
            got += n > 0 ? n : 0;
        }
        reading = false;
    });
    Task waiter([&] {
        while (reading) {
            pollfd one = {pair.server, POLLIN, 0};
            must(poll(&one, 1, 10) >= 0, "poll");
        }
    });
    for (int i = 0; i < 300; i++) {
        send_all(pair.client, "x");
    }
    reader.finish();
    waiter.finish();
}

TEST_CASE("a signal interrupts a poll, whatever its handler's flags")
{
    Pair pair;
    for (const int flags : {0, SA_RESTART}) {
        const Handler handler(flags);
        std::atomic<bool> ended{false};
        int result = 0, error = 0;
        Task waiter([&] {
            pollfd one = {pair.server, POLLIN, 0};
            result = poll(&one, 1, in_time());
            error = errno;
            ended = true;
        });
        interrupt(waiter.thread(), ended);
        waiter.finish();
        CHECK(result == -1);
        CHECK(error == EINTR);
    }
}

TEST_CASE("a signal that is blocked outside ppoll and pselect is let through inside")
{
    Pair pair;
    const Handler handler(SA_RESTART);
    sigset_t blocked, before, none;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigemptyset(&none);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0);
    raise(SIGUSR1);
    CHECK(look(pair.server, POLLIN, kMoment) == 0);
    CHECK(signals == 0);
    pollfd one = {pair.server, POLLIN, 0};
    const timespec time = {in_time() / 1000, 0};
    CHECK(ppoll(&one, 1, &time, &none) == -1);
    CHECK(errno == EINTR);
    CHECK(signals == 1);
    raise(SIGUSR1);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(pair.server, &in);
    CHECK(pselect(pair.server + 1, &in, nullptr, nullptr, &time, &none) == -1);
    CHECK(errno == EINTR);
    CHECK(signals == 2);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("select tells of the same as poll")
{
    Pair pair;
    Pipe pipe;
    fd_set in, out, except;
    auto ask = [&](int ms) {
        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_ZERO(&except);
        for (const int fd : {int(pair.server), int(pipe.in)}) {
            FD_SET(fd, &in);
            FD_SET(fd, &except);
        }
        FD_SET(pair.client, &out);
        timeval time = {ms / 1000, ms % 1000 * 1000};
        const int n = select(FD_SETSIZE, &in, &out, &except, &time);
        CHECK((time.tv_sec * 1000 + time.tv_usec / 1000) <= ms);
        return n;
    };
    CHECK(ask(0) == 1);
    CHECK(FD_ISSET(pair.client, &out));
    CHECK_FALSE(FD_ISSET(pair.server, &in));
    send_all(pair.client, "a");
    CHECK(look(pair.server, POLLIN, in_time()) == POLLIN);
    pipe.put();
    CHECK(ask(in_time()) == 3);
    CHECK(FD_ISSET(pair.server, &in));
    CHECK(FD_ISSET(pipe.in, &in));
    CHECK_FALSE(FD_ISSET(pair.server, &except));
    CHECK_FALSE(FD_ISSET(pipe.in, &except));

    FD_ZERO(&in);
    FD_SET(pair.client, &in);
    timeval time = {0, 2 * kMoment * 1000};
    const auto before = vipl_test::now_ms();
    CHECK(select(pair.client + 1, &in, nullptr, nullptr, &time) == 0);
    CHECK(vipl_test::now_ms() - before >= 2 * kMoment);
    CHECK_FALSE(FD_ISSET(pair.client, &in));
    CHECK(time.tv_sec == 0);
    CHECK(time.tv_usec == 0);

    const int closed = dup(pipe.in);
    close(closed);
    FD_SET(pair.client, &in);
    FD_SET(closed, &in);
    CHECK(select(FD_SETSIZE, &in, nullptr, nullptr, &time) == -1);
    CHECK(errno == EBADF);
}

TEST_CASE("select wakes for a connection's end")
{
    Pair pair;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(pair.server, &in);
    Task peer([&] { pair.client.close(); });
    CHECK(select(pair.server + 1, &in, nullptr, nullptr, nullptr) == 1);
    CHECK(FD_ISSET(pair.server, &in));
    CHECK(try_receive(pair.server, 1) == 0);
    peer.finish();
}

#if !defined(__SANITIZE_ADDRESS__) // which takes a thread that is cancelled in its sleep for an error

TEST_CASE("a thread that waits is cancelled, and leaves nothing behind")
{
    Pair pair;
    for (int i = 0; i < 20; i++) {
        Pipe begun;
        pthread_t thread;
        struct Both {
            int fd, begun;
        } both = {pair.server, begun.out};
        REQUIRE(pthread_create(
                    &thread, nullptr,
                    [](void *arg) -> void * {
                        const Both *own = static_cast<Both *>(arg);
                        pollfd one = {own->fd, POLLIN, 0};
                        if (write(own->begun, "b", 1) == 1) {
                            poll(&one, 1, -1);
                        }
                        return nullptr;
                    },
                    &both) == 0);
        begun.take();
        pthread_cancel(thread);
        void *result = nullptr;
        REQUIRE(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    send_all(pair.client, "x");
    CHECK(look(pair.server, POLLIN, in_time()) == POLLIN);
}

#endif

TEST_CASE("a connection moves while a thread polls it")
{
    const Listener listener;
    int moved = 0;
    for (int i = 0; i < 10; i++) {
        FreshPair pair(listener);
        Task peer([&] { send_all(pair.client, "hello"); });
        CHECK(look(pair.server, POLLIN, in_time()) == POLLIN);
        CHECK(receive_polled(pair.server, 5) == "hello");
        peer.finish();
        moved += greet(pair.client, pair.server) || is_moved(pair.server) ? 1 : 0;
    }
    CHECK((moved > 0) == moves());
}

namespace {

/** One thread sends text from one end to the other. Returns whether the connection was moved. */
bool poll_both_ends(const Listener &listener)
{
    FreshPair pair(listener, SOCK_NONBLOCK);
    std::string got;
    size_t sent = 0;
    const std::string text(5000, 't');
    const auto end = vipl_test::now_ms() + static_cast<unsigned long long>(in_time());
    while (got.size() < text.size() && vipl_test::now_ms() < end) {
        pollfd fds[] = {{pair.client, static_cast<short>(sent < text.size() ? POLLOUT : 0), 0},
                        {pair.server, POLLIN, 0}};
        REQUIRE(poll(fds, 2, in_time()) > 0);
        if (fds[0].revents != 0) {
            const ssize_t n = send(pair.client, &text[sent], text.size() - sent, MSG_NOSIGNAL);
            REQUIRE((n > 0 || errno == EAGAIN));
            sent += n > 0 ? static_cast<size_t>(n) : 0;
        }
        if (fds[1].revents != 0) {
            char bytes[4096];
            const ssize_t n = recv(pair.server, bytes, sizeof(bytes), 0);
            REQUIRE((n > 0 || errno == EAGAIN));
            got.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
        }
    }
    CHECK(got == text);
    return is_moved(pair.server);
}

} // namespace

TEST_CASE("one thread that has both ends polls them through")
{
    const Listener listener;
    int moved = 0;
    for (int i = 0; i < 10; i++) {
        moved += poll_both_ends(listener) ? 1 : 0;
    }
    CHECK((moved > 0) == moves());
}
