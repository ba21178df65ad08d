// SPDX-License-Identifier: MIT
//
// The tcp device as an attacker sees it: raw sockets, and iWARP made with the library's codec. A
// program that includes this runs on the tcp device unless told otherwise.
#ifndef VIPL_STRESS_TCP_WIRE_HPP
#define VIPL_STRESS_TCP_WIRE_HPP

#include <algorithm>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "raw.hpp"

extern "C" {
#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"
}

namespace stress {

inline const int g_uses_tcp = setenv("VIPL_TEST_DEVICE", "tcp:127.0.0.1", 0);

// --- sockets -------------------------------------------------------------------------------------

inline sockaddr_in inet(const char *host, std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

inline Fd tcp_socket()
{
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT(fd.get() >= 0);
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // pieces go out as they are
    return fd;
}

/** The port that this process listens on; its children know it too. */
inline std::atomic<std::uint16_t> &target_port()
{
    return shared<std::atomic<std::uint16_t>>();
}
inline void note_port()
{
    for (int fd = 0; fd < 256; ++fd) { // of several runs on this host each attacks itself alone
        sockaddr_in address{};
        socklen_t length = sizeof address, size = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
            getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length) == 0 &&
            address.sin_family == AF_INET) {
            target_port() = ntohs(address.sin_port);
            return;
        }
    }
    throw Failure("no process listens here");
}

inline Fd dial(const char *from = "127.0.0.1")
{
    Fd fd = tcp_socket();
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    const sockaddr_in source = inet(from, 0), target = inet("127.0.0.1", target_port());
    EXPECT(bind(fd.get(), reinterpret_cast<const sockaddr *>(&source), sizeof source) == 0);
    EXPECT(connect(fd.get(), reinterpret_cast<const sockaddr *>(&target), sizeof target) == 0);
    return fd;
}

/** False: the other side has ended the connection. */
inline bool put_out(const Fd &to, const VIP_UINT8 *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = send(to.get(), data, bytes, MSG_NOSIGNAL);
        if (n < 0) {
            return false;
        }
        data += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}
inline bool put_out(const Fd &to, const Bytes &bytes)
{
    return put_out(to, bytes.data(), bytes.size());
}

/** What comes next, `most` bytes of it; empty: the end, a reset, or nothing in time. */
inline Bytes take_in(const Fd &from, size_t most, VIP_ULONG limit = patience())
{
    pollfd entry = {from.get(), POLLIN, 0};
    Bytes bytes(most);
    if (poll(&entry, 1, static_cast<int>(limit)) != 1) {
        return {};
    }
    const ssize_t n = recv(from.get(), bytes.data(), most, 0);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
}

/** Everything until the other side ends, which it must. */
inline Bytes take_all(const Fd &from)
{
    Bytes all;
    for (;;) {
        pollfd entry = {from.get(), POLLIN, 0};
        EXPECT(poll(&entry, 1, static_cast<int>(2 * patience())) == 1);
        const Bytes more = take_in(from, 65536);
        if (more.empty()) {
            return all;
        }
        all.insert(all.end(), more.begin(), more.end());
    }
}

