// SPDX-License-Identifier: MIT
//
// Every public function as a call on one bag of arguments, with the list of arguments it looks at.
// The bag starts good: what a correct program would pass. The tests spoil one argument, or all.
// A timeout in it is short, and every output pointer that is not NULL points at real memory.
#ifndef VIPL_STRESS_BADARGS_HPP
#define VIPL_STRESS_BADARGS_HPP

#include <functional>
#include <vector>

#include <vipl/vipl.h>

namespace stress {

/** Arguments that may be spoiled. */
enum Argument : unsigned {
    kNic = 1u << 0,
    kVi = 1u << 1,
    kCq = 1u << 2, // as the subject of the call
    kPtag = 1u << 3,
    kConn = 1u << 4,
    kMemHandle = 1u << 5,
    kDescriptor = 1u << 6,
    kMemAddress = 1u << 7,
    kIn = 1u << 8,      // a structure that is read: NULL
    kOut = 1u << 9,     // an output pointer: NULL
    kLocal = 1u << 10,  // a network address that is read
    kRemote = 1u << 11, // likewise
    kHandler = 1u << 12,
    kSendCq = 1u << 13, // of VipCreateVi: NULL is good
    kRecvCq = 1u << 14,
    kLength = 1u << 15,
    kName = 1u << 16
};

struct Arguments {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq, send_cq, recv_cq;
    VIP_PROTECTION_HANDLE ptag;
    VIP_CONN_HANDLE conn;
    VIP_MEM_HANDLE mem;
    VIP_PVOID address;
    VIP_ULONG length;
    VIP_ULONG timeout;
    VIP_DESCRIPTOR *descriptor;
    VIP_NET_ADDRESS *local, *remote;
    VIP_CHAR *name;
    VIP_VI_CALLBACK vi_handler;
    VIP_CQ_CALLBACK cq_handler;
    VIP_MEM_ATTRIBUTES *mem_attributes;
    VIP_VI_ATTRIBUTES *vi_attributes;

