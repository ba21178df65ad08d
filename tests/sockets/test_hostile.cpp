// SPDX-License-Identifier: MIT
//
// A peer that is another process, and does the handshake with a VI of its own: it goes wrong at the
// last byte, or once the connection is moved. The peer has a VIPL library of its own, which this
// program is linked with. What the bytes of a handshake can do without a VI is in
// test_handshake.cpp; what the messages of a stream can do, in tests/stream/test_hostile.cpp.
#include <algorithm>
#include <functional>
#include <optional>

#include <poll.h>

#include "raw.hpp"
#include "stream/raw_peer.hpp"
#include "support/forked.hpp"
#include "support/in_place_of_stderr.hpp"

extern "C" {
#include "sockets/hello.h"
}

using namespace sockets_test;
using stream_test::RawPeer;

namespace {

using Bytes = std::vector<uint8_t>;

/** The client, in a child. */
class HostileClient {
public:
    explicit HostileClient(const Listener &listener) : tcp_(raw_connect(listener))
    {
        const std::string name = "nonce of " + std::to_string(getpid());
        own_.kind = SOCK_HELLO;
        own_.version = SOCK_HELLO_VERSION;
        own_.host_length = static_cast<uint8_t>(vipl_stream_nic_address(vi_.device, own_.host));
        own_.window = vipl_stream_own_window();
        own_.user = vipl_local_user();
        std::copy_n(name.begin(), std::min<size_t>(name.size(), SOCK_NONCE_BYTES), own_.nonce);
        std::copy_n(name.rbegin(), std::min<size_t>(name.size(), SOCK_NONCE_BYTES), own_.peer_nonce);
        std::strcpy(own_.device, "loopback");
    }
    sock_hello &own() { return own_; }
    RawPeer &vi() { return vi_; }
    /** Ends its half of the TCP connection. */
    void finish() const { syscall(SYS_shutdown, static_cast<int>(tcp_), SHUT_WR); }

    /** Says HELLO, and returns the reply. */
    sock_hello greet()
    {
        uint8_t bytes[SOCK_HELLO_BYTES];
        sock_hello reply = {};
        sock_hello_encode(&own_, bytes);
        say(std::string(bytes, bytes + sizeof(bytes)));
        const std::string answer = raw_receive(tcp_, SOCK_HELLO_BYTES);
        must(answer.size() == SOCK_HELLO_BYTES &&
                 sock_hello_decode(reinterpret_cast<const uint8_t *>(answer.data()), &reply),
             "the reply");
        return reply;
    }
    /** Connects the VIs, and returns the byte that the server says then. */
    std::string join(const sock_hello &welcome)
    {
        stream_test::Address here(vi_.device, ""), there(vi_.device, "");
        write(here, own_);
        write(there, welcome);
        must(VipConnectPeerRequest(vi_.vi, &here.net, &there.net, vipl_test::patience()) == VIP_SUCCESS,
             "ask");
        must(VipConnectPeerWait(vi_.vi, nullptr) == VIP_SUCCESS, "connect the VI");
        return raw_receive(tcp_, 1);
    }
    /** The whole handshake. */
    void move()
    {
        const sock_hello welcome = greet();
        must(welcome.kind == SOCK_WELCOME && join(welcome) == "V", "WELCOME and V");
        say("V");
    }
    void say(const std::string &bytes) const
    {
        must(raw_send(tcp_, bytes) == static_cast<ssize_t>(bytes.size()), "send");
    }
    /** Returns when the server has gone. */
    void await_end() const { raw_receive(tcp_, 100000); }

private:
    static void write(stream_test::Address &to, const sock_hello &of)
    {
        to.net.HostAddressLen = of.host_length;
        to.net.DiscriminatorLen = SOCK_NONCE_BYTES;
        std::memcpy(to.bytes + 4, of.host, of.host_length);
        std::memcpy(to.bytes + 4 + of.host_length, of.nonce, SOCK_NONCE_BYTES);
    }

