// SPDX-License-Identifier: MIT
//
// Callers at the rendezvous that do half of what they should: how long they are given, and how many there may be.
// The clock is ours (-Wl,--wrap): no case waits for real. So is the moment before a request's token is taken.
#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include <poll.h>

#include "raw_peer.hpp"

extern "C" {
std::uint64_t __real_vipl_now_ns(void);
std::uint64_t __wrap_vipl_now_ns(void);
bool __real_vipl_lo_token_take(int fd);
bool __wrap_vipl_lo_token_take(int fd);
}

using namespace unit;

namespace {

std::atomic<std::uint64_t> g_ahead{0}; // ns that the library's clock is
std::function<void()> g_before_take;   // once

void pass_seconds(unsigned seconds)
{
    g_ahead += seconds * UINT64_C(1000000000);
}

/** What a case waits for, of another thread or the kernel; it comes within moments. */
constexpr int kPatienceMs = 10000;

/** A NIC handle that has waited for a discriminator. */
struct Listener : Victim {
    Listener()
    {
        address.host_len = be->address.host_len;
        std::memcpy(address.host, be->address.host, sizeof address.host);
        address.disc_len = 8;
        vipl_entropy(address.disc, 8); // nobody else's
        REQUIRE(wait(nullptr) == VIP_TIMEOUT);
    }

    VIP_RETURN wait(VIP_CONN_HANDLE *connection)
    {
        struct {
            VIP_NET_ADDRESS address;
            char rest[VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
        } local{}, from{};
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE none = nullptr;
        auto *bytes = reinterpret_cast<char *>(&local) + offsetof(VIP_NET_ADDRESS, HostAddress);
        local.address.HostAddressLen = address.host_len;
        local.address.DiscriminatorLen = address.disc_len;
        std::memcpy(bytes, address.host, address.host_len);
        std::memcpy(bytes + address.host_len, address.disc, address.disc_len);
        return VipConnectWait(handle, &local.address, 0, &from.address, &attributes,
                              connection == nullptr ? &none : connection);
    }

    vipl_address address{};
};

/** A caller of another process, as it seems. */
class Caller {
public:
    explicit Caller(Listener &listener) : listener_(listener)
    {
        char name[96];
        const size_t length = vipl_lo_name_of(name, 'w', vipl_lo_hash_of(&listener.address), 0);
        REQUIRE(vipl_local_connect(name, length, &fd_) == 0);
        REQUIRE(vipl_lo_token_make(token_));
        listener.progress();
    }
    ~Caller()
    {
        hang_up();
        vipl_lo_token_close(token_);
    }
    Caller(const Caller &) = delete;
    Caller &operator=(const Caller &) = delete;

    void ask()
    {
        lo_hello hello{};
        std::uint8_t bytes[LO_PACKET];
        const int fds[2] = {token_[1], token_[1]}; // the first is no window, and taken for none
        vipl_lo_hello_identify(&hello);
        vipl_entropy(hello.process, sizeof hello.process);
        vipl_entropy(hello.nic, sizeof hello.nic);
        hello.params.max_transfer_size = 65536;
        hello.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
        hello.local = hello.remote = listener_.address;
        REQUIRE(vipl_local_send(fd_, bytes, vipl_lo_hello_write(&hello, bytes), fds, 2) == 0);
        listener_.progress();
    }

