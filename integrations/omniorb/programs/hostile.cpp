// SPDX-License-Identifier: MIT
//
// A peer that does not speak the protocol: hostile NAME WHAT. Connects to the name over the device
// loopback as a client does, sends what it is asked for, and waits until the server has ended the
// connection. WHAT is nonsense, version, giop, credits, or silent, which stays until it is killed;
// or big-endian or little-endian, an end that speaks it, of that byte order.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "vipl/posix.h"
#include "vipl/vipl.h"

namespace {

// The stream engine's, as src/stream has them.
constexpr VIP_ULONG MOST_BYTES = 1 << 20;
constexpr VIP_UINT32 DATA = 1u << 24;

struct Hostile {
    alignas(64) VIP_DESCRIPTOR send{};
    alignas(64) VIP_DESCRIPTOR receive{};
    char bytes[1024] = {};
    char received[16384] = {};
};

VIP_NET_ADDRESS *address(char *room, const VIP_NIC_ATTRIBUTES &nic, const std::string &name)
{
    auto *net = reinterpret_cast<VIP_NET_ADDRESS *>(room);
    net->HostAddressLen = nic.NicAddressLen;
    net->DiscriminatorLen = static_cast<VIP_UINT16>(name.size());
    std::memcpy(net->HostAddress, nic.LocalNicAddress, nic.NicAddressLen);
    std::memcpy(net->HostAddress + nic.NicAddressLen, name.data(), name.size());
    return net;
}

void put(std::string &bytes, uint32_t value, bool big)
{
    for (int i = 0; i < 4; i++) {
        bytes.push_back(static_cast<char>(value >> 8 * (big ? 3 - i : i)));
    }
}

/* A LocateRequest of GIOP 1.0 for an object that the server has not, of either byte order. */
std::string locate_request(bool big)
{
    constexpr uint32_t request = 0x01020304;
    std::string bytes = std::string("GIOP\1\0", 6) + std::string(1, big ? '\0' : '\1') + "\3";
    put(bytes, 12, big); // the length of what follows
    put(bytes, request, big);
    put(bytes, 4, big); // the length of the key
    return bytes + "none";
}

/* Prints which request the server has answered by LocateReply, in its own byte order. */
void print_reply(const std::string &reply)
{
    const bool big = reply.size() == 20 && reply[6] == 0;
    uint32_t words[2] = {0, 0};
    for (size_t i = 0; i < 8 && reply.size() == 20; i++) {
        words[i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(reply[12 + i]))
                        << 8 * (big ? 3 - i % 4 : i % 4);
    }
    const bool unknown = reply.compare(0, 4, "GIOP") == 0 && reply[7] == 4 && words[1] == 0;
    std::printf("hostile: the server %s the object of request %u\n", unknown ? "has not" : "may have",
                static_cast<unsigned>(words[0]));
}

/* What is sent after the server's hello has come, which is a right one for this end, too. */
std::string bytes_for(const std::string &what, const std::string &hello)
{
    if (what == "nonsense") {
        return std::string(500, 'x');
    }
    if (what == "version") {
        return "VGIO" + std::string("\0\0\0\377", 4) + hello.substr(8);
    }
    if (what == "big-endian" || what == "little-endian") {
        return hello + locate_request(what == "big-endian");
    }
    return hello + "no message of GIOP at all, and certainly no header of one";
}

void must(VIP_RETURN rc, const char *what)
{
    if (rc != VIP_SUCCESS) {
        std::printf("hostile: %s: %s\n", what, VipxStrError(rc));
        std::exit(1);
    }
}

} // namespace

int main(int argc, char **argv)
{
    static Hostile hostile;
    static char local[256], remote[256];
    if (argc != 3) {
        return 2;
    }
    const std::string what = argv[2];
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_MEM_HANDLE memory;
    VIP_MEM_ATTRIBUTES rights = {nullptr, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES vi_attributes{}, peer;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *done;
    vi_attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    vi_attributes.MaxTransferSize = MOST_BYTES;
    vi_attributes.EnableRdmaRead = VIP_TRUE;
    must(VipxOpenNic("loopback", VIPX_QUIET, &nic), "open");
    must(VipQueryNic(nic, &attributes), "query");
    must(VipRegisterMem(nic, &hostile, sizeof(hostile), &rights, &memory), "register");
    must(VipCreateVi(nic, &vi_attributes, nullptr, nullptr, &vi), "create");
    hostile.receive.CS.SegCount = hostile.send.CS.SegCount = 1;
    hostile.receive.DS[0].Local.Data.Address = hostile.received;
    hostile.receive.DS[0].Local.Handle = memory;
    hostile.receive.DS[0].Local.Length = sizeof(hostile.received);
    must(VipPostRecv(vi, &hostile.receive, memory), "post"); // the server's hello
    must(VipConnectRequest(vi, address(local, attributes, "hostile"), address(remote, attributes, argv[1]),
                           5000, &peer),
         "connect");
    if (what == "silent") {
        std::puts("hostile: connected");
        std::fflush(stdout);
        (void)VipRecvWait(vi, VIP_INFINITE, &done); // the hello
        (void)VipSendWait(vi, VIP_INFINITE, &done);
        return 0;
    }
    must(VipRecvWait(vi, 5000, &done), "the server's hello");
    const std::string bytes = bytes_for(what, std::string(hostile.received, done->CS.Length));
    std::memcpy(hostile.bytes, bytes.data(), bytes.size());
    hostile.send.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    hostile.send.CS.ImmediateData = what == "credits" ? DATA | 0xffffff : DATA;
    hostile.send.DS[0].Local.Data.Address = hostile.bytes;
    hostile.send.DS[0].Local.Handle = memory;
    hostile.send.DS[0].Local.Length = static_cast<VIP_UINT32>(bytes.size());
    const bool wants_reply = what == "big-endian" || what == "little-endian";
    if (wants_reply) {
        hostile.receive.CS.Status = hostile.receive.CS.Length = 0;
        must(VipPostRecv(vi, &hostile.receive, memory), "post");
    }
    must(VipPostSend(vi, &hostile.send, memory), "send");
    if (wants_reply) {
        must(VipRecvWait(vi, 5000, &done), "the reply");
        print_reply(std::string(hostile.received, done->CS.Length));
        return 0;
    }
    for (VIP_VI_STATE state = VIP_STATE_CONNECTED; state == VIP_STATE_CONNECTED;) {
        VIP_BOOLEAN send_empty, receive_empty;
        must(VipQueryVi(vi, &state, &vi_attributes, &send_empty, &receive_empty), "query the VI");
        (void)VipRecvWait(vi, 10, &done);
    }
    std::puts("hostile: the server has ended the connection");
    return 0;
}
