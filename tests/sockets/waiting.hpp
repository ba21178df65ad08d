// SPDX-License-Identifier: MIT
//
// What tests of the waiting calls share.
#ifndef VIPL_SOCKETS_WAITING_HPP
#define VIPL_SOCKETS_WAITING_HPP

#include <functional>
#include <future>
#include <thread>

#include <poll.h>

#include "tcp_pair.hpp"

namespace sockets_test {

/** Milliseconds for what must come. */
inline int in_time()
{
    return static_cast<int>(vipl_test::patience());
}
/** Milliseconds to see that nothing comes. */
constexpr int kMoment = 30;

/** What is there now; minus the errno value. */
inline long try_receive(int fd, size_t most)
{
    std::string text(most, '\0');
    const ssize_t n = recv(fd, &text[0], most, MSG_DONTWAIT);
    return n < 0 ? -errno : static_cast<long>(n);
}

/** Receives that number of bytes, with poll() before each call. */
inline std::string receive_polled(int fd, size_t most)
{
    std::string text(most, '\0');
    for (size_t done = 0; done < most;) {
        pollfd one = {fd, POLLIN, 0};
        must(poll(&one, 1, in_time()) == 1, "poll");
        const ssize_t n = recv(fd, &text[done], most - done, MSG_DONTWAIT);
        must(n > 0 || (n < 0 && errno == EAGAIN), "recv");
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    return text;
}

/** A connection with no byte on it: each end decides at its first call. */
struct FreshPair {
    FreshPair(const Listener &listener, int flags = 0)
        : client(listener.connect(flags)), server(listener.accept(flags))
    {
    }
    Fd client, server;
};

/** Has a connection without a byte on it moved: neither end writes before that. */
inline void move(int client, int server)
{
    must(!moves() || eventually([&] {
        must(has_nothing_to_read(server) && has_nothing_to_read(client));
        return is_moved(server) && is_moved(client);
    }),
         "the connection has not been moved");
}

/** Sends text there and back, the connection's first. A client does not wait for long to be moved:
 * on a busy machine it may have stayed with TCP. Returns whether it was moved. */
inline bool greet(int client, int server)
{
    const std::string text = pattern(1000);
    std::string back;
    auto peer = std::async(std::launch::async, [&] { send_all(server, receive(server, text.size())); });
    send_all(client, text);
    back = receive(client, text.size());
    peer.get();
    must(back == text, "the first text");
    return is_moved(client) && is_moved(server);
}

/** A thread that ends with the block, and hands on what it throws. */
class Task {
public:
    explicit Task(const std::function<void()> &body)
        : thread_([this, body] {
              try {
                  body();
              } catch (const std::exception &error) {
                  failure_ = error.what();
              }
          })
    {
    }
    ~Task()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    Task(const Task &) = delete;
    Task &operator=(const Task &) = delete;
    void finish()
    {
        thread_.join();
        INFO(failure_);
        CHECK(failure_.empty());
    }
    std::thread &thread() { return thread_; }

private:
    std::string failure_;
    std::thread thread_;
};

struct Pipe {
    Pipe()
    {
        int fds[2];
        must(pipe(fds) == 0, "pipe");
        in = Fd(fds[0]);
        out = Fd(fds[1]);
    }
    void put() const { must(write(out, "p", 1) == 1, "write"); }
    void take() const
    {
        char byte;
        must(read(in, &byte, 1) == 1, "read");
    }
    Fd in, out;
};

} // namespace sockets_test

#endif
