// SPDX-License-Identifier: MIT
//
// An iWARP peer that is none of ours: a raw socket and what RFC 5044, 5041 and 5040 say, with the
// wishes of a case. Headers are written by the codec, which tests/unit holds to golden bytes; what
// goes when is said here.
#ifndef VIPL_FOREIGN_PEER_HPP
#define VIPL_FOREIGN_PEER_HPP

#include <cstdlib>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/objects.hpp"
#include "support/unmark.hpp"
#include "unit/bytes.hpp"

extern "C" {
#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"
}

namespace foreign {

using unit::Bytes;
using namespace vipl_test;

constexpr int kMss = 1000; // what a peer says it takes; the kernel's own headers are not in it

inline Bytes pattern(std::size_t length, unsigned seed)
{
    Bytes bytes(length);
    for (std::size_t i = 0; i < length; ++i) {
        bytes[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8) + seed);
    }
    return bytes;
}

class Socket {
public:
    explicit Socket(int fd = -1) : fd_(fd) {}
    Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket &operator=(Socket &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Socket()
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    int get() const { return fd_; }

    static Socket make()
    {
        Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int on = 1, mss = kMss;
        EXPECT(made.get() >= 0);
        EXPECT(setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        EXPECT(setsockopt(made.get(), IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss) == 0);
        return made;
    }

private:
    int fd_;
};

inline sockaddr_in here(std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/** A listener on a port of its own. */
class Listener {
public:
    Listener() : socket_(Socket::make())
    {
        sockaddr_in address = here(0);
        socklen_t size = sizeof address;
        EXPECT(bind(socket_.get(), reinterpret_cast<sockaddr *>(&address), size) == 0);
        EXPECT(listen(socket_.get(), 16) == 0);
        EXPECT(getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&address), &size) == 0);
        port_ = ntohs(address.sin_port);
    }
    std::uint16_t port() const { return port_; }
    /** Whether somebody connects within that time. */
    bool is_called(VIP_ULONG ms) const
    {
        pollfd entry = {socket_.get(), POLLIN, 0};
        return poll(&entry, 1, static_cast<int>(ms)) == 1;
    }
    Socket take() const
    {
        EXPECT(is_called(patience()));
        return Socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }

private:
    Socket socket_;
    std::uint16_t port_ = 0;
};

/** The first of the 256 ports that are this test's own; use_port() has not changed the setting
 * yet. */
inline const int kFirstPort =
    std::getenv("VIPL_TCP_PORTS") != nullptr ? std::atoi(std::getenv("VIPL_TCP_PORTS")) : 10000;

/** One of them that nobody listens on: no other test has it, nor does the system give it to a
 * socket that connects. */
inline std::uint16_t free_port()
{
    static unsigned next = 0;
    for (unsigned tries = 0; tries < 256; ++tries) {
        const auto port = static_cast<std::uint16_t>(kFirstPort + static_cast<int>(next++ % 256));
        const Socket socket = Socket::make();
        const sockaddr_in address = here(port);
        const int yes = 1;
        setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0 &&
            listen(socket.get(), 1) == 0) {
            return port;
        }
    }
    throw Failure("no port is free");
}

/** Devices that are opened from here on have this port alone. */
inline void use_port(std::uint16_t port)
{
    const std::string range = std::to_string(port) + '-' + std::to_string(port);
    setenv("VIPL_TCP_PORTS", range.c_str(), 1);
}

/** Once somebody listens there. */
inline Socket call(std::uint16_t port)
{
    const unsigned long long end = now_ms() + patience();
    for (;;) {
        Socket socket = Socket::make();
        const sockaddr_in address = here(port);
        if (connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0) {
            return socket;
        }
        EXPECT(now_ms() < end);
        poll(nullptr, 0, 1);
    }
}

/** A start frame with what came along. */
struct Start {
    vipl_mpa_start frame{};
    vipl_mpa_enhanced enhanced{};
    Bytes data; ///< private, behind the enhanced part
};

/** A DDP segment as it came. */
struct Segment {
    vipl_ddp ddp{};
    Bytes payload;
    std::size_t wire = 0; ///< bytes of its FPDU, markers included
};

