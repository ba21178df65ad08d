// SPDX-License-Identifier: MIT
//
// POSIX extensions: a program that polls and then sleeps. A backend may spare the system what a
// program that polls looks at itself, and has to take that back before the program sleeps.
#include <cstdlib>
#include <future>

#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "support/forked.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kPolls = 4000, kTurns = 3, kBytes = 16;

/** A NIC handle without a thread of the library, which would see what the program's own misses. */
struct Alone {
    Alone() { setenv("VIPL_PROGRESS", "inline", 1); }
    ~Alone() { unsetenv("VIPL_PROGRESS"); }
};

/** Sends a message each time that its parent, which has polled, sleeps. */
void send_to_sleeper(const ParentLine &line, const std::string &to)
{
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    const std::string parent = std::to_string(getppid());
    REQUIRE_VIP(request(vi, nic.address(to + "c"), nic.address(to)));
    for (unsigned i = 0; i < kTurns; ++i) {
        line.await();
        await_rest(parent);
        post_send(vi, memory.transfer(memory.bytes(kBytes)));
        sent(vi);
    }
    line.await();
}

} // namespace

TEST_CASE("a program that has polled for a while is woken when it then waits",
          "[VipRecvWait][posix][private][fork]")
{
    const std::string name = unique_discriminator();
    Forked child([&](const ParentLine &line) {
        line.await();
        send_to_sleeper(line, name);
    });
    const Alone alone;
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    for (unsigned i = 0; i < kTurns; ++i) {
        post_recv(vi, memory.transfer(memory.bytes(kBytes)));
    }
    std::future<Incoming> incoming =
        std::async(std::launch::async, [&] { return wait_for_request(nic, nic.address(name)); });
    child.tell();
    REQUIRE_VIP(VipConnectAccept(incoming.get().connection, vi));
    VIP_DESCRIPTOR *done = nullptr;
    for (unsigned i = 0; i < kTurns; ++i) {
        for (unsigned polls = 0; polls < kPolls; ++polls) {
            REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(vi, &done));
        }
        child.tell();
        REQUIRE_VIP(
            VipRecvWait(vi, VIP_INFINITE, &done)); // a message that is seen when the time is up was not seen
    }
    child.tell();
    child.finish();
    REQUIRE_VIP(VipDisconnect(vi));
}
