// SPDX-License-Identifier: MIT
//
// Bad handles: every function, each of its handles being NULL, made up, stale or of another kind,
// answers VIP_INVALID_PARAMETER, hands back NULL where it hands back a handle or a descriptor, and
// leaves the good objects alone. Foreign handles are in the files of the functions that take two.
#include <functional>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

void VI_CALL ignore_vi(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
}
void VI_CALL ignore_cq(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
{
}
void VI_CALL ignore_error(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}

/** One live object of every kind, one stale handle of every kind, and arguments to go with them. */
struct World {
    World()
        : memory(nic), tag(nic), cq(nic), vi(nic), local(nic.address("w")),
          remote(nic.address(unique_discriminator())), work(memory.work())
    {
        REQUIRE_VIP(VipOpenNic(device_under_test(), &stale_nic));
        REQUIRE_VIP(VipCloseNic(stale_nic));
        REQUIRE_VIP(VipCreatePtag(nic, &stale_tag));
        REQUIRE_VIP(VipDestroyPtag(nic, stale_tag));
        REQUIRE_VIP(VipCreateCQ(nic, 1, &stale_cq));
        REQUIRE_VIP(VipDestroyCQ(stale_cq));
        VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
        attributes.EnableRdmaRead = VIP_FALSE;
        REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &stale_vi));
        REQUIRE_VIP(VipDestroyVi(stale_vi));
    }

    Nic nic;
    Memory memory;
    Ptag tag;
    Cq cq;
    Vi vi;
    VIP_NIC_HANDLE stale_nic = nullptr;
    VIP_PROTECTION_HANDLE stale_tag = nullptr;
    VIP_CQ_HANDLE stale_cq = nullptr;
    VIP_VI_HANDLE stale_vi = nullptr;

    NetAddress local, remote, out;
    VIP_VI_ATTRIBUTES vi_attribs = vi_attributes();
    VIP_MEM_ATTRIBUTES mem_attribs{};
    VIP_NIC_ATTRIBUTES nic_attribs{};
    VIP_AUTODISCOVERY_LIST list{1, nullptr, 0};
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN flag = VIP_FALSE;
    VIP_MEM_HANDLE mem_handle = 77;
    VIP_ULONG length = 100;
    char text[100] = "localhost";
    Work work;

    void *handle_out = this;                                             // must be NULL afterwards
    VIP_DESCRIPTOR *desc_out = reinterpret_cast<VIP_DESCRIPTOR *>(this); // likewise
};

enum class Kind { nic, vi, cq, conn };

struct Entry {
    const char *function;
    const char *level;
    Kind kind;
    VIP_RETURN (*call)(World &, void *handle);
    enum { nothing, nulls_handle, nulls_descriptor } out = nothing;
};