class Peer {
public:
    explicit Peer(Socket socket) : socket_(std::move(socket))
    {
        socklen_t size = sizeof segment_;
        getsockopt(socket_.get(), IPPROTO_TCP, TCP_MAXSEG, &segment_, &size);
    }

    bool crc = false;             ///< FPDUs have one, both ways
    bool markers = false;         ///< what comes has markers
    std::uint32_t send_msn = 1;   ///< of our next Send
    std::uint32_t read_msn = 1;   ///< of our next Read Request
    std::uint32_t their_send = 1; ///< expected next
    std::uint32_t their_read = 1;

    void write(const Bytes &bytes)
    {
        EXPECT_EQ(bytes.size(),
                  static_cast<std::size_t>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)));
    }

    /** Whether nothing comes for a while. */
    bool quiet(int ms = kMoment) const
    {
        pollfd entry = {socket_.get(), POLLIN, 0};
        return poll(&entry, 1, ms) == 0;
    }

    /** Whether the stream has ended, by its end or a reset. */
    bool over()
    {
        std::uint8_t byte;
        return !await() || recv(socket_.get(), &byte, 1, 0) <= 0;
    }

    // --- start frames ---

    static Bytes start(vipl_mpa_start frame, const vipl_mpa_enhanced &enhanced, const Bytes &data = {})
    {
        Bytes bytes(VIPL_MPA_START_BYTES + (frame.enhanced ? VIPL_MPA_ENHANCED_BYTES : 0));
        frame.private_bytes = static_cast<std::uint16_t>(bytes.size() - VIPL_MPA_START_BYTES + data.size());
        vipl_mpa_start_write(bytes.data(), &frame);
        if (frame.enhanced) {
            vipl_mpa_enhanced_write(bytes.data() + VIPL_MPA_START_BYTES, &enhanced);
        }
        return unit::operator+(bytes, data);
    }

    Start read_start()
    {
        Start got;
        const Bytes head = take(VIPL_MPA_START_BYTES);
        EXPECT(vipl_mpa_start_read(head.data(), head.size(), &got.frame) == VIPL_PARSE_OK);
        got.data = take(got.frame.private_bytes);
        if (got.frame.enhanced) {
            vipl_mpa_enhanced_read(got.data.data(), &got.enhanced);
            got.data.erase(got.data.begin(), got.data.begin() + VIPL_MPA_ENHANCED_BYTES);
        }
        return got;
    }

    // --- FPDUs out ---

    Bytes fpdu(const Bytes &ulpdu) const
    {
        const std::size_t covered = VIPL_MPA_HEADER_BYTES + ulpdu.size();
        Bytes bytes(vipl_mpa_fpdu_bytes(ulpdu.size()));
        vipl_put16(bytes.data(), static_cast<std::uint16_t>(ulpdu.size()));
        std::copy(ulpdu.begin(), ulpdu.end(), bytes.begin() + VIPL_MPA_HEADER_BYTES);
        vipl_mpa_trailer_write(bytes.data() + covered, ulpdu.size(), vipl_crc32c(0, bytes.data(), covered),
                               crc);
        return bytes;
    }

    static Bytes ulpdu(const vipl_ddp &ddp, const Bytes &payload)
    {
        Bytes bytes(VIPL_DDP_UNTAGGED_BYTES);
        bytes.resize(vipl_ddp_write(bytes.data(), &ddp));
        return unit::operator+(bytes, payload);
    }

    Bytes segment(const vipl_ddp &ddp, const Bytes &payload = {}) const { return fpdu(ulpdu(ddp, payload)); }

    static vipl_ddp tagged(std::uint8_t op, std::uint32_t stag = 0, std::uint64_t offset = 0,
                           bool last = true)
    {
        vipl_ddp ddp{};
        ddp.tagged = true;
        ddp.op = op;
        ddp.stag = stag;
        ddp.offset = offset;
        ddp.last = last;
        return ddp;
    }

    static vipl_ddp untagged(std::uint8_t op, std::uint32_t queue, std::uint32_t msn, std::uint32_t mo = 0,
                             bool last = true)
    {
        vipl_ddp ddp{};
        ddp.op = op;
        ddp.queue = queue;
        ddp.msn = msn;
        ddp.mo = mo;
        ddp.last = last;
        return ddp;
    }

    /** A Send in segments of at most `part` bytes. */
    Bytes send_message(const Bytes &data, std::uint8_t op = VIPL_RDMAP_SEND, std::size_t part = 700)
    {
        Bytes all;
        std::size_t at = 0;
        do {
            const std::size_t n = std::min(part, data.size() - at);
            const auto from = data.begin() + static_cast<std::ptrdiff_t>(at);
            const Bytes one = segment(untagged(op, VIPL_DDP_QUEUE_SEND, send_msn,
                                               static_cast<std::uint32_t>(at), at + n == data.size()),
                                      Bytes(from, from + static_cast<std::ptrdiff_t>(n)));
            all.insert(all.end(), one.begin(), one.end());
            at += n;
        } while (at < data.size());
        ++send_msn;
        return all;
    }

    /** An RDMA Write, or a Read Response. */
    Bytes tagged_message(std::uint8_t op, std::uint32_t stag, std::uint64_t offset, const Bytes &data,
                         std::size_t part = 700) const
    {
        Bytes all;
        std::size_t at = 0;
        do {
            const std::size_t n = std::min(part, data.size() - at);
            const auto from = data.begin() + static_cast<std::ptrdiff_t>(at);
            const Bytes one = segment(tagged(op, stag, offset + at, at + n == data.size()),
                                      Bytes(from, from + static_cast<std::ptrdiff_t>(n)));
            all.insert(all.end(), one.begin(), one.end());
            at += n;
        } while (at < data.size());
        return all;
    }

    Bytes read_request(const vipl_rdmap_read &read)
    {
        Bytes payload(VIPL_RDMAP_READ_REQUEST_BYTES);
        vipl_rdmap_read_write(payload.data(), &read);
        return segment(untagged(VIPL_RDMAP_READ_REQUEST, VIPL_DDP_QUEUE_READ_REQUEST, read_msn++), payload);
    }

    // --- FPDUs in ---

    /** The next segment but for empty RDMA Writes, which may come at any time. */
    Segment next()
    {
        Segment got;
        do {
            got = any();
        } while (got.ddp.op == VIPL_RDMAP_WRITE && got.payload.empty());
        return got;
    }

    Segment any()
    {
        Segment got;
        const Bytes bytes = markers ? take_marked(&got.wire) : take_plain(&got.wire);
        EXPECT(got.wire <= static_cast<std::size_t>(segment_)); // both ends have the same headers
        if (crc) {
            EXPECT(vipl_mpa_crc_is_right(bytes.data(), bytes.size()));
        } else if (!markers) { // whose removal writes the field anew
            EXPECT_EQ(0u, vipl_get32(&bytes[bytes.size() - 4]));
        }
        const std::size_t length = vipl_get16(bytes.data());
        for (std::size_t i = 0; i < vipl_mpa_pad(length); ++i) { // nothing of our memory goes out with it
            EXPECT_EQ(0, +bytes[VIPL_MPA_HEADER_BYTES + length + i]);
        }
        EXPECT(vipl_ddp_read(bytes.data() + 2, length, &got.ddp) == VIPL_DDP_OK);
        got.payload.assign(bytes.begin() + 2 + static_cast<std::ptrdiff_t>(got.ddp.header_bytes),
                           bytes.begin() + 2 + static_cast<std::ptrdiff_t>(length));
        return got;
    }

    /** A whole Send of theirs. */
    Bytes take_send()
    {
        Bytes all;
        Segment got;
        do {
            got = next();
            EXPECT_EQ(+VIPL_RDMAP_SEND, +got.ddp.op);
            EXPECT_EQ(their_send, got.ddp.msn);
            EXPECT_EQ(all.size(), static_cast<std::size_t>(got.ddp.mo));
            all.insert(all.end(), got.payload.begin(), got.payload.end());
            expect_full(got);
        } while (!got.ddp.last);
        ++their_send;
        return all;
    }

    /** A whole RDMA Write, or Read Response. */
    Bytes take_tagged(std::uint8_t op, std::uint32_t stag, std::uint64_t offset)
    {
        Bytes all;
        Segment got;
        do {
            got = op == VIPL_RDMAP_WRITE && all.empty() ? next() : any();
            EXPECT_EQ(+op, +got.ddp.op);
            EXPECT_EQ(stag, got.ddp.stag);
            EXPECT_EQ(offset + all.size(), got.ddp.offset);
            all.insert(all.end(), got.payload.begin(), got.payload.end());
            expect_full(got);
        } while (!got.ddp.last);
        return all;
    }

    vipl_rdmap_read take_read_request()
    {
        vipl_rdmap_read read{};
        const Segment got = next();
        EXPECT_EQ(+VIPL_RDMAP_READ_REQUEST, +got.ddp.op);
        EXPECT_EQ(their_read++, got.ddp.msn);
        EXPECT_EQ(std::size_t{VIPL_RDMAP_READ_REQUEST_BYTES}, got.payload.size());
        vipl_rdmap_read_read(got.payload.data(), &read);
        return read;
    }

    /** The reason of the Terminate that comes next. */
    unsigned take_terminate()
    {
        vipl_rdmap_terminate terminate{};
        const Segment got = next();
        EXPECT_EQ(+VIPL_RDMAP_TERMINATE, +got.ddp.op);
        EXPECT(vipl_rdmap_terminate_read(got.payload.data(), got.payload.size(), &terminate));
        EXPECT(!terminate.with_ddp || terminate.segment_bytes >= terminate.ddp.header_bytes);
        return terminate.reason;
    }

    Bytes take(std::size_t bytes)
    {
        Bytes got(bytes);
        for (std::size_t at = 0; at < bytes;) {
            EXPECT(await());
            const ssize_t n = recv(socket_.get(), &got[at], bytes - at, 0);
            EXPECT(n > 0);
            at += static_cast<std::size_t>(n);
        }
        return got;
    }

