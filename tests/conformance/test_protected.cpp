// SPDX-License-Identifier: MIT
//
// Memory that not everybody can reach as its program can: memory that the system hides from other
// processes and from itself (memfd_secret), memory that cannot be read or written yet when it is
// registered, and guard pages inside of a region. What counts is what the program may do when bytes
// move. Payload and descriptors lie in such memory on both sides.
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

enum class Kind { secret, closed, read_only, guarded };

constexpr VIP_UINT32 kTiny = 8, kMiddle = 64 * 1024, kLarge = 1024 * 1024;

class Region {
public:
    Region(const Nic &nic, Kind kind, VIP_UINT32 size) : nic_(nic), kind_(kind), size_(size)
    {
        page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        mapped_ = (size + page_ - 1) / page_ * page_ + 4 * page_; // page, guard, descriptors, payload, guard
        map();
        if (kind == Kind::guarded) {
            protect(data_ + page_, page_, PROT_NONE);
            protect(data_ + mapped_ - page_, page_, PROT_NONE);
        }
        VIP_MEM_ATTRIBUTES attributes = rdma_memory();
        const VIP_RETURN rc = VipRegisterMem(nic, data_, mapped_, &attributes, &handle_);
        if (rc == VIP_ERROR_RESOURCE && std::strncmp(device_under_test(), "rnic:pci", 8) == 0) {
            munmap(data_, mapped_);
            throw NotApplicable("the bus cannot have such memory");
        }
        REQUIRE_VIP(rc);
        if (kind == Kind::closed || kind == Kind::read_only) {
            protect(data_, mapped_, PROT_READ | PROT_WRITE);
        }
    }
    ~Region()
    {
        VipDeregisterMem(nic_, data_, handle_);
        munmap(data_, mapped_);
    }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    Span bytes() const { return {data_ + 3 * page_, size_, handle_}; }

    /** A descriptor in the region, for a transfer of the payload. */
    Work work()
    {
        void *at = data_ + 2 * page_ + 256 * used_++;
        std::memset(at, 0, 256);
        return {static_cast<VIP_DESCRIPTOR *>(at), handle_, {}};
    }
    Work transfer()
    {
        Work w = work();
        return w.local(bytes());
    }
    Work rdma(VIP_UINT16 op, const RemoteSpan &remote)
    {
        Work w = work();
        return w.op(op).remote(remote).local(bytes());
    }

private:
    static void protect(VIP_UINT8 *at, size_t bytes, int rights) { EXPECT(mprotect(at, bytes, rights) == 0); }

    void map()
    {
        const int rights = kind_ == Kind::closed      ? PROT_NONE
                           : kind_ == Kind::read_only ? PROT_READ
                                                      : PROT_READ | PROT_WRITE;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, file = -1;
        if (kind_ == Kind::secret) {
            file = secret_file(mapped_);
            flags = MAP_SHARED;
        }
        void *memory = mmap(nullptr, mapped_, rights, flags, file, 0);
        if (file >= 0) {
            close(file);
        }
        if (memory == MAP_FAILED && kind_ == Kind::secret && errno == EAGAIN) {
            throw NotApplicable("the limit of locked memory (ulimit -l) is too low for secret memory");
        }
        EXPECT(memory != MAP_FAILED);
        data_ = static_cast<VIP_UINT8 *>(memory);
    }

    static int secret_file(size_t bytes)
    {
#ifdef SYS_memfd_secret
        const int file = static_cast<int>(syscall(SYS_memfd_secret, 0));
#else
        const int file = -1;
#endif
        if (file < 0) {
            throw NotApplicable("the system has no secret memory");
        }
        EXPECT(ftruncate(file, static_cast<off_t>(bytes)) == 0);
        return file;
    }

    VIP_NIC_HANDLE nic_;
    Kind kind_;
    VIP_UINT32 size_;
    size_t page_ = 0, mapped_ = 0, used_ = 0;
    VIP_UINT8 *data_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

VIP_VI_ATTRIBUTES large(Peer &peer)
{
    return vi_attributes(peer.level(), kLarge);
}

/** Two messages, of which the second one may have overtaken the first, an RDMA Write and an RDMA
 * Read. */
template <Kind kind, VIP_UINT32 size>
void target(Peer &peer)
{
    Endpoint end(peer, large(peer));
    Region region(peer.nic(), kind, size);
    const Span next = end.memory.bytes(8), bytes = region.bytes();
    const Work in = region.transfer(), behind = end.memory.transfer(next);
    post_recv(end.vi, in);
    post_recv(end.vi, behind);
    end.connect();
    EXPECT(received(end.vi) == in.desc);
    EXPECT_EQ(size, in.desc->CS.Length);
    EXPECT(bytes.holds(1));
    EXPECT(received(end.vi) == behind.desc);
    EXPECT(next.holds(4));
    peer.send(bytes.remote());
    peer.sync(); // it has been written to
    EXPECT(bytes.holds(2));
    bytes.fill(3);
    peer.sync();
    peer.sync(); // it has been read
}

template <Kind kind, VIP_UINT32 size>
void source(Peer &peer)
{
    Endpoint end(peer, large(peer));
    Region region(peer.nic(), kind, size);
    const Span next = end.memory.bytes(8), bytes = region.bytes();
    end.connect();
    bytes.fill(1);
    next.fill(4);
    const Work first = region.transfer(), second = end.memory.transfer(next);
    post_send(end.vi, first);
    post_send(end.vi, second);
    EXPECT(sent(end.vi) == first.desc);
    EXPECT(sent(end.vi) == second.desc);
    const auto remote = peer.receive<RemoteSpan>();
    bytes.fill(2);
    const Work write = region.rdma(VIP_CONTROL_OP_RDMAWRITE, remote);
    post_send(end.vi, write);
    EXPECT(sent(end.vi) == write.desc);
    EXPECT_EQ(size, write.desc->CS.Length);
    peer.sync();
    peer.sync();
    const Work read = region.rdma(VIP_CONTROL_OP_RDMAREAD, remote);
    post_send(end.vi, read);
    EXPECT(sent(end.vi) == read.desc);
    EXPECT(bytes.holds(3));
    peer.sync();
}

} // namespace

#define PROTECTED_CASE(what, kind, size) \
    TWO_ROLE_CASE_RELIABLE(what, "[VipRegisterMem][full][private][protected]") = {target<kind, size>, \
                                                                                  source<kind, size>}

#define PROTECTED_CASES(what, kind) \
    PROTECTED_CASE(what " sends, receives, is written to and read, a few bytes", kind, kTiny); \
    PROTECTED_CASE(what " sends, receives, is written to and read, some pages", kind, kMiddle); \
    PROTECTED_CASE(what " sends, receives, is written to and read, many pages", kind, kLarge)

PROTECTED_CASES("secret memory", Kind::secret);
PROTECTED_CASES("memory that could not be accessed when it was registered", Kind::closed);
PROTECTED_CASES("memory that was read-only when it was registered", Kind::read_only);
PROTECTED_CASES("memory between guard pages of its region", Kind::guarded);
