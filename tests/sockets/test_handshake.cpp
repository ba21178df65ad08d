// SPDX-License-Identifier: MIT
//
// The handshake: clients and servers of all kinds, those that do not take part, and those that do
// wrong. The bytes of the program are the same whatever becomes of the connection.
#include <csignal>
#include <future>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "raw.hpp"

using namespace sockets_test;

namespace {

/** The same with other bytes at a place. */
std::string changed(size_t at, const std::string &bytes)
{
    return hello().replace(at, bytes.size(), bytes);
}

/** The server's process reads a connection until its end. */
std::string all_of(int fd, int *error)
{
    std::string all(100000, '\0');
    size_t done = 0;
    ssize_t n;
    while ((n = recv(fd, &all[done], all.size() - done, 0)) > 0) {
        done += static_cast<size_t>(n);
    }
    *error = error_of(n);
    all.resize(done);
    return all;
}

} // namespace

TEST_CASE("a client that does not know the library talks TCP with a server that has it")
{
    Listener listener;
    Fd client = raw_connect(listener);
    Fd server = listener.accept();
    REQUIRE(raw_send(client, "plain") == 5);
    CHECK(receive(server, 5) == "plain");
    send_all(server, "back");
    CHECK(raw_receive(client, 4) == "back");
    client.close();
    int error = -1;
    CHECK(all_of(server, &error).empty());
    CHECK(error == 0);
}

TEST_CASE("a server that writes first")
{
    Listener listener;
    Fd plain = raw_connect(listener);
    Fd server = listener.accept();
    send_all(server, "220 ready\r\n");
    CHECK(raw_receive(plain, 11) == "220 ready\r\n");
    REQUIRE(raw_send(plain, "HELO") == 4);
    CHECK(receive(server, 4) == "HELO");

    Fd client = listener.connect();
    Fd other = listener.accept();
    auto writer = std::async(std::launch::async, [&] { send_all(other, "220 ready\r\n"); });
    CHECK(receive(client, 11) == "220 ready\r\n");
    writer.get();
    send_all(client, "HELO");
    CHECK(receive(other, 4) == "HELO");
    if (moves()) {
        CHECK((is_moved(client) && is_moved(other))); // HELLO had come
    }
}

TEST_CASE("a server that writes first, and has waited in vain for HELLO, strips it later")
{
    Listener listener;
    Fd client = listener.connect(SOCK_NONBLOCK);
    Fd server = listener.accept();
    if (moves()) { // HELLO has been sent at once; the server's library is not asked before it writes
        must(raw_receive(server, 128).size() == 128);
    }
    send_all(server, "welcome");
    if (moves()) {
        set_nonblocking(client, false);
        CHECK(receive(client, 7) == "welcome");
        send_all(client, "after");
        CHECK(raw_receive(server, 6) == "Tafter");
    }
}

TEST_CASE("a server that writes first, and must not wait")
{
    Listener listener;
    Fd client;
    auto other = std::async(std::launch::async, [&] {
        client = listener.connect();
        return receive(client, 5);
    });
    Fd server = listener.accept(SOCK_NONBLOCK);
    CHECK(eventually([&] {
        const ssize_t n = write(server, "ready", 5);
        must(n == 5 || errno == EAGAIN);
        return n == 5;
    }));
    CHECK(other.get() == "ready");
    send_all(client, "HELO");
    set_nonblocking(server, false);
    CHECK(receive(server, 4) == "HELO");
}