private:
    bool await() const
    {
        pollfd entry = {socket_.get(), POLLIN, 0};
        return poll(&entry, 1, static_cast<int>(patience())) == 1;
    }

    /** All but a message's last are as large as TCP's segments allow: header, markers and a rest of
     * 3 bytes apart. */
    void expect_full(const Segment &got) const
    {
        EXPECT(got.ddp.last || got.wire + 18 > static_cast<std::size_t>(segment_));
    }

    Bytes take_plain(std::size_t *wire)
    {
        Bytes bytes = take(VIPL_MPA_HEADER_BYTES);
        const Bytes rest = take(vipl_mpa_fpdu_bytes(vipl_get16(bytes.data())) - bytes.size());
        bytes.insert(bytes.end(), rest.begin(), rest.end());
        *wire = bytes.size();
        return bytes;
    }

    Bytes take_marked(std::size_t *wire)
    {
        const std::size_t header = position_ % VIPL_MPA_MARKER_SPACING == 0 ? VIPL_MPA_MARKER_BYTES : 0;
        Bytes marked = take(header + VIPL_MPA_HEADER_BYTES);
        std::size_t more = vipl_mpa_fpdu_bytes(vipl_get16(&marked[header])) - VIPL_MPA_HEADER_BYTES;
        Bytes plain(more + VIPL_MPA_HEADER_BYTES);
        for (;; more = VIPL_MPA_MARKER_BYTES) { // as many as there are markers
            const Bytes rest = take(more);
            marked.insert(marked.end(), rest.begin(), rest.end());
            bool bad = false;
            if (vipl_test::unmark_fpdu(plain.data(), plain.size(), marked.data(), marked.size(), &position_,
                                       wire, &bad) > 0) {
                EXPECT_EQ(marked.size(), *wire);
                return plain;
            }
            EXPECT(!bad);
        }
    }

    Socket socket_;
    int segment_ = 0;            // the bytes of TCP's, at most
    std::uint32_t position_ = 0; // of the stream that comes
};

} // namespace foreign

#endif