const Entry kEntries[] = {
    {"VipCloseNic", "early", Kind::nic, [](World &, void *h) { return VipCloseNic(h); }},
    {"VipQueryNic", "early", Kind::nic, [](World &w, void *h) { return VipQueryNic(h, &w.nic_attribs); }},
    {"VipCreatePtag", "early", Kind::nic, [](World &w, void *h) { return VipCreatePtag(h, &w.handle_out); },
     Entry::nulls_handle},
    {"VipDestroyPtag", "early", Kind::nic, [](World &w, void *h) { return VipDestroyPtag(h, w.tag); }},
    {"VipRegisterMem", "early", Kind::nic,
     [](World &w, void *h) { return VipRegisterMem(h, w.text, 10, &w.mem_attribs, &w.mem_handle); }},
    {"VipDeregisterMem", "early", Kind::nic,
     [](World &w, void *h) { return VipDeregisterMem(h, w.memory.data(), w.memory.handle()); }},
    {"VipQueryMem", "early", Kind::nic,
     [](World &w, void *h) { return VipQueryMem(h, w.memory.data(), w.memory.handle(), &w.mem_attribs); }},
    {"VipSetMemAttributes", "full", Kind::nic,
     [](World &w, void *h) {
         return VipSetMemAttributes(h, w.memory.data(), w.memory.handle(), &w.mem_attribs);
     }},
    {"VipCreateVi", "early", Kind::nic,
     [](World &w, void *h) { return VipCreateVi(h, &w.vi_attribs, nullptr, nullptr, &w.handle_out); },
     Entry::nulls_handle},
    {"VipConnectWait", "early", Kind::nic,
     [](World &w, void *h) { return VipConnectWait(h, w.local, 0, w.out, &w.vi_attribs, &w.handle_out); },
     Entry::nulls_handle},
    {"VipCreateCQ", "functional", Kind::nic,
     [](World &w, void *h) { return VipCreateCQ(h, 4, &w.handle_out); }, Entry::nulls_handle},
    {"VipErrorCallback", "functional", Kind::nic,
     [](World &, void *h) { return VipErrorCallback(h, nullptr, ignore_error); }},
    {"VipQuerySystemManagementInfo", "functional", Kind::nic,
     [](World &w, void *h) { return VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &w.list); }},
    {"VipNSInit", "functional", Kind::nic, [](World &, void *h) { return VipNSInit(h, nullptr); }},
    {"VipNSGetHostByName", "functional", Kind::nic,
     [](World &w, void *h) { return VipNSGetHostByName(h, w.text, w.out, 0); }},
    {"VipNSGetHostByAddr", "functional", Kind::nic,
     [](World &w, void *h) { return VipNSGetHostByAddr(h, w.local, w.text, &w.length); }},
    {"VipNSShutdown", "functional", Kind::nic, [](World &, void *h) { return VipNSShutdown(h); }},

    {"VipDestroyVi", "early", Kind::vi, [](World &, void *h) { return VipDestroyVi(h); }},
    {"VipQueryVi", "early", Kind::vi,
     [](World &w, void *h) { return VipQueryVi(h, &w.state, &w.vi_attribs, &w.flag, &w.flag); }},
    {"VipSetViAttributes", "full", Kind::vi,
     [](World &w, void *h) { return VipSetViAttributes(h, &w.vi_attribs); }},
    {"VipSetUserData", "functional", Kind::vi, [](World &w, void *h) { return VipSetUserData(h, &w); }},
    {"VipConnectRequest", "early", Kind::vi,
     [](World &w, void *h) { return VipConnectRequest(h, w.local, w.remote, 0, &w.vi_attribs); }},
    {"VipDisconnect", "early", Kind::vi, [](World &, void *h) { return VipDisconnect(h); }},
    {"VipConnectPeerRequest", "functional", Kind::vi,
     [](World &w, void *h) { return VipConnectPeerRequest(h, w.local, w.remote, 0); }},
    {"VipConnectPeerDone", "functional", Kind::vi,
     [](World &w, void *h) { return VipConnectPeerDone(h, &w.vi_attribs); }},
    {"VipConnectPeerWait", "functional", Kind::vi,
     [](World &w, void *h) { return VipConnectPeerWait(h, &w.vi_attribs); }},
    {"VipPostSend", "early", Kind::vi,
     [](World &w, void *h) { return VipPostSend(h, w.work.desc, w.work.handle); }},
    {"VipPostRecv", "early", Kind::vi,
     [](World &w, void *h) { return VipPostRecv(h, w.work.desc, w.work.handle); }},
    {"VipSendDone", "early", Kind::vi, [](World &w, void *h) { return VipSendDone(h, &w.desc_out); },
     Entry::nulls_descriptor},
    {"VipRecvDone", "early", Kind::vi, [](World &w, void *h) { return VipRecvDone(h, &w.desc_out); },
     Entry::nulls_descriptor},
    {"VipSendWait", "early", Kind::vi,
     [](World &w, void *h) { return VipSendWait(h, VIP_INFINITE, &w.desc_out); }, Entry::nulls_descriptor},
    {"VipRecvWait", "early", Kind::vi,
     [](World &w, void *h) { return VipRecvWait(h, VIP_INFINITE, &w.desc_out); }, Entry::nulls_descriptor},
    {"VipSendNotify", "functional", Kind::vi,
     [](World &, void *h) { return VipSendNotify(h, nullptr, ignore_vi); }},
    {"VipRecvNotify", "functional", Kind::vi,
     [](World &, void *h) { return VipRecvNotify(h, nullptr, ignore_vi); }},

    {"VipDestroyCQ", "functional", Kind::cq, [](World &, void *h) { return VipDestroyCQ(h); }},
    {"VipResizeCQ", "full", Kind::cq, [](World &, void *h) { return VipResizeCQ(h, 8); }},
    {"VipCQDone", "functional", Kind::cq,
     [](World &w, void *h) { return VipCQDone(h, &w.handle_out, &w.flag); }, Entry::nulls_handle},
    {"VipCQWait", "functional", Kind::cq,
     [](World &w, void *h) { return VipCQWait(h, VIP_INFINITE, &w.handle_out, &w.flag); },
     Entry::nulls_handle},
    {"VipCQNotify", "functional", Kind::cq,
     [](World &, void *h) { return VipCQNotify(h, nullptr, ignore_cq); }},

    {"VipConnectAccept", "early", Kind::conn, [](World &w, void *h) { return VipConnectAccept(h, w.vi); }},
    {"VipConnectReject", "early", Kind::conn, [](World &, void *h) { return VipConnectReject(h); }},
};

void try_handle(const Entry &entry, const char *which, World &world, void *handle)
{
    world.handle_out = &world;
    world.desc_out = reinterpret_cast<VIP_DESCRIPTOR *>(&world);
    const VIP_RETURN rc = entry.call(world, handle);
    if (rc != VIP_INVALID_PARAMETER) {
        throw Failure(std::string(entry.function) + " of " + which +
                      "\n    expected VIP_INVALID_PARAMETER\n    returned " + show(rc));
    }
    if (entry.out == Entry::nulls_handle && world.handle_out != nullptr) {
        throw Failure(std::string(entry.function) + " of " + which +
                      " did not write NULL to its out-pointer");
    }
    if (entry.out == Entry::nulls_descriptor && world.desc_out != nullptr) {
        throw Failure(std::string(entry.function) + " of " + which +
                      " did not write NULL to its out-pointer");
    }
}

