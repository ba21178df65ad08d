// SPDX-License-Identifier: MIT
//
// A world for calls with bad arguments: one object of each kind and state, what is foreign to them
// and what is stale, and memory that the calls may read and write.
#ifndef VIPL_STRESS_BADARGS_WORLD_HPP
#define VIPL_STRESS_BADARGS_WORLD_HPP

#include "badargs.hpp"
#include "stress.hpp"

namespace stress {

inline void VI_CALL ignore_vi(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
}
inline void VI_CALL ignore_cq(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
{
}
inline void VI_CALL ignore_error(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}

/** A VIP_NET_ADDRESS with room for any two lengths. */
struct RoomyAddress {
    std::vector<VIP_UINT8> bytes = std::vector<VIP_UINT8>(4 + 2 * 65536);

    VIP_NET_ADDRESS *get() { return reinterpret_cast<VIP_NET_ADDRESS *>(bytes.data()); }
    void set(VIP_UINT16 host, VIP_UINT16 discriminator)
    {
        get()->HostAddressLen = host;
        get()->DiscriminatorLen = discriminator;
    }
};

/** One object of each kind and state, good, foreign and stale; and where calls may write. */
struct World {
    World()
    {
        REQUIRE_VIP(VipErrorCallback(nic, nullptr, ignore_error));
        connect_pair(nic, connected, nic, connected_peer);
        connect_pair(nic, broken, nic, broken_peer);
        REQUIRE_VIP(VipDisconnect(broken_peer));
        broken.await(VIP_STATE_ERROR);
        make_stale();
        requester = std::thread([this] { request_to(foreign_nic, discriminator, foreign_vi); });
        NetAddress local = nic.address(discriminator);
        NetAddress from;
        VIP_VI_ATTRIBUTES attributes{};
        REQUIRE_VIP(VipConnectWait(nic, local, patience(), from, &attributes, &conn));
        VIP_DESCRIPTOR *descriptor = memory.transfer(memory.bytes(1000)).desc;
        good = {nic,
                nullptr,
                cq,
                cq,
                cq,
                ptag,
                conn,
                memory.handle(),
                memory.data(),
                64,
                0,
                descriptor,
                local_address.get(),
                remote_address.get(),
                name,
                ignore_vi,
                ignore_cq,
                &mem_attributes,
                &attributes_in,
                &out_handle,
                &out_mem,
                &out_descriptor,
                &out_boolean,
                &out_nic,
                &out_mem_attributes,
                &out_vi_attributes,
                &out_state,
                out_address.get(),
                out_name,
                &out_name_length,
                &out_list};
        reset_inputs();
    }

    ~World()
    {
        VipConnectReject(conn);
        VipCloseNic(foreign_nic); // ends the request in any case
        requester.join();
    }

    /** Good contents for everything that a pointer argument points at. */
    void reset_inputs()
    {
        const std::string host("\x7f\0\0\1\0\0", 6);
        for (RoomyAddress *address : {&local_address, &remote_address}) {
            address->set(6, 4);
            std::memcpy(address->get()->HostAddress, (host + "none").data(), 10);
        }
        out_address.set(65535, 65535);
        std::strcpy(name, "localhost");
        mem_attributes = {nullptr, VIP_TRUE, VIP_TRUE};
        attributes_in = vi_attributes();
        out_name_length = sizeof out_name;
        out_list.NumberOfHops = 1;
    }

    void make_stale()
    {
        const Nic old_nic;
        const Vi old_vi(old_nic);
        const Cq old_cq(old_nic);
        const Ptag old_ptag(old_nic);
        const Memory old_memory(old_nic, 4096);
        stale = {old_nic.handle(), old_vi, old_cq, old_ptag};
        stale_mem = old_memory.handle();
    }

    Nic nic, foreign_nic;
    const std::string discriminator = unique_discriminator();
    Memory memory{nic, 256 * 1024, rdma_memory()}, foreign_memory{foreign_nic, 4096};
    Vi idle{nic}, connected{nic}, connected_peer{nic}, broken{nic}, broken_peer{nic};
    Vi foreign_vi{foreign_nic};
    Cq cq{nic}, foreign_cq{foreign_nic};
    Ptag ptag{nic}, foreign_ptag{foreign_nic};
    VIP_CONN_HANDLE conn = nullptr;
    std::vector<VIP_PVOID> stale;
    VIP_MEM_HANDLE stale_mem = 0;
    std::thread requester;

    RoomyAddress local_address, remote_address, out_address;
    VIP_CHAR name[2000] = "";
    VIP_MEM_ATTRIBUTES mem_attributes{}, out_mem_attributes{};
    VIP_VI_ATTRIBUTES attributes_in{}, out_vi_attributes{};
    VIP_PVOID out_handle = nullptr;
    VIP_MEM_HANDLE out_mem = 0;
    VIP_DESCRIPTOR *out_descriptor = nullptr;
    VIP_BOOLEAN out_boolean = 0;
    VIP_NIC_ATTRIBUTES out_nic{};
    VIP_VI_STATE out_state{};
    VIP_CHAR out_name[300] = "";
    VIP_ULONG out_name_length = 0;
    VIP_AUTODISCOVERY_LIST out_list{};
    Arguments good{};
};

} // namespace stress

#endif
