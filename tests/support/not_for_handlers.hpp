// SPDX-License-Identifier: MIT
//
// The functions that are not async-signal-safe, each as a call that a handler may try: where it
// does run, it comes back at once and changes nothing.
#ifndef VIPL_TESTS_NOT_FOR_HANDLERS_HPP
#define VIPL_TESTS_NOT_FOR_HANDLERS_HPP

#include <vipl/cache.h>
#include <vipl/posix.h>

#include "objects.hpp"

namespace vipl_test {

/** What the calls name. The VI stays idle. */
struct Bystander {
    explicit Bystander(VIP_VI_ATTRIBUTES attributes = vi_attributes())
        : memory(nic, 4096), cq(nic), vi(nic, attributes)
    {
    }

    Nic nic;
    Memory memory;
    Cq cq;
    Vi vi;

    // what the calls hand out
    VIP_DESCRIPTOR *descriptor = nullptr;
    VIP_PVOID handle = nullptr;
    VIP_BOOLEAN flag = VIP_FALSE;
};

struct NotForHandlers {
    const char *name;
    VIP_RETURN (*call)(Bystander &);
};

inline const NotForHandlers kNotForHandlers[] = {
    {"VipSendWait", [](Bystander &b) { return VipSendWait(b.vi, 0, &b.descriptor); }},
    {"VipRecvWait", [](Bystander &b) { return VipRecvWait(b.vi, 0, &b.descriptor); }},
    {"VipCQWait", [](Bystander &b) { return VipCQWait(b.cq, 0, &b.handle, &b.flag); }},
    {"VipxSendWaitMask", [](Bystander &b) { return VipxSendWaitMask(b.vi, 0, nullptr, &b.descriptor); }},
    {"VipxRecvWaitMask", [](Bystander &b) { return VipxRecvWaitMask(b.vi, 0, nullptr, &b.descriptor); }},
    {"VipxCQWaitFds",
     [](Bystander &b) { return VipxCQWaitFds(b.cq, nullptr, 0, 0, nullptr, &b.handle, &b.flag); }},
    {"VipxCQWaitMask", [](Bystander &b) { return VipxCQWaitMask(b.cq, 0, nullptr, &b.handle, &b.flag); }},
    {"VipxAcquireMem", [](Bystander &b) { return VipxAcquireMem(b.nic, nullptr, 0, nullptr, 0, nullptr); }},
    {"VipxReleaseMem", [](Bystander &b) { return VipxReleaseMem(b.nic, nullptr); }},
    {"VipxForgetMem", [](Bystander &b) { return VipxForgetMem(b.nic, nullptr, 0); }},
    {"VipxAllocDevice", [](Bystander &b) { return VipxAllocDevice(b.nic, 0, VIPX_DEVICE_DRAM, nullptr); }},
    {"VipxFreeDevice", [](Bystander &) { return VipxFreeDevice(nullptr, nullptr); }},
    {"VipxSetRestart", [](Bystander &b) { return VipxSetRestart(b.nic, VIP_FALSE); }},
    {"VipOpenNic", [](Bystander &) { return VipOpenNic("loopback", nullptr); }},
    {"VipxListDevices", [](Bystander &) { return VipxListDevices(nullptr, nullptr); }},
    {"VipxSetLogHandler",
     [](Bystander &) { return VipxSetLogHandler(static_cast<VIPX_LOG_LEVEL>(99), nullptr, nullptr); }},
    {"VipCloseNic", [](Bystander &) { return VipCloseNic(nullptr); }},
    {"VipCreateVi", [](Bystander &b) { return VipCreateVi(b.nic, nullptr, nullptr, nullptr, &b.handle); }},
    {"VipDestroyVi", [](Bystander &) { return VipDestroyVi(nullptr); }},
    {"VipSetViAttributes", [](Bystander &b) { return VipSetViAttributes(b.vi, nullptr); }},
    {"VipCreateCQ", [](Bystander &b) { return VipCreateCQ(b.nic, 0, &b.handle); }},
    {"VipDestroyCQ", [](Bystander &) { return VipDestroyCQ(nullptr); }},
    {"VipResizeCQ", [](Bystander &b) { return VipResizeCQ(b.cq, 64); }},
    {"VipConnectAccept", [](Bystander &) { return VipConnectAccept(nullptr, nullptr); }},
    {"VipConnectReject", [](Bystander &) { return VipConnectReject(nullptr); }},
    {"VipxConnectRequest",
     [](Bystander &b) { return VipxConnectRequest(b.vi, nullptr, nullptr, VIPX_AT_ONCE, 0, nullptr); }},
    {"VipConnectRequest", [](Bystander &b) { return VipConnectRequest(b.vi, nullptr, nullptr, 0, nullptr); }},
    {"VipConnectWait",
     [](Bystander &b) { return VipConnectWait(b.nic, nullptr, 0, nullptr, nullptr, &b.handle); }},
    {"VipConnectPeerRequest", [](Bystander &b) { return VipConnectPeerRequest(b.vi, nullptr, nullptr, 0); }},
    {"VipConnectPeerDone", [](Bystander &b) { return VipConnectPeerDone(b.vi, nullptr); }},
    {"VipConnectPeerWait", [](Bystander &b) { return VipConnectPeerWait(b.vi, nullptr); }},
    {"VipDisconnect", [](Bystander &b) { return VipDisconnect(b.vi); }},
    {"VipSetUserData", [](Bystander &b) { return VipSetUserData(b.vi, nullptr); }},
    {"VipQueryNic",
     [](Bystander &b) {
         VIP_NIC_ATTRIBUTES attributes;
         return VipQueryNic(b.nic, &attributes);
     }},
    {"VipCreatePtag", [](Bystander &b) { return VipCreatePtag(nullptr, &b.handle); }},
    {"VipDestroyPtag", [](Bystander &b) { return VipDestroyPtag(b.nic, nullptr); }},
    {"VipRegisterMem", [](Bystander &b) { return VipRegisterMem(b.nic, nullptr, 0, nullptr, nullptr); }},
    {"VipDeregisterMem", [](Bystander &b) { return VipDeregisterMem(b.nic, nullptr, 0); }},
    {"VipQueryMem",
     [](Bystander &b) {
         VIP_MEM_ATTRIBUTES attributes;
         return VipQueryMem(b.nic, b.memory.data(), b.memory.handle(), &attributes);
     }},
    {"VipSetMemAttributes", [](Bystander &b) { return VipSetMemAttributes(b.nic, nullptr, 0, nullptr); }},
    {"VipSendNotify", [](Bystander &b) { return VipSendNotify(b.vi, nullptr, nullptr); }},
    {"VipRecvNotify", [](Bystander &b) { return VipRecvNotify(b.vi, nullptr, nullptr); }},
    {"VipCQNotify", [](Bystander &b) { return VipCQNotify(b.cq, nullptr, nullptr); }},
    {"VipErrorCallback", [](Bystander &b) { return VipErrorCallback(b.nic, nullptr, nullptr); }},
    {"VipQuerySystemManagementInfo",
     [](Bystander &b) { return VipQuerySystemManagementInfo(b.nic, 0, nullptr); }},
    {"VipNSInit", [](Bystander &b) { return VipNSInit(b.nic, nullptr); }},
    {"VipNSShutdown", [](Bystander &b) { return VipNSShutdown(b.nic); }},
    {"VipNSGetHostByName", [](Bystander &b) { return VipNSGetHostByName(b.nic, nullptr, nullptr, 0); }},
    {"VipNSGetHostByAddr", [](Bystander &b) { return VipNSGetHostByAddr(b.nic, nullptr, nullptr, nullptr); }},
};

inline constexpr size_t kNotForHandlersCount = sizeof kNotForHandlers / sizeof kNotForHandlers[0];

} // namespace vipl_test

#endif