struct Bad {
    const char *which;
    void *handle;
};

std::vector<Bad> bad_handles(World &world, Kind kind)
{
    std::vector<Bad> all = {
        {"NULL", nullptr},
        {"a made-up handle", &world},
        {"an all-ones handle", reinterpret_cast<void *>(~static_cast<uintptr_t>(0))},
        {"a small number", reinterpret_cast<void *>(static_cast<uintptr_t>(1))},
        {"a stale NIC handle", world.stale_nic},
        {"a stale protection tag", world.stale_tag},
        {"a stale completion queue", world.stale_cq},
        {"a stale VI", world.stale_vi},
        {"a protection tag", world.tag},
    };
    if (kind != Kind::nic) {
        all.push_back({"a NIC handle", world.nic});
    }
    if (kind != Kind::vi) {
        all.push_back({"a VI", world.vi});
    }
    if (kind != Kind::cq) {
        all.push_back({"a completion queue", world.cq});
    }
    return all;
}

bool register_entries()
{
    static const char *const kinds[] = {"NIC handle", "VI", "completion queue", "connection handle"};
    for (const Entry &entry : kEntries) {
        register_case(
            std::string(entry.function) + " of a NULL, made-up, stale or other kind's handle for its " +
                kinds[static_cast<int>(entry.kind)] + " is VIP_INVALID_PARAMETER",
            std::string("[") + entry.function + "][" + entry.level + "]", CATCH_INTERNAL_LINEINFO, [&entry] {
                World world;
                for (const Bad &bad : bad_handles(world, entry.kind)) {
                    try_handle(entry, bad.which, world, bad.handle);
                }
                EXPECT_EQ(VIP_STATE_IDLE, world.vi.state()); // nothing has changed
                EXPECT(world.vi.send_queue_empty() && world.vi.recv_queue_empty());
            });
    }
    return true;
}

[[maybe_unused]] const bool registered = register_entries();

struct NullOut {
    const char *function;
    const char *level;
    VIP_RETURN (*call)(World &);
};

const NullOut kNullOuts[] = {
    {"VipSendDone", "early", [](World &w) { return VipSendDone(w.vi, nullptr); }},
    {"VipRecvDone", "early", [](World &w) { return VipRecvDone(w.vi, nullptr); }},
    {"VipSendWait", "early", [](World &w) { return VipSendWait(w.vi, 0, nullptr); }},
    {"VipRecvWait", "early", [](World &w) { return VipRecvWait(w.vi, 0, nullptr); }},
    {"VipCQDone", "functional", [](World &w) { return VipCQDone(w.cq, nullptr, &w.flag); }},
    {"VipCQWait", "functional", [](World &w) { return VipCQWait(w.cq, 0, nullptr, &w.flag); }},
    {"VipCreateCQ", "functional", [](World &w) { return VipCreateCQ(w.nic, 4, nullptr); }},
    {"VipSendNotify", "functional", [](World &w) { return VipSendNotify(w.vi, nullptr, nullptr); }},
    {"VipRecvNotify", "functional", [](World &w) { return VipRecvNotify(w.vi, nullptr, nullptr); }},
    {"VipCQNotify", "functional", [](World &w) { return VipCQNotify(w.cq, nullptr, nullptr); }},
    {"VipPostSend", "early", [](World &w) { return VipPostSend(w.vi, nullptr, w.memory.handle()); }},
    {"VipPostRecv", "early", [](World &w) { return VipPostRecv(w.vi, nullptr, w.memory.handle()); }},
    {"VipConnectWait", "early",
     [](World &w) { return VipConnectWait(w.nic, w.local, 0, w.out, &w.vi_attribs, nullptr); }},
    {"VipConnectRequest", "early",
     [](World &w) { return VipConnectRequest(w.vi, w.local, nullptr, 0, &w.vi_attribs); }},
    {"VipConnectPeerRequest", "functional",
     [](World &w) { return VipConnectPeerRequest(w.vi, w.local, nullptr, 0); }},
    {"VipNSGetHostByName", "functional",
     [](World &w) { return VipNSGetHostByName(w.nic, w.text, nullptr, 0); }},
    {"VipNSGetHostByAddr", "functional",
     [](World &w) { return VipNSGetHostByAddr(w.nic, w.local, w.text, nullptr); }},
};

bool register_null_outs()
{
    for (const NullOut &entry : kNullOuts) {
        register_case(
            std::string(entry.function) + " with NULL for a pointer it needs is VIP_INVALID_PARAMETER",
            std::string("[") + entry.function + "][" + entry.level + "]", CATCH_INTERNAL_LINEINFO, [&entry] {
                World world;
                EXPECT_EQ(VIP_INVALID_PARAMETER, entry.call(world));
                EXPECT_EQ(VIP_STATE_IDLE, world.vi.state());
            });
    }
    return true;
}

[[maybe_unused]] const bool null_outs_registered = register_null_outs();

} // namespace
