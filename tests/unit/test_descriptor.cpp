// SPDX-License-Identifier: MIT
//
// Reading descriptors: the layout as bytes, on the byte order and pointer size of this CPU; what
// may be posted; segment lists; every error; and a descriptor that changes after it was posted.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <string>

#include "internal.hpp"
#include "support/system.hpp"

namespace {

constexpr size_t kArena = 64 * 1024;

/** A NIC handle with a VI whose send queue is locked, and registered memory. */
class Bench {
public:
    explicit Bench(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY, bool own_tag = false)
        : arena(static_cast<unsigned char *>(vipl_test::allocate_aligned(64, kArena)))
    {
        std::memset(arena.get(), 0, kArena);
        REQUIRE(VipOpenNic("loopback", &nic) == VIP_SUCCESS);
        REQUIRE(VipCreatePtag(nic, &tag) == VIP_SUCCESS);
        VIP_VI_ATTRIBUTES attributes = {level, 10000, nullptr, own_tag ? tag : nullptr, 0, 0};
        REQUIRE(VipCreateVi(nic, &attributes, nullptr, nullptr, &handle) == VIP_SUCCESS);
        VIP_MEM_ATTRIBUTES rights = {own_tag ? tag : nullptr, VIP_FALSE, VIP_FALSE};
        REQUIRE(VipRegisterMem(nic, arena.get(), kArena, &rights, &mem) == VIP_SUCCESS);
        vi = vipl_vi_lock_send(handle);
        for (vipl_queue *q : {&vi->send, &vi->recv}) { // as a post of many segments would
            REQUIRE(vipl_queue_make_long_list_locked(q));
        }
    }
    ~Bench()
    {
        vipl_biased_unlock(&vi->send.lock);
        VipCloseNic(nic);
    }

    VIP_DESCRIPTOR *descriptor(size_t offset = 0) const
    {
        return reinterpret_cast<VIP_DESCRIPTOR *>(arena.get() + offset);
    }
    VIP_DATA_SEGMENT &segment(unsigned i) const
    {
        return reinterpret_cast<VIP_DATA_SEGMENT *>(arena.get() + sizeof(VIP_CONTROL_SEGMENT))[i];
    }
    void fill(unsigned count, VIP_UINT32 bytes, VIP_UINT16 control = 0) const
    {
        descriptor()->CS.SegCount = static_cast<VIP_UINT16>(count);
        descriptor()->CS.Control = control;
        for (unsigned i = 0; i < count; ++i) {
            segment(i).Data.Address = arena.get() + 8192 + i * 100;
            segment(i).Handle = mem;
            segment(i).Length = bytes;
        }
    }

    /** VIP_RETURN of admission; `status` has the error bits. */
    VIP_RETURN admit(const VIP_DESCRIPTOR *d)
    {
        return vipl_descriptor_admit(&vi->send, d, mem, &status, &segments);
    }
    std::uint32_t send(std::uint16_t admitted)
    {
        vipl_work work{};
        work.descriptor = descriptor();
        work.segments = admitted;
        return vipl_descriptor_read_send(vi, &work, out.get());
    }
    std::uint32_t send() { return send(descriptor()->CS.SegCount); }
    /** For a message of so many bytes. */
    std::uint32_t receive(size_t bytes)
    {
        vipl_work work{};
        work.descriptor = descriptor();
        work.segments = descriptor()->CS.SegCount;
        return vipl_descriptor_read_recv(vi, &work, bytes, &out->local);
    }
    std::uint32_t receive()
    {
        size_t all = 0;
        for (unsigned i = 0; i < descriptor()->CS.SegCount; ++i) {
            all += segment(i).Length;
        }
        return receive(all);
    }

