// SPDX-License-Identifier: MIT
//
// Regions of every kind of memory: messages, RDMA Writes and RDMA Reads between two of a kind; and
// regions that overlap, or lie side by side.
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr VIP_UINT32 kBytes = 20000;

/** Memory of a kind, and where in it the bytes lie that are moved. */
struct Kind {
    const char *name;
    unsigned long long size;
    unsigned long long offset;
    int flags; // of mmap(); without MAP_ANONYMOUS it is of a file
    bool read_only;
};

class Region {
public:
    Region(const Nic &nic, const Kind &kind) : nic_(nic), size_(static_cast<size_t>(kind.size))
    {
        if (size_ != kind.size || kind.size > nic.attributes().MaxRegisterBlockBytes) {
            throw NotApplicable("no region can be as large");
        }
        const bool file = (kind.flags & MAP_ANONYMOUS) == 0;
        file_ = file ? memfd_create("vipl-region", MFD_CLOEXEC) : -1;
        EXPECT(!file || ftruncate(file_, static_cast<off_t>(size_)) == 0);
        void *memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, kind.flags, file_, 0);
        if (memory == MAP_FAILED) {
            throw NotApplicable("the system has no such memory now");
        }
        data_ = static_cast<VIP_UINT8 *>(memory);
        offset_ = static_cast<size_t>(kind.offset);
        VIP_MEM_ATTRIBUTES attributes = rdma_memory();
        REQUIRE_VIP(VipRegisterMem(nic, data_, size_, &attributes, &handle_));
    }
    ~Region()
    {
        VipDeregisterMem(nic_, data_, handle_);
        munmap(data_, size_);
        if (file_ >= 0) {
            close(file_);
        }
    }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    Span bytes() const { return {data_ + offset_, kBytes, handle_}; }
    /** As many as that, which reach beyond the region. */
    Span beyond() const { return {data_ + size_ - kBytes + 1, kBytes, handle_}; }
    void protect() const { EXPECT(mprotect(data_, size_, PROT_READ) == 0); }
    /** Whether the file, read as one, has what is in memory. */
    bool file_agrees() const
    {
        VIP_UINT8 seen[kBytes];
        return pread(file_, seen, sizeof seen, static_cast<off_t>(offset_)) ==
                   static_cast<ssize_t>(sizeof seen) &&
               std::memcmp(seen, data_ + offset_, sizeof seen) == 0;
    }

private:
    VIP_NIC_HANDLE nic_;
    size_t size_, offset_ = 0;
    int file_ = -1;
    VIP_UINT8 *data_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

/** Takes a message, is written to, and is read. */
template <const Kind &kind>
void target(Peer &peer)
{
    Endpoint end(peer);
    Region region(peer.nic(), kind);
    const Span bytes = region.bytes();
    const Work in = end.memory.transfer(bytes);
    post_recv(end.vi, in);
    end.connect();
    EXPECT(received(end.vi) == in.desc);
    EXPECT_EQ(kBytes, in.desc->CS.Length);
    EXPECT(bytes.holds(1));
    EXPECT((kind.flags & (MAP_SHARED | MAP_ANONYMOUS)) != MAP_SHARED || region.file_agrees());
    peer.send(bytes.remote());
    peer.sync(); // it has been written to
    EXPECT(bytes.holds(2));
    bytes.fill(3);
    if (kind.read_only) {
        region.protect();
    }
    peer.sync();
    peer.sync(); // it has been read
    peer.sync();
}

template <const Kind &kind>
void source(Peer &peer)
{
    Endpoint end(peer);
    Region region(peer.nic(), kind), into(peer.nic(), kind);
    end.connect();
    region.bytes().fill(1);
    if (kind.read_only) {
        region.protect();
    }
    post_send(end.vi, end.memory.transfer(region.bytes()));
    sent(end.vi);
    const auto remote = peer.receive<RemoteSpan>();
    into.bytes().fill(2);
    post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, into.bytes()));
    sent(end.vi);
    peer.sync();
    peer.sync();
    post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, into.bytes()));
    sent(end.vi);
    EXPECT(into.bytes().holds(3));
    peer.sync();
    const Work bad = end.memory.transfer(region.beyond());
    post_send(end.vi, bad);
    EXPECT(send_failed(end.vi) == bad.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, bad.desc);
    peer.sync();
}

