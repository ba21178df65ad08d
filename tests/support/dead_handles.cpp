// SPDX-License-Identifier: MIT
//
// The calls. Out-parameters are the caller's own; those of the functions that tell nothing by their
// result are turned into a result.
#include "dead_handles.hpp"

#include <vipl/cache.h>
#include <vipl/posix.h>

namespace vipl_test {

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

/** Room for what calls give. */
struct Out {
    VIP_DESCRIPTOR *descriptor = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_CQ_HANDLE cq = nullptr;
    VIP_PROTECTION_HANDLE ptag = nullptr;
    VIP_CONN_HANDLE connection = nullptr;
    VIP_MEM_HANDLE memory = 0;
    VIP_BOOLEAN queue = VIP_FALSE;
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIPX_REGISTRATION registration{};
    VIP_NIC_ATTRIBUTES nic{};
    VIP_MEM_ATTRIBUTES rights{};
    VIP_AUTODISCOVERY_LIST list{};
    NetAddress address;
    VIP_CHAR name[64] = "localhost";
    VIP_ULONG length = sizeof name;
};

/** Calls with dead handles write nothing, so one is enough. */
Out &out()
{
    static thread_local Out room;
    return room;
}

using H = const Handles &;

} // namespace

const std::vector<HandleCall> &handle_calls()
{
    static const std::vector<HandleCall> calls = {
        {"VipQueryNic", [](H h) { return VipQueryNic(h.nic, &out().nic); }},
        {"VipQuerySystemManagementInfo",
         [](H h) { return VipQuerySystemManagementInfo(h.nic, VIP_SMI_AUTODISCOVERY, &out().list); }},
        {"VipErrorCallback", [](H h) { return VipErrorCallback(h.nic, nullptr, ignore_error); }},
        {"VipCreatePtag", [](H h) { return VipCreatePtag(h.nic, &out().ptag); }},
        {"VipDestroyPtag", [](H h) { return VipDestroyPtag(h.nic, h.ptag); }},
        {"VipRegisterMem",
         [](H h) { return VipRegisterMem(h.nic, h.address, 64, &out().rights, &out().memory); }},
        {"VipQueryMem", [](H h) { return VipQueryMem(h.nic, h.address, h.memory, &out().rights); }},
        {"VipSetMemAttributes",
         [](H h) { return VipSetMemAttributes(h.nic, h.address, h.memory, &out().rights); }},
        {"VipDeregisterMem", [](H h) { return VipDeregisterMem(h.nic, h.address, h.memory); }},
        {"VipxAcquireMem",
         [](H h) { return VipxAcquireMem(h.nic, h.address, 64, &out().rights, 0, &out().registration); }},
        {"VipxReleaseMem", [](H h) { return VipxReleaseMem(h.nic, &out().registration); }},
        {"VipxForgetMem", [](H h) { return VipxForgetMem(h.nic, h.address, 64); }},
        {"VipxAllocDevice",
         [](H h) {
             VIP_PVOID address = nullptr;
             return VipxAllocDevice(h.nic, 64, VIPX_DEVICE_DRAM, &address);
         }},
        {"VipxFreeDevice", [](H h) { return VipxFreeDevice(h.nic, h.address); }},
        {"VipCreateVi",
         [](H h) { return VipCreateVi(h.nic, &out().attributes, nullptr, nullptr, &out().vi); }},
        {"VipQueryVi", [](H h) { return VipQueryVi(h.vi, &out().state, nullptr, nullptr, nullptr); }},
        {"VipSetViAttributes", [](H h) { return VipSetViAttributes(h.vi, &out().attributes); }},
        {"VipSetUserData", [](H h) { return VipSetUserData(h.vi, h.address); }},
        {"VipGetUserData",
         [](H h) { return VipGetUserData(h.vi) == nullptr ? VIP_INVALID_PARAMETER : VIP_SUCCESS; }},
        {"VipConnectWait",
         [](H h) {
             return VipConnectWait(h.nic, h.local, VIP_INFINITE, out().address, &out().attributes,
                                   &out().connection);
         }},
        {"VipConnectAccept", [](H h) { return VipConnectAccept(h.connection, h.vi); }},
        {"VipConnectReject", [](H h) { return VipConnectReject(h.connection); }},
        {"VipxConnectRequest",
         [](H h) {
             return VipxConnectRequest(h.vi, h.local, h.remote, VIPX_AT_ONCE, VIP_INFINITE,
                                       &out().attributes);
         }},
        {"VipConnectRequest",
         [](H h) { return VipConnectRequest(h.vi, h.local, h.remote, VIP_INFINITE, &out().attributes); }},
        {"VipConnectPeerRequest",
         [](H h) { return VipConnectPeerRequest(h.vi, h.local, h.remote, VIP_INFINITE); }},
        {"VipConnectPeerDone", [](H h) { return VipConnectPeerDone(h.vi, nullptr); }},
        {"VipConnectPeerWait", [](H h) { return VipConnectPeerWait(h.vi, nullptr); }},
        {"VipDisconnect", [](H h) { return VipDisconnect(h.vi); }},
        {"VipPostSend", [](H h) { return VipPostSend(h.vi, h.descriptor, h.memory); }},
        {"VipPostRecv", [](H h) { return VipPostRecv(h.vi, h.descriptor, h.memory); }},
        {"VipSendDone", [](H h) { return VipSendDone(h.vi, &out().descriptor); }},
        {"VipRecvDone", [](H h) { return VipRecvDone(h.vi, &out().descriptor); }},
        {"VipSendWait", [](H h) { return VipSendWait(h.vi, VIP_INFINITE, &out().descriptor); }},
        {"VipRecvWait", [](H h) { return VipRecvWait(h.vi, VIP_INFINITE, &out().descriptor); }},
#ifdef SA_NOCLDSTOP // as in posix.h
        {"VipxSendWaitMask",
         [](H h) { return VipxSendWaitMask(h.vi, VIP_INFINITE, nullptr, &out().descriptor); }},
        {"VipxRecvWaitMask",
         [](H h) { return VipxRecvWaitMask(h.vi, VIP_INFINITE, nullptr, &out().descriptor); }},
#endif
        {"VipSendNotify", [](H h) { return VipSendNotify(h.vi, nullptr, ignore_vi); }},
        {"VipRecvNotify", [](H h) { return VipRecvNotify(h.vi, nullptr, ignore_vi); }},
        {"VipCreateCQ", [](H h) { return VipCreateCQ(h.nic, 8, &out().cq); }},
        {"VipResizeCQ", [](H h) { return VipResizeCQ(h.cq, 1024); }},
        {"VipCQDone", [](H h) { return VipCQDone(h.cq, &out().vi, &out().queue); }},
        {"VipCQWait", [](H h) { return VipCQWait(h.cq, VIP_INFINITE, &out().vi, &out().queue); }},
#ifdef SA_NOCLDSTOP // as in posix.h
        {"VipxCQWaitFds",
         [](H h) { return VipxCQWaitFds(h.cq, nullptr, 0, VIP_INFINITE, nullptr, &out().vi, &out().queue); }},
        {"VipxCQWaitMask",
         [](H h) { return VipxCQWaitMask(h.cq, VIP_INFINITE, nullptr, &out().vi, &out().queue); }},
#endif
        {"VipCQNotify", [](H h) { return VipCQNotify(h.cq, nullptr, ignore_cq); }},
        {"VipNSInit", [](H h) { return VipNSInit(h.nic, nullptr); }},
        {"VipNSGetHostByName", [](H h) { return VipNSGetHostByName(h.nic, out().name, out().address, 0); }},
        {"VipNSGetHostByAddr",
         [](H h) { return VipNSGetHostByAddr(h.nic, h.local, out().name, &out().length); }},
        {"VipNSShutdown", [](H h) { return VipNSShutdown(h.nic); }},
        {"VipxSetRestart", [](H h) { return VipxSetRestart(h.nic, VIP_TRUE); }},
        {"VipDestroyVi", [](H h) { return VipDestroyVi(h.vi); }},
        {"VipDestroyCQ", [](H h) { return VipDestroyCQ(h.cq); }},
        {"VipCloseNic", [](H h) { return VipCloseNic(h.nic); }},
    };
    return calls;
}

void expect_dead(const Handles &handles)
{
    for (const HandleCall &one : handle_calls()) {
        const VIP_RETURN rc = one.call(handles);
        if (rc != VIP_INVALID_PARAMETER) {
            throw Failure(std::string(one.function) + " with handles of another process returned " +
                          show(rc));
        }
    }
}

} // namespace vipl_test
