// SPDX-License-Identifier: MIT
//
// What the fault cases share: a connected pair whose client alone has a fault plan. Faults are read
// when a NIC handle is opened, so the setting is taken back as soon as the client's is.
#ifndef VIPL_TESTS_FAULT_SCENE_HPP
#define VIPL_TESTS_FAULT_SCENE_HPP

#include <cstdio>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "support/error_log.hpp"
#include "support/objects.hpp"
#include "support/setting.hpp"

namespace vipl_test {

/** A NIC handle opened under a plan. */
inline std::unique_ptr<Nic> nic_with_faults(const std::string &plan)
{
    const EnvironmentSetting setting("VIPL_FAULTS", plan);
    return std::make_unique<Nic>();
}

/** Two connected VIs of one process; the client's NIC handle has the plan. */
class FaultyPair {
public:
    explicit FaultyPair(const std::string &plan, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
                        bool send_cq = false)
        : client_nic_(nic_with_faults(plan)), client_nic(*client_nic_),
          server_memory(server_nic, 256 * 1024, write_memory()),
          client_memory(client_nic, 256 * 1024, write_memory()),
          cq(send_cq ? std::make_unique<Cq>(client_nic) : nullptr), server(server_nic, vi_attributes(level)),
          client(client_nic, vi_attributes(level), cq ? static_cast<VIP_CQ_HANDLE>(*cq) : nullptr)
    {
        connect_pair(server_nic, server, client_nic, client);
    }

    /** A receive on the server; a send on the client. */
    Work receive(size_t size = 64)
    {
        const Work work = server_memory.transfer(server_memory.bytes(size));
        post_recv(server, work);
        return work;
    }
    Work send(const std::string &text = "message")
    {
        const Work work = client_memory.transfer(client_memory.text(text));
        post_send(client, work);
        return work;
    }

    static VIP_MEM_ATTRIBUTES write_memory() { return {nullptr, VIP_TRUE, VIP_FALSE}; }

private:
    std::unique_ptr<Nic> client_nic_;

public:
    Nic server_nic;
    Nic &client_nic;
    Memory server_memory, client_memory;
    std::unique_ptr<Cq> cq;
    Vi server, client;
};

} // namespace vipl_test

#endif
