// SPDX-License-Identifier: MIT
//
// Descriptors, processes and programs that a connection lives in.
#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

#include <csignal>
#include <cstdio>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/wait.h>

#include "children.hpp"
#include "tcp_pair.hpp"

using namespace sockets_test;

namespace {

/** A client in a process of its own. */
class Client {
public:
    template <typename Run>
    Client(const Listener &listener, Run run)
        : child_(start_child([&] {
              Fd fd = listener.connect();
              run(fd);
          }))
    {
    }
    ~Client()
    {
        if (child_ > 0) {
            status();
        }
    }
    int status() { return status_of(std::exchange(child_, 0)); }
    void detach() { child_ = 0; }

private:
    pid_t child_;
};

/** The result that the next call has at the end of a connection. */
ssize_t receive_end(int fd)
{
    char byte;
    return recv(fd, &byte, 1, 0);
}

} // namespace

TEST_CASE("a connection lives as long as one of its descriptors")
{
    Pair pair;
    const int first = dup(pair.client), second = fcntl(pair.client, F_DUPFD_CLOEXEC, 100);
    const int third = dup3(first, 200, O_CLOEXEC), fourth = dup2(first, 201);
    REQUIRE(second >= 100);
    REQUIRE(third == 200);
    REQUIRE(fourth == 201);
    CHECK(dup2(first, first) == first);
    pair.client.close();
    close(first);
    close(second);
    send_all(third, "still here");
    CHECK(receive(pair.server, 10) == "still here");
    send_all(pair.server, "and back");
    CHECK(receive(fourth, 8) == "and back");
    CHECK((!moves() || (is_moved(third) && is_moved(pair.server))));
}

TEST_CASE("the last descriptor ends the connection, however it is closed")
{
    Pair one, two, three, four;
    CHECK(dup2(three.listener.fd, one.client) == one.client); // another file takes its number
    CHECK(receive_end(one.server) == 0);
    CHECK(close_range(static_cast<unsigned>(static_cast<int>(two.client)),
                      static_cast<unsigned>(static_cast<int>(two.client)), 0) == 0);
    CHECK(error_of(close(two.client)) == EBADF);
    CHECK(receive_end(two.server) == 0);
    CHECK(in_child([&] { closefrom(3); }) == 0); // a child's copies are its own
    send_all(three.client, "untouched");
    CHECK(receive(three.server, 9) == "untouched");
    const int copy = fcntl(four.client, F_DUPFD_CLOEXEC, 900);
    REQUIRE(copy >= 900);
    four.client.close();
    closefrom(900);
    CHECK(receive_end(four.server) == 0);
    two.client.release();
}

TEST_CASE("a program that closes all descriptors goes on")
{
    CHECK(in_child([] {
              Pair pair;
              const int client = dup2(pair.client, 60), server = dup2(pair.server, 61);
              for (int fd = 3; fd < 2000; fd++) {
                  if (fd != client && fd != server) {
                      close(fd);
                  }
              }
              send_all(client, "on we go");
              must(receive(server, 8) == "on we go");
              must(close_range(3, 59, 0) == 0 && close_range(62, ~0U, 0) == 0);
              send_all(server, "and again");
              must(receive(client, 9) == "and again");
              Pair other; // a new connection is moved, too
              send_all(other.client, "x");
              must(receive(other.server, 1) == "x" && other.has_stayed_moved());
          }) == 0);
}

TEST_CASE("descriptors have the numbers that they have without the library")
{
    Pair pair;
    send_all(pair.client, "x");
    CHECK(receive(pair.server, 1) == "x");
    std::vector<int> fds;
    for (int i = 0; i < 20; i++) {
        fds.push_back(dup(0));
    }
    CHECK(*std::max_element(fds.begin(), fds.end()) < 64);
    for (const int fd : fds) {
        close(fd);
    }
}

TEST_CASE("a server forks for each connection, and the parent closes it before any byte")
{
    Listener listener;
    Client client(listener, [](int fd) {
        send_all(fd, "hello");
        must(receive(fd, 6) == "hello!" && (!moves() || is_moved(fd)));
        must(shutdown(fd, SHUT_WR) == 0 && receive_end(fd) == 0);
    });
    Fd server = listener.accept();
    const int status = in_child(
        [&] {
            send_all(server, receive(server, 5) + "!");
            must(!moves() || is_moved(server));
            must(receive_end(server) == 0);
        },
        [&] { server.close(); });
    CHECK(status == 0);
    CHECK(client.status() == 0);
}

