// SPDX-License-Identifier: MIT
//
// The loopback rendezvous as an attacker sees it: raw sockets and bytes at the offsets of
// request.h, a shared segment as link.h lays it out. Nothing here uses the library.
#ifndef VIPL_STRESS_HOSTILE_WIRE_HPP
#define VIPL_STRESS_HOSTILE_WIRE_HPP

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "census.hpp"
#include "raw.hpp"
#include "stress.hpp"

namespace stress {

inline socklen_t make_name(sockaddr_un &address, const std::string &discriminator)
{
    const std::string name = rendezvous_name('w', discriminator) + '0';
    address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

inline Fd call(const std::string &discriminator)
{
    sockaddr_un address;
    const socklen_t length = make_name(address, discriminator);
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT(fd.get() >= 0);
    EXPECT(connect(fd.get(), reinterpret_cast<sockaddr *>(&address), length) == 0);
    return fd;
}

inline Fd listen_as(const std::string &discriminator)
{
    sockaddr_un address;
    const socklen_t length = make_name(address, discriminator);
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT(fd.get() >= 0);
    EXPECT(bind(fd.get(), reinterpret_cast<sockaddr *>(&address), length) == 0);
    EXPECT(listen(fd.get(), 16) == 0);
    return fd;
}

/** What goes along with a request: a message that the one who takes the request receives. */
struct Token {
    Token()
    {
        int fds[2];
        EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        own = Fd(fds[0]);
        other = Fd(fds[1]);
        EXPECT(::send(own.get(), "!", 1, MSG_NOSIGNAL) == 1);
    }
    Fd own, other;
};

/** Send a packet, with descriptors perhaps. The other side may have hung up. */
inline void send_packet(const Fd &to, const Bytes &bytes, const std::vector<int> &fds = {})
{
    iovec part = {const_cast<VIP_UINT8 *>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    sendmsg(to.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/** The next packet and the first descriptor that came along; empty: hung up, or nothing in time. */
inline Bytes receive_packet(const Fd &from, int limit_ms, Fd *came = nullptr)
{
    pollfd entry = {from.get(), POLLIN, 0};
    Bytes bytes(400);
    if (poll(&entry, 1, limit_ms) != 1) {
        return {};
    }
    iovec part = {bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(from.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (const cmsghdr *header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr) {
        int fds[2] = {-1, -1};
        std::memcpy(fds, CMSG_DATA(const_cast<cmsghdr *>(header)),
                    std::min<size_t>(header->cmsg_len - CMSG_LEN(0), sizeof fds));
        const Fd first(fds[0]), second(fds[1]);
        if (came != nullptr) {
            *came = Fd(dup(first.get()));
        }
    }
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
}

inline VIP_UINT8 own_byte_order()
{
    const std::uint16_t one = 1;
    VIP_UINT8 first;
    std::memcpy(&first, &one, 1);
    return first == 1 ? 1 : 2;
}

/** A request by a client of another process for that discriminator: as the library would write it. */
inline Bytes make_hello(VIP_UINT8 version, const std::string &wanted, Random &random)
{
    constexpr size_t kFacts = 64, kLocal = 75, kRemote = kLocal + 84;
    Bytes hello(kRemote + 84);
    std::memcpy(hello.data(), "VLHO", 4);
    hello[4] = version;
    hello[5] = own_byte_order();
    hello[6] = sizeof(void *);
    for (size_t at = 8; at < kFacts; at += 8) { // process, NIC handle, id, probe, tag
        put(hello, at, random(), 8);
    }
    put(hello, kFacts, kTransferSize, 8);
    put(hello, kFacts + 8, VIP_SERVICE_RELIABLE_DELIVERY, 2);
    const std::string evil = "evil";
    put(hello, kLocal, 6, 2);
    put(hello, kLocal + 2, evil.size(), 2);
    std::memcpy(&hello[kLocal + 4], "\x7f\0\0\1\0\0", 6);
    std::memcpy(&hello[kLocal + 20], evil.data(), evil.size());
    put(hello, kRemote, 6, 2);
    put(hello, kRemote + 2, wanted.size(), 2);
    std::memcpy(&hello[kRemote + 4], "\x7f\0\0\1\0\0", 6);
    std::memcpy(&hello[kRemote + 20], wanted.data(), wanted.size());
    return hello;
}

enum AnswerType : VIP_UINT8 { kNo = 1, kRefused, kQueued, kTaken, kRejected, kDisagree, kAccept };

inline Bytes make_answer(VIP_UINT8 type, std::uint64_t link, Random &random)
{
    Bytes answer(67);
    std::memcpy(answer.data(), "VLAN", 4);
    answer[4] = type;
    answer[6] = 1; // a new link
    put(answer, 8, random(), 8);
    put(answer, 24, link, 8);
    put(answer, 32, 1024, 4);        // slots
    put(answer, 36, 1 << 12 | 1, 4); // session
    put(answer, 56, kTransferSize, 8);
    put(answer, 64, VIP_SERVICE_RELIABLE_DELIVERY, 2);
    return answer;
}

inline bool is_answer(const Bytes &bytes, VIP_UINT8 type)
{
    return bytes.size() > 5 && std::memcmp(bytes.data(), "VLAN", 4) == 0 && bytes[4] == type;
}

inline void mutate(Bytes &bytes, Random &random)
{
    for (std::uint64_t n = 1 + below(random, 4); n > 0 && !bytes.empty(); --n) {
        bytes[below(random, bytes.size())] = static_cast<VIP_UINT8>(random());
    }
    if (below(random, 4) == 0) {
        bytes.resize(1 + below(random, 320));
    }
}

inline Bytes noise(Random &random)
{
    Bytes bytes(1 + below(random, 400));
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<VIP_UINT8>(random()); });
    if (below(random, 2) == 0 && bytes.size() >= 4) {
        std::memcpy(bytes.data(), below(random, 2) == 0 ? "VLHO" : "VLAN", 4);
    }
    return bytes;
}

constexpr size_t kSegmentHead = 64 + 2 * 1024 * 4, kRingHead = 3 * 64 + 256 * 4, kSlot = 64;

/** Write nonsense into the rings of a shared segment, and heads of messages that pretend to be there. */
inline void scribble(int segment, Random &random)
{
    struct stat status {};
    if (fstat(segment, &status) != 0 || static_cast<size_t>(status.st_size) < 64 * 1024) {
        return;
    }
    const auto bytes = static_cast<size_t>(status.st_size);
    void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
    if (base == MAP_FAILED) {
        return;
    }
    auto *words = static_cast<std::uint32_t *>(base);
    const size_t ring = (bytes - kSegmentHead) / 2;
    for (int which = 0; which < 2; ++which) {
        const size_t head = (kSegmentHead + static_cast<size_t>(which) * ring) / 4;
        const size_t slots = head + kRingHead / 4;
        for (int i = 0; i < 16; ++i) {
            words[head + below(random, kRingHead / 4)] = static_cast<std::uint32_t>(random());
        }
        for (size_t slot = 0; slot < 64; ++slot) {
            std::uint32_t *message = &words[slots + slot * kSlot / 4];
            for (int i = 1; i < 8; ++i) {
                message[i] = static_cast<std::uint32_t>(below(random, 2) == 0 ? random() : random() % 256);
            }
            message[1] = static_cast<std::uint32_t>(1 + below(random, 9) + (random() & 0xF00)) | 1u << 16;
            message[3] = static_cast<std::uint32_t>(below(random, 33)); // bytes: these fit into the slot
            message[2] = 1 << 12 | 1;
            __atomic_store_n(&message[0], 1u, __ATOMIC_RELEASE); // the first lap
        }
    }
    munmap(base, bytes);
}

} // namespace stress

#endif