    struct Free {
        void operator()(void *p) const { vipl_test::free_aligned(p); }
    };
    std::unique_ptr<unsigned char, Free> arena;
    std::unique_ptr<vipl_send> out = std::make_unique<vipl_send>();
    VIP_NIC_HANDLE nic = nullptr;
    VIP_PROTECTION_HANDLE tag = nullptr;
    VIP_VI_HANDLE handle = nullptr;
    VIP_MEM_HANDLE mem = 0;
    vipl_vi *vi = nullptr;
    std::uint32_t status = 0;
    std::uint16_t segments = 0;
};

std::string hex(const void *data, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < length; ++i) {
        const unsigned byte = static_cast<const unsigned char *>(data)[i];
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

} // namespace

TEST_CASE("a descriptor has these bytes", "[descriptor]")
{
    VIP_DESCRIPTOR d;
    std::memset(&d, 0, sizeof d);
    d.CS.Next.AddressBits = 0x0102030405060708;
    d.CS.NextHandle = 0x11121314;
    d.CS.SegCount = 0x2122;
    d.CS.Control = 0x3132;
    d.CS.Reserved = 0x41424344;
    d.CS.ImmediateData = 0x51525354;
    d.CS.Length = 0x61626364;
    d.CS.Status = 0x71727374;
    d.DS[0].Remote.Data.AddressBits = 0x8182838485868788;
    d.DS[0].Remote.Handle = 0x91929394;
    d.DS[0].Remote.Reserved = 0xA1A2A3A4;
    d.DS[1].Local.Data.AddressBits = 0xB1B2B3B4B5B6B7B8;
    d.DS[1].Local.Handle = 0xC1C2C3C4;
    d.DS[1].Local.Length = 0xD1D2D3D4;
    const std::string little = "0807060504030201"
                               "14131211"
                               "2221"
                               "3231"
                               "44434241"
                               "54535251"
                               "64636261"
                               "74737271"
                               "8887868584838281"
                               "94939291"
                               "a4a3a2a1"
                               "b8b7b6b5b4b3b2b1"
                               "c4c3c2c1"
                               "d4d3d2d1";
    const std::string big = "0102030405060708"
                            "11121314"
                            "2122"
                            "3132"
                            "41424344"
                            "51525354"
                            "61626364"
                            "71727374"
                            "8182838485868788"
                            "91929394"
                            "a1a2a3a4"
                            "b1b2b3b4b5b6b7b8"
                            "c1c2c3c4"
                            "d1d2d3d4";
    REQUIRE(hex(&d, sizeof d) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? little : big));
    VIP_PVOID64 pointer{};
    pointer.Address = &d;
    REQUIRE(pointer.AddressBits == reinterpret_cast<std::uintptr_t>(&d));
}

TEST_CASE("what may be posted at all", "[descriptor]")
{
    Bench bench;
    bench.fill(2, 10);
    REQUIRE(bench.admit(bench.descriptor()) == VIP_SUCCESS);
    REQUIRE(bench.status == 0);
    REQUIRE(bench.segments == 2);
    for (const size_t odd : {1, 2, 4}) {
        REQUIRE(bench.admit(bench.descriptor(odd)) == VIP_INVALID_PARAMETER);
    }
    REQUIRE(bench.admit(bench.descriptor(32)) == VIP_SUCCESS); // can be told so in its Status
    REQUIRE(bench.status == VIP_STATUS_FORMAT_ERROR);
    REQUIRE(bench.admit(bench.descriptor(kArena)) == VIP_INVALID_PARAMETER);
    REQUIRE(bench.admit(bench.descriptor(kArena - 64)) == VIP_SUCCESS);
    REQUIRE(bench.admit(nullptr) == VIP_INVALID_PARAMETER);
    bench.mem ^= 1;
    REQUIRE(bench.admit(bench.descriptor()) == VIP_INVALID_PARAMETER);
}

TEST_CASE("SegCount is limited, and its segments must lie in the region", "[descriptor]")
{
    Bench bench;
    for (const unsigned count : {0u, 1u, 2u, 251u, 252u}) {
        bench.descriptor()->CS.SegCount = static_cast<VIP_UINT16>(count);
        REQUIRE(bench.admit(bench.descriptor()) == VIP_SUCCESS);
        REQUIRE(bench.status == 0);
    }
    for (const unsigned count : {253u, 1000u, 65535u}) {
        bench.descriptor()->CS.SegCount = static_cast<VIP_UINT16>(count);
        REQUIRE(bench.admit(bench.descriptor()) == VIP_SUCCESS);
        REQUIRE(bench.status == VIP_STATUS_FORMAT_ERROR);
    }
    VIP_DESCRIPTOR *last = bench.descriptor(kArena - 64);
    last->CS.SegCount = 2;
    REQUIRE(bench.admit(last) == VIP_SUCCESS);
    REQUIRE(bench.status == 0);
    last->CS.SegCount = 3; // one behind the region
    REQUIRE(bench.admit(last) == VIP_SUCCESS);
    REQUIRE(bench.status == VIP_STATUS_FORMAT_ERROR);
}

