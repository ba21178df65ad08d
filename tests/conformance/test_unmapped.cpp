// SPDX-License-Identifier: MIT
//
// Memory that a program takes away while it is registered: unmapped, of a file that was cut off, or
// not to be written to. With VIPL_SAFE_COPY=1 that is a descriptor's error, of the side whose
// memory it is; the connection breaks at the reliable levels; nobody dies. Without the setting it
// is so where only the kernel touches the memory: what a device over sockets sends or places in
// bulk, and what a process fetches from another.
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

enum class Loss { unmapped, cut, read_only };

constexpr VIP_UINT32 kTiny = 8, kShort = 3000, kLong = 300000;

/** Registered pages that are lost while they are. */
class Mapping {
public:
    explicit Mapping(const Nic &nic) : nic_(nic), file_(memfd_create("vipl-unmapped", MFD_CLOEXEC))
    {
        EXPECT(file_ >= 0 && ftruncate(file_, kBytes) == 0);
        void *memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        EXPECT(memory != MAP_FAILED);
        data_ = static_cast<VIP_UINT8 *>(memory);
        VIP_MEM_ATTRIBUTES attributes = rdma_memory();
        REQUIRE_VIP(VipRegisterMem(nic, data_, kBytes, &attributes, &handle_));
    }
    ~Mapping()
    {
        VipDeregisterMem(nic_, data_, handle_);
        munmap(data_, kBytes);
        close(file_);
    }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    Span all(VIP_UINT32 bytes) const { return {data_, bytes, handle_}; }

    /** From byte `from` on; what is unmapped keeps its addresses, so that nobody else gets them. */
    void lose(Loss loss, size_t from = 0) const
    {
        const size_t kept = (from + 4095) / 4096 * 4096;
        if (loss == Loss::cut) {
            EXPECT(ftruncate(file_, static_cast<off_t>(kept)) == 0);
        } else {
            lose_pages(loss, kept, kBytes - kept);
        }
    }

