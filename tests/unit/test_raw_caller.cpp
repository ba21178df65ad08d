// SPDX-License-Identifier: MIT
//
// Requesters that do half of what they should: how long they are given, how many there may be, and
// what their claim words say. The clock is ours (clock.hpp): no case waits for real.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <thread>

#if __has_include(<sys/socket.h>)
#include <sys/socket.h>
#endif

#include "clock.hpp"
#include "listener.hpp"

using namespace unit;

// robustness/stress/hostile_wire.hpp knows these as an attacker does, from the documents.
static_assert(LO_VERSION == 6 && sizeof(lo_segment) == 16576, "hostile_wire.hpp: kVersion, kSegmentHead");

namespace {

/** A requester of another process, as it seems: a connection to the listener, and its own claim
 * words. */
class Caller {
public:
    static constexpr unsigned kGeneration = 7, kNumber = 3;

    explicit Caller(Listener &listener, unsigned slot = 0) : listener_(listener), slot_(slot)
    {
        lo_name name;
        vipl_lo_name_begin(&name, vipl_local_user(), 'w', vipl_lo_hash_of(&listener.address));
        REQUIRE(vipl_local_connect(name.text, vipl_lo_name_at(&name, 0), &fd_) == 0);
        REQUIRE(vipl_shm_create(&claims_, "claims", LO_CLAIMS * sizeof(std::uint32_t)) == 0);
        set(LO_PENDING, 0);
        settle();
        listener.progress();
    }
    ~Caller()
    {
        hang_up();
        vipl_shm_release(&claims_);
    }
    Caller(const Caller &) = delete;
    Caller &operator=(const Caller &) = delete;

    /** Send a CONNECT_REQUEST, the first time with descriptors. */
    void ask(bool first = true)
    {
        lo_connect_request request{};
        std::uint8_t bytes[LO_PACKET];
        const int fds[2] = {claims_.fd, claims_.fd}; // the first is no export table, and taken for none
        request.writer = vipl_lo_own_kind();
        vipl_entropy(request.process, sizeof request.process);
        vipl_entropy(request.nic, sizeof request.nic);
        request.generation = kGeneration;
        request.slot = static_cast<std::uint16_t>(slot_);
        request.number = kNumber;
        request.params.max_transfer_size = 65536;
        request.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
        request.local = request.remote = listener_.address;
        REQUIRE(vipl_local_send(fd_, bytes, vipl_lo_connect_request_write(&request, bytes), fds,
                                first ? 2 : 0) == 0);
        settle();
        listener_.progress();
    }

    /** The type of the next reply; 0: none is there; -1: it was hung up. */
    int hear() const
    {
        std::uint8_t bytes[LO_PACKET];
        size_t length = 0;
        int fds[2];
        lo_reply reply{};
        settle();
        const int error = vipl_local_receive(fd_, bytes, sizeof bytes, &length, fds);
        if (error != 0) {
            return error == EAGAIN ? 0 : -1;
        }
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
        return length > 0 && vipl_lo_reply_read(&reply, bytes, length) ? reply.type : -1;
    }
    bool await() const { return comes(fd_); }
    void hang_up()
    {
        vipl_fd_close(fd_);
        fd_ = -1;
        settle();
    }
#if __has_include(<sys/socket.h>)
    /** Nothing can be sent to it any more, though it has not hung up. */
    void stop_reading()
    {
        REQUIRE(shutdown(fd_, SHUT_RD) == 0);
    }
#endif
    bool was_hung_up() const
    {
        return vipl_local_has_hung_up(fd_);
    }
    void set(lo_claim_state state, unsigned number)
    {
        *word() = lo_claim_word(kGeneration, state, number);
    }
    bool is(lo_claim_state state, unsigned number) const
    {
        return *word() == lo_claim_word(kGeneration, state, number);
    }

private:
    std::uint32_t *word() const
    {
        return static_cast<std::uint32_t *>(claims_.base) + slot_ % LO_CLAIMS;
    }

