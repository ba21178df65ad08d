// SPDX-License-Identifier: MIT
//
// A large segment comes in parts, and each is received before the next is sent: what is in memory
// by then, and what becomes of a message whose memory is away meanwhile. The peer is a raw socket,
// and the library receives in this thread's calls alone.
#include "stress.hpp"

#include <memory>

#include <sys/ioctl.h>
#include <sys/mman.h>

#include "tcp_wire.hpp"

using namespace stress;

namespace {

constexpr size_t kRegion = 64 * 1024, kPage = 4096;
constexpr unsigned kTurns = 2000; // in which what has come is received
constexpr VIP_UINT8 kOld = 0x11, kNew = 0xEE;
constexpr VIP_UINT16 kOps[] = {VIP_CONTROL_OP_SENDRECV, VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD};

enum class Away { unmapped, of_another_tag };

/** Pages of their own, registered, which may be away for a while. */
class Pages {
public:
    Pages(const Nic &nic, VIP_PROTECTION_HANDLE own) : nic_(nic), own_(own), other_(nic)
    {
        void *memory = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(memory != MAP_FAILED);
        data_ = static_cast<VIP_UINT8 *>(memory);
        VIP_MEM_ATTRIBUTES attributes = rdma_memory(own_);
        REQUIRE_VIP(VipRegisterMem(nic, data_, kRegion, &attributes, &handle_));
    }
    ~Pages()
    {
        VipDeregisterMem(nic_, data_, handle_);
        munmap(data_, kRegion);
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    Span bytes(VIP_UINT32 count) const { return {data_, count, handle_}; }
    /** From the second page on, or all of them. */
    void leave(Away how) const { how == Away::unmapped ? protect(PROT_NONE) : belong_to(other_); }
    void come_back(Away how) const
    {
        how == Away::unmapped ? protect(PROT_READ | PROT_WRITE) : belong_to(own_);
    }

private:
    void protect(int rights) const { EXPECT(mprotect(data_ + kPage, kRegion - kPage, rights) == 0); }
    void belong_to(VIP_PROTECTION_HANDLE tag) const
    {
        VIP_MEM_ATTRIBUTES attributes = rdma_memory(tag);
        REQUIRE_VIP(VipSetMemAttributes(nic_, data_, handle_, &attributes));
    }

    VIP_NIC_HANDLE nic_;
    VIP_PROTECTION_HANDLE own_;
    Ptag other_;
    VIP_UINT8 *data_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

/** Nothing receives but this thread's calls. */
std::unique_ptr<Nic> inline_nic()
{
    setenv("VIPL_PROGRESS", "inline", 1);
    auto nic = std::make_unique<Nic>();
    unsetenv("VIPL_PROGRESS");
    return nic;
}

/** One message that comes as one FPDU: a Send or an RDMA Write of the peer's, or the response to an
 * RDMA Read of ours. */
class Incoming {
public:
    Incoming(VIP_UINT16 op, VIP_UINT32 bytes) : op_(op), bytes_(bytes)
    {
        const std::string name = unique_discriminator();
        open_port(*nic_, name);
        Claim claim;
        claim.level = level();
        raw_ = accept_raw(*nic_, name, vi_, claim);
        library_ = facing(raw_);
        std::memset(target().data, kOld, bytes);
        post();
        frame_ = fpdu(segment(header(), Bytes(bytes, kNew)), false);
        begin_ = frame_.size() - VIPL_MPA_CRC_BYTES - vipl_mpa_pad(vipl_get16(frame_.data())) - bytes;
    }
    ~Incoming() { VipDisconnect(vi_); }
    Incoming(const Incoming &) = delete;
    Incoming &operator=(const Incoming &) = delete;

    /** Sends the stream up to this byte of the payload, or to its end (~0), and has it received. */
    void go_on_to(size_t byte)
    {
        const size_t end = std::min(byte, frame_.size() - begin_) + begin_;
        EXPECT(put_out(raw_, &frame_[sent_], end - sent_));
        sent_ = end;
        int waiting = -1;
        for (unsigned turn = 0; turn < kTurns && waiting != 0; ++turn) {
            VIP_DESCRIPTOR *done = nullptr;
            give_way(turn);
            const VIP_RETURN rc = is_read() ? VipSendDone(vi_, &done) : VipRecvDone(vi_, &done);
            over_ = over_ == VIP_NOT_DONE ? rc : over_;
            EXPECT(ioctl(library_, FIONREAD, &waiting) == 0);
        }
        EXPECT_EQ(0, waiting);
    }
    /** How much of the message is in memory. */
    size_t placed() const
    {
        const Span bytes = target();
        return static_cast<size_t>(std::find(bytes.data, bytes.data + bytes.size, kOld) - bytes.data);
    }
    /** Of the message's work, where it has one. */
    void expect_failed() const
    {
        if (op_ != VIP_CONTROL_OP_RDMAWRITE) {
            EXPECT_EQ(VIP_DESCRIPTOR_ERROR, over_);
            EXPECT((work_.status() & VIP_STATUS_PROTECTION_ERROR) != 0);
        }
        if (op_ == VIP_CONTROL_OP_SENDRECV) { // the next receive is for the next message
            EXPECT_EQ(0u, next_.status());
        }
    }
    Span target() const { return pages_.bytes(bytes_); }
    const Pages &pages() const { return pages_; }

private:
    bool is_read() const { return op_ == VIP_CONTROL_OP_RDMAREAD; }
    /** A message that fails does not end the connection, where the operation has such a level. */
    VIP_RELIABILITY_LEVEL level() const
    {
        return is_read() ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_UNRELIABLE;
    }
    VIP_VI_ATTRIBUTES attributes() const
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes(level());
        attributes.Ptag = own_;
        return attributes;
    }
    void post()
    {
        if (op_ == VIP_CONTROL_OP_SENDRECV) {
            work_ = memory_.transfer(target());
            next_ = memory_.transfer(memory_.bytes(bytes_));
            post_recv(vi_, work_);
            post_recv(vi_, next_);
        } else if (is_read()) {
            work_ = memory_.rdma(op_, {0x1000, 1}, target());
            post_send(vi_, work_);
        }
    }
    vipl_ddp header() const
    {
        if (op_ == VIP_CONTROL_OP_SENDRECV) {
            return untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 1);
        }
        if (!is_read()) {
            return tagged(VIPL_RDMAP_WRITE, target().handle, target().remote().address);
        }
        const Bytes request = take_in(raw_, 4096);
        vipl_ddp ddp{};
        vipl_rdmap_read read{};
        EXPECT(request.size() >=
               VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_READ_REQUEST_BYTES);
        EXPECT(vipl_ddp_read(&request[VIPL_MPA_HEADER_BYTES], vipl_get16(request.data()), &ddp) ==
               VIPL_DDP_OK);
        vipl_rdmap_read_read(&request[VIPL_MPA_HEADER_BYTES + ddp.header_bytes], &read);
        return tagged(VIPL_RDMAP_READ_RESPONSE, read.sink_stag, read.sink_offset);
    }