/** From here on closing it resets the connection. */
inline void reset_at_close(const Fd &fd)
{
    const linger at_once = {1, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// --- the start -----------------------------------------------------------------------------------

struct Claim {
    VIP_UINT8 kind = 1; // SK_REQUEST
    VIP_UINT16 level = VIP_SERVICE_RELIABLE_DELIVERY;
    bool crc = false;
    std::uint64_t transfer_size = kTransferSize;
};

/** A request for that discriminator, as request.c writes it. */
inline Bytes mpa_request(const std::string &name, const Claim &claim = {})
{
    const std::string from = "evil";
    Bytes data(26);
    std::memcpy(data.data(), "VIPL", 4);
    data[4] = 2; // version
    data[5] = claim.kind;
    data[6] = 3; // RDMA Write and Read
    put(data, 8, claim.level, 2);
    put(data, 12, claim.transfer_size, 8);
    put(data, 20, 65512, 4);
    data[24] = static_cast<VIP_UINT8>(from.size());
    data[25] = static_cast<VIP_UINT8>(name.size());
    data.insert(data.end(), from.begin(), from.end());
    data.insert(data.end(), name.begin(), name.end());
    vipl_mpa_start start{};
    start.crc = claim.crc;
    start.enhanced = true;
    start.revision = 2;
    start.private_bytes = static_cast<std::uint16_t>(VIPL_MPA_ENHANCED_BYTES + data.size());
    const vipl_mpa_enhanced enhanced = {64, 64, true, false, true, false};
    Bytes frame(VIPL_MPA_START_BYTES + VIPL_MPA_ENHANCED_BYTES);
    vipl_mpa_start_write(frame.data(), &start);
    vipl_mpa_enhanced_write(&frame[VIPL_MPA_START_BYTES], &enhanced);
    frame.insert(frame.end(), data.begin(), data.end());
    return frame;
}

/** Read the whole reply. True: it is a yes. */
inline bool mpa_accepted(const Fd &fd, VIP_ULONG limit = patience())
{
    Bytes frame;
    size_t need = VIPL_MPA_START_BYTES;
    vipl_mpa_start start{};
    while (frame.size() < need) {
        const Bytes more = take_in(fd, need - frame.size(), limit);
        if (more.empty()) {
            return false;
        }
        frame.insert(frame.end(), more.begin(), more.end());
        if (frame.size() == VIPL_MPA_START_BYTES) {
            EXPECT(vipl_mpa_start_read(frame.data(), frame.size(), &start) == VIPL_PARSE_OK);
            EXPECT(start.reply);
            need += start.private_bytes;
        }
    }
    return !start.reject;
}

// --- FPDUs ---------------------------------------------------------------------------------------

inline Bytes fpdu(const Bytes &ulpdu, bool crc)
{
    const size_t covered = VIPL_MPA_HEADER_BYTES + ulpdu.size();
    Bytes frame(vipl_mpa_fpdu_bytes(ulpdu.size()));
    put(frame, 0, ulpdu.size(), 2);
    std::copy(ulpdu.begin(), ulpdu.end(), frame.begin() + VIPL_MPA_HEADER_BYTES);
    const std::uint32_t sum = crc ? vipl_crc32c(0, frame.data(), covered) : 0;
    vipl_mpa_trailer_write(frame.data() + covered, ulpdu.size(), sum, crc);
    return frame;
}

inline Bytes segment(const vipl_ddp &ddp, const Bytes &payload = {})
{
    Bytes ulpdu(VIPL_DDP_UNTAGGED_BYTES);
    ulpdu.resize(vipl_ddp_write(ulpdu.data(), &ddp));
    ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
    return ulpdu;
}

inline vipl_ddp tagged(vipl_rdmap_op op, std::uint32_t stag, std::uint64_t offset)
{
    vipl_ddp ddp{};
    ddp.tagged = ddp.last = true;
    ddp.op = static_cast<std::uint8_t>(op);
    ddp.stag = stag;
    ddp.offset = offset;
    return ddp;
}

inline vipl_ddp untagged(vipl_rdmap_op op, std::uint32_t queue, std::uint32_t msn)
{
    vipl_ddp ddp{};
    ddp.last = true;
    ddp.op = static_cast<std::uint8_t>(op);
    ddp.queue = queue;
    ddp.msn = msn;
    return ddp;
}

/** The empty RDMA Write by which a requester takes up the reply. */
inline Bytes ready_frame(bool crc)
{
    return fpdu(segment(tagged(VIPL_RDMAP_WRITE, 0, 0)), crc);
}

inline Bytes write_frame(const RemoteSpan &to, const Bytes &payload, bool crc = false)
{
    return fpdu(segment(tagged(VIPL_RDMAP_WRITE, to.handle, to.address), payload), crc);
}

inline Bytes read_frame(const RemoteSpan &from, std::uint32_t bytes, std::uint32_t msn, bool crc = false)
{
    const vipl_rdmap_read read = {7, 0, bytes, from.handle, from.address};
    Bytes payload(VIPL_RDMAP_READ_REQUEST_BYTES);
    vipl_rdmap_read_write(payload.data(), &read);
    return fpdu(segment(untagged(VIPL_RDMAP_READ_REQUEST, VIPL_DDP_QUEUE_READ_REQUEST, msn), payload), crc);
}

// --- the library at the other end ----------------------------------------------------------------

/** From here on requests for the name can come in. */
inline void open_port(const Nic &nic, const std::string &name)
{
    NetAddress local = nic.address(name);
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, 0, from, &attributes, &connection));
    note_port();
}

/** The library's socket, in this process, at the other end of a raw one. */
inline int facing(const Fd &raw)
{
    sockaddr_in own{}, peer{};
    socklen_t size = sizeof own;
    EXPECT(getsockname(raw.get(), reinterpret_cast<sockaddr *>(&own), &size) == 0);
    for (int fd = 0; fd < 256; ++fd) {
        size = sizeof peer;
        if (getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == own.sin_port) {
            return fd;
        }
    }
    throw Failure("no socket of this process is at the other end");
}

/** Connect a VI to a raw socket. */
inline Fd accept_raw(const Nic &nic, const std::string &name, VIP_VI_HANDLE vi, const Claim &claim = {})
{
    Fd fd = dial();
    Crew crew;
    crew.add([&] {
        put_out(fd, mpa_request(name, claim));
        EXPECT(mpa_accepted(fd));
        put_out(fd, ready_frame(claim.crc));
    });
    REQUIRE_VIP(accept_on(nic, name, vi));
    crew.join();
    return fd;
}

// --- damage --------------------------------------------------------------------------------------

inline Bytes random_bytes(Random &random, size_t count)
{
    Bytes bytes(count);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<VIP_UINT8>(random()); });
    return bytes;
}

/** Flip, insert, delete or cut off some bytes. */
inline void damage(Bytes &bytes, Random &random)
{
    for (std::uint64_t n = 1 + below(random, 3); n > 0 && !bytes.empty(); --n) {
        const auto at = static_cast<std::ptrdiff_t>(below(random, bytes.size()));
        switch (below(random, 8)) {
        case 0:
            bytes.insert(bytes.begin() + at, static_cast<VIP_UINT8>(random()));
            break;
        case 1:
            bytes.erase(bytes.begin() + at);
            break;
        case 2:
            bytes.resize(static_cast<size_t>(at));
            break;
        default:
            bytes[static_cast<size_t>(at)] ^= static_cast<VIP_UINT8>(1 + below(random, 255));
        }
    }
}

/** Send in pieces that end anywhere. False: the other side has ended the connection. */
inline bool put_out_split(const Fd &to, const Bytes &bytes, Random &random)
{
    size_t at = 0;
    for (std::uint64_t cuts = below(random, 3); cuts > 0 && at < bytes.size(); --cuts) {
        const size_t piece = below(random, bytes.size() - at);
        if (!put_out(to, bytes.data() + at, piece)) {
            return false;
        }
        at += piece;
    }
    return put_out(to, bytes.data() + at, bytes.size() - at);
}

} // namespace stress

#endif
