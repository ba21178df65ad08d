// SPDX-License-Identifier: MIT
//
// The shared wakers of a link: when a NIC handle passes one, what it takes from a peer, and that a
// peer can do no more with a waker than wake.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <future>

#include <fcntl.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "raw_peer.hpp"

using namespace unit;

namespace {

bool system_has_wakers()
{
    int fd = -1;
    const int error = vipl_shared_waker_open(&fd);
    vipl_fd_close(fd);
    REQUIRE((error == 0 || error == ENOTSUP));
    return error == 0;
}

struct Scene {
    explicit Scene(VIP_ULONG flags = 0)
        : victim(flags), peer(victim), vi(victim, peer, VIP_SERVICE_RELIABLE_DELIVERY)
    {
    }

    /** The victim sleeps, is woken, and polls. */
    void sleep() const
    {
        vipl_poll_hint hint{};
        vipl_lo_remote_prepare_wait(victim.be, &hint);
        vipl_lo_remote_finish_wait(victim.be, &hint);
        victim.progress();
    }
    /** What has come over the socket: a byte, and perhaps a descriptor. False: nothing. */
    bool hear(int &fd) const
    {
        std::uint8_t bytes[LO_PACKET];
        size_t length = 0;
        int fds[2] = {-1, -1};
        const int error = vipl_local_receive(peer.socket(), bytes, sizeof bytes, &length, fds);
        CHECK(fds[1] == -1);
        fd = fds[0];
        return error == 0 && length == 1;
    }
    void pass(int fd) const
    {
        REQUIRE(vipl_local_send(peer.socket(), "!", 1, &fd, 1) == 0);
        victim.progress();
    }
    /** Whether a sleep of the victim would end at once. */
    bool is_woken() const
    {
        const int fd = victim.remote->set.fd;
        return vipl_poll(&fd, 1, 0, nullptr) == 0;
    }
    bool has_peer_waker() const { return peer.link->peer_waker_plus_one != 0; }

    Victim victim;
    RawPeer peer;
    VictimVi vi;
};

/** A poll set with one shared waker, as its owner has them. */
struct Owned {
    Owned()
    {
        REQUIRE(vipl_shared_waker_open(&fd) == 0);
        REQUIRE(vipl_pollset_open(&set) == 0);
        REQUIRE(vipl_pollset_add_signals(&set, fd, this) == 0);
        (void)is_signalled(); // it is readable from the beginning
    }
    ~Owned()
    {
        vipl_pollset_close(&set);
        vipl_fd_close(fd);
    }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;

    bool is_signalled()
    {
        vipl_ready ready{};
        return vipl_pollset_ready(&set, &ready, 1) == 1 && ready.tag == this;
    }

    int fd = -1;
    vipl_pollset set{};
};

} // namespace

TEST_CASE("a poll set reports each signal of a shared waker once, and nobody resets it", "[wakers]")
{
    if (!system_has_wakers()) {
        return;
    }
    Owned owned;
    CHECK_FALSE(owned.is_signalled());
    for (int i = 0; i < 3; ++i) {
        vipl_shared_waker_signal(owned.fd);
        CHECK(owned.is_signalled());
        CHECK_FALSE(owned.is_signalled());
    }
    vipl_shared_waker_signal(owned.fd);
    vipl_shared_waker_signal(owned.fd);
    CHECK(owned.is_signalled());
    CHECK_FALSE(owned.is_signalled());
}

TEST_CASE("a NIC handle that sleeps passes the peer one waker, which ends its sleeps", "[wakers]")
{
    if (!system_has_wakers()) {
        return;
    }
    const Scene s;
    int waker = -1, none = -1;
    CHECK_FALSE(s.hear(waker)); // it has not slept yet
    s.sleep();
    REQUIRE(s.hear(waker));
    REQUIRE(vipl_shared_waker_is_valid(waker));
    CHECK((fcntl(waker, F_GETFL) & O_NONBLOCK) != 0);
    CHECK_FALSE(s.is_woken());
    for (int i = 0; i < 3; ++i) {
        vipl_shared_waker_signal(waker);
        CHECK(s.is_woken());
        s.sleep();
        CHECK_FALSE(s.is_woken());
    }
    CHECK_FALSE(s.hear(none));
    vipl_fd_close(waker);
}

