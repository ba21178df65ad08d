// SPDX-License-Identifier: MIT
//
// The device rnic beside a driver that does what it likes: a second function of the same card sends
// control messages that are wrong, late, repeated, or of connections that are not its own. A
// program's connections stay, and its calls end.
#ifndef VIPL_TEST_UNIT_RNIC_STRANGER_HPP
#define VIPL_TEST_UNIT_RNIC_STRANGER_HPP

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/net_address.hpp"
#include "support/objects.hpp"

#define _Static_assert static_assert
extern "C" {
#include "backends/rnic/cm.h"
#include "backends/rnic/verbs/verbs.h"
#include "os/os.h"
}

namespace unit {

using namespace vipl_test;

constexpr const char *kDevice = "rnic:inproc";
constexpr VIP_ULONG kLong = 5000, kShort = 100;

inline cm_discriminator named(const std::string &text)
{
    cm_discriminator out = {};
    out.length = static_cast<std::uint16_t>(text.size());
    std::memcpy(out.bytes, text.data(), text.size());
    return out;
}

/** A NIC handle on the card, without the test's usual device. */
struct Handle {
    Handle() { REQUIRE(VipOpenNic(const_cast<char *>(kDevice), &nic) == VIP_SUCCESS); }
    ~Handle() { VipCloseNic(nic); }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;

    VIP_VI_HANDLE vi(VIP_USHORT level = VIP_SERVICE_RELIABLE_DELIVERY, VIP_ULONG most = 4096)
    {
        VIP_VI_ATTRIBUTES attributes = {};
        attributes.ReliabilityLevel = level;
        attributes.MaxTransferSize = most;
        VIP_VI_HANDLE out = nullptr;
        REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &out) == VIP_SUCCESS);
        return out;
    }
    NetAddress address(const std::string &discriminator) const
    {
        VIP_NIC_ATTRIBUTES attributes;
        REQUIRE(VipQueryNic(nic, &attributes) == VIP_SUCCESS);
        return NetAddress(
            std::string(reinterpret_cast<const char *>(attributes.LocalNicAddress), attributes.NicAddressLen),
            discriminator);
    }
    static VIP_VI_STATE state(VIP_VI_HANDLE vi)
    {
        VIP_VI_STATE state = VIP_STATE_ERROR;
        VIP_VI_ATTRIBUTES attributes;
        VIP_BOOLEAN send, recv;
        REQUIRE(VipQueryVi(vi, &state, &attributes, &send, &recv) == VIP_SUCCESS);
        return state;
    }
    VIP_NIC_HANDLE nic = nullptr;
};