    /* What calls write to. One of them is NULL when kOut is spoiled: the call's own. */
    VIP_PVOID *out_handle; // of any kind of handle
    VIP_MEM_HANDLE *out_mem;
    VIP_DESCRIPTOR **out_descriptor;
    VIP_BOOLEAN *out_boolean;
    VIP_NIC_ATTRIBUTES *out_nic;
    VIP_MEM_ATTRIBUTES *out_mem_attributes;
    VIP_VI_ATTRIBUTES *out_vi_attributes;
    VIP_VI_STATE *out_state;
    VIP_NET_ADDRESS *out_address;
    VIP_CHAR *out_name;
    VIP_ULONG *out_name_length;
    VIP_AUTODISCOVERY_LIST *out_list;
};

struct Call {
    const char *name;
    unsigned looks_at; // Argument bits
    std::function<VIP_RETURN(const Arguments &)> run;
};

inline const std::vector<Call> &all_calls()
{
    using A = const Arguments &;
    static const std::vector<Call> calls = {
        {"VipOpenNic", kName | kOut,
         [](A a) {
             const VIP_RETURN rc = VipOpenNic(a.name, a.out_handle);
             return rc == VIP_SUCCESS ? VipCloseNic(*a.out_handle) : rc;
         }},
        {"VipCloseNic", kNic, [](A a) { return VipCloseNic(a.nic); }},
        {"VipQueryNic", kNic | kOut, [](A a) { return VipQueryNic(a.nic, a.out_nic); }},
        {"VipCreatePtag", kNic | kOut, [](A a) { return VipCreatePtag(a.nic, a.out_handle); }},
        {"VipDestroyPtag", kNic | kPtag, [](A a) { return VipDestroyPtag(a.nic, a.ptag); }},
        {"VipRegisterMem", kNic | kMemAddress | kLength | kOut,
         [](A a) {
             const VIP_RETURN rc = VipRegisterMem(a.nic, a.address, a.length, a.mem_attributes, a.out_mem);
             return rc == VIP_SUCCESS ? VipDeregisterMem(a.nic, a.address, *a.out_mem) : rc;
         }},
        {"VipDeregisterMem", kNic | kMemAddress | kMemHandle,
         [](A a) { return VipDeregisterMem(a.nic, a.address, a.mem); }},
        {"VipQueryMem", kNic | kMemAddress | kMemHandle | kOut,
         [](A a) { return VipQueryMem(a.nic, a.address, a.mem, a.out_mem_attributes); }},
        {"VipSetMemAttributes", kNic | kMemAddress | kMemHandle | kIn,
         [](A a) { return VipSetMemAttributes(a.nic, a.address, a.mem, a.mem_attributes); }},
        {"VipCreateVi", kNic | kIn | kSendCq | kRecvCq | kOut,
         [](A a) {
             const VIP_RETURN rc = VipCreateVi(a.nic, a.vi_attributes, a.send_cq, a.recv_cq, a.out_handle);
             return rc == VIP_SUCCESS ? VipDestroyVi(*a.out_handle) : rc;
         }},
        {"VipDestroyVi", kVi, [](A a) { return VipDestroyVi(a.vi); }},
        {"VipQueryVi", kVi | kOut,
         [](A a) { return VipQueryVi(a.vi, a.out_state, a.out_vi_attributes, a.out_boolean, nullptr); }},
        {"VipSetViAttributes", kVi | kIn, [](A a) { return VipSetViAttributes(a.vi, a.vi_attributes); }},
        {"VipSetUserData", kVi, [](A a) { return VipSetUserData(a.vi, a.address); }},
        {"VipGetUserData", kVi,
         [](A a) { return VipGetUserData(a.vi) == nullptr ? VIP_INVALID_PARAMETER : VIP_SUCCESS; }},
        {"VipConnectWait", kNic | kLocal | kOut,
         [](A a) {
             return VipConnectWait(a.nic, a.local, a.timeout, a.out_address, a.out_vi_attributes,
                                   a.out_handle);
         }},
        {"VipConnectAccept", kConn | kVi, [](A a) { return VipConnectAccept(a.conn, a.vi); }},
        {"VipConnectReject", kConn, [](A a) { return VipConnectReject(a.conn); }},
        {"VipConnectRequest", kVi | kLocal | kRemote,
         [](A a) { return VipConnectRequest(a.vi, a.local, a.remote, a.timeout, a.out_vi_attributes); }},
        {"VipDisconnect", kVi, [](A a) { return VipDisconnect(a.vi); }},
        {"VipConnectPeerRequest", kVi | kLocal | kRemote,
         [](A a) { return VipConnectPeerRequest(a.vi, a.local, a.remote, a.timeout); }},
        {"VipConnectPeerDone", kVi, [](A a) { return VipConnectPeerDone(a.vi, a.out_vi_attributes); }},
        {"VipConnectPeerWait", kVi, [](A a) { return VipConnectPeerWait(a.vi, a.out_vi_attributes); }},
        {"VipPostSend", kVi | kDescriptor | kMemHandle,
         [](A a) { return VipPostSend(a.vi, a.descriptor, a.mem); }},
        {"VipPostRecv", kVi | kDescriptor | kMemHandle,
         [](A a) { return VipPostRecv(a.vi, a.descriptor, a.mem); }},
        {"VipSendDone", kVi | kOut, [](A a) { return VipSendDone(a.vi, a.out_descriptor); }},
        {"VipRecvDone", kVi | kOut, [](A a) { return VipRecvDone(a.vi, a.out_descriptor); }},
        {"VipSendWait", kVi | kOut, [](A a) { return VipSendWait(a.vi, a.timeout, a.out_descriptor); }},
        {"VipRecvWait", kVi | kOut, [](A a) { return VipRecvWait(a.vi, a.timeout, a.out_descriptor); }},
        {"VipSendNotify", kVi | kHandler, [](A a) { return VipSendNotify(a.vi, a.address, a.vi_handler); }},
        {"VipRecvNotify", kVi | kHandler, [](A a) { return VipRecvNotify(a.vi, a.address, a.vi_handler); }},
        {"VipCreateCQ", kNic | kLength | kOut,
         [](A a) {
             const VIP_RETURN rc = VipCreateCQ(a.nic, a.length, a.out_handle);
             return rc == VIP_SUCCESS ? VipDestroyCQ(*a.out_handle) : rc;
         }},
        {"VipDestroyCQ", kCq, [](A a) { return VipDestroyCQ(a.cq); }},
        {"VipResizeCQ", kCq | kLength, [](A a) { return VipResizeCQ(a.cq, a.length); }},
        {"VipCQDone", kCq | kOut, [](A a) { return VipCQDone(a.cq, a.out_handle, a.out_boolean); }},
        {"VipCQWait", kCq | kOut,
         [](A a) { return VipCQWait(a.cq, a.timeout, a.out_handle, a.out_boolean); }},
        {"VipCQNotify", kCq | kHandler, [](A a) { return VipCQNotify(a.cq, a.address, a.cq_handler); }},
        {"VipErrorCallback", kNic, [](A a) { return VipErrorCallback(a.nic, a.address, nullptr); }},
        {"VipQuerySystemManagementInfo", kNic | kOut,
         [](A a) { return VipQuerySystemManagementInfo(a.nic, VIP_SMI_AUTODISCOVERY, a.out_list); }},
        {"VipNSInit", kNic, [](A a) { return VipNSInit(a.nic, nullptr); }},
        {"VipNSGetHostByName", kNic | kName | kOut,
         [](A a) { return VipNSGetHostByName(a.nic, a.name, a.out_address, a.length); }},
        {"VipNSGetHostByAddr", kNic | kLocal | kOut,
         [](A a) { return VipNSGetHostByAddr(a.nic, a.local, a.out_name, a.out_name_length); }},
        {"VipNSShutdown", kNic, [](A a) { return VipNSShutdown(a.nic); }},
    };
    return calls;
}

} // namespace stress

#endif
