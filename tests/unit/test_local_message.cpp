// SPDX-License-Identifier: MIT
//
// Messages between processes of this host stay whole, and their descriptors stay with them. Where
// the system keeps no messages whole, they are in a byte stream: what a receiver does with a part
// of one, and with bytes that are none.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.hpp"
#include "internal.hpp"

namespace {

/** Two connected ends. */
struct Pair {
    Pair() { REQUIRE(vipl_local_pair(fds) == 0); }
    ~Pair()
    {
        close_end(0);
        close_end(1);
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;

    void close_end(int i)
    {
        vipl_fd_close(fds[i]);
        fds[i] = -1;
    }
    bool is_stream() const
    {
        int type = 0;
        socklen_t size = sizeof type;
        REQUIRE(getsockopt(fds[0], SOL_SOCKET, SO_TYPE, &type, &size) == 0);
        return type == SOCK_STREAM;
    }
    int say(const std::string &text, const std::vector<int> &pass = {}) const
    {
        return vipl_local_send(fds[0], text.data(), text.size(), pass.data(),
                               static_cast<unsigned>(pass.size()));
    }
    /** Bytes that are not sent as a message. */
    void say_raw(const void *bytes, size_t count) const
    {
        REQUIRE(send(fds[0], bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count));
    }

    int fds[2] = {-1, -1};
};

/** A file of its own, which a descriptor is recognised by. */
struct File {
    File()
    {
        char path[] = "/tmp/vipl-unit-XXXXXX";
        fd = mkstemp(path);
        REQUIRE(fd >= 0);
        REQUIRE(unlink(path) == 0);
    }
    ~File() { close(fd); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;

    bool is(int other) const
    {
        struct stat mine {
        }, theirs{};
        return fstat(fd, &mine) == 0 && fstat(other, &theirs) == 0 && mine.st_ino == theirs.st_ino &&
               mine.st_dev == theirs.st_dev;
    }

    int fd = -1;
};

/** What one call receives. */
struct Heard {
    explicit Heard(const Pair &pair, size_t room = 320) : text(room, '?')
    {
        error = vipl_local_receive(pair.fds[1], &text[0], room, &length, fds);
        text.resize(error == 0 ? length : 0);
    }
    ~Heard()
    {
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
    }
    Heard(const Heard &) = delete;
    Heard &operator=(const Heard &) = delete;

    bool ends() const { return error == 0 && length == 0; }