constexpr unsigned long long kGiB = 1ull << 30, kHuge = 2ull << 20;
const Kind kReadOnly = {"read-only", 65536, 100, MAP_PRIVATE | MAP_ANONYMOUS, true};
const Kind kHugePages = {"huge pages", 2 * kHuge, kHuge - 5000, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                         false};
const Kind kSharedFile = {"a shared file", 65536, 4000, MAP_SHARED, false};
const Kind kPrivateFile = {"a private file", 65536, 4000, MAP_PRIVATE, false};
const Kind kLargest = {"more than 4 GiB", 5 * kGiB, 4 * kGiB - 7000,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, false};

} // namespace

#define KIND_CASE(what, kind) \
    TWO_ROLE_CASE("a region of " what " sends, receives, is written to and read", \
                  "[VipRegisterMem][full][private]") = {target<kind>, source<kind>}

KIND_CASE("read-only memory", kReadOnly);
KIND_CASE("huge pages", kHugePages);
KIND_CASE("a shared file mapping", kSharedFile);
KIND_CASE("a private file mapping", kPrivateFile);
KIND_CASE("more than 4 GiB", kLargest);

TEST_CASE("regions that overlap have a handle, a tag and bounds of their own each",
          "[VipRegisterMem][full][private]")
{
    ConnectedPair pair(VIP_SERVICE_UNRELIABLE);
    alignas(64) static VIP_UINT8 bytes[8192];
    VIP_MEM_ATTRIBUTES closed = {}, open = rdma_memory();
    VIP_MEM_HANDLE whole = 0, half = 0, same = 0;
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, bytes, 8192, &closed, &whole));
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, bytes + 4096, 4096, &open, &half));
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, bytes, 8192, &closed, &same));
    EXPECT(whole != same && whole != half);
    const Span good[] = {{bytes, 8192, whole}, {bytes + 4096, 4096, half}, {bytes + 1, 8000, same}};
    for (const Span &span : good) {
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(8192)));
        post_send(pair.client, pair.client_memory.transfer(span));
        sent(pair.client);
        received(pair.server);
    }
    const Work bad = pair.client_memory.transfer({bytes, 4097, half});
    post_send(pair.client, bad);
    EXPECT(send_failed(pair.client) == bad.desc);
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, bytes, whole)); // the others stay
    post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(8192)));
    post_send(pair.client, pair.client_memory.transfer({bytes, 8192, same}));
    sent(pair.client);
    received(pair.server);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDeregisterMem(pair.client_nic, bytes, half)); // not its address
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, bytes + 4096, half));
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, bytes, same));
}

TEST_CASE("a segment across two regions side by side is PROTECTION_ERROR, two segments are not",
          "[VipRegisterMem][full][private]")
{
    ConnectedPair pair(VIP_SERVICE_UNRELIABLE);
    alignas(64) static VIP_UINT8 bytes[8192];
    VIP_MEM_ATTRIBUTES attributes = {};
    VIP_MEM_HANDLE low = 0, high = 0;
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, bytes, 4096, &attributes, &low));
    REQUIRE_VIP(VipRegisterMem(pair.client_nic, bytes + 4096, 4096, &attributes, &high));
    for (const Span &across : {Span{bytes + 4095, 2, low}, Span{bytes + 4095, 2, high}}) {
        const Work bad = pair.client_memory.transfer(across);
        post_send(pair.client, bad);
        EXPECT(send_failed(pair.client) == bad.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, bad.desc);
    }
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(8192));
    post_recv(pair.server, in);
    Work out = pair.client_memory.work(2);
    post_send(pair.client, out.local({bytes + 4000, 96, low}).local({bytes + 4096, 96, high}));
    EXPECT(sent(pair.client) == out.desc);
    EXPECT(received(pair.server) == in.desc);
    EXPECT_EQ(192u, in.desc->CS.Length);
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, bytes, low));
    REQUIRE_VIP(VipDeregisterMem(pair.client_nic, bytes + 4096, high));
}

TEST_CASE("a region of no bytes, or beyond the end of memory, is VIP_INVALID_PARAMETER",
          "[VipRegisterMem][full][private]")
{
    const Nic nic;
    VIP_UINT8 byte = 0;
    VIP_MEM_ATTRIBUTES attributes = {};
    VIP_MEM_HANDLE handle = 77;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, &byte, 0, &attributes, &handle));
    auto *const last = reinterpret_cast<VIP_UINT8 *>(~std::uintptr_t{0} - 9);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, last, 11, &attributes, &handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, last, ~VIP_ULONG{0}, &attributes, &handle));
}