    /** Some pages; what comes before and after stays. */
    void lose_pages(Loss loss, size_t from, size_t bytes) const
    {
        if (loss == Loss::read_only) {
            EXPECT(mprotect(data_ + from, bytes, PROT_READ) == 0);
        } else {
            EXPECT(mmap(data_ + from, bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == data_ + from);
        }
    }

private:
    static constexpr size_t kBytes = 512 * 1024;
    VIP_NIC_HANDLE nic_;
    int file_;
    VIP_UINT8 *data_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

bool is_set(const char *name, const char *value)
{
    const char *set = std::getenv(name);
    return set != nullptr && std::strcmp(set, value) == 0;
}

/** Over sockets and without CRC all of a large message is the kernel's to read or place, but for
 * its ends. */
bool is_bulk_for_kernel()
{
    return std::strncmp(device_under_test(), "tcp", 3) == 0 && is_set("VIPL_MPA_CRC", "off");
}

/** Over loopback the receiver fetches a large message from the memory of the other process, and
 * that is tried again otherwise. */
bool is_fetched(const Peer &peer, VIP_UINT32 size, VIP_UINT16 op)
{
    return std::strcmp(device_under_test(), "loopback") == 0 && peer.in_other_process() &&
           op == VIP_CONTROL_OP_SENDRECV && size == kLong && is_set("VIPL_LOOPBACK_PULL", "on");
}

/** Whether to play: with the setting, or where the device hands all of it to the kernel. */
void need_safe_copy(bool kernel_only = false)
{
    if (!is_set("VIPL_SAFE_COPY", "1") && !(kernel_only && is_bulk_for_kernel())) {
        throw NotApplicable("VIPL_SAFE_COPY=1 is not set");
    }
}

/** It failed because of its own memory. */
void expect_own_fault(const Work &work)
{
    const VIP_UINT32 errors = work.status() & VIP_STATUS_ERROR_MASK;
    EXPECT(errors == VIP_STATUS_PROTECTION_ERROR || errors == VIP_STATUS_TRANSPORT_ERROR);
}

/** It failed because of the peer's. Half of an answer in a stream cannot be followed by the
 * reason. */
void expect_remote_fault(const Work &work)
{
    const VIP_UINT32 errors = work.status() & VIP_STATUS_ERROR_MASK;
    const bool half = (work.desc->CS.Control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAREAD &&
                      work.buffer.size == kLong && errors == VIP_STATUS_DESC_FLUSHED_ERROR;
    EXPECT(errors == VIP_STATUS_RDMA_PROT_ERROR || errors == VIP_STATUS_TRANSPORT_ERROR || half);
}

/** Both ends of a reliable connection are broken; one of an Unreliable VI may be, in the middle of
 * a message. */
void expect_broken(Peer &peer, Endpoint &end)
{
    if (peer.reliable()) {
        end.vi.await(VIP_STATE_ERROR);
    }
    peer.sync();
}

VIP_VI_ATTRIBUTES large(Peer &peer)
{
    return vi_attributes(peer.level(), 1024 * 1024);
}

constexpr bool by_kernel(Loss loss, VIP_UINT32 size, VIP_UINT16 op)
{
    return size >= kShort && op != VIP_CONTROL_OP_RDMAREAD && loss != Loss::cut;
}

/** The other side of a failure: memory for RDMA, whose place is told, and a receive. */
void watch_failure(Peer &peer)
{
    Endpoint end(peer, large(peer), 1024 * 1024);
    const Span target = end.memory.bytes(kLong);
    Memory open(peer.nic(), kLong, rdma_memory());
    post_recv(end.vi, end.memory.transfer(target));
    end.connect();
    peer.send(open.bytes(kLong).remote());
    expect_broken(peer, end);
}

template <Loss loss, VIP_UINT32 size, VIP_UINT16 op>
void victim(Peer &peer)
{
    if (!is_fetched(peer, size, op)) {
        need_safe_copy(by_kernel(loss, size, op));
    }
    watch_failure(peer);
}

template <Loss loss, VIP_UINT32 size, VIP_UINT16 op>
void local_lost(Peer &peer)
{
    if (!is_fetched(peer, size, op)) {
        need_safe_copy(by_kernel(loss, size, op));
    }
    Endpoint end(peer, large(peer), 64 * 1024);
    Mapping mapping(peer.nic());
    end.connect();
    const auto remote = peer.receive<RemoteSpan>();
    mapping.lose(loss, size > 100000 ? size / 2 : 0);
    const Work work = op == VIP_CONTROL_OP_SENDRECV ? end.memory.transfer(mapping.all(size))
                                                    : end.memory.rdma(op, remote, mapping.all(size));
    post_send(end.vi, work);
    EXPECT(send_failed(end.vi) == work.desc);
    expect_own_fault(work);
    expect_broken(peer, end);
}

/** Its receive is lost, or what the peer writes or reads. */
template <Loss loss, VIP_UINT32 size, bool receives>
void remote_lost(Peer &peer)
{
    if (!receives || !is_fetched(peer, size, VIP_CONTROL_OP_SENDRECV)) {
        need_safe_copy();
    }
    Endpoint end(peer, large(peer), 64 * 1024);
    Mapping mapping(peer.nic());
    const Work in = end.memory.transfer(mapping.all(size));
    post_recv(end.vi, in);
    end.connect();
    mapping.lose(loss, size > 100000 ? size / 2 : 0);
    peer.send(mapping.all(size).remote());
    if (receives) {
        EXPECT(receive_failed(end.vi) == in.desc);
        expect_own_fault(in);
    }
    expect_broken(peer, end);
}

/** Send to, write or read the peer's memory, of which some is lost. */
template <VIP_UINT16 op>
Work post_to_lost(Peer &peer, Endpoint &end, const Span &bytes, const RemoteSpan &remote)
{
    const Work work =
        op == VIP_CONTROL_OP_SENDRECV ? end.memory.transfer(bytes) : end.memory.rdma(op, remote, bytes);
    post_send(end.vi, work);
    if (op != VIP_CONTROL_OP_SENDRECV && peer.reliable()) {
        EXPECT(send_failed(end.vi) == work.desc);
        expect_remote_fault(work);
    } else if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
        EXPECT(send_failed(end.vi) == work.desc);
    }
    return work;
}

template <VIP_UINT32 size, VIP_UINT16 op>
void uses_remote(Peer &peer)
{
    if (!is_fetched(peer, size, op)) {
        need_safe_copy();
    }
    Endpoint end(peer, large(peer), 1024 * 1024);
    const Span bytes = end.memory.bytes(size);
    end.connect();
    post_to_lost<op>(peer, end, bytes, peer.receive<RemoteSpan>());
    expect_broken(peer, end);
}

} // namespace

#define LOST_CASE(what, loss, size) \
    TWO_ROLE_CASE_EACH_LEVEL("a send from memory that is " what, "[VipPostSend][full][private][lost]") = { \
        victim<loss, size, VIP_CONTROL_OP_SENDRECV>, local_lost<loss, size, VIP_CONTROL_OP_SENDRECV>}; \
    TWO_ROLE_CASE_EACH_LEVEL("an RDMA Write from memory that is " what, \
                             "[VipPostSend][full][private][lost]") = { \
        victim<loss, size, VIP_CONTROL_OP_RDMAWRITE>, local_lost<loss, size, VIP_CONTROL_OP_RDMAWRITE>}; \
    TWO_ROLE_CASE_RELIABLE("an RDMA Read of memory that is " what, "[VipPostSend][full][private][lost]") = { \
        remote_lost<loss, size, false>, uses_remote<size, VIP_CONTROL_OP_RDMAREAD>}; \
    NO_WRITING_CASE(what, loss, size)

#define NO_WRITING_CASE(what, loss, size) \
    TWO_ROLE_CASE_EACH_LEVEL("a receive into memory that is " what, \
                             "[VipPostRecv][full][private][lost]") = { \
        remote_lost<loss, size, true>, uses_remote<size, VIP_CONTROL_OP_SENDRECV>}; \
    TWO_ROLE_CASE_EACH_LEVEL("an RDMA Write to memory that is " what, \
                             "[VipPostSend][full][private][lost]") = { \
        remote_lost<loss, size, false>, uses_remote<size, VIP_CONTROL_OP_RDMAWRITE>}; \
    TWO_ROLE_CASE_RELIABLE("an RDMA Read into memory that is " what, \
                           "[VipPostSend][full][private][lost]") = { \
        victim<loss, size, VIP_CONTROL_OP_RDMAREAD>, local_lost<loss, size, VIP_CONTROL_OP_RDMAREAD>}

LOST_CASE("unmapped, a few bytes, fails", Loss::unmapped, kTiny);
LOST_CASE("unmapped, a few pages, fails", Loss::unmapped, kShort);
LOST_CASE("unmapped from its middle on fails", Loss::unmapped, kLong);
LOST_CASE("cut off its file, a few bytes, fails", Loss::cut, kTiny);
LOST_CASE("cut off its file from its middle on fails", Loss::cut, kLong);
NO_WRITING_CASE("read-only, a few bytes, fails", Loss::read_only, kTiny);
NO_WRITING_CASE("read-only from its middle on fails", Loss::read_only, kLong);

namespace {

/** A device that has taken the receive when it was posted does not read its descriptor again: the
 * message has arrived. */
void sends_to_lost_descriptor(Peer &peer)
{
    need_safe_copy();
    Endpoint end(peer, large(peer), 1024 * 1024);
    const bool has_taken = std::strncmp(device_under_test(), "rnic", 4) == 0;
    end.connect();
    peer.receive<RemoteSpan>();
    const Work work = end.memory.transfer(end.memory.bytes(kTiny));
    post_send(end.vi, work);
    if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
        EXPECT((has_taken ? sent(end.vi) : send_failed(end.vi)) == work.desc);
    }
    expect_broken(peer, end);
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("a descriptor that is unmapped once it is posted comes back with an error",
                         "[VipPostRecv][full][private][lost]") = {
    [](Peer &peer) {
        need_safe_copy();
        Endpoint end(peer, large(peer), 64 * 1024);
        Mapping mapping(peer.nic());
        Work in{reinterpret_cast<VIP_DESCRIPTOR *>(mapping.all(64).data), mapping.all(64).handle, {}};
        std::memset(in.desc, 0, sizeof *in.desc);
        in.local(end.memory.bytes(100));
        post_recv(end.vi, in);
        end.connect();
        mapping.lose(Loss::unmapped);
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostRecv(end.vi, in.desc, in.handle));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipPostSend(end.vi, in.desc, in.handle));
        peer.send(mapping.all(8).remote());
        EXPECT(receive_failed(end.vi) == in.desc);
        expect_broken(peer, end);
    },
    sends_to_lost_descriptor,
};