    VIP_UINT16 op_;
    VIP_UINT32 bytes_;
    std::unique_ptr<Nic> nic_ = inline_nic();
    Ptag own_{*nic_};
    Memory memory_{*nic_, kRegion, rdma_memory(own_)};
    Pages pages_{*nic_, own_};
    Vi vi_{*nic_, attributes()};
    Fd raw_;
    int library_ = -1;
    Work work_, next_;
    Bytes frame_;
    size_t begin_ = 0, sent_ = 0;
    VIP_RETURN over_ = VIP_NOT_DONE;
};

} // namespace

TEST_CASE("of a large segment that is placed directly the last bytes come last, and in whole items",
          "[parts]")
{
    constexpr VIP_UINT32 kBytes = 24 * 1024, kItem = 8;
    for (const VIP_UINT16 op : kOps) {
        for (VIP_UINT32 more = 0; more < kItem; ++more) {
            INFO("operation " << op << ", " << more << " bytes more than whole items");
            const VIP_UINT32 bytes = kBytes + more;
            Incoming message(op, bytes);
            message.go_on_to(100);
            CHECK(message.placed() == 100);
            message.go_on_to(bytes - 1); // whatever of the last item has come is not seen yet
            CHECK(message.placed() == bytes - kItem - more);
            message.go_on_to(~size_t{0});
            CHECK(message.target().all(kNew));
        }
    }
}

TEST_CASE("a message has failed if its memory was away for a part of it, and is there again", "[parts]")
{
    constexpr VIP_UINT32 kBytes = 48 * 1024, kFirst = 100;
    for (const Away how : {Away::of_another_tag, Away::unmapped}) {
        for (const VIP_UINT16 op : kOps) {
            INFO("operation " << op << (how == Away::unmapped ? ", unmapped" : ", of another tag"));
            Incoming message(op, kBytes);
            message.go_on_to(kFirst);
            message.pages().leave(how);
            message.go_on_to(kBytes / 2);
            message.pages().come_back(how);
            message.go_on_to(~size_t{0});
            message.expect_failed();
            CHECK(message.placed() == (how == Away::unmapped ? kPage : kFirst));
        }
    }
}