TEST_CASE("a descriptor in memory of another tag fails with a protection error", "[descriptor]")
{
    Bench bench(VIP_SERVICE_RELIABLE_DELIVERY, true);
    alignas(64) static VIP_DESCRIPTOR foreign;
    const VIP_MEM_HANDLE own = bench.mem;
    REQUIRE(bench.admit(bench.descriptor()) == VIP_SUCCESS);
    REQUIRE(bench.status == 0);
    vipl_biased_unlock(&bench.vi->send.lock);
    REQUIRE(VipRegisterMem(bench.nic, &foreign, sizeof foreign, nullptr, &bench.mem) == VIP_SUCCESS);
    vipl_biased_lock(&bench.vi->send.lock);
    REQUIRE(bench.admit(&foreign) == VIP_SUCCESS);
    REQUIRE(bench.status == VIP_STATUS_PROTECTION_ERROR);
    bench.fill(1, 10); // its segment, too: bench.mem is the other region now
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
    bench.mem = own;
}

TEST_CASE("segments become a list of pieces, empty ones left out", "[descriptor]")
{
    Bench bench;
    bench.fill(252, 7);
    bench.segment(3).Length = 0;
    bench.segment(3).Handle = 12345; // of nothing: not looked at
    REQUIRE(bench.send() == 0);
    REQUIRE(bench.out->local.count == 251);
    REQUIRE(bench.out->local.bytes == 251 * 7);
    REQUIRE(bench.out->local.iov[3].base == bench.arena.get() + 8192 + 400);
    REQUIRE(bench.receive() == 0);
    REQUIRE(bench.out->local.count == 251);
    bench.fill(0, 0);
    REQUIRE(bench.send() == 0);
    REQUIRE(bench.out->local.bytes == 0);
}

TEST_CASE("a segment must lie in its region", "[descriptor]")
{
    Bench bench;
    bench.fill(2, 100);
    bench.segment(1).Data.AddressBits = reinterpret_cast<std::uintptr_t>(bench.arena.get()) + kArena - 99;
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
    REQUIRE(bench.receive() == VIP_STATUS_PROTECTION_ERROR);
    bench.fill(2, 100);
    bench.segment(0).Handle ^= 1;
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
    bench.fill(1, 100);
    bench.segment(0).Data.AddressBits = ~std::uint64_t{0} - 10; // wraps around
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
    bench.fill(1, 100);
    bench.segment(0).Length = 0xFFFFFFFF;
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
}

TEST_CASE("a 32-bit program need not clear the upper half of a local address", "[descriptor]")
{
    Bench bench;
    bench.fill(1, 100);
    const std::uint64_t clean = bench.segment(0).Data.AddressBits;
    bench.segment(0).Data.AddressBits = clean | std::uint64_t{0xA5A5A5A5} << 32;
    const std::uint32_t expected = sizeof(void *) == 4 ? 0 : VIP_STATUS_PROTECTION_ERROR;
    REQUIRE(bench.send() == expected);
    REQUIRE(bench.receive() == expected);
    bench.segment(0).Data.AddressBits = clean;
    REQUIRE(bench.send() == 0);
}

TEST_CASE("a 32-bit program need not clear the upper half of an address of a 32-bit peer", "[descriptor]")
{
    Bench bench;
    const std::uint64_t dirty = 0xA5A5A5A512345678;
    bench.fill(2, 100, VIP_CONTROL_OP_RDMAWRITE);
    bench.segment(0).Data.AddressBits = dirty;
    bench.vi->peer_params.is_32_bit = false; // all that is said of a foreign one, too
    REQUIRE(bench.send() == 0);
    REQUIRE(bench.out->remote_address == dirty);
    bench.vi->peer_params.is_32_bit = true;
    REQUIRE(bench.send() == 0);
    REQUIRE(bench.out->remote_address == (sizeof(void *) == 4 ? dirty & 0xFFFFFFFF : dirty));
}

TEST_CASE("of a receive only what the message fills must lie in its region", "[descriptor]")
{
    Bench bench;
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(bench.arena.get()) + kArena;
    bench.fill(3, 100);
    bench.segment(1).Data.AddressBits = end - 60; // 40 bytes beyond
    bench.segment(2).Handle ^= 1;
    for (const size_t bytes : {0u, 1u, 99u, 100u, 101u, 160u}) {
        REQUIRE(bench.receive(bytes) == 0);
        REQUIRE(bench.out->local.bytes == bytes);
        REQUIRE(bench.out->local.count == (bytes == 0 ? 0 : bytes <= 100 ? 1 : 2));
        REQUIRE((bytes <= 100 || bench.out->local.iov[1].len == bytes - 100));
    }
    for (const size_t bytes : {161u, 200u, 201u, 300u}) {
        REQUIRE(bench.receive(bytes) == VIP_STATUS_PROTECTION_ERROR);
    }
    for (const size_t bytes : {301u, 4096u}) {
        REQUIRE(bench.receive(bytes) == VIP_STATUS_LENGTH_ERROR);
    }
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR); // which is checked in whole
}

