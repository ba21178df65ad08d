// SPDX-License-Identifier: MIT
//
// Another process, and its death: the survivor's endpoint ends, and nothing that it had posted is
// lost.
#include <cstdlib>
#include <map>

#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

/** The server of a peer process. */
struct Server {
    explicit Server(const char *role) : listener(node), peer(listener.address(), role)
    {
        const Event request = next_event(node);
        EXPECT_EQ(uint32_t{FI_CONNREQ}, request.type);
        ep = make_endpoint(node, request.info.get());
        FABRIC(fi_accept(ep.get(), nullptr, 0));
        EXPECT_EQ(uint32_t{FI_CONNECTED}, next_event(node).type);
    }
    Node node;
    Listener listener;
    Peer peer;
    Fid<fid_ep> ep;
};

} // namespace

TEST_CASE("the death of an idle peer is an event, and cancels what is posted", "[death]")
{
    if (!reaches_processes()) {
        return;
    }
    Server server("idle");
    Memory memory(server.node, 64);
    for (int i = 0; i < 10; i++) {
        FABRIC(fi_recv(server.ep.get(), memory.data(), 64, memory.desc(), 0, nullptr));
    }
    for (int i = 0; i < 50; i++) { // they wait: the peer has no receives
        FABRIC(fi_send(server.ep.get(), memory.data(), 64, memory.desc(), 0, nullptr));
    }
    server.peer.kill_it();
    // The event comes although no completion is read.
    CHECK(next_event(server.node).type == FI_SHUTDOWN);
    for (int i = 0; i < 10; i++) {
        CHECK(next_completion(server.node.rx.get()).error == FI_ECANCELED);
    }
    CHECK(!try_completion(server.node.rx.get()));
    for (int i = 0; i < 50; i++) {
        CHECK(next_completion(server.node.tx.get()).error == FI_ECANCELED);
    }
    CHECK(!try_completion(server.node.tx.get()));
}

TEST_CASE("each operation has one completion when the peer dies at work", "[death]")
{
    if (!reaches_processes()) {
        return;
    }
    Server server("receive");
    Memory memory(server.node, size_t{1} << 16);
    std::map<void *, int> completed;
    std::vector<char> contexts(3000);
    size_t posted = 0;
    const auto reap = [&] {
        while (const auto done = try_completion(server.node.tx.get())) {
            completed[done->entry.op_context]++;
        }
    };
    while (posted < contexts.size()) {
        const size_t bytes = posted % 3 == 0 ? size_t{1} << 16 : 100;
        const ssize_t rc =
            fi_send(server.ep.get(), memory.data(), bytes, memory.desc(), 0, &contexts[posted]);
        if (rc == 0) {
            posted++;
        } else if (rc == -FI_EAGAIN) {
            reap();
        } else {
            EXPECT_EQ(ssize_t{-FI_ENOTCONN}, rc);
            break;
        }
        if (posted == 1000) {
            server.peer.kill_it();
        }
    }
    CHECK(posted < contexts.size());
    CHECK(next_event(server.node).type == FI_SHUTDOWN);
    eventually("a completion of each", [&] {
        reap();
        return completed.size() == posted;
    });
    for (const auto &[context, times] : completed) {
        CHECK(times == 1);
    }
}

TEST_CASE("messages of a peer process arrive", "[death]")
{
    if (!reaches_processes()) {
        return;
    }
    Server server("send");
    Memory memory(server.node, 4096);
    for (uint32_t i = 0; i < 1000; i++) {
        FABRIC(fi_recv(server.ep.get(), memory.data(), 4096, memory.desc(), 0, nullptr));
        const Completion done = next_completion(server.node.rx.get());
        REQUIRE(done.error == 0);
        uint32_t number = 0;
        memcpy(&number, memory.data(), sizeof(number));
        REQUIRE(number == i);
        REQUIRE(done.entry.len == sizeof(number) + i % 4000);
    }
}

TEST_CASE("a peer process", "[.peer]")
{
    const std::string role = getenv("FABRIC_PEER_ROLE");
    const Address address = peer_address();
    Node node(FI_WAIT_FD);
    Memory memory(node, size_t{1} << 16);
    const Fid<fid_ep> ep = make_endpoint(node, node.info.get());
    for (int i = 0; i < 20 && role == "receive"; i++) {
        FABRIC(fi_recv(ep.get(), memory.data(), memory.size(), memory.desc(), 0, nullptr));
    }
    FABRIC(fi_connect(ep.get(), address.data(), nullptr, 0));
    CHECK(next_event(node).type == FI_CONNECTED);
    for (uint32_t i = 0; role == "send" && i < 1000; i++) {
        memcpy(memory.data(), &i, sizeof(i));
        FABRIC(fi_send(ep.get(), memory.data(), sizeof(i) + i % 4000, memory.desc(), 0, nullptr));
        CHECK(next_completion(node.tx.get()).error == 0);
    }
    for (;;) { // until it is killed, or the other side has ended
        fi_cq_data_entry entry = {};
        uint32_t type = 0;
        fi_eq_cm_entry event = {};
        if (fi_cq_sread(node.rx.get(), &entry, 1, nullptr, 20) == 1) {
            FABRIC(fi_recv(ep.get(), memory.data(), memory.size(), memory.desc(), 0, nullptr));
        }
        if (fi_eq_read(node.eq.get(), &type, &event, sizeof(event), 0) > 0) {
            break;
        }
    }
}