    Listener &listener_;
    unsigned slot_;
    int fd_ = -1;
    vipl_shm claims_{};
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

TEST_CASE("a caller that does not say what it wants is hung up after 10 seconds, though everybody sleeps",
          "[caller]")
{
    Listener listener;
    Caller caller(listener);
    REQUIRE(listener.remote->incoming_count == 1);
    vipl_poll_hint hint{};
    vipl_lo_remote_prepare_wait(listener.be, &hint);
    vipl_lo_remote_finish_wait(listener.be, &hint);
    CHECK(hint.ms > 0);
    CHECK(hint.ms <= 10001);
    pass_ms(5000);
    listener.progress();
    CHECK(caller.hear() == 0);
    pass_ms(6000);
    listener.progress();
    CHECK(caller.hear() == -1);
    CHECK(listener.remote->incoming_count == 0);
}

TEST_CASE("a caller that does not take up an acceptance is given 5 seconds", "[caller]")
{
    Listener listener;
    Caller caller(listener);
    caller.ask();
    CHECK(caller.is(LO_PENDING, 0));
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
    CHECK(caller.is(LO_TAKEN, Caller::kNumber));
    VIP_VI_HANDLE vi = make_vi(listener);
    std::atomic<int> result{-1};
    std::thread acceptor([&] { result = VipConnectAccept(connection, vi); });
    CHECK(caller.await());
    CHECK(caller.hear() == LO_REPLY_ACCEPT);
    CHECK(caller.is(LO_ACCEPTED, Caller::kNumber));
    CHECK(result == -1);
    pass_ms(6000);
    for (int i = 0; i < 10000 && result == -1; ++i) {
        vipl_poll(nullptr, 0, 1, nullptr);
    }
    CHECK(result == VIP_TIMEOUT);
    caller.hang_up(); // lets one go that waits for ever
    acceptor.join();
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}

#if __has_include(<sys/socket.h>) // elsewhere an end that does not read has hung up
TEST_CASE("an acceptance that cannot be sent is VIP_TIMEOUT at once, and the caller is hung up", "[caller]")
{
    Listener listener;
    Caller caller(listener);
    caller.ask();
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
    caller.stop_reading();
    VIP_VI_HANDLE vi = make_vi(listener);
    CHECK(VipConnectAccept(connection, vi) == VIP_TIMEOUT);
    CHECK(caller.is(LO_ACCEPTED, Caller::kNumber)); // its own to change, when it finds the hang-up
    listener.progress();
    CHECK(caller.was_hung_up());
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
}
#endif

TEST_CASE("of callers that have not been answered a NIC handle keeps 1024", "[caller]")
{
    Listener listener;
    listener.remote->incoming_count += 1023; // as many as if they were there
    Caller last(listener), one_more(listener);
    CHECK(last.hear() == 0);
    CHECK(one_more.hear() == -1);
    listener.remote->incoming_count -= 1023;
}

TEST_CASE("a request beyond those that may be pending is kept, and found by the next VipConnectWait",
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
    CHECK(nic->conns_waiting == 2);
    VIP_CONN_HANDLE connection = nullptr;
    for (int i = 0; i < 3; ++i) {
        REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
        REQUIRE(VipConnectReject(connection) == VIP_SUCCESS);
    }
    for (Caller *each : {&first, &second, &third}) {
        CHECK(each->hear() == LO_REPLY_REJECT);
    }
}

TEST_CASE("a request that another program has is not handed out, until it is available again", "[caller]")
{
    Listener listener;
    Caller caller(listener);
    VIP_CONN_HANDLE connection = nullptr;
    caller.ask();
    caller.set(LO_TAKEN, 9);
    CHECK(listener.wait(&connection) == VIP_TIMEOUT);
    CHECK(caller.is(LO_TAKEN, 9));
    CHECK(caller.hear() == 0); // the connection stays
    CHECK(listener.wait(&connection) == VIP_TIMEOUT);
    caller.set(LO_PENDING, 0);
    caller.ask(false);
    REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
    CHECK(caller.is(LO_TAKEN, Caller::kNumber));
    REQUIRE(VipConnectReject(connection) == VIP_SUCCESS);
    CHECK(caller.hear() == LO_REPLY_REJECT);
    CHECK(caller.hear() == -1);
}

TEST_CASE("an acceptance of a request whose word has changed is VIP_TIMEOUT, and is not sent", "[caller]")
{
    for (const lo_claim_state state : {LO_ENDED, LO_PENDING, LO_BUSY, LO_ACCEPTED}) {
        Listener listener;
        Caller caller(listener);
        VIP_CONN_HANDLE connection = nullptr;
        caller.ask();
        REQUIRE(listener.wait(&connection) == VIP_SUCCESS);
        caller.set(state, 0);
        VIP_VI_HANDLE vi = make_vi(listener);
        CHECK(VipConnectAccept(connection, vi) == VIP_TIMEOUT);
        listener.progress();
        CHECK(caller.hear() == -1);
        CHECK(caller.is(state, 0));
        CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
    }
}

TEST_CASE("a caller whose claim words are not what they should be is hung up", "[caller]")
{
    Listener listener;
    Caller caller(listener, LO_CLAIMS);
    caller.ask();
    CHECK(caller.hear() == -1);
    Caller silent(listener); // no descriptors
    silent.ask(false);
    CHECK(silent.hear() == -1);
    CHECK(listener.remote->incoming_count == 0);
}

TEST_CASE("a caller that has hung up is not handed out", "[caller]")
{
    Listener listener;
    Caller caller(listener);
    VIP_CONN_HANDLE connection = nullptr;
    caller.ask();
    caller.hang_up();
    CHECK(listener.wait(&connection) == VIP_TIMEOUT);
    CHECK(listener.remote->incoming_count == 0);
}

TEST_CASE("of listeners of a process that became another user, one that finds no place does not keep others "
          "from it",
          "[caller]")
{
    Listener listener;
    const std::uint64_t first = vipl_lo_hash_of(&listener.address);
    listener.address.disc[0] ^= 1;
    REQUIRE(listener.wait(nullptr) == VIP_TIMEOUT);
    const std::uint64_t second = vipl_lo_hash_of(&listener.address);
    int taken[LO_PLACES];
    int locks[LO_PLACES];
    lo_name name;
    vipl_lo_name_begin(&name, vipl_local_user(), 'w', first);
    for (unsigned place = 1; place < LO_PLACES; ++place) { // the first one's own name is place 0 still
        REQUIRE(vipl_local_listen(name.text, vipl_lo_name_at(&name, place), &taken[place], &locks[place]) ==
                0);
    }
    lo_socket *without = vipl_lo_socket_find(listener.remote, 'w', first);
    lo_socket *with = vipl_lo_socket_find(listener.remote, 'w', second);
    const std::uint32_t other_user = vipl_local_user() + 1;
    without->user = with->user = other_user;
    CHECK(listener.wait(nullptr) == VIP_TIMEOUT);
    CHECK(without->user == other_user);
    CHECK(with->user == vipl_local_user());
    for (unsigned place = 1; place < LO_PLACES; ++place) {
        vipl_local_unlisten(name.text, vipl_lo_name_at(&name, place), taken[place], locks[place]);
    }
    CHECK(listener.wait(nullptr) == VIP_TIMEOUT);
    CHECK(without->user == vipl_local_user());
}

TEST_CASE("a thread that is about to sleep learns what waits for a time, while another thread looks",
          "[caller]")
{
    Listener listener;
    Caller silent(listener); // it has ten seconds for its request
    std::atomic<bool> over{false};
    std::atomic<unsigned> asked{0};
    unsigned missed = 0;
    std::thread sleeper([&] {
        while (!over) {
            vipl_poll_hint hint;
            ++asked;
            vipl_lo_remote_prepare_wait(listener.be, &hint);
            missed += hint.ms < 0 ? 1 : 0;
            vipl_lo_remote_finish_wait(listener.be, &hint);
        }
    });
    while (asked < 20000) { // beside each other, also on one CPU
        vipl_lo_setup_progress(listener.remote, true);
    }
    over = true;
    sleeper.join();
    CHECK(missed == 0);
}