    /** The type of the next answer; 0: none is there; -1: it was hung up. */
    int hear()
    {
        std::uint8_t bytes[LO_PACKET];
        size_t length = 0;
        int fds[2];
        lo_answer answer{};
        if (vipl_local_receive(fd_, bytes, sizeof bytes, &length, fds) != 0) {
            return 0;
        }
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
        return length > 0 && vipl_lo_answer_read(&answer, bytes, length) ? answer.type : -1;
    }
    bool await()
    {
        pollfd entry = {fd_, POLLIN, 0};
        return poll(&entry, 1, kPatienceMs) == 1;
    }
    void hang_up()
    {
        vipl_fd_close(fd_);
        fd_ = -1;
    }
    bool has_token() { return vipl_lo_token_take_own(token_); }
    void return_token() { vipl_lo_token_return(token_); }

private:
    Listener &listener_;
    int fd_ = -1;
    int token_[2];
};

VIP_VI_HANDLE make_vi(const Victim &victim)
{
    VIP_VI_ATTRIBUTES attributes{};
    VIP_VI_HANDLE vi = nullptr;
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 65536;
    REQUIRE(VipCreateVi(victim.handle, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
    return vi;
}

} // namespace

std::uint64_t __wrap_vipl_now_ns(void)
{
    return __real_vipl_now_ns() + g_ahead;
}

bool __wrap_vipl_lo_token_take(int fd)
{
    if (const auto before = std::exchange(g_before_take, nullptr)) {
        before();
    }
    return __real_vipl_lo_token_take(fd);
}

TEST_CASE("a caller that does not say what it wants is hung up after 10 seconds, though everybody sleeps",
          "[caller]")
{
    Listener listener;
    Caller caller(listener);
    REQUIRE(listener.remote->call_count == 1);
    vipl_poll_hint hint{};
    vipl_lo_remote_prepare_wait(listener.be, &hint);
    vipl_lo_remote_finish_wait(listener.be, &hint);
    CHECK(hint.ms > 0);
    CHECK(hint.ms <= 10001);
    pass_seconds(5);
    listener.progress();
    CHECK(caller.hear() == 0);
    pass_seconds(6);
    listener.progress();
    CHECK(caller.hear() == -1);
    CHECK(listener.remote->call_count == 0);
}

TEST_CASE("a caller that does not take up an acceptance is given 5 seconds", "[caller]")
{
    Listener listener;
    Caller caller(listener);
    caller.ask();
    REQUIRE(caller.hear() == LO_ANSWER_QUEUED);
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
    REQUIRE(caller.hear() == LO_ANSWER_TAKEN);
    VIP_VI_HANDLE vi = make_vi(listener);
    std::atomic<int> result{-1};
    std::thread acceptor([&] { result = VipConnectAccept(connection, vi); });
    CHECK(caller.await());
    CHECK(caller.hear() == LO_ANSWER_ACCEPT);
    CHECK(result == -1);
    pass_seconds(6);
    for (int i = 0; i < kPatienceMs && result == -1; ++i) {
        poll(nullptr, 0, 1);
    }
    CHECK(result == VIP_TIMEOUT);
    caller.hang_up(); // lets one go that waits for ever
    acceptor.join();
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

TEST_CASE("of callers that have not been answered a NIC handle keeps 1024", "[caller]")
{
    Listener listener;
    listener.remote->call_count += 1023; // as many as if they were there
    Caller last(listener), one_more(listener);
    CHECK(last.hear() == 0);
    CHECK(one_more.hear() == -1);
    listener.remote->call_count -= 1023;
}

TEST_CASE("a request beyond those that may wait for VipConnectWait is told no, and may come again",
          "[caller]")
{
    Listener listener;
    auto *nic = static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, listener.handle));
    REQUIRE(nic->limits.max_pending_connects == 1024);
    nic->limits.max_pending_connects = 2;
    Caller first(listener), second(listener), third(listener);
    first.ask();
    second.ask();
    third.ask();
    CHECK(first.hear() == LO_ANSWER_QUEUED);
    CHECK(second.hear() == LO_ANSWER_QUEUED);
    CHECK(third.hear() == LO_ANSWER_NO);
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
    Caller again(listener);
    again.ask();
    CHECK(again.hear() == LO_ANSWER_QUEUED);
    REQUIRE(VipConnectReject(connection) == VIP_SUCCESS);
}

TEST_CASE("a request that has moved on since anybody looked is not handed out, and its token goes with it",
          "[caller]")
{
    Listener listener;
    Caller caller(listener);
    REQUIRE(caller.has_token());
    caller.ask();
    REQUIRE(caller.hear() == LO_ANSWER_QUEUED);
    g_before_take = [&] {
        caller.hang_up();
        caller.return_token();
    };
    VIP_CONN_HANDLE connection = nullptr;
    CHECK(listener.wait(&connection) == VIP_TIMEOUT);
    CHECK(g_before_take == nullptr);
    CHECK(caller.has_token());
    CHECK(!caller.has_token());
}
