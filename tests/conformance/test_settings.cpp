// SPDX-License-Identifier: MIT
//
// Environment variables that the contract and the header name: each is set in the child process
// before its first use of the library, so only the client's side is under its rule.
#include <atomic>
#include <csignal>
#include <thread>

#include <pthread.h>

#include "connect_roles.hpp"
#include "support/error_log.hpp"

using namespace vipl_conformance;

TWO_PROCESS_CASE_WITH("VIPL_STRICT=cq",
                      "VIPL_STRICT=cq breaks the connection that overflows, and not the next one of the VI",
                      "[VipErrorCallback][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        for (int messages : {6, 1}) {
            end.connect();
            peer.sync();
            for (int i = 0; i < messages; ++i) {
                post_send(end.vi, end.memory.transfer(end.memory.text("over")));
            }
            if (messages > 1) {
                end.vi.await(VIP_STATE_ERROR);
            } else {
                sent(end.vi);
                peer.sync();
            }
            peer.sync();
            EXPECT_EQ(VIP_SUCCESS, VipDisconnect(end.vi));
            for (VIP_DESCRIPTOR *done = nullptr; VipSendDone(end.vi, &done) != VIP_NOT_DONE;) {
            }
        }
    },
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        const Cq cq(peer.nic(), 2);
        Endpoint end(peer, kTransferSize, nullptr, cq);
        for (int i = 0; i < 8; ++i) {
            end.receive(8);
        }
        end.connect();
        peer.sync();
        EXPECT_EQ(VIP_ERROR_VI_OVERRUN, errors.next(end.vi).ErrorCode);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        peer.sync();
        EXPECT_EQ(VIP_SUCCESS, VipDisconnect(end.vi));
        for (VIP_DESCRIPTOR *done = nullptr; VipRecvDone(end.vi, &done) != VIP_NOT_DONE;) {
        }
        end.receive(8);
        end.connect();
        peer.sync();
        peer.sync(); // the message has come, and the queue was not looked at since its entries were reaped from the VI
        cq.expect(end.vi, VIP_TRUE);
        errors.expect_none(end.vi);
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
        peer.sync();
    },
};

namespace {

/** Signals a thread again and again until it goes out of scope. */
class Nuisance {
public:
    Nuisance() : target_(pthread_self())
    {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        sigaction(SIGUSR1, &action, nullptr);
        thread_ = std::thread([this] {
            while (!over_.load(std::memory_order_acquire)) {
                pthread_kill(target_, SIGUSR1);
                give_way();
            }
        });
    }
    ~Nuisance()
    {
        over_.store(true, std::memory_order_release);
        thread_.join();
    }
    Nuisance(const Nuisance &) = delete;
    Nuisance &operator=(const Nuisance &) = delete;

private:
    pthread_t target_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace

TWO_PROCESS_CASE_WITH("VIPL_RESTART=1", "VIPL_RESTART=1 makes interrupted waits resume with the time left",
                      "[VipRecvWait][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(10);
        end.connect();
        peer.sync();
        {
            const Nuisance nuisance;
            VIP_DESCRIPTOR *done = nullptr;
            const unsigned long long start = now_ms();
            REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(end.vi, 2 * kMoment, &done));
            EXPECT(now_ms() - start + 1 >= 2 * kMoment);
            expect_no_request(peer.nic(), peer.client_address("nobody"), kMoment);
            const Vi vi(peer.nic());
            const VIP_RETURN rc =
                request(vi, peer.client_address(), peer.server_address("nowhere"), answer_time());
            EXPECT(rc == VIP_NO_MATCH || rc == VIP_TIMEOUT); // the other side may have its port and be idle
        }
        peer.sync();
    },
};

TWO_PROCESS_CASE_WITH("VIPL_PROGRESS=inline",
                      "VIPL_PROGRESS=inline makes Notify and error callbacks VIP_ERROR_NOT_SUPPORTED",
                      "[VipRecvNotify][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        end.send("inline");
        sent(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Memory memory(peer.nic());
        VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
        attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE; // RDMA may need a thread, too
        const Vi vi(peer.nic(), attributes);
        REQUIRE_RC(
            VIP_ERROR_NOT_SUPPORTED,
            VipSendNotify(vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
        REQUIRE_RC(
            VIP_ERROR_NOT_SUPPORTED,
            VipRecvNotify(vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
        REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED,
                   VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}));
        REQUIRE_RC(VIP_ERROR_NOT_SUPPORTED,
                   VipErrorCallback(peer.nic(), nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        const Work in = memory.transfer(memory.bytes(6));
        post_recv(vi, in); // all else works as ever
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        EXPECT(received(vi) == in.desc);
        peer.sync();
    },
};

TWO_PROCESS_CASE_WITH("VIPL_DEVICE_ALIASES=via9=loopback", "VIPL_DEVICE_ALIASES gives a device another name",
                      "[VipOpenNic][full]") = {
    [](Peer &peer) { peer.sync(); },
    [](Peer &peer) {
        if (device_is_loopback()) {
            const Nic by_alias("via9"), by_name("loopback");
            EXPECT_EQ(by_name.address("").host(), by_alias.address("").host());
        }
        peer.sync();
    },
};
