// SPDX-License-Identifier: MIT
//
// Forks while other threads are inside every kind of call: they post, poll, wait, connect,
// register, open, close, query and log without a pause, in this process and with a peer. Each child
// has five seconds to call every function with its parent's handles and to connect and exchange on
// a NIC handle of its own. No thread and no child may hang, nothing may be left behind.
// VIPL_STRESS_FORKS says how many (300).
#include "stress.hpp"

#include <memory>
#include <optional>

#include <fcntl.h>

#include "census.hpp"
#include "good.hpp"
#include "support/dead_handles.hpp"
#include "support/forked.hpp"
#include "support/in_place_of_stderr.hpp"

using namespace stress;

namespace {

constexpr unsigned kWatchdog = 5; // seconds a child

// AddressSanitizer's allocator does not know of fork: a child hangs in it if another thread was in
// it just then.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kChildAllocates = false;
#else
constexpr bool kChildAllocates = true;
#endif

unsigned forks()
{
    return times("VIPL_STRESS_FORKS", 300);
}

/** The log is written, but not shown. */
class Logged {
public:
    Logged()
    {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        written_.emplace(nowhere);
        close(nowhere);
        setenv("VIPL_LOG", "debug", 1);
    }
    ~Logged() { setenv("VIPL_LOG", "off", 1); }
    Logged(const Logged &) = delete;
    Logged &operator=(const Logged &) = delete;

private:
    std::optional<vipl_test::InPlaceOfStderr> written_;
};

/** Objects that threads use all the time, and whose handles the children are given. */
struct World {
    World() : tag(pair.server_nic), cq(pair.server_nic)
    {
        local = pair.server_nic.address("here");
        remote = pair.server_nic.address("there");
        in = pair.server_memory.transfer(pair.server_memory.bytes(1000));
        out = pair.client_memory.transfer(pair.client_memory.bytes(1000));
        spare = pair.server_memory.transfer(pair.server_memory.bytes(64));
    }
    Handles handles()
    {
        void *const connection = pair.client; // of another kind: there is none to be had for long
        return {pair.server_nic, tag,   spare.buffer.data, spare.handle,
                pair.server,     cq,    connection,        spare.desc,
                local,           remote};
    }

    ConnectedPair pair;
    Ptag tag;
    Cq cq;
    NetAddress local, remote;
    Work in{}, out{}, spare{};
};

void exchange(World &world, unsigned number)
{
    world.out.buffer.fill(number);
    post_recv(world.pair.server, world.in);
    post_send(world.pair.client, world.out);
    EXPECT(received(world.pair.server) == world.in.desc);
    EXPECT(world.in.buffer.holds(number));
    EXPECT(sent(world.pair.client) == world.out.desc);
}

void look(World &world)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    char name[] = "localhost";
    NetAddress address;
    world.pair.server.attributes();
    world.pair.server_nic.attributes();
    VipCQDone(world.cq, &vi, &queue);
    VipCQWait(world.cq, 1, &vi, &queue);
    VipSendDone(world.pair.server, &done);
    VipNSGetHostByName(world.pair.server_nic, name, address, 0);
}

void make_and_end(World &world)
{
    const Nic &nic = world.pair.client_nic;
    const Ptag tag(nic);
    Memory memory(nic, 4096, rdma_memory(tag));
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq);
}

/** Threads at all of that, until the object ends. */
class Bustle {
public:
    explicit Bustle(World &world)
    {
        unsigned *const number = &exchanges_;
        add([&world, number] { exchange(world, (*number)++); });
        add([&world] { look(world); });
        add([&world] { make_and_end(world); });
        add([] { exchange_within_this_process(); });
    }
    ~Bustle() { over_ = true; }

    void join()
    {
        over_ = true;
        crew_.join();
    }
    unsigned exchanges() const { return exchanges_; } // after join()
    bool failed() const { return crew_.failed(); }

private:
    void add(std::function<void()> once)
    {
        crew_.add([this, once = std::move(once)] {
            while (!over_ && !crew_.failed()) {
                once();
            }
        });
    }

    std::atomic<bool> over_{false};
    unsigned exchanges_ = 0; // by its thread alone
    Crew crew_;
};

void one_child(const Handles &handles)
{
    expect_dead(Handles{}); // what the calls here need is there before the fork
    Forked child(
        [&](const ParentLine &) {
            expect_dead(handles);
            if (kChildAllocates) {
                exchange_within_this_process();
                expect_dead(handles);
            }
        },
        kWatchdog * timeout_scale());
    child.finish();
}

} // namespace

TEST_CASE("forks while other threads are inside every call", "[fork]")
{
    const Scene scene = make_scene();
    exchange_within_this_process(); // what a process and this thread keep, they have now
    let_a_moment_pass();
    const Census before = take_census();
    {
        const Logged logged;
        Child good(be_good, scene);
        World world;
        Peers peers(world.pair.server_nic);
        Crew echoing;
        echoing.add([&] {
            REQUIRE_VIP(accept_on(world.pair.server_nic, scene.name(), peers.vi));
            echo(peers);
        });
        Bustle bustle(world);
        for (unsigned i = 0; i < forks() && !bustle.failed(); ++i) {
            INFO("fork " << i);
            REQUIRE_NOTHROW(one_child(world.handles()));
        }
        REQUIRE_NOTHROW(bustle.join());
        REQUIRE(bustle.exchanges() > 0);
        good.line.send('E');
        REQUIRE(good.line.receive<unsigned>() > 0);
        good.finish();
        REQUIRE_NOTHROW(echoing.join());
    }
    REQUIRE_NOTHROW(expect_census(before, [] {}));
}

TEST_CASE("forks from several threads at once", "[fork]")
{
    const Logged logged;
    World world;
    Bustle bustle(world);
    Crew forkers;
    for (unsigned t = 0; t < 4; ++t) {
        forkers.add([&] {
            for (unsigned i = 0; i < forks() / 12 + 1; ++i) {
                one_child(world.handles());
            }
        });
    }
    REQUIRE_NOTHROW(forkers.join());
    REQUIRE_NOTHROW(bustle.join());
}