// --- the bulk of a large message, where the kernel places it ---

namespace {

/** One FPDU. What comes with its head, and its last few bytes, the library places itself: pages
 * that are lost lie between. How much comes with the head is the network's to say. */
constexpr VIP_UINT32 kBulk = 48 * 1024, kBulkFrom = 16 * 1024, kBulkLost = 16 * 1024;

void need_kernel()
{
    if (!is_set("VIPL_SAFE_COPY", "1") || !is_bulk_for_kernel()) {
        throw NotApplicable("not with this device, VIPL_MPA_CRC and VIPL_SAFE_COPY");
    }
}

/** After a large message a device expects another one, and receives that to where it goes. */
void expect_bulk(Endpoint &end, Memory &from)
{
    const Work first = from.transfer(from.bytes(kBulk));
    post_recv(end.vi, first);
    end.connect();
    EXPECT(received(end.vi) == first.desc);
}

/** Where the connection is still there, so is the place in its stream. */
void send_another(Peer &peer, Endpoint &end)
{
    if (!peer.reliable()) {
        const Span bytes = end.memory.bytes(kBulk);
        bytes.fill(5);
        post_send(end.vi, end.memory.transfer(bytes));
        sent(end.vi);
    }
}

void receive_another(Peer &peer, Endpoint &end, const Work &next)
{
    if (!peer.reliable()) {
        EXPECT(received(end.vi) == next.desc);
        EXPECT_EQ(kBulk, next.desc->CS.Length);
        EXPECT(next.buffer.holds(5));
    }
}

/** The peer sends or writes to memory whose middle is lost. */
template <Loss loss, bool receives>
void loses_bulk(Peer &peer)
{
    need_kernel();
    Endpoint end(peer, large(peer), 1024 * 1024);
    Mapping mapping(peer.nic());
    expect_bulk(end, end.memory);
    const Work in = end.memory.transfer(mapping.all(kBulk));
    const Work next = end.memory.transfer(end.memory.bytes(kBulk));
    if (receives) {
        post_recv(end.vi, in);
    }
    post_recv(end.vi, next);
    mapping.lose_pages(loss, kBulkFrom, kBulkLost);
    peer.send(mapping.all(kBulk).remote());
    if (receives) {
        EXPECT(receive_failed(end.vi) == in.desc);
        EXPECT((in.status() & VIP_STATUS_ERROR_MASK) == VIP_STATUS_PROTECTION_ERROR);
    }
    receive_another(peer, end, next);
    expect_broken(peer, end);
}

template <VIP_UINT16 op>
void sends_bulk(Peer &peer)
{
    need_kernel();
    Endpoint end(peer, large(peer), 1024 * 1024);
    const Span bytes = end.memory.bytes(kBulk);
    end.connect();
    post_send(end.vi, end.memory.transfer(bytes));
    sent(end.vi);
    const Work work = post_to_lost<op>(peer, end, bytes, peer.receive<RemoteSpan>());
    if (!peer.reliable()) {
        sent(end.vi);
    } else if (op == VIP_CONTROL_OP_RDMAWRITE) { // one FPDU: the answer says what it was
        EXPECT((work.status() & VIP_STATUS_ERROR_MASK) == VIP_STATUS_RDMA_PROT_ERROR);
    }
    send_another(peer, end);
    expect_broken(peer, end);
}

void answers_bulk(Peer &peer)
{
    need_kernel();
    watch_failure(peer);
}

/** The peer's answer goes to memory whose middle is lost. */
template <Loss loss>
void reads_bulk(Peer &peer)
{
    need_kernel();
    Endpoint end(peer, large(peer), 1024 * 1024);
    Mapping mapping(peer.nic());
    end.connect();
    const auto remote = peer.receive<RemoteSpan>();
    post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, end.memory.bytes(kBulk)));
    sent(end.vi);
    mapping.lose_pages(loss, kBulkFrom, kBulkLost);
    const Work work = end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, mapping.all(kBulk));
    post_send(end.vi, work);
    EXPECT(send_failed(end.vi) == work.desc);
    EXPECT((work.status() & VIP_STATUS_ERROR_MASK) == VIP_STATUS_PROTECTION_ERROR);
    expect_broken(peer, end);
}

} // namespace

#define LOST_BULK_CASE(what, loss) \
    TWO_ROLE_CASE_EACH_LEVEL("a receive whose middle is " what " fails alone", \
                             "[VipPostRecv][full][private][lost]") = {loses_bulk<loss, true>, \
                                                                      sends_bulk<VIP_CONTROL_OP_SENDRECV>}; \
    TWO_ROLE_CASE_EACH_LEVEL("an RDMA Write to memory whose middle is " what " fails alone", \
                             "[VipPostSend][full][private][lost]") = {loses_bulk<loss, false>, \
                                                                      sends_bulk<VIP_CONTROL_OP_RDMAWRITE>}; \
    TWO_ROLE_CASE_RELIABLE("an RDMA Read into memory whose middle is " what " fails", \
                           "[VipPostSend][full][private][lost]") = {answers_bulk, reads_bulk<loss>}

LOST_BULK_CASE("unmapped", Loss::unmapped);
LOST_BULK_CASE("read-only", Loss::read_only);