    std::string text;
    int error = -1;
    size_t length = 1234;
    int fds[2] = {-2, -2};
};

/** A message as it is in a byte stream. */
std::string as_stream(const std::string &text)
{
    const auto length = static_cast<std::uint32_t>(text.size());
    return std::string(reinterpret_cast<const char *>(&length), sizeof length) + text;
}

/** Whether the connection has ended for both of its ends. */
bool is_over(const Pair &pair)
{
    return vipl_local_has_hung_up(pair.fds[0]) && vipl_local_has_hung_up(pair.fds[1]);
}

} // namespace

TEST_CASE("messages arrive whole and in order, and then the end", "[local_message]")
{
    Pair pair;
    CHECK(Heard(pair).error == EAGAIN);
    REQUIRE(pair.say("!") == 0);
    REQUIRE(pair.say("a second one") == 0);
    REQUIRE(pair.say(std::string(320, 'x')) == 0);
    CHECK(Heard(pair).text == "!");
    CHECK(Heard(pair, 8).text == "a second"); // the rest does not come
    pair.close_end(0);
    CHECK(Heard(pair).text == std::string(320, 'x'));
    CHECK(Heard(pair).ends());
    CHECK(vipl_local_has_hung_up(pair.fds[1]));
}

TEST_CASE("descriptors come with their message, and do not survive exec", "[local_message]")
{
    Pair pair;
    File first, second;
    REQUIRE(pair.say("none") == 0);
    REQUIRE(pair.say("two", {first.fd, second.fd}) == 0);
    REQUIRE(pair.say("none either") == 0);
    REQUIRE(pair.say("one", {second.fd}) == 0);
    {
        const Heard none(pair);
        CHECK(none.text == "none");
        CHECK(none.fds[0] == -1);
        const Heard two(pair);
        CHECK(two.text == "two");
        CHECK(first.is(two.fds[0]));
        CHECK(second.is(two.fds[1]));
        CHECK((fcntl(two.fds[0], F_GETFD) & FD_CLOEXEC) != 0);
        CHECK((fcntl(two.fds[1], F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(vipl_fd_is_own(two.fds[1]));
    }
    CHECK(Heard(pair).fds[0] == -1);
    const Heard one(pair, 1); // of which the rest does not come
    CHECK(second.is(one.fds[0]));
    CHECK(one.fds[1] == -1);
}

TEST_CASE("what a full socket refuses is not there, and what it took is there whole", "[local_message]")
{
    Pair pair;
    unsigned sent = 0, received = 0;
    int error = 0;
    for (; (error = pair.say(std::string(1 + sent % 320, static_cast<char>('a' + sent % 26)))) == 0; ++sent) {
        REQUIRE(sent < 1000000);
    }
    CHECK(error == EAGAIN);
    REQUIRE(sent > 4);
    for (unsigned more = 0; more < 100;) { // what comes behind it is whole, too
        const Heard next(pair);
        REQUIRE(next.text == std::string(1 + received % 320, static_cast<char>('a' + received % 26)));
        ++received;
        while (more < 100 && pair.say(std::string(1 + sent % 320, static_cast<char>('a' + sent % 26))) == 0) {
            ++sent;
            ++more;
        }
    }
    for (; received < sent; ++received) {
        REQUIRE(Heard(pair).text == std::string(1 + received % 320, static_cast<char>('a' + received % 26)));
    }
    CHECK(Heard(pair).error == EAGAIN);
}

TEST_CASE("ends do not block, and do not survive exec; a name's do not, either", "[local_message]")
{
    const std::string name = "vipl/test/message/" + std::to_string(getpid());
    int listener = -1, lock = -1, called = -1, calling = -1;
    REQUIRE(vipl_local_listen(name.data(), name.size(), &listener, &lock) == 0);
    CHECK(vipl_local_accept(listener, &called) == EAGAIN);
    REQUIRE(vipl_local_connect(name.data(), name.size(), &calling) == 0);
    REQUIRE(vipl_local_accept(listener, &called) == 0);
    Pair pair;
    Pair other;
    REQUIRE(vipl_local_replace(other.fds[0], &pair.fds[0]) == 0); // it is other's number now
    other.fds[0] = -1;
    for (const int fd : {listener, called, calling, pair.fds[0], pair.fds[1]}) {
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    }
    REQUIRE(pair.say("through another number") == 0);
    CHECK(Heard(pair).text == "through another number");
    CHECK(Heard(other).ends()); // its other end was closed
    vipl_fd_close(called);
    vipl_fd_close(calling);
    vipl_local_unlisten(name.data(), name.size(), listener, lock);
}

TEST_CASE("a message is taken from a stream when all of it is there", "[local_message]")
{
    if (!Pair().is_stream()) {
        SUCCEED("the system keeps messages whole");
        return;
    }
    const std::string bytes = as_stream("first") + as_stream("and second");
    for (size_t cut = 0; cut <= bytes.size(); ++cut) { // two pieces, which end anywhere
        Pair whole;
        whole.say_raw(bytes.data(), cut);
        bool sent = false;
        const auto send_rest = [&] {
            if (!sent) {
                sent = true;
                whole.say_raw(bytes.data() + cut, bytes.size() - cut);
            }
        };
        const unit::Pauses pauses([&](std::uint64_t) { send_rest(); });
        std::vector<std::string> texts;
        while (texts.size() < 2) {
            const Heard next(whole);
            if (next.error == EAGAIN) {
                REQUIRE_FALSE(sent);
                send_rest();
            } else {
                REQUIRE(next.error == 0);
                texts.push_back(next.text);
            }
        }
        CHECK(texts == std::vector<std::string>{"first", "and second"});
        CHECK(Heard(whole).error == EAGAIN);
    }
}

TEST_CASE("a message in two pieces, of which the first has a descriptor, is not the library's",
          "[local_message]")
{
    Pair pair;
    if (!pair.is_stream()) {
        SUCCEED("the system keeps messages whole");
        return;
    }
    File file;
    const std::string bytes = as_stream("in two pieces");
    char control[CMSG_SPACE(sizeof(int))] = {};
    iovec piece{const_cast<char *>(bytes.data()), 6};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &file.fd, sizeof(int));

    SECTION("the rest is there")
    {
        REQUIRE(sendmsg(pair.fds[0], &message, MSG_NOSIGNAL) == 6);
        pair.say_raw(bytes.data() + 6, bytes.size() - 6);
        const Heard heard(pair);
        CHECK(heard.error == EPROTO); // the system does not join what descriptors are with
        CHECK(heard.fds[0] == -1);
        CHECK(is_over(pair));
    }
    SECTION("it comes in one piece after all")
    {
        piece.iov_len = bytes.size();
        REQUIRE(sendmsg(pair.fds[0], &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
        const Heard heard(pair);
        CHECK(heard.text == "in two pieces");
        CHECK(file.is(heard.fds[0]));
    }
    SECTION("the rest never comes")
    {
        REQUIRE(sendmsg(pair.fds[0], &message, MSG_NOSIGNAL) == 6);
        const Heard heard(pair);
        CHECK(heard.error == EPROTO);
        CHECK(heard.fds[0] == -1);
        CHECK(is_over(pair));
    }
    SECTION("the peer ends in its middle")
    {
        REQUIRE(sendmsg(pair.fds[0], &message, MSG_NOSIGNAL) == 6);
        pair.close_end(0);
        const Heard heard(pair);
        CHECK(heard.ends());
        CHECK(heard.fds[0] == -1);
    }
    SECTION("the descriptor is in the middle")
    {
        pair.say_raw(bytes.data(), 2);
        piece.iov_base = const_cast<char *>(bytes.data()) + 2;
        piece.iov_len = bytes.size() - 2;
        REQUIRE(sendmsg(pair.fds[0], &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size() - 2));
        const Heard heard(pair);
        // The system may count the descriptor to the whole message, or refuse it.
        CHECK((heard.error == EPROTO || (heard.text == "in two pieces" && file.is(heard.fds[0]))));
    }
}

TEST_CASE("bytes that are no message end the connection", "[local_message]")
{
    Pair pair;
    if (!pair.is_stream()) {
        SUCCEED("the system keeps messages whole");
        return;
    }
    const std::uint32_t length = GENERATE(0u, 1025u, 0xFFFFFFFFu);
    REQUIRE(pair.say("good") == 0);
    pair.say_raw(&length, sizeof length);
    pair.say_raw("and more", 8);
    CHECK(Heard(pair).text == "good");
    CHECK(Heard(pair).error == EPROTO);
    CHECK(is_over(pair));
    CHECK(pair.say("!") == EPIPE);
}

TEST_CASE("a message that is too long for a stream, or empty, is not sent", "[local_message]")
{
    Pair pair;
    if (!pair.is_stream()) {
        SUCCEED("the system keeps messages whole");
        return;
    }
    CHECK(pair.say("") == EMSGSIZE);
    CHECK(pair.say(std::string(1025, 'x')) == EMSGSIZE);
    CHECK(pair.say(std::string(1024, 'y')) == 0);
    CHECK(Heard(pair, 2048).text == std::string(1024, 'y'));
}