/** The other driver: a function with one queue pair, and messages by hand. */
struct Stranger {
    explicit Stranger(std::uint8_t level = RNIC_LEVEL_DELIVERY)
    {
        REQUIRE(vipl_rnic_open("inproc", &rnic) == 0);
        REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
        REQUIRE(vipl_rnic_create_cq(rnic, 6, 1, &cq) == 0);
        const vipl_rnic_qp_attributes attributes = {pd, level, 0};
        REQUIRE(vipl_rnic_create_qp(rnic, cq, &attributes, &qp) == 0);
    }
    ~Stranger()
    {
        vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_ERROR, nullptr);
        vipl_rnic_destroy_qp(&qp);
        vipl_rnic_destroy_cq(cq);
        vipl_rnic_close(rnic);
    }
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;

    void send(std::uint16_t function, const cm_message &m)
    {
        std::uint8_t bytes[CM_MAX_BYTES];
        const std::size_t length = vipl_rnic_cm_write(&m, bytes);
        REQUIRE(vipl_rnic_send_control(rnic, vipl_rnic_query(rnic)->mac, function, bytes, length) == 0);
    }
    void send_raw(std::uint16_t function, const std::vector<std::uint8_t> &bytes)
    {
        REQUIRE(vipl_rnic_send_control(rnic, vipl_rnic_query(rnic)->mac, function, bytes.data(),
                                       bytes.size()) == 0);
    }
    cm_message request(const std::string &to, std::uint32_t serial) const
    {
        cm_message m = {};
        m.kind = RNIC_CONTROL_REQUEST;
        m.source_qp = qp.number;
        m.serial = serial;
        m.to = named(to);
        m.from = named("stranger");
        m.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
        m.params.max_transfer_size = 4096;
        m.ird = m.ord = 8;
        return m;
    }
    cm_message about(const cm_message &got, std::uint8_t kind) const
    {
        cm_message m = {};
        m.kind = kind;
        m.source_qp = qp.number;
        m.destination_qp = got.source_qp;
        m.serial = got.serial;
        return m;
    }
    /** As a VI that fits accepts the request. */
    cm_message acceptance(const cm_message &request) const
    {
        cm_message m = about(request, RNIC_CONTROL_ACCEPT);
        m.params = request.params;
        return m;
    }
    /** The next control message of that kind; kind 0 in it: none came. */
    cm_message await(std::uint8_t kind, std::uint8_t reason = 0, unsigned ms = 5000)
    {
        const std::uint64_t end = vipl_now_ns() + std::uint64_t{ms} * 1000000;
        vipl_rnic_event event;
        cm_message m = {};
        do {
            vipl_rnic_progress(rnic);
            while (vipl_rnic_next_event(rnic, &event)) {
                from = event.function;
                if (event.kind == RNIC_EVENT_CONTROL && vipl_rnic_cm_read(event.message, event.length, &m) &&
                    m.kind == kind && m.reason == reason) {
                    return m;
                }
            }
        } while (vipl_now_ns() < end);
        return cm_message{};
    }
    vipl_rnic *rnic = nullptr;
    vipl_rnic_pd pd = {};
    vipl_rnic_cq *cq = nullptr;
    vipl_rnic_qp qp = {};
    /** The queue pair meets the one that a message is from. */
    void meet(const cm_message &got, unsigned state)
    {
        vipl_rnic_qp_connection connection = {{{}, from, got.source_qp}, 8, 8, 0};
        std::memcpy(connection.peer.mac, vipl_rnic_query(rnic)->mac, sizeof(connection.peer.mac));
        REQUIRE(vipl_rnic_modify_qp(&qp, state, &connection) == 0);
    }
    /** A message of no bytes, or room for one. */
    void post(unsigned which)
    {
        vipl_rnic_work work = {};
        work.opcode = which == VIPL_RNIC_RQ ? RNIC_WORK_RECEIVE : RNIC_WORK_SEND;
        const auto post_one = which == VIPL_RNIC_RQ ? vipl_rnic_post_rq : vipl_rnic_post_sq;
        REQUIRE(post_one(&qp, &work) == EAGAIN); // it has no ring yet
        REQUIRE(vipl_rnic_grow_queue(&qp, which) == 0);
        REQUIRE(post_one(&qp, &work) == 0);
    }
    std::uint16_t from = 0;
};

/** Memory with a descriptor of no bytes. */
struct Descriptor {
    explicit Descriptor(VIP_NIC_HANDLE handle) : nic(handle)
    {
        VIP_MEM_ATTRIBUTES attributes = {};
        work.CS.Control = VIP_CONTROL_OP_SENDRECV;
        REQUIRE(VipRegisterMem(nic, &work, sizeof(work), &attributes, &tag) == VIP_SUCCESS);
    }
    ~Descriptor() { VipDeregisterMem(nic, &work, tag); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;

    alignas(64) VIP_DESCRIPTOR work = {};
    VIP_NIC_HANDLE nic;
    VIP_MEM_HANDLE tag = 0;
};

/** The result of a call in a thread of its own. */
struct Call {
    explicit Call(std::function<VIP_RETURN()> f) : thread([this, f] { rc = f(); }) {}
    VIP_RETURN join()
    {
        thread.join();
        return rc;
    }
    VIP_RETURN rc = VIP_NOT_DONE;
    std::thread thread;
};

/** Two VIs of one NIC handle that are connected. */
struct Connected {
    Connected() : a(handle.vi()), b(handle.vi())
    {
        NetAddress local = handle.address("pair"), from = handle.address("");
        Call accept([&] {
            VIP_VI_ATTRIBUTES attributes;
            VIP_CONN_HANDLE conn;
            const VIP_RETURN rc = VipConnectWait(handle.nic, local, kLong, from, &attributes, &conn);
            return rc != VIP_SUCCESS ? rc : VipConnectAccept(conn, b);
        });
        NetAddress own = handle.address("x"), remote = handle.address("pair");
        VIP_VI_ATTRIBUTES seen;
        const VIP_RETURN rc = VipConnectRequest(a, own, remote, kLong, &seen);
        REQUIRE(accept.join() == VIP_SUCCESS);
        REQUIRE(rc == VIP_SUCCESS);
    }
    ~Connected()
    {
        VipDisconnect(a);
        VipDisconnect(b);
        VipDestroyVi(a);
        VipDestroyVi(b);
    }
    void check_alive()
    {
        CHECK(Handle::state(a) == VIP_STATE_CONNECTED);
        CHECK(Handle::state(b) == VIP_STATE_CONNECTED);
    }
    Handle handle;
    VIP_VI_HANDLE a, b;
};

} // namespace unit

#endif