TEST_CASE("a receive may be longer than the VI's transfer size, and no message is", "[descriptor]")
{
    Bench bench;
    const auto most = static_cast<VIP_UINT32>(bench.vi->attributes.MaxTransferSize);
    bench.fill(2, most / 2);
    REQUIRE(bench.receive(8) == 0);
    bench.segment(1).Length++;
    REQUIRE(bench.receive(8) == 0);
    REQUIRE(bench.receive(0) == 0);
    REQUIRE(bench.receive(most) == 0);
    REQUIRE(bench.receive(most + 1) == VIP_STATUS_LENGTH_ERROR);
    bench.fill(252, 0xFFFFFFFF); // their sum does not fit into 32 bits
    REQUIRE(bench.receive(0) == 0);
    REQUIRE(bench.receive(8) == 0);
    REQUIRE(bench.receive(most + 1) == VIP_STATUS_LENGTH_ERROR);
    bench.fill(1, 0);
}

TEST_CASE("the sum of the segments is at most the VI's transfer size", "[descriptor]")
{
    Bench bench;
    bench.fill(100, 100);
    REQUIRE(bench.send() == 0);
    bench.segment(99).Length = 101;
    REQUIRE(bench.send() == VIP_STATUS_LENGTH_ERROR);
    bench.fill(252, 0xFFFFFFFF); // no sum overflows: each is checked first
    REQUIRE(bench.send() == VIP_STATUS_PROTECTION_ERROR);
}

TEST_CASE("control bits", "[descriptor]")
{
    Bench bench;
    for (unsigned control = 0; control < 0x10000; ++control) {
        bench.fill(2, 10, static_cast<VIP_UINT16>(control));
        const unsigned op = control & VIP_CONTROL_OP_MASK;
        const bool known = (control & VIP_CONTROL_RESERVED) == 0 && op != VIP_CONTROL_OP_RESERVED;
        const bool immediate = (control & VIP_CONTROL_IMMEDIATE) != 0;
        const bool sends = known && !(op == VIP_CONTROL_OP_RDMAREAD && immediate);
        REQUIRE(bench.send() == (sends ? 0 : VIP_STATUS_FORMAT_ERROR));
        REQUIRE(bench.receive() == (known && op == 0 ? 0 : VIP_STATUS_FORMAT_ERROR));
    }
}

TEST_CASE("an RDMA operation takes its first segment for the remote memory", "[descriptor]")
{
    Bench bench;
    bench.vi->peer_params.is_32_bit = false; // so that all 64 bits of the address count
    for (const VIP_UINT16 op : {VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
        bench.fill(2, 10, op);
        bench.segment(0).Data.AddressBits = 0xFEDCBA9876543210;
        bench.segment(0).Handle = 0xABCD;
        bench.descriptor()->CS.ImmediateData = 77;
        REQUIRE(bench.send() == 0);
        REQUIRE(bench.out->op == op);
        REQUIRE(bench.out->remote_address == 0xFEDCBA9876543210);
        REQUIRE(bench.out->remote_handle == 0xABCD);
        REQUIRE(bench.out->local.count == 1);
        REQUIRE(bench.out->local.bytes == 10);
        bench.fill(1, 0, op);
        REQUIRE(bench.send() == 0);
        REQUIRE(bench.out->local.bytes == 0);
        bench.fill(0, 0, op);
        REQUIRE(bench.send() == VIP_STATUS_FORMAT_ERROR);
    }
}

TEST_CASE("RDMA Read is malformed at levels that have none", "[descriptor]")
{
    Bench unreliable(VIP_SERVICE_UNRELIABLE);
    unreliable.fill(2, 10, VIP_CONTROL_OP_RDMAREAD);
    REQUIRE(unreliable.send() == VIP_STATUS_FORMAT_ERROR);
    unreliable.fill(2, 10, VIP_CONTROL_OP_RDMAWRITE);
    REQUIRE(unreliable.send() == 0);
}

TEST_CASE("more segments than were admitted are not read", "[descriptor]")
{
    Bench bench;
    bench.fill(2, 10);
    REQUIRE(bench.admit(bench.descriptor()) == VIP_SUCCESS);
    const std::uint16_t admitted = bench.segments;
    bench.fill(252, 10); // a peer has written over it
    const std::uint32_t status = bench.send(admitted);
    REQUIRE((status == VIP_STATUS_FORMAT_ERROR || bench.out->local.count <= 2));
}
