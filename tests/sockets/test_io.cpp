// SPDX-License-Identifier: MIT
//
// Reading and writing: what the calls return for a connection that has been moved is what they
// return for one that has not.
#include <future>
#include <thread>

#include <csignal>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "tcp_pair.hpp"

using namespace sockets_test;

TEST_CASE("bytes arrive, in both directions and at all sizes")
{
    Pair pair;
    for (const size_t size : {size_t(1), size_t(100), size_t(65536), size_t(65537), size_t(1000000)}) {
        const std::string there = pattern(size, 1), back = pattern(size, 2);
        auto reader = std::async(std::launch::async, [&] { return receive(pair.server, size); });
        send_all(pair.client, there);
        CHECK(reader.get() == there);
        auto other = std::async(std::launch::async, [&] { return receive(pair.client, size); });
        send_all(pair.server, back);
        CHECK(other.get() == back);
    }
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("read() and write(), and the calls with pieces")
{
    Pair pair;
    char a[] = "ab", b[] = "cdefg", x[3] = {}, y[8] = {};
    iovec out[] = {{a, 2}, {nullptr, 0}, {b, 5}}, in[] = {{x, 3}, {y, 8}};
    CHECK(write(pair.client, "12345", 5) == 5);
    char five[8] = {};
    CHECK(read(pair.server, five, sizeof(five)) == 5);
    CHECK(std::string(five) == "12345");
    CHECK(writev(pair.client, out, 3) == 7);
    CHECK(readv(pair.server, in, 2) == 7);
    CHECK(std::string(x, 3) + y == "abcdefg");

    msghdr message = {};
    message.msg_iov = out;
    message.msg_iovlen = 3;
    CHECK(sendmsg(pair.server, &message, 0) == 7);
    sockaddr_in from = {};
    char control[64];
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = in;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    message.msg_flags = -1;
    CHECK(recvmsg(pair.client, &message, 0) == 7);
    CHECK(std::string(x, 3) + std::string(y, 4) == "abcdefg");
    CHECK(message.msg_namelen == 0);
    CHECK(message.msg_controllen == 0);
    CHECK(message.msg_flags == 0);

    CHECK(sendto(pair.client, "xyz", 3, 0, nullptr, 0) == 3);
    socklen_t length = sizeof(from);
    CHECK(recvfrom(pair.server, five, sizeof(five), 0, reinterpret_cast<sockaddr *>(&from), &length) == 3);
    CHECK(length == 0);
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("many pieces are one call")
{
    Pair pair;
    const std::string text = pattern(300);
    std::vector<iovec> pieces;
    for (const char &byte : text) {
        pieces.push_back({const_cast<char *>(&byte), 1});
    }
    CHECK(writev(pair.client, pieces.data(), static_cast<int>(pieces.size())) == 300);
    std::string back(300, '\0');
    for (size_t i = 0; i < back.size(); i++) {
        pieces[i].iov_base = &back[i];
    }
    CHECK(readv(pair.server, pieces.data(), static_cast<int>(pieces.size())) == 300);
    CHECK(back == text);
}

TEST_CASE("several messages in one call")
{
    Pair pair;
    char one[] = "one", two[] = "two!";
    iovec out[] = {{one, 3}, {two, 4}};
    mmsghdr messages[2] = {};
    for (int i = 0; i < 2; i++) {
        messages[i].msg_hdr.msg_iov = &out[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    CHECK(sendmmsg(pair.client, messages, 2, 0) == 2);
    CHECK(messages[0].msg_len == 3);
    CHECK(messages[1].msg_len == 4);
    char x[5] = {}, y[5] = {};
    iovec in[] = {{x, 5}, {y, 5}};
    messages[0].msg_hdr.msg_iov = &in[0];
    messages[1].msg_hdr.msg_iov = &in[1];
    CHECK(recvmmsg(pair.server, messages, 2, MSG_WAITFORONE, nullptr) == 2);
    CHECK(std::string(x, messages[0].msg_len) + std::string(y, messages[1].msg_len) == "onetwo!");
}

TEST_CASE("a call that must not wait says so")
{
    Pair pair;
    char byte;
    CHECK(error_of(recv(pair.client, &byte, 1, MSG_DONTWAIT)) == EAGAIN);
    set_nonblocking(pair.client, true);
    CHECK(error_of(read(pair.client, &byte, 1)) == EAGAIN);
    int on = 0;
    CHECK(ioctl(pair.client, FIONBIO, &on) == 0);
    CHECK((fcntl(pair.client, F_GETFL) & O_NONBLOCK) == 0);
    auto late = std::async(std::launch::async, [&] { return receive(pair.client, 1); });
    send_all(pair.server, "x");
    CHECK(late.get() == "x");
    on = 1;
    CHECK(ioctl(pair.client, FIONBIO, &on) == 0);
    CHECK(error_of(read(pair.client, &byte, 1)) == EAGAIN);
}

TEST_CASE("a writer whose peer does not read is refused in time, and nothing is lost")
{
    Pair pair;
    set_nonblocking(pair.client, true);
    const std::string text = pattern(1 << 16);
    size_t sent = 0;
    CHECK(eventually([&] {
        const ssize_t n =
            write(pair.client, text.data() + sent % text.size(), text.size() - sent % text.size());
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        return n < 0;
    }));
    CHECK(errno == EAGAIN);
    CHECK(sent > 100000);
    const std::string all = receive(pair.server, sent);
    CHECK(all.size() == sent);
    bool equal = true;
    for (size_t i = 0; i < all.size(); i++) {
        equal = equal && all[i] == text[i % text.size()];
    }
    CHECK(equal);
    CHECK(eventually([&] { return write(pair.client, "!", 1) == 1; }));
    CHECK(receive(pair.server, 1) == "!");
}

TEST_CASE("flags of recv()")
{
    Pair pair;
    char bytes[16] = {};
    send_all(pair.client, "0123456789");
    CHECK(recv(pair.server, bytes, 4, MSG_PEEK) == 4);
    CHECK(recv(pair.server, bytes, 4, 0) == 4);
    CHECK(std::string(bytes, 4) == "0123");
    CHECK(recv(pair.server, nullptr, 2, MSG_TRUNC) == 2); // thrown away
    CHECK(recv(pair.server, bytes, 4, MSG_WAITALL) == 4);
    CHECK(std::string(bytes, 4) == "6789");
    CHECK(error_of(recv(pair.server, bytes, 1, MSG_OOB)) == EINVAL);
    CHECK(error_of(recv(pair.server, bytes, 1, MSG_ERRQUEUE)) == EAGAIN);
    auto all = std::async(std::launch::async, [&] {
        char eight[8];
        return recv(pair.server, eight, 8, MSG_WAITALL);
    });
    send_all(pair.client, "abc");
    send_all(pair.client, "defgh");
    CHECK(all.get() == 8);
    send_all(pair.client, "abc");
    pair.client.close();
    CHECK(recv(pair.server, bytes, 8, MSG_WAITALL) == 3); // all that there is
    CHECK(recv(pair.server, bytes, 8, MSG_WAITALL) == 0);
}

TEST_CASE("calls for no bytes")
{
    Pair pair;
    char byte;
    CHECK(read(pair.client, &byte, 0) == 0);
    CHECK(write(pair.client, &byte, 0) == 0);
    CHECK(send(pair.client, &byte, 0, 0) == 0);
    CHECK(error_of(recv(pair.client, &byte, 0, MSG_DONTWAIT)) == EAGAIN);
    send_all(pair.server, "x");
    CHECK(recv(pair.client, &byte, 0, 0) == 0);
    CHECK(receive(pair.client, 1) == "x");
}

TEST_CASE("the bytes that are there, and those that have not been taken")
{
    Pair pair;
    int bytes = -1;
    CHECK(ioctl(pair.server, FIONREAD, &bytes) == 0);
    CHECK(bytes == 0);
    send_all(pair.client, "12345");
    CHECK(eventually([&] { return ioctl(pair.server, FIONREAD, &bytes) == 0 && bytes == 5; }));
    CHECK(receive(pair.server, 5) == "12345");
    CHECK(eventually([&] { return ioctl(pair.client, SIOCOUTQ, &bytes) == 0 && bytes == 0; }));
}

TEST_CASE("a file is sent")
{
    Pair pair;
    const std::string text = pattern(200000);
    Fd file(memfd_create("file", 0));
    REQUIRE(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    auto reader = std::async(std::launch::async, [&] { return receive(pair.server, 150000); });
    off_t at = 50000;
    while (at < 200000) {
        must(sendfile(pair.client, file, &at, static_cast<size_t>(200000 - at)) > 0, "sendfile");
    }
    CHECK(reader.get() == text.substr(50000));
    CHECK(sendfile(pair.client, file, &at, 100000) == 0); // the end of the file
    off_t before_end = 100000;
    reader = std::async(std::launch::async, [&] { return receive(pair.server, 100000); });
    for (long n = 1, left = 100000; n > 0; left -= n) { // more is asked for than there is
        n = sendfile(pair.client, file, &before_end, 300000);
        must(n >= 0 && n <= left, "sendfile");
    }
    CHECK(before_end == 200000);
    CHECK(reader.get() == text.substr(100000));
    REQUIRE(lseek(file, 10, SEEK_SET) == 10);
    CHECK(sendfile(pair.client, file, nullptr, 5) == 5);
    CHECK(lseek(file, 0, SEEK_CUR) == 15);
    CHECK(receive(pair.server, 5) == text.substr(10, 5));
}

TEST_CASE("a file comes behind what is corked, and not to a socket that is shut or asked for too much")
{
    const int on = 1;
    Pair pair;
    const std::string text = pattern(20000);
    Fd file(memfd_create("file", 0)), unreadable(open("/dev/null", O_WRONLY | O_CLOEXEC));
    REQUIRE(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    must(setsockopt(pair.client, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)) == 0);
    must(send(pair.client, "head ", 5, 0) == 5);
    off_t at = 0;
    CHECK(sendfile(pair.client, file, &at, text.size()) == static_cast<ssize_t>(text.size()));
    CHECK(receive(pair.server, 5 + text.size()) == "head " + text);
    CHECK(sendfile(pair.client, unreadable, &at, 20000) == -1);
    CHECK(errno == EBADF);
    // The window is full at last, and all of it is whole.
    must(fcntl(pair.client, F_SETFL, fcntl(pair.client, F_GETFL) | O_NONBLOCK) == 0);
    size_t sent = 0;
    for (ssize_t n = 1; n > 0; sent += n > 0 ? static_cast<size_t>(n) : 0) {
        at = 0;
        n = sendfile(pair.client, file, &at, text.size());
        must(n > 0 || errno == EAGAIN, "sendfile");
        if (n > 0 && n < static_cast<ssize_t>(text.size())) {
            sent += static_cast<size_t>(n);
            break;
        }
    }
    const std::string got = receive(pair.server, sent);
    for (size_t i = 0; i < got.size(); i += text.size()) {
        REQUIRE(got.compare(i, text.size(), text, 0, std::min(text.size(), got.size() - i)) == 0);
    }
    must(shutdown(pair.client, SHUT_WR) == 0);
    at = 0;
    const auto before = signal(SIGPIPE, SIG_IGN);
    CHECK(sendfile(pair.client, file, &at, text.size()) == -1);
    CHECK(errno == EPIPE);
    signal(SIGPIPE, before);
    CHECK(at == 0);
}

TEST_CASE("what is sent while a socket is corked, or before more, comes with what follows")
{
    const auto is_one_message = [](bool by_option) {
        Pair pair;
        const int on = 1, off = 0;
        if (by_option) {
            must(setsockopt(pair.client, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)) == 0);
        }
        must(send(pair.client, "head ", 5, by_option ? 0 : MSG_MORE) == 5);
        must(send(pair.client, "body", 4, 0) == 4);
        if (by_option) {
            must(setsockopt(pair.client, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)) == 0);
        }
        std::string text(9, '\0');
        const ssize_t got = recv(pair.server, &text[0], text.size(), 0);
        must(got > 0 && text.compare(0, static_cast<size_t>(got), std::string("head body"), 0,
                                     static_cast<size_t>(got)) == 0);
        return got == 9;
    };
    // The kernel, and the library, send after a while what nothing follows.
    for (const bool by_option : {false, true}) {
        CHECK(eventually([&] { return is_one_message(by_option); }));
        Pair pair;
        const int on = 1;
        must(!by_option || setsockopt(pair.client, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)) == 0);
        must(send(pair.client, "alone", 5, by_option ? 0 : MSG_MORE) == 5);
        CHECK(receive(pair.server, 5) == "alone");
    }
}

TEST_CASE("time limits of a socket")
{
    Pair pair;
    char byte;
    set_timeout(pair.server, SO_RCVTIMEO, 30);
    const auto before = vipl_test::now_ms();
    CHECK(error_of(recv(pair.server, &byte, 1, 0)) == EAGAIN);
    CHECK(vipl_test::now_ms() - before >= 29);
    set_timeout(pair.client, SO_SNDTIMEO, 30);
    const std::string text = pattern(1 << 20);
    ssize_t n = 0;
    for (int i = 0; i < 100 && n >= 0; i++) {
        n = send(pair.client, text.data(), text.size(), 0);
    }
    CHECK(error_of(n) == EAGAIN);
}

TEST_CASE("shutdown() of writing is the end for the peer, who may go on writing")
{
    Pair pair;
    char byte;
    send_all(pair.client, "last");
    REQUIRE(shutdown(pair.client, SHUT_WR) == 0);
    CHECK(receive(pair.server, 10) == "last");
    CHECK(recv(pair.server, &byte, 1, 0) == 0);
    CHECK(error_of(send(pair.client, "x", 1, MSG_NOSIGNAL)) == EPIPE);
    CHECK(shutdown(pair.client, SHUT_WR) == 0);
    send_all(pair.server, "answer");
    CHECK(receive(pair.client, 6) == "answer");
    pair.server.close();
    CHECK(recv(pair.client, &byte, 1, 0) == 0);
}

TEST_CASE("shutdown() of reading wakes a reader")
{
    Pair pair;
    std::promise<void> begun;
    auto reader = std::async(std::launch::async, [&] {
        char byte;
        begun.set_value();
        return recv(pair.server, &byte, 1, 0);
    });
    begun.get_future().wait();
    REQUIRE(shutdown(pair.server, SHUT_RD) == 0);
    CHECK(reader.get() == 0);
    CHECK(error_of(shutdown(pair.server, 7)) == EINVAL);
}

static volatile sig_atomic_t pipe_signals;

TEST_CASE("SIGPIPE is raised where the kernel raises it")
{
    Pair pair;
    pipe_signals = 0;
    const auto before = signal(SIGPIPE, [](int) { pipe_signals = pipe_signals + 1; });
    REQUIRE(shutdown(pair.client, SHUT_WR) == 0);
    CHECK(error_of(send(pair.client, "x", 1, MSG_NOSIGNAL)) == EPIPE);
    CHECK(pipe_signals == 0);
    CHECK(error_of(write(pair.client, "x", 1)) == EPIPE);
    CHECK(pipe_signals == 1);
    signal(SIGPIPE, before);
}

TEST_CASE("a peer that closes without reading resets the connection, once")
{
    Pair pair;
    char byte;
    send_all(pair.client, "unread");
    CHECK(eventually([&] {
        int bytes = 0;
        return ioctl(pair.server, FIONREAD, &bytes) == 0 && bytes == 6;
    }));
    pair.server.close();
    CHECK(error_of(recv(pair.client, &byte, 1, 0)) == ECONNRESET);
    CHECK(recv(pair.client, &byte, 1, 0) == 0);
    CHECK(error_of(send(pair.client, "x", 1, MSG_NOSIGNAL)) == EPIPE);
    CHECK(socket_error(pair.client) == 0);
}

TEST_CASE("SO_LINGER with no time resets the connection, and SO_ERROR says so once")
{
    Pair pair;
    const linger now = {1, 0};
    REQUIRE(setsockopt(pair.server, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    pair.server.close();
    CHECK(eventually([&] { return !has_nothing_to_read(pair.client); }));
    CHECK(socket_error(pair.client) == 0); // the call above has had the error
    char byte;
    CHECK(recv(pair.client, &byte, 1, 0) == 0);
}

TEST_CASE("what was written before close() arrives")
{
    Pair pair;
    const std::string text = pattern(60000);
    send_all(pair.client, text);
    pair.client.close();
    CHECK(receive(pair.server, text.size() + 1) == text);
}

TEST_CASE("addresses and options are those of the socket")
{
    Pair pair;
    sockaddr_in own = {}, peer = {};
    socklen_t length = sizeof(own);
    CHECK(getsockname(pair.client, reinterpret_cast<sockaddr *>(&own), &length) == 0);
    CHECK(getpeername(pair.server, reinterpret_cast<sockaddr *>(&peer), &length) == 0);
    CHECK(own.sin_port == peer.sin_port);
    const int on = 1;
    CHECK(setsockopt(pair.client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    CHECK(setsockopt(pair.client, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == 0);
    CHECK(connect(pair.client, reinterpret_cast<sockaddr *>(&pair.listener.address), sizeof(own)) == -1);
    CHECK(errno == EISCONN);
    CHECK(socket_error(pair.client) == 0);
    send_all(pair.client, "on");
    CHECK(receive(pair.server, 2) == "on");
    CHECK(pair.has_stayed_moved());
}

TEST_CASE("an accepted connection has the listener's time limits")
{
    const Listener listener;
    set_timeout(listener.fd, SO_RCVTIMEO, 30); // after listen()
    const Fd client = listener.connect();
    const Fd server = listener.accept();
    char byte;
    CHECK(error_of(recv(server, &byte, 1, 0)) == EAGAIN);
}