TEST_CASE("listeners at one port of several addresses")
{
    Listener listener;
    // A server that does not know the library.
    Fd plain(static_cast<int>(syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    sockaddr_in address = listener.address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    REQUIRE(bind(plain, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
    REQUIRE(syscall(SYS_listen, int(plain), 5) == 0);
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(connect(client, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
    Fd server(static_cast<int>(syscall(SYS_accept4, int(plain), nullptr, nullptr, 0)));
    send_all(client, "plain");
    CHECK(raw_receive(server, 5) == "plain");
}

static void check_family(int family, const void *bound, socklen_t bound_length, int to_family, const char *to,
                         bool v6_only)
{
    const int only = v6_only;
    Fd listening(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (family == AF_INET6) {
        must(setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) == 0);
    }
    must(bind(listening, static_cast<const sockaddr *>(bound), bound_length) == 0, "bind");
    must(listen(listening, 5) == 0);
    sockaddr_in6 address = {};
    socklen_t length = sizeof(address);
    must(getsockname(listening, reinterpret_cast<sockaddr *>(&address), &length) == 0);
    const in_port_t port = address.sin6_port; // at the same place in both families
    sockaddr_in v4 = {};
    sockaddr_in6 v6 = {};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = port;
    must(inet_pton(to_family, to, to_family == AF_INET ? static_cast<void *>(&v4.sin_addr) : &v6.sin6_addr) ==
         1);
    const auto *target =
        to_family == AF_INET ? reinterpret_cast<sockaddr *>(&v4) : reinterpret_cast<sockaddr *>(&v6);
    Fd client(socket(to_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    must(connect(client, target, to_family == AF_INET ? sizeof(v4) : sizeof(v6)) == 0, "connect");
    Fd server(accept(listening, nullptr, nullptr));
    auto echo = std::async(std::launch::async, [&] { send_all(server, receive(server, 4)); });
    send_all(client, "ping");
    must(receive(client, 4) == "ping");
    echo.get();
    must(!moves() || (is_moved(client) && is_moved(server)), to);
}

TEST_CASE("families of addresses, and listeners for all of them")
{
    sockaddr_in any4 = {};
    sockaddr_in6 any6 = {}, loopback6 = {};
    any4.sin_family = AF_INET;
    any6.sin6_family = loopback6.sin6_family = AF_INET6;
    loopback6.sin6_addr = in6addr_loopback;
    check_family(AF_INET, &any4, sizeof(any4), AF_INET, "127.0.0.1", false);
    check_family(AF_INET, &any4, sizeof(any4), AF_INET, "127.1.2.3", false);
    check_family(AF_INET, &any4, sizeof(any4), AF_INET, "0.0.0.0", false);
    check_family(AF_INET6, &any6, sizeof(any6), AF_INET, "127.0.0.1", false);
    check_family(AF_INET6, &any6, sizeof(any6), AF_INET6, "::1", false);
    check_family(AF_INET6, &any6, sizeof(any6), AF_INET6, "::ffff:127.0.0.1", false);
    check_family(AF_INET6, &any6, sizeof(any6), AF_INET6, "::1", true);
    check_family(AF_INET6, &loopback6, sizeof(loopback6), AF_INET6, "::1", true);
}

TEST_CASE("a client that has to write does not wait for ever for a server that does not read")
{
    Listener listener;
    Fd client = listener.connect();
    send_all(client, "first words"); // this thread has both ends
    Fd server = listener.accept();
    CHECK(receive(server, 11) == "first words");
    send_all(server, "back");
    CHECK(receive(client, 4) == "back");
    CHECK(pattern(1) == pattern(1));
    REQUIRE(shutdown(client, SHUT_WR) == 0);
    CHECK(receive(server, 1).empty());
}

TEST_CASE("a client that closes at once is seen to close")
{
    Listener listener;
    for (const bool later : {false, true}) {
        Fd client = listener.connect();
        Fd server = later ? Fd() : listener.accept();
        client.close();
        server = later ? listener.accept() : std::move(server);
        int error = -1;
        CHECK(all_of(server, &error).empty());
        CHECK(error == 0);
    }
}

TEST_CASE("a server that closes before it reads is seen to close")
{
    Listener listener;
    for (const bool later : {false, true}) {
        Fd client = listener.connect();
        listener.accept().close();
        if (later) { // the client learns of it in poll()
            pollfd fd = {client, POLLIN | POLLOUT | POLLRDHUP, 0};
            REQUIRE(eventually([&] { return poll(&fd, 1, 0) == 1 && (fd.revents & POLLRDHUP) != 0; }));
            CHECK(fd.revents == (POLLIN | POLLOUT | POLLRDHUP));
            CHECK(socket_error(client) == 0);
        }
        int error = -1;
        CHECK(all_of(client, &error).empty());
        CHECK(error == 0);
        CHECK(shutdown(client, SHUT_WR) == 0);
    }
}

TEST_CASE("a server that shuts its writing down before it reads gets every byte")
{
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    REQUIRE(shutdown(server, SHUT_WR) == 0);
    CHECK(receive(client, 1).empty());
    send_all(client, "from the first one on");
    client.close();
    int error = -1;
    CHECK(all_of(server, &error) == "from the first one on");
    CHECK(error == 0);
}

TEST_CASE("a server that shuts its reading down before it reads gets no byte of the handshake")
{
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    REQUIRE(shutdown(server, SHUT_RD) == 0);
    CHECK(receive(server, 1).empty());
    pollfd fd = {server, POLLIN, 0};
    CHECK(poll(&fd, 1, 0) == 1);
    CHECK(fd.revents == POLLIN);
    send_all(client, "still"); // which the kernel delivers all the same
    int count = 0;
    CHECK(eventually([&] { return ioctl(server, FIONREAD, &count) == 0 && count >= 5; }));
    CHECK(receive(server, 5) == "still");
    CHECK(receive(server, 1).empty());
    send_all(server, "back");
    CHECK(receive(client, 4) == "back");
}

TEST_CASE("a server that shuts both ways down before it reads is seen to end")
{
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    REQUIRE(shutdown(server, SHUT_RDWR) == 0);
    CHECK(receive(client, 1).empty());
    for (int i = 0; i < 100; i++) {
        pollfd fd = {client, POLLIN | POLLOUT | POLLRDHUP, 0};
        REQUIRE(poll(&fd, 1, 0) == 1);
        REQUIRE(fd.revents == (POLLIN | POLLOUT | POLLRDHUP));
    }
    CHECK(socket_error(client) == 0);
}

TEST_CASE("an end that shuts both ways down, one after the other, before it reads")
{
    Listener listener;
    for (const bool is_client : {false, true}) {
        Fd client = listener.connect();
        Fd server = listener.accept();
        pollfd fd = {is_client ? int(client) : int(server), POLLIN | POLLRDHUP, 0};
        REQUIRE(shutdown(fd.fd, SHUT_RD) == 0);
        CHECK(poll(&fd, 1, 0) == 1);
        CHECK(fd.revents == (POLLIN | POLLRDHUP));
        REQUIRE(shutdown(fd.fd, SHUT_WR) == 0);
        CHECK(poll(&fd, 1, 0) == 1);
        CHECK(fd.revents == (POLLIN | POLLRDHUP | POLLHUP));
    }
}

TEST_CASE("a client that writes and closes at once is heard")
{
    Listener listener;
    Fd client = listener.connect();
    send_all(client, "last words");
    client.close();
    Fd server = listener.accept();
    int error = -1;
    CHECK(all_of(server, &error) == "last words");
    CHECK(error == 0);
}

TEST_CASE("one thread has both ends, and does not wait in either")
{
    Listener listener;
    Fd client = listener.connect(SOCK_NONBLOCK);
    Fd server = listener.accept(SOCK_NONBLOCK);
    const std::string text = pattern(300000);
    std::string got;
    size_t sent = 0;
    CHECK(eventually([&] {
        const ssize_t n = write(client, text.data() + sent, text.size() - sent);
        must(n > 0 || errno == EAGAIN || sent == text.size());
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        char part[5000];
        const ssize_t m = read(server, part, sizeof(part));
        must(m > 0 || errno == EAGAIN);
        got.append(part, m > 0 ? static_cast<size_t>(m) : 0);
        return got.size() == text.size();
    }));
    CHECK(got == text);
    if (moves()) {
        CHECK(is_moved(client));
    }
}

TEST_CASE("one thread has both ends, and shuts or closes one in the middle of the handshake")
{
    Listener listener;
    for (int i = 0; i < 16; i++) {
        INFO("the server's turns " << i % 4 << ", then the client's " << i / 4);
        const auto begun = [&](Fd &client, Fd &server) {
            client = listener.connect();
            server = listener.accept();
            for (int turn = 0; turn < i % 4; turn++) {
                must(has_nothing_to_read(server));
            }
            for (int turn = 0; turn < i / 4; turn++) {
                must(has_nothing_to_read(client));
            }
        };
        Fd client, server;
        begun(client, server);
        REQUIRE(shutdown(client, SHUT_RD) == 0);
        send_all(client, "goes on");
        CHECK(receive(server, 7) == "goes on");

        Fd closed, other;
        begun(closed, other);
        closed.close();
        int error = -1;
        CHECK(all_of(other, &error).empty());
        CHECK(error == 0);
    }
}

TEST_CASE("many connections at once, one after the other, and by many threads")
{
    Listener listener;
    auto server = std::async(std::launch::async, [&] {
        std::vector<std::future<void>> threads;
        for (int i = 0; i < 200; i++) {
            auto fd = std::make_shared<Fd>(listener.accept());
            threads.push_back(std::async(std::launch::async, [fd] { send_all(*fd, receive(*fd, 4)); }));
        }
    });
    std::vector<std::future<bool>> clients;
    for (int t = 0; t < 8; t++) {
        clients.push_back(std::async(std::launch::async, [&] {
            for (int i = 0; i < 25; i++) {
                Fd client = listener.connect();
                send_all(client, "ping");
                if (receive(client, 4) != "ping") {
                    return false;
                }
            }
            return true;
        }));
    }
    for (auto &client : clients) {
        CHECK(client.get());
    }
    server.get();
}

TEST_CASE("a peer that sends what no peer may send loses its own connection alone", "[hostile]")
{
    if (!moves()) {
        return;
    }
    Pair bystander;
    const std::string good = hello(), wrong_address = changed(kHostLength, "\x11"),
                      wrong_window = changed(kMessages, "\1"),
                      unnamed = changed(kDevice, std::string(32, '\0')),
                      long_name = changed(kDevice, std::string(32, 'x')), more = changed(127, "x"),
                      reply = changed(kKind, "\2"), kind = changed(kKind, "\x9"),
                      device = changed(kDevice, "another"), version = changed(kVersion, "\3");
    const struct {
        std::string bytes;
        std::string program_gets;
        int error;
    } cases[] = {
        // what is no HELLO is the program's
        {good.substr(0, 15), good.substr(0, 15), 0},
        {good.substr(0, 100), good.substr(0, 100), 0},
        {wrong_address, wrong_address, 0},
        {wrong_window, wrong_window, 0},
        {unnamed, unnamed, 0},
        {long_name, long_name, 0},
        {more, more, 0},
        {reply, reply, 0},
        {kind, kind, 0},
        // what cannot be moved stays with TCP
        {device + "Tplain", "plain", 0},
        {version + "Tplain", "plain", 0},
        {good + "Tplain", "plain", 0},
        // and what nobody may send ends the connection
        {good, "", ECONNRESET},
        {good + "V", "", ECONNRESET},
        {good + "?", "", ECONNRESET},
        {good + std::string(5000, 'g'), "", ECONNRESET},
    };
    for (const auto &one : cases) {
        Listener listener;
        Fd client = raw_connect(listener);
        Fd server = listener.accept();
        REQUIRE(raw_send(client, one.bytes) == static_cast<ssize_t>(one.bytes.size()));
        syscall(SYS_shutdown, int(client), SHUT_WR);
        int error = -1;
        INFO("case " << &one - cases);
        CHECK((all_of(server, &error) == one.program_gets));
        CHECK(error == one.error);
        send_all(bystander.client, "undisturbed");
        CHECK(receive(bystander.server, 11) == "undisturbed");
    }
}

TEST_CASE("a peer that says HELLO and then nothing", "[hostile]")
{
    if (!moves()) {
        return;
    }
    const std::string good = hello(), welcome = changed(kKind, "\2");
    Listener listener;
    Fd client = raw_connect(listener);
    Fd server = listener.accept();
    REQUIRE(raw_send(client, good) == 128);
    CHECK((reply_of(server, client, 128).substr(0, 18) == welcome.substr(0, 18)));
    CHECK(reply_of(server, client, 1) == "T"); // the time for its VI is over
    REQUIRE(raw_send(client, "Tand so on") == 10);
    CHECK(receive(server, 9) == "and so on");
}

TEST_CASE("a server that says WELCOME and then nothing is waited for in one sleep", "[hostile]")
{
    if (!moves()) {
        return;
    }
    Listener listener;
    Fd client = listener.connect();
    Fd server = listener.accept();
    const std::string welcome = raw_receive(server, 128).replace(kKind, 1, "\2");
    REQUIRE(raw_send(server, welcome) == 128);
    struct rusage before = {}, after = {};
    getrusage(RUSAGE_THREAD, &before);
    auto back = std::async(std::launch::async, [&] {
        std::string first = raw_receive(server, 1);
        raw_send(server, "Tplain");
        return first;
    });
    CHECK(receive(client, 5) == "plain");
    getrusage(RUSAGE_THREAD, &after);
    CHECK(back.get() == "T"); // the time for the client's VI was over
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 50);
}

TEST_CASE("a server that replies what no server may", "[hostile]")
{
    if (!moves()) {
        return;
    }
    for (const std::string &reply :
         {hello(), changed(kKind, "\2\3"), changed(kKind, "\7"), hello().substr(0, 50)}) {
        Listener listener;
        Fd client = listener.connect();
        Fd server = listener.accept();
        CHECK(raw_receive(server, 128).size() == 128);
        REQUIRE(raw_send(server, reply) == static_cast<ssize_t>(reply.size()));
        char byte;
        CHECK(error_of(recv(client, &byte, 1, 0)) == ECONNRESET);
        CHECK(recv(client, &byte, 1, 0) == 0);
        CHECK(error_of(send(client, "x", 1, MSG_NOSIGNAL)) == EPIPE);
    }
}

TEST_CASE("a failure at a step of the handshake leaves the bytes to TCP", "[faults]")
{
    if (!moves()) {
        return;
    }
    Listener listener;
    for (const char *fault : {"decline", "stream", "join", "commit"}) {
        for (const bool of_client : {false, true}) {
            const pid_t child = fork();
            if (child == 0) { // it has not looked at the setting yet
                if (of_client) {
                    setenv("VIPL_SOCKETS_FAULT", fault, 1);
                }
                Fd client = listener.connect();
                send_all(client, pattern(5000));
                _exit(receive(client, 5000) == pattern(5000, 2) && receive(client, 1).empty() ? 0 : 1);
            }
            const pid_t other = fork();
            if (other == 0) {
                if (!of_client) {
                    setenv("VIPL_SOCKETS_FAULT", fault, 1);
                }
                Fd server = listener.accept();
                if (receive(server, 5000) != pattern(5000)) {
                    _exit(1);
                }
                send_all(server, pattern(5000, 2));
                _exit(0);
            }
            int status = -1;
            INFO(fault << (of_client ? " at the client" : " at the server"));
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(status == 0);
            CHECK(waitpid(other, &status, 0) == other);
            CHECK(status == 0);
        }
    }
}

/** The errno value of a call for a client whose server has sent half a message, while the fault has
 * SIGUSR1 come whenever a thread looks at that. */
static int interrupted_by_fault(int flags, int (*call)(int fd))
{
    const pid_t child = fork();
    if (child == 0) { // it has not looked at the setting yet
        setenv("VIPL_SOCKETS_FAULT", "signal", 1);
        signal(SIGINT, SIG_DFL); // Catch2's handlers, which do not restart calls
        signal(SIGTERM, SIG_DFL);
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        action.sa_flags = flags;
        must(sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
        Listener listener;
        Fd client = listener.connect();
        Fd server = listener.accept();
        must(raw_send(server, raw_receive(server, 128).substr(0, 50)) == 50, "a part");
        _exit(call(client) < 0 ? errno : 0);
    }
    int status = -1;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child");
    return WEXITSTATUS(status);
}

TEST_CASE("a signal that comes between two looks at a handshake ends the call", "[faults]")
{
    const auto by_recv = [](int fd) {
        char byte;
        return static_cast<int>(recv(fd, &byte, 1, 0));
    };
    const auto by_poll = [](int fd) {
        pollfd one = {fd, POLLIN, 0};
        return poll(&one, 1, -1);
    };
    const auto by_select = [](int fd) {
        fd_set in;
        FD_ZERO(&in);
        FD_SET(fd, &in);
        return select(fd + 1, &in, nullptr, nullptr, nullptr);
    };
    const auto by_epoll = [](int fd) {
        Fd set(epoll_create1(EPOLL_CLOEXEC));
        epoll_event event = {};
        event.events = EPOLLIN;
        must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
        return epoll_wait(set, &event, 1, -1);
    };
    if (!moves()) {
        return;
    }
    CHECK(interrupted_by_fault(0, by_recv) == EINTR);
    CHECK(interrupted_by_fault(SA_RESTART, by_recv) == ECONNRESET); // the other half does not come
    for (const int flags : {0, SA_RESTART}) {
        CHECK(interrupted_by_fault(flags, by_poll) == EINTR);
        CHECK(interrupted_by_fault(flags, by_select) == EINTR);
        CHECK(interrupted_by_fault(flags, by_epoll) == EINTR);
    }
}

TEST_CASE("a connection that is being made when the process forks belongs to both")
{
    Listener listener;
    Fd client = listener.connect();
    const pid_t child = fork();
    if (child == 0) {
        Fd server = listener.accept();
        _exit(receive(server, 6) == "parent" && (send_all(server, "yes"), true) ? 0 : 1);
    }
    send_all(client, "parent");
    CHECK(receive(client, 3) == "yes");
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a connection that is refused is refused")
{
    Listener listener;
    listener.fd.close();
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(connect(client, reinterpret_cast<sockaddr *>(&listener.address), sizeof(listener.address)) == -1);
    CHECK(errno == ECONNREFUSED);
}