TEST_CASE("a waker that outlives its link wakes no sleeper", "[wakers]")
{
    if (!system_has_wakers()) {
        return;
    }
    const Victim victim;
    int waker = -1;
    {
        RawPeer peer(victim);
        const VictimVi vi(victim, peer, VIP_SERVICE_RELIABLE_DELIVERY);
        vipl_poll_hint hint{};
        vipl_lo_remote_prepare_wait(victim.be, &hint);
        vipl_lo_remote_finish_wait(victim.be, &hint);
        victim.progress();
        std::uint8_t byte;
        size_t length = 0;
        int fds[2];
        REQUIRE(vipl_local_receive(peer.socket(), &byte, 1, &length, fds) == 0);
        waker = fds[0];
        REQUIRE(waker >= 0);
        peer.hang_up();
        victim.progress();
    }
    victim.progress();
    REQUIRE(victim.remote->link_count == 0);
    vipl_shared_waker_signal(waker);
    const int set = victim.remote->set.fd;
    CHECK(vipl_poll(&set, 1, 0, nullptr) == ETIMEDOUT);
    victim.progress();
    vipl_fd_close(waker);
}

TEST_CASE("a peer is woken by its waker from the moment that it has come, and by bytes before", "[wakers]")
{
    if (!system_has_wakers()) {
        return;
    }
    const Scene s;
    Owned owned;
    int none = -1;
    vipl_lo_link_wake(s.peer.link);
    CHECK(s.hear(none));
    s.pass(owned.fd);
    REQUIRE(s.has_peer_waker());
    CHECK_FALSE(owned.is_signalled());
    vipl_lo_link_wake(s.peer.link);
    CHECK(owned.is_signalled());
    CHECK_FALSE(s.hear(none));
    SECTION("which is the first one that came")
    {
        Owned other;
        s.pass(other.fd);
        vipl_lo_link_wake(s.peer.link);
        CHECK(owned.is_signalled());
        CHECK_FALSE(other.is_signalled());
    }
}

TEST_CASE("a descriptor that is not a shared waker is not written to", "[wakers]")
{
    const Scene s;
    int fds[2] = {-1, -1};
    SECTION("a pipe")
    {
        REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
    }
    SECTION("a socket")
    {
        REQUIRE(vipl_local_pair(fds) == 0);
    }
    SECTION("a file")
    {
        fds[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
        REQUIRE(fds[1] >= 0);
    }
    s.pass(fds[1]);
    CHECK_FALSE(s.has_peer_waker());
    int none = -1;
    vipl_lo_link_wake(s.peer.link);
    CHECK(s.hear(none));
    CHECK(s.vi.state() == VIP_STATE_CONNECTED);
    close(fds[0]);
    close(fds[1]);
}

TEST_CASE("a waker whose peer has set its count and its flags as it likes does not block", "[wakers]")
{
    if (!system_has_wakers()) {
        return;
    }
    const Scene s;
    Owned owned;
    s.pass(owned.fd);
    std::uint64_t count = 0;
    REQUIRE(read(owned.fd, &count, sizeof count) == sizeof count);
    count = UINT64_MAX - 1; // as much as a program can write
    REQUIRE(write(owned.fd, &count, sizeof count) == sizeof count);
    REQUIRE(fcntl(owned.fd, F_SETFL, fcntl(owned.fd, F_GETFL) & ~O_NONBLOCK) == 0);
    auto woken = std::async(std::launch::async, [&] { vipl_lo_link_wake(s.peer.link); });
    const bool over = woken.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    CHECK(over);
    if (!over) { // let the thread go
        CHECK(read(owned.fd, &count, sizeof count) == sizeof count);
    }
}

TEST_CASE("a NIC handle whose program waits itself makes no barriers before it sleeps", "[wakers]")
{
    const Scene ordinary, own(VIPX_INLINE);
    CHECK(own.peer.out.shared->sleeps_properly == 0);
    CHECK(ordinary.peer.out.shared->sleeps_properly == (ordinary.peer.link->makes_barriers ? 1 : 0));
    CHECK(own.peer.link->makes_barriers == ordinary.peer.link->makes_barriers);
}