    Fd tcp_;
    RawPeer vi_;
    sock_hello own_ = {};
};

/** What the library logs goes through a pipe meanwhile. */
class Log {
public:
    Log()
    {
        int fds[2];
        must(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0, "pipe");
        out_ = Fd(fds[0]);
        in_ = Fd(fds[1]);
        written_.emplace(in_);
    }
    /** The lines that have come. */
    std::vector<std::string> lines() const
    {
        std::vector<std::string> all;
        std::string text(65536, '\0');
        const ssize_t n = read(out_, &text[0], text.size());
        text.resize(n > 0 ? static_cast<size_t>(n) : 0);
        for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
            all.push_back(text.substr(at, end - at));
        }
        return all;
    }

private:
    Fd out_, in_;
    std::optional<vipl_test::InPlaceOfStderr> written_;
};

/** A server with a connection of such a peer, beside one that must not notice. */
class Attacked {
public:
    explicit Attacked(const std::function<void(HostileClient &)> &attack)
        : child_([&](const vipl_test::ParentLine &) {
              Fd silence(open("/dev/null", O_WRONLY | O_CLOEXEC)); // the log is the server's alone
              must(dup2(silence, STDERR_FILENO) == STDERR_FILENO, "/dev/null");
              HostileClient client(listener_);
              attack(client);
              client.await_end();
          }),
          server_(listener_.accept())
    {
    }
    /** All bytes that the program gets, and how they end. */
    std::string bytes(int *error) const
    {
        std::string all(100000, '\0');
        size_t done = 0;
        ssize_t n;
        while ((n = recv(server_, &all[done], all.size() - done, 0)) > 0) {
            done += static_cast<size_t>(n);
        }
        *error = error_of(n);
        all.resize(done);
        return all;
    }
    void expect_reset(const std::string &first = "")
    {
        int error = 0;
        CHECK(bytes(&error) == first);
        CHECK(error == ECONNRESET);
        char byte;
        CHECK(recv(server_, &byte, 1, 0) == 0); // the error is told once
        CHECK(error_of(send(server_, "x", 1, MSG_NOSIGNAL)) == EPIPE);
        end(1);
    }
    /** The peer has done what it wanted, that number of lines was logged, and the other connection
     * goes on. */
    void end(size_t lines)
    {
        server_.close();
        child_.finish();
        const auto logged = log_.lines();
        for (const auto &line : logged) {
            UNSCOPED_INFO(line);
        }
        CHECK(logged.size() == lines);
        send_all(bystander_.client, "undisturbed");
        CHECK(receive(bystander_.server, 11) == "undisturbed");
        CHECK(bystander_.has_stayed_moved());
    }
    int server() const { return server_; }
    /** Has the library look at the connection. Returns whether the client has sent its FIN. */
    bool looks_on() const
    {
        pollfd fd = {server_, 0, 0};
        char byte;
        must(poll(&fd, 1, 0) >= 0, "poll");
        return syscall(SYS_recvfrom, static_cast<int>(server_), &byte, 1, MSG_PEEK | MSG_DONTWAIT, nullptr,
                       nullptr) == 0;
    }

private:
    Pair bystander_;
    Listener listener_;
    Log log_;
    vipl_test::Forked child_;
    Fd server_;
};

} // namespace

TEST_CASE("a peer that does the handshake with a VI of its own is moved")
{
    Attacked attacked([](HostileClient &client) {
        client.move();
        must(client.vi().send(VIPL_STREAM_DATA, 0, "good"), "DATA");
        must(client.vi().send(VIPL_STREAM_FIN, 0, ""), "FIN");
    });
    int error = -1;
    CHECK(attacked.bytes(&error) == "good");
    CHECK(error == 0);
    CHECK(kernel_received(attacked.server()) == kHandshake);
    attacked.end(0);
}

TEST_CASE("a peer whose last byte is neither of the two is reset")
{
    Attacked attacked([](HostileClient &client) {
        must(client.join(client.greet()) == "V", "V");
        client.say("X");
    });
    attacked.expect_reset();
}

