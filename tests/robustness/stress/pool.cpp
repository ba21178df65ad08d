// SPDX-License-Identifier: MIT
//
// Pools of processes that accept on one discriminator: a request goes to one that waits, whoever
// else has waited before and is busy now, and each request has one end: accepted once, or its time
// is up.
#include "stress.hpp"

using namespace stress;

namespace {

constexpr unsigned kAcceptors = 4;
constexpr unsigned kClients = 4;
constexpr unsigned kMost = 20000; // requests

struct Ledger {
    std::atomic<bool> stop;                 // for the clients
    std::atomic<bool> closed;               // and then for the acceptors, without whom requests wait
    std::atomic<unsigned> next;             // request
    std::atomic<unsigned> accepted[kMost];  // by how many
    std::atomic<unsigned> connected[kMost]; // 1: its requester says so
    std::atomic<unsigned> late;             // VipConnectAccept said VIP_TIMEOUT
};
static_assert(sizeof(Ledger) <= kSharedBytes, "the ledger fits");

void work_by_itself(const Nic &nic)
{
    REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
}

/** Take and accept one request; which one it was. */
VIP_RETURN accept_any(const Nic &nic, const std::string &name, VIP_VI_HANDLE vi, VIP_ULONG timeout,
                      std::string *from_name)
{
    NetAddress local = nic.address(name), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN rc = VipConnectWait(nic, local, timeout, from, &attributes, &connection);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    *from_name = from.discriminator();
    return VipConnectAccept(connection, vi);
}

/** Waits, is busy for a while, closes and comes back. */
void accept_now_and_then(const Scene &scene, Line &line)
{
    Ledger &ledger = shared<Ledger>();
    Random random(scene.seed);
    while (!ledger.closed) {
        const Nic nic;
        if (below(random, 2) == 0) {
            work_by_itself(nic);
        }
        for (unsigned round = 0; round < 20 && !ledger.closed; ++round) {
            const Vi vi(nic);
            std::string from;
            const auto timeout = static_cast<VIP_ULONG>(below(random, 3) == 0 ? 0 : below(random, 40));
            const VIP_RETURN rc = accept_any(nic, scene.name(), vi, timeout, &from);
            if (rc == VIP_SUCCESS) {
                ledger.accepted[std::stoul(from) % kMost]++;
                vi.await(VIP_STATE_ERROR); // the client leaves
                REQUIRE_VIP(VipDisconnect(vi));
            } else {
                EXPECT_EQ(VIP_TIMEOUT, rc);
                ledger.late += from.empty() ? 0 : 1;
            }
            if (below(random, 2) == 0) { // busy, or blocked somewhere else in the library
                accept_any(nic, scene.name("-else"), vi, static_cast<VIP_ULONG>(below(random, 30)), &from);
            }
        }
    }
    line.sync();
}

void request_all_the_time(const Scene &scene, Line &line)
{
    Ledger &ledger = shared<Ledger>();
    Random random(scene.seed);
    const Nic nic;
    NetAddress remote = nic.address(scene.name());
    while (!ledger.stop) {
        const unsigned number = ledger.next++;
        if (number >= kMost) {
            break;
        }
        const Vi vi(nic);
        NetAddress local = nic.address(std::to_string(number));
        const bool hasty = below(random, 8) == 0;
        const VIP_ULONG timeout = hasty ? static_cast<VIP_ULONG>(below(random, 20)) : patience();
        const VIP_RETURN rc = VipConnectRequest(vi, local, remote, timeout, nullptr);
        if (rc == VIP_SUCCESS) {
            ledger.connected[number] = 1;
            VipDisconnect(vi);
        } else { // VIP_REJECT: the acceptor has closed its NIC handle
            EXPECT((rc == VIP_REJECT || rc == VIP_TIMEOUT || rc == VIP_NO_MATCH));
            EXPECT((rc == VIP_REJECT || hasty || ledger.stop));
        }
    }
    line.sync();
}

/** Waits once for no time, and is idle from then on. */
void have_waited(const Scene &scene, Line &line)
{
    const Nic nic;
    work_by_itself(nic);
    const Vi vi(nic);
    std::string from;
    REQUIRE_RC(VIP_TIMEOUT, accept_any(nic, scene.name(), vi, 0, &from));
    line.sync();
    line.receive<char>(10 * patience());
}

void request_some(const Scene &scene, Line &line)
{
    const Nic nic;
    for (unsigned i = 0; i < 20; ++i) {
        const Vi vi(nic);
        line.sync();
        REQUIRE_VIP(request_to(nic, scene.name(), vi));
        REQUIRE_VIP(VipDisconnect(vi));
    }
    line.sync();
}

using Children = std::vector<std::unique_ptr<Child>>;

void add_children(Children &children, unsigned count, Role role, Scene scene)
{
    for (unsigned i = 0; i < count; ++i) {
        scene.seed += 1;
        children.push_back(std::make_unique<Child>(role, scene));
    }
}

void finish(const Children &children)
{
    for (const auto &child : children) {
        child->line.sync();
        child->finish();
    }
}

} // namespace

TEST_CASE("requests go to the one process of five that waits", "[pool]")
{
    const Scene scene = make_scene();
    Children idle;
    add_children(idle, 4, have_waited, scene);
    for (const auto &child : idle) {
        child->line.sync();
    }
    const Nic nic;
    Child client(request_some, scene);
    for (unsigned i = 0; i < 20; ++i) {
        const Vi vi(nic);
        VIP_RETURN rc = VIP_TIMEOUT;
        std::string from;
        const bool at_once = i % 2 == 0; // or the request comes first
        client.line.sync();
        if (!at_once) {
            let_a_moment_pass();
        }
        rc = accept_any(nic, scene.name(), vi, patience(), &from);
        REQUIRE_VIP(rc);
        vi.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(vi));
    }
    client.line.sync();
    client.finish();
    for (const auto &child : idle) {
        child->line.send('E');
        child->finish();
    }
}

TEST_CASE("acceptors come and go: each request is accepted once, or its time is up", "[pool]")
{
    Ledger &ledger = shared<Ledger>();
    const Scene scene = make_scene();
    Children acceptors, clients;
    add_children(acceptors, kAcceptors, accept_now_and_then, scene);
    add_children(clients, kClients, request_all_the_time, scene);
    const unsigned long long end = now_ms() + seconds() * 1000ull;
    while (now_ms() < end) {
        let_a_moment_pass();
    }
    ledger.stop = true;
    finish(clients);
    ledger.closed = true;
    finish(acceptors);
    const unsigned count = std::min<unsigned>(ledger.next, kMost);
    unsigned connected = 0;
    for (unsigned i = 0; i < count; ++i) {
        INFO("request " << i);
        REQUIRE(ledger.accepted[i] == ledger.connected[i]);
        connected += ledger.connected[i];
    }
    std::cout << connected << " of " << count << " requests were accepted; " << ledger.late
              << " times somebody else was faster" << std::endl;
    REQUIRE(connected > 10);
}
