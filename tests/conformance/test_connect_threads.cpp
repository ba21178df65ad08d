// SPDX-License-Identifier: MIT
//
// Client/server connections of many threads at once, of one NIC handle.
#include <thread>
#include <vector>

#include "connect_roles.hpp"

using namespace vipl_conformance;

namespace {

constexpr int kWaiters = 6;

/** kWaiters threads wait (on one discriminator, or on one each); each accepts one request. */
void serve_in_threads(Peer &peer, bool same)
{
    std::vector<std::unique_ptr<Vi>> vis;
    std::vector<std::thread> threads;
    std::vector<std::string> problems(kWaiters);
    for (int i = 0; i < kWaiters; ++i) {
        vis.push_back(std::make_unique<Vi>(peer.nic()));
    }
    for (int i = 0; i < kWaiters; ++i) {
        threads.emplace_back([&, i] {
            try {
                const NetAddress local = peer.server_address(same ? "all" : "d" + std::to_string(i));
                Incoming incoming = wait_for_request(peer.nic(), local);
                if (!same) {
                    EXPECT_EQ(peer.client_address("c" + std::to_string(i)).discriminator(),
                              incoming.from.discriminator());
                }
                REQUIRE_VIP(VipConnectAccept(incoming.connection, *vis[static_cast<size_t>(i)]));
            } catch (const std::exception &error) {
                problems[static_cast<size_t>(i)] = error.what();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const std::string &problem : problems) {
        if (!problem.empty()) {
            throw Failure(problem);
        }
    }
    peer.sync();
}

void request_from_one(Peer &peer, bool same)
{
    std::vector<std::unique_ptr<Vi>> vis;
    for (int i = kWaiters - 1; i >= 0; --i) {
        vis.push_back(std::make_unique<Vi>(peer.nic()));
        REQUIRE_VIP(request(*vis.back(), peer.client_address("c" + std::to_string(i)),
                            peer.server_address(same ? "all" : "d" + std::to_string(i))));
    }
    peer.sync();
}

} // namespace

TWO_ROLE_CASE("VipConnectWait of many threads on one discriminator gives each request to one",
              "[VipConnectWait][early]") = {
    [](Peer &peer) { serve_in_threads(peer, true); },
    [](Peer &peer) { request_from_one(peer, true); },
};

TWO_ROLE_CASE("VipConnectWait of many threads on different discriminators gives each its own",
              "[VipConnectWait][early]") = {
    [](Peer &peer) { serve_in_threads(peer, false); },
    [](Peer &peer) { request_from_one(peer, false); },
};
