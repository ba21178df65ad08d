// SPDX-License-Identifier: MIT
//
// The tables behind names.hpp. They are indexed by the values that vipl.h fixes, as old programs
// do; a value outside a table is named as such and never crashes a message.
#include "names.hpp"

namespace vipl_test {

namespace {

template <size_t N>
const char *pick(const char *const (&table)[N], long value)
{
    return value >= 0 && value < static_cast<long>(N) ? table[value] : "(a value VIPL does not have)";
}

struct Bit {
    VIP_UINT32 value;
    const char *name;
};

const Bit kErrorBits[] = {
    {VIP_STATUS_FORMAT_ERROR, "FORMAT_ERROR"},
    {VIP_STATUS_PROTECTION_ERROR, "PROTECTION_ERROR"},
    {VIP_STATUS_LENGTH_ERROR, "LENGTH_ERROR"},
    {VIP_STATUS_PARTIAL_ERROR, "PARTIAL_ERROR"},
    {VIP_STATUS_DESC_FLUSHED_ERROR, "DESC_FLUSHED_ERROR"},
    {VIP_STATUS_TRANSPORT_ERROR, "TRANSPORT_ERROR"},
    {VIP_STATUS_RDMA_PROT_ERROR, "RDMA_PROT_ERROR"},
    {VIP_STATUS_REMOTE_DESC_ERROR, "REMOTE_DESC_ERROR"},
    {VIP_STATUS_IMMEDIATE, "IMMEDIATE"},
};

} // namespace

const char *return_name(VIP_RETURN code)
{
    static const char *const names[] = {
        "VIP_SUCCESS",
        "VIP_NOT_DONE",
        "VIP_INVALID_PARAMETER",
        "VIP_ERROR_RESOURCE",
        "VIP_TIMEOUT",
        "VIP_REJECT",
        "VIP_INVALID_RELIABILITY_LEVEL",
        "VIP_INVALID_MTU",
        "VIP_INVALID_QOS",
        "VIP_INVALID_PTAG",
        "VIP_INVALID_RDMAREAD",
        "VIP_DESCRIPTOR_ERROR",
        "VIP_INVALID_STATE",
        "VIP_ERROR_NAMESERVICE",
        "VIP_NO_MATCH",
        "VIP_NOT_REACHABLE",
        "VIP_ERROR_NOT_SUPPORTED",
        "VIP_INTERRUPTED",
    };
    return pick(names, code);
}

const char *state_name(VIP_VI_STATE state)
{
    static const char *const names[] = {"VIP_STATE_IDLE", "VIP_STATE_CONNECTED", "VIP_STATE_CONNECT_PENDING",
                                        "VIP_STATE_ERROR"};
    return pick(names, state);
}

const char *error_name(VIP_ERROR_CODE code)
{
    static const char *const names[] = {
        "VIP_ERROR_POST_DESC",  "VIP_ERROR_CONN_LOST",      "VIP_ERROR_RECVQ_EMPTY",  "VIP_ERROR_VI_OVERRUN",
        "VIP_ERROR_RDMAW_PROT", "VIP_ERROR_RDMAW_DATA",     "VIP_ERROR_RDMAW_ABORT",  "VIP_ERROR_RDMAR_PROT",
        "VIP_ERROR_COMP_PROT",  "VIP_ERROR_RDMA_TRANSPORT", "VIP_ERROR_CATASTROPHIC",
    };
    return pick(names, code);
}

const char *resource_name(VIP_RESOURCE_CODE code)
{
    static const char *const names[] = {"VIP_RESOURCE_NIC", "VIP_RESOURCE_VI", "VIP_RESOURCE_CQ",
                                        "VIP_RESOURCE_DESCRIPTOR"};
    return pick(names, code);
}

const char *level_name(VIP_RELIABILITY_LEVEL level)
{
    switch (level) {
    case VIP_SERVICE_UNRELIABLE:
        return "Unreliable Delivery";
    case VIP_SERVICE_RELIABLE_DELIVERY:
        return "Reliable Delivery";
    case VIP_SERVICE_RELIABLE_RECEPTION:
        return "Reliable Reception";
    default:
        return "(no level)";
    }
}

std::string status_text(VIP_UINT32 status)
{
    static const char *const operations[] = {"OP_SEND", "OP_RECEIVE", "OP_RDMA_WRITE", "OP_REMOTE_RDMA_WRITE",
                                             "OP_RDMA_READ"};
    std::ostringstream out;
    out << ((status & VIP_STATUS_DONE) != 0 ? "DONE | " : "not done | ");
    out << pick(operations, static_cast<long>((status & VIP_STATUS_OP_MASK) >> 16));
    for (const Bit &bit : kErrorBits) {
        if ((status & bit.value) != 0) {
            out << " | " << bit.name;
        }
    }
    out << " (0x" << std::hex << status << ')';
    return out.str();
}

} // namespace vipl_test
