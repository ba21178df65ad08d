// SPDX-License-Identifier: MIT
//
// Connecting over loopback as an attacker sees it: raw sockets and bytes at the offsets of
// request.h, claim words and a shared segment as claims.h and link.h lay them out. Nothing here
// uses the library.
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
#include <unistd.h>

#include "census.hpp"
#include "raw.hpp"
#include "stress.hpp"

namespace stress {

inline socklen_t make_name(sockaddr_un &address, const std::string &discriminator)
{
    const std::string name = system_name(socket_name('w', discriminator) + '0');
    const size_t at = library_is_portable() ? 0 : 1; // an abstract name begins with a NUL
    address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + at, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
}

/** A socket for packets; the portable layer has a byte stream, with the length before each. */
inline Fd packet_socket()
{
    Fd fd(socket(AF_UNIX, (library_is_portable() ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0));
    EXPECT(fd.get() >= 0);
    return fd;
}

inline Fd call(const std::string &discriminator)
{
    sockaddr_un address;
    const socklen_t length = make_name(address, discriminator);
    Fd fd = packet_socket();
    EXPECT(connect(fd.get(), reinterpret_cast<sockaddr *>(&address), length) == 0);
    return fd;
}

inline Fd listen_as(const std::string &discriminator)
{
    sockaddr_un address;
    const socklen_t length = make_name(address, discriminator);
    Fd fd = packet_socket();
    if (library_is_portable()) { // a path, in a folder that may not be there yet
        mkdir(system_name("").c_str(), 0700);
    }
    EXPECT(bind(fd.get(), reinterpret_cast<sockaddr *>(&address), length) == 0);
    EXPECT(listen(fd.get(), 16) == 0);
    return fd;
}

/** Once a listener of listen_as() is closed: an abstract name is free then, a path is not. */
inline void free_name(const std::string &discriminator)
{
    sockaddr_un address;
    make_name(address, discriminator);
    if (library_is_portable()) {
        unlink(address.sun_path);
    }
}

/** States of a claim word, and a word. */
enum ClaimState : std::uint32_t { kEnded, kPending, kBusy, kTaken, kAccepted };

inline std::uint32_t claim_word(std::uint32_t generation, std::uint32_t state, std::uint32_t number = 0)
{
    return generation << 11 | number << 3 | state;
}

constexpr size_t kClaimBytes = 4096 * 4;

/** What goes along with a request: the words that say which program has it. */
struct Claims {
    explicit Claims(bool sealed = true) : fd(memfd_create("claims", MFD_CLOEXEC | MFD_ALLOW_SEALING))
    {
        const std::uint32_t word = claim_word(1, kPending);
        EXPECT(ftruncate(fd.get(), kClaimBytes) == 0);
        EXPECT(pwrite(fd.get(), &word, sizeof word, 0) == sizeof word);
        if (sealed) {
            EXPECT(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
        }
    }
    Fd fd;
};

/** Send a packet, with descriptors perhaps. The other side may have hung up. */
inline void send_packet(const Fd &to, const Bytes &bytes, const std::vector<int> &fds = {})
{
    auto length = static_cast<std::uint32_t>(bytes.size());
    iovec parts[] = {{&length, library_is_portable() ? sizeof length : 0},
                     {const_cast<VIP_UINT8 *>(bytes.data()), bytes.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
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

/** The next packet and the descriptors that came along; empty: hung up, or nothing in time. */
inline Bytes receive_packet(const Fd &from, int limit_ms, Fd *came = nullptr, Fd *came_second = nullptr)
{
    pollfd entry = {from.get(), POLLIN, 0};
    Bytes bytes(400);
    if (poll(&entry, 1, limit_ms) != 1) {
        return {};
    }
    std::uint32_t length = 0;
    if (library_is_portable()) {
        if (recv(from.get(), &length, sizeof length, MSG_PEEK | MSG_DONTWAIT) != sizeof length) {
            return {};
        }
        bytes.resize(length);
    }
    const size_t before = library_is_portable() ? sizeof length : 0;
    iovec parts[] = {{&length, before}, {bytes.data(), bytes.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(from.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (const cmsghdr *header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr) {
        int fds[2] = {-1, -1};
        std::memcpy(fds, CMSG_DATA(const_cast<cmsghdr *>(header)),
                    std::min<size_t>(header->cmsg_len - CMSG_LEN(0), sizeof fds));
        Fd first(fds[0]), second(fds[1]);
        if (came != nullptr) {
            *came = std::move(first);
        }
        if (came_second != nullptr) {
            *came_second = std::move(second);
        }
    }
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got) - before);
    return bytes;
}

inline VIP_UINT8 own_byte_order()
{
    const std::uint16_t one = 1;
    VIP_UINT8 first;
    std::memcpy(&first, &one, 1);
    return first == 1 ? 1 : 2;
}

constexpr VIP_UINT8 kVersion =
    6; // of the language: the one that the library answers a wrong one with (hostile.cpp)

/** A request by a client of another process for that discriminator: as the library would write
 * it. */
inline Bytes make_request(const std::string &wanted, Random &random)
{
    constexpr size_t kClaim = 64, kParams = 72, kLocal = 83, kRemote = kLocal + 84;
    Bytes request(kRemote + 84);
    std::memcpy(request.data(), "VLCR", 4);
    request[4] = kVersion;
    request[5] = own_byte_order();
    request[6] = sizeof(void *);
    for (size_t at = 8; at < kClaim; at += 8) { // process, NIC handle, id, probe, tag
        put(request, at, random(), 8);
    }
    put(request, kClaim, 1, 4);     // generation, of slot 0
    put(request, kClaim + 6, 1, 1); // number
    put(request, kParams, kTransferSize, 8);
    put(request, kParams + 8, VIP_SERVICE_RELIABLE_DELIVERY, 2);
    const std::string evil = "evil";
    put(request, kLocal, 6, 2);
    put(request, kLocal + 2, evil.size(), 2);
    std::memcpy(&request[kLocal + 4], "\x7f\0\0\1\0\0", 6);
    std::memcpy(&request[kLocal + 20], evil.data(), evil.size());
    put(request, kRemote, 6, 2);
    put(request, kRemote + 2, wanted.size(), 2);
    std::memcpy(&request[kRemote + 4], "\x7f\0\0\1\0\0", 6);
    std::memcpy(&request[kRemote + 20], wanted.data(), wanted.size());
    return request;
}

enum ReplyType : VIP_UINT8 { kRefused = 2, kRejected = 5, kDisagree, kAccept };

inline Bytes make_reply(VIP_UINT8 type, std::uint64_t link, Random &random)
{
    Bytes reply(74);
    std::memcpy(reply.data(), "VLRE", 4);
    reply[4] = type;
    reply[6] = 1; // a new link
    put(reply, 8, random(), 8);
    put(reply, 24, link, 8);
    put(reply, 32, 1024, 4);        // slots
    put(reply, 36, 1 << 12 | 1, 4); // session
    put(reply, 56, kTransferSize, 8);
    put(reply, 64, VIP_SERVICE_RELIABLE_DELIVERY, 2);
    return reply;
}

inline bool is_reply(const Bytes &bytes, VIP_UINT8 type)
{
    return bytes.size() > 5 && std::memcmp(bytes.data(), "VLRE", 4) == 0 && bytes[4] == type;
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
        std::memcpy(bytes.data(), below(random, 2) == 0 ? "VLCR" : "VLRE", 4);
    }
    return bytes;
}

/** Write what may be claimed of the request, or nonsense, into its word. */
inline void lie_about(const Bytes &request, int claims, Random &random)
{
    if (request.size() < 71) {
        return;
    }
    const auto get = [&](size_t at, unsigned bytes) {
        std::uint32_t value = 0;
        for (unsigned i = 0; i < bytes; ++i) {
            value = value << 8 | request[at + i];
        }
        return value;
    };
    const std::uint32_t generation = get(64, 4), slot = get(68, 2), number = get(70, 1);
    const std::uint32_t lies[] = {claim_word(generation, kAccepted, number),
                                  claim_word(generation, kTaken, number),
                                  claim_word(generation, kAccepted, number + 1),
                                  claim_word(generation + 1, kAccepted, number),
                                  claim_word(generation, kBusy),
                                  static_cast<std::uint32_t>(random())};
    const std::uint32_t word = lies[below(random, 2) == 0 ? 0 : below(random, std::size(lies))];
    void *base = mmap(nullptr, kClaimBytes, PROT_READ | PROT_WRITE, MAP_SHARED, claims, 0);
    if (base != MAP_FAILED) {
        __atomic_store_n(static_cast<std::uint32_t *>(base) + slot % 4096, word, __ATOMIC_SEQ_CST);
        munmap(base, kClaimBytes);
    }
}

constexpr size_t kSegmentHead = 64 + 2 * 4096 + 2 * (64 + 4096), kRingHead = 3 * 64 + 256 * 4, kSlot = 64;

/** Write nonsense into the rings of a shared segment, and heads of messages that pretend to be
 * there. */
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