TEST_CASE("what a child does to the descriptors of a connection is not the parent's business")
{
    Pair pair;
    CHECK(in_child([&] {
              close(pair.client);
              must(dup2(0, pair.server) == pair.server);
          }) == 0);
    send_all(pair.client, "still here");
    CHECK(receive(pair.server, 10) == "still here");
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("vfork(): a child that shares the memory closes descriptors of its own", "[vfork]")
{
    Pair pair;
    const int client = pair.client, server = pair.server;
    const pid_t child = vfork();
    if (child == 0) {
        close(client);
        dup2(0, server);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    send_all(pair.client, "still here");
    CHECK(receive(pair.server, 10) == "still here");
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("a connection that is moved is reset in a child, and the parent goes on")
{
    Pair pair;
    if (moves()) { // over the kernel's sockets, the child may go on
        CHECK(in_child([&] {
                  char byte;
                  must(error_of(recv(pair.client, &byte, 1, 0)) == ECONNRESET);
                  must(recv(pair.client, &byte, 1, 0) == 0);
                  must(error_of(send(pair.client, "x", 1, MSG_NOSIGNAL)) == EPIPE);
                  must(error_of(send(pair.server, "x", 1, MSG_NOSIGNAL)) == ECONNRESET);
              }) == 0);
    }
    send_all(pair.client, "still here");
    CHECK(receive(pair.server, 10) == "still here");
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("a peer that is killed resets the connection, or ends it as over TCP")
{
    Listener listener;
    const pid_t child = fork();
    if (child == 0) {
        Fd client = listener.connect();
        send_all(client, pattern(1000));
        receive(client, 1);
        send_all(client, pattern(100000));
        raise(SIGKILL);
    }
    Fd server = listener.accept();
    CHECK(receive(server, 1000) == pattern(1000));
    send_all(server, "x");
    std::string text(200000, '\0');
    size_t done = 0;
    ssize_t n = 0;
    while ((n = recv(server, &text[done], text.size() - done, 0)) > 0) {
        done += static_cast<size_t>(n);
    }
    CHECK(text.substr(0, done) == pattern(100000).substr(0, done));
    CHECK((error_of(n) == ECONNRESET || (n == 0 && done == 100000)));
    CHECK(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a program that ends sends what it has written")
{
    Listener listener;
    for (const bool at_once : {false, true}) {
        const pid_t child = fork();
        if (child == 0) {
            Fd client = listener.connect();
            send_all(client, "hello");
            receive(client, 1);
            send_all(client, pattern(200000));
            at_once ? _exit(0) : exit(0);
        }
        Fd server = listener.accept();
        CHECK(receive(server, 5) == "hello");
        send_all(server, "x");
        CHECK(receive(server, 300000) == pattern(200000));
        CHECK(waitpid(child, nullptr, 0) == child);
    }
}

TEST_CASE("exec ends moved connections as the kernel does, and others are the new program's", "[exec]")
{
    Listener listener;
    Client one(listener, [](int fd) {
        send_all(fd, "hi");
        must(receive(fd, 2) == "hi" && receive_end(fd) == 0);
    });
    CHECK(in_child([&] {
              Fd first = listener.accept();
              send_all(first, receive(first, 2)); // it is moved, and close-on-exec
              Client two(listener, [](int fd) {
                  send_all(fd, "through cat");
                  must(receive(fd, 11) == "through cat" && (!moves() || is_moved(fd)));
                  must(shutdown(fd, SHUT_WR) == 0 && receive_end(fd) == 0);
              });
              Fd second = listener.accept(); // no byte has been read or written: cat does that
              must(dup2(second, 0) == 0 && dup2(second, 1) == 1);
              two.detach();
              execlp("cat", "cat", nullptr);
              must(false, "exec");
          }) == 0);
    CHECK(one.status() == 0);
}

TEST_CASE("exec of what is no program leaves connections as they are")
{
    Pair pair;
    CHECK(error_of(execlp("/nonexistent/program", "program", nullptr)) == ENOENT);
    CHECK(error_of(execlp("no-such-program", "program", nullptr)) == ENOENT);
    send_all(pair.client, "still here");
    CHECK(receive(pair.server, 10) == "still here");
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("streams of the C library on a moved connection")
{
    Pair pair;
    FILE *file = fdopen(pair.client, "r+");
    REQUIRE(file != nullptr);
    CHECK(fileno(file) == pair.client);
    pair.client.release();
    setvbuf(file, nullptr, _IONBF, 0);
    CHECK(fprintf(file, "%s %d\n", "line", 1) == 7);
    CHECK(receive(pair.server, 7) == "line 1\n");
    send_all(pair.server, "answer\n");
    char line[32];
    CHECK(fgets(line, sizeof(line), file) == line);
    CHECK(std::string(line) == "answer\n");
    CHECK(fclose(file) == 0);
    CHECK(receive_end(pair.server) == 0);
}

TEST_CASE("streams of the C library on connections that are not moved yet")
{
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    FILE *in = fdopen(server, "r+");
    REQUIRE(in != nullptr);
    server.release();
    auto there = std::async(std::launch::async, [&] { send_all(client, "line\n"); });
    char line[32] = {};
    CHECK(fgets(line, sizeof(line), in) == line);
    CHECK(std::string(line) == "line\n");
    there.get();
    CHECK(fputs("back\n", in) >= 0);
    CHECK(fflush(in) == 0);
    CHECK(receive(client, 5) == "back\n");
    CHECK(fclose(in) == 0);
    CHECK(receive_end(client) == 0);
}

TEST_CASE("printing to a descriptor")
{
    Pair pair;
    CHECK(dprintf(pair.client, "%s %d", "number", 7) == 8);
    CHECK(receive(pair.server, 8) == "number 7");
    CHECK(shutdown(pair.client, SHUT_WR) == 0);
    signal(SIGPIPE, SIG_IGN);
    CHECK(dprintf(pair.client, "x") < 0);
    signal(SIGPIPE, SIG_DFL);
}

namespace {

/** One message with a descriptor. */
struct Passing {
    char byte = 'f';
    iovec piece = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};

    explicit Passing(int fd = -1)
    {
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    }
    int fd()
    {
        int out;
        memcpy(&out, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(out));
        return out;
    }
};

} // namespace

TEST_CASE("a connection is passed to another process before its first byte, and not later")
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    Fd one(ends[0]), other(ends[1]);
    Listener listener;
    Client client(listener, [](int fd) {
        send_all(fd, "hello");
        must(receive(fd, 6) == "hello!" && (!moves() || is_moved(fd)));
    });
    Fd server = listener.accept();
    const pid_t child = start_child([&] {
        server.close();
        listener.fd.close();
        Passing come;
        must(recvmsg(other, &come.message, 0) == 1);
        Fd fd(come.fd());
        send_all(fd, receive(fd, 5) + "!");
        must(receive_end(fd) == 0);
    });
    Passing go(server);
    CHECK(sendmsg(one, &go.message, 0) == 1);
    server.close();
    CHECK(client.status() == 0);
    CHECK(status_of(child) == 0);
    if (moves()) {
        Pair pair;
        Passing moved(pair.client);
        CHECK(error_of(sendmsg(one, &moved.message, 0)) == EOPNOTSUPP);
        send_all(pair.client, "still here");
        CHECK(receive(pair.server, 10) == "still here");
        CHECK(pair.has_stayed_moved());
    }
}

static std::atomic<int> alarms;

/** Signals a thread, and waits until its handler has run. */
static void alarm_thread(pthread_t thread, const std::atomic<bool> &is_over)
{
    const int before = alarms;
    pthread_kill(thread, SIGUSR1);
    while (alarms == before && !is_over) {
        vipl_test::give_way(5);
    }
}

/** What recv() returns when signals come while it waits: an error, or 0 for the byte that is sent
 * after them. `ends`: one of them is to end it; the byte is sent when that takes too long. */
static int interrupted(int flags, bool has_timeout, bool ends)
{
    Pair pair;
    struct sigaction action = {}, before = {};
    signal(SIGINT, SIG_DFL); // Catch2's handlers, which do not restart calls
    signal(SIGTERM, SIG_DFL);
    action.sa_handler = [](int) { alarms++; };
    action.sa_flags = flags;
    must(sigaction(SIGUSR1, &action, &before) == 0);
    if (has_timeout) {
        set_timeout(pair.client, SO_RCVTIMEO, static_cast<int>(vipl_test::patience()));
    }
    alarms = 0;
    const pthread_t reader = pthread_self();
    std::atomic<bool> is_over{false};
    auto helper = std::async(std::launch::async, [&] {
        const auto end = vipl_test::now_ms() + vipl_test::patience() / 2;
        for (int i = 0; ends ? !is_over && vipl_test::now_ms() < end : i < 20; i++) {
            alarm_thread(reader, is_over);
        }
        send_all(pair.server, "x");
    });
    char byte = 0;
    const ssize_t n = recv(pair.client, &byte, 1, 0);
    const int error = error_of(n);
    is_over = true;
    helper.get();
    must(sigaction(SIGUSR1, &before, nullptr) == 0);
    return error != 0 ? error : byte == 'x' ? 0 : -1;
}

static int handled_fd;
static volatile ssize_t handled_result;
static volatile sig_atomic_t handled_error;

TEST_CASE("a handler that interrupts a call on a connection does not stand still in another")
{
    Pair pair;
    struct sigaction action = {}, before = {};
    signal(SIGINT, SIG_DFL); // Catch2's handlers, which do not restart calls
    signal(SIGTERM, SIG_DFL);
    action.sa_handler = [](int) {
        const int kept = errno;
        handled_result = send(handled_fd, "h", 1, MSG_DONTWAIT);
        handled_error = errno;
        errno = kept;
        alarms++;
    };
    action.sa_flags = SA_RESTART;
    REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
    handled_fd = pair.client;
    alarms = 0;
    const pthread_t reader = pthread_self();
    auto helper = std::async(std::launch::async, [&] {
        while (alarms < 20) {
            pthread_kill(reader, SIGUSR1);
            vipl_test::give_way(5);
        }
        send_all(pair.server, "x");
    });
    CHECK(receive(pair.client, 1) == "x");
    helper.get();
    CHECK((handled_result == 1 || handled_error == EAGAIN));
    REQUIRE(sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("a signal ends a call that waits, unless its handler restarts it")
{
    CHECK(interrupted(0, false, true) == EINTR);
    CHECK(interrupted(SA_RESTART, false, false) == 0);
    CHECK(interrupted(SA_RESTART, true, true) == EINTR);
}
