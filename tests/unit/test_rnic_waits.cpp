// SPDX-License-Identifier: MIT
//
// Who waits for the card is told by it. The driver also looks every now and then whether a card
// that says nothing is still there, so that a wake-up that is lost shows as time alone: many of
// them are waited for here, and together they take less than a few such looks.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/objects.hpp"

using namespace vipl_test;

namespace {

constexpr const char *kDevice = "rnic:inproc";
constexpr VIP_ULONG kLong = 10000;
constexpr unsigned kRounds = 40;
constexpr std::chrono::seconds kLimit{6}; // a look after 400 ms in each round would take 16

/** Two VIs of one NIC handle that are connected. */
struct Pair {
    explicit Pair(const Nic &of) : nic(of), memory(of)
    {
        VIP_VI_ATTRIBUTES attributes = {};
        attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        attributes.MaxTransferSize = 4096;
        for (VIP_VI_HANDLE &vi : vis) {
            REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi) == VIP_SUCCESS);
        }
        std::thread accept([&] {
            NetAddress local = nic.address("pair"), from = nic.address("");
            VIP_VI_ATTRIBUTES seen;
            VIP_CONN_HANDLE conn;
            if (VipConnectWait(nic, local, kLong, from, &seen, &conn) == VIP_SUCCESS) {
                (void)VipConnectAccept(conn, vis[1]);
            }
        });
        NetAddress own = nic.address("x"), remote = nic.address("pair");
        VIP_VI_ATTRIBUTES seen;
        const VIP_RETURN rc = VipConnectRequest(vis[0], own, remote, kLong, &seen);
        accept.join();
        REQUIRE(rc == VIP_SUCCESS);
    }
    ~Pair()
    {
        for (VIP_VI_HANDLE vi : vis) {
            VipDisconnect(vi);
            VipDestroyVi(vi);
        }
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;

    /** A message to a thread that sleeps until it comes. */
    void round(Work &receive, Work &send)
    {
        REQUIRE(VipPostRecv(vis[1], receive.desc, receive.handle) == VIP_SUCCESS);
        std::atomic<bool> waits{false};
        VIP_RETURN rc = VIP_NOT_DONE;
        std::thread waiter([&] {
            VIP_DESCRIPTOR *done = nullptr;
            waits = true;
            rc = VipRecvWait(vis[1], kLong, &done);
        });
        while (!waits) {
            give_way();
        }
        VIP_DESCRIPTOR *done = nullptr;
        (void)VipRecvWait(vis[0], 2, &done); // nothing comes, and the other thread falls asleep meanwhile
        const VIP_RETURN posted = VipPostSend(vis[0], send.desc, send.handle);
        waiter.join();
        REQUIRE(posted == VIP_SUCCESS);
        REQUIRE(rc == VIP_SUCCESS);
        REQUIRE(VipSendWait(vis[0], kLong, &done) == VIP_SUCCESS);
    }
    /** Many of them, and how long they take. */
    std::chrono::steady_clock::duration rounds()
    {
        Work receive = memory.work(0), send = memory.work(0);
        const auto begun = std::chrono::steady_clock::now();
        for (unsigned i = 0; i < kRounds; ++i) {
            *receive.desc = VIP_DESCRIPTOR{};
            *send.desc = VIP_DESCRIPTOR{};
            round(receive, send);
        }
        return std::chrono::steady_clock::now() - begun;
    }

    const Nic &nic;
    Memory memory;
    VIP_VI_HANDLE vis[2] = {nullptr, nullptr};
};

} // namespace

TEST_CASE("a thread that sleeps is woken by the card when its message comes", "[rnic_waits]")
{
    const Nic nic(kDevice, false);
    CHECK(Pair(nic).rounds() < kLimit);
}

TEST_CASE("NIC handles with the same interrupt do not take it from each other", "[rnic_waits]")
{
    std::vector<std::unique_ptr<Nic>> nics;
    for (unsigned i = 0; i < 16;
         ++i) { // one more than a function has for them: the last has that of the first
        nics.push_back(std::make_unique<Nic>(kDevice, false));
    }
    std::atomic<bool> stop{false};
    std::thread other([&] { // begins to wait all the time, and forgets then what has fired before
        const Cq cq(*nics.back());
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_recv = VIP_FALSE;
        while (!stop) {
            (void)VipCQWait(cq, 1, &vi, &is_recv);
        }
    });
    std::chrono::steady_clock::duration taken{};
    {
        Pair pair(*nics.front());
        taken = pair.rounds();
    }
    stop = true;
    other.join();
    CHECK(taken < kLimit);
}