TEST_CASE("a peer that takes back what it has begun goes on with TCP")
{
    Attacked attacked([](HostileClient &client) {
        must(client.join(client.greet()) == "V", "V");
        client.say("Tover TCP");
        client.finish();
    });
    int error = -1;
    CHECK(attacked.bytes(&error) == "over TCP");
    CHECK(error == 0);
    attacked.end(0);
}

TEST_CASE("a peer of another user, with another device or version, is declined, and goes on with TCP")
{
    const std::function<void(sock_hello &)> others[] = {
        [](sock_hello &own) { own.user++; },
        [](sock_hello &own) { std::strcpy(own.device, "loopback2"); },
        [](sock_hello &own) { own.version++; },
    };
    for (const auto &other : others) {
        Attacked attacked([&](HostileClient &client) {
            other(client.own());
            must(client.greet().kind == SOCK_DECLINE, "DECLINE");
            client.say("Tover TCP");
            client.finish();
        });
        int error = -1;
        CHECK(attacked.bytes(&error) == "over TCP");
        CHECK(error == 0);
        attacked.end(0);
    }
}

TEST_CASE("messages that no peer may send reset a connection that is moved")
{
    const struct {
        uint32_t type, credits;
        std::string payload;
    } wrong[] = {
        {99, 0, ""},                                                          // no type
        {VIPL_STREAM_DATA, 0xFFFFFF, "x"},                                    // credits that wrap
        {VIPL_STREAM_CREDIT, 1, ""},                                          // one that was not taken
        {VIPL_STREAM_DATA, 0, ""},                                            // no bytes
        {VIPL_STREAM_FIN, 0, "more"},                                         // bytes where none may be
        {VIPL_STREAM_RTS, 0, "x"},                                            // a cut offer
        {VIPL_STREAM_RTS, 0, std::string(8, '\xFF') + std::string(16, '\1')}, // what is nowhere
        {VIPL_STREAM_DONE, 0, ""},                                            // of no offer
        {VIPL_STREAM_ACK, 0, ""},                                             // of no FIN
    };
    for (const auto &one : wrong) {
        INFO("type " << one.type << ", " << one.credits << " credits, " << one.payload.size() << " bytes");
        Attacked attacked([&](HostileClient &client) {
            client.move();
            must(client.vi().send(VIPL_STREAM_DATA, 0, "good"), "DATA");
            must(client.vi().send(one.type, one.credits, one.payload), "the message");
        });
        attacked.expect_reset("good");
    }
}

TEST_CASE("a peer that offers memory is reset: reading it, a call would wait for the peer")
{
    Attacked attacked([&](HostileClient &client) {
        uint8_t offer[VIPL_STREAM_OFFER_BYTES];
        vipl_stream_offer_encode(client.vi().offer(), offer);
        client.move();
        must(client.vi().send(VIPL_STREAM_RTS, 0, std::string(offer, offer + sizeof(offer))), "RTS");
    });
    attacked.expect_reset();
}

TEST_CASE("a peer that sends more than the window has receives for is reset")
{
    Attacked attacked([](HostileClient &client) {
        client.move();
        client.vi().send(VIPL_STREAM_DATA, 0, "good");
        while (client.vi().send(VIPL_STREAM_DATA, 0, "x")) {
        }
        client.finish();
    });
    CHECK(eventually([&] { return attacked.looks_on(); })); // without reading
    int error = 0;
    CHECK(attacked.bytes(&error) == "good" + std::string(vipl_stream_own_window().messages - 1, 'x'));
    CHECK(error == ECONNRESET);
    attacked.end(1);
}

TEST_CASE("a peer that sends bytes over TCP once the connection is moved is not heard")
{
    Attacked attacked([](HostileClient &client) {
        client.move();
        client.say("over TCP");
        must(client.vi().send(VIPL_STREAM_DATA, 0, "good"), "DATA");
        must(client.vi().send(VIPL_STREAM_FIN, 0, ""), "FIN");
    });
    int error = -1;
    CHECK(attacked.bytes(&error) == "good");
    CHECK(error == 0);
    attacked.end(0);
}
