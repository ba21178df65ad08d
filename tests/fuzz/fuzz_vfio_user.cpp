// SPDX-License-Identifier: MIT
//
// A program that connects to the card's adapter and sends it anything. The input is a list of
// steps: bytes for the connection, with or without descriptors, and turns of the adapter. Beside it
// there is another program, whose function must stay as it is. No card is behind the functions that
// would take time: the model is the real one.
#include "fuzz_adapter.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include "vfio_user/message.h"
}

namespace {

/** The adapter, and a program that must be answered whatever another one sends. */
class Adapter : public FuzzAdapter {
public:
    Adapter()
    {
        witness = attach(1);
        FUZZ_CHECK(ask_id(witness));
    }
    ~Adapter() { vipl_fd_close(witness); }
    Adapter(const Adapter &) = delete;
    Adapter &operator=(const Adapter &) = delete;

    int attach(unsigned function) const
    {
        int fds[2];
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        FUZZ_CHECK(rnic_function_attach(&adapter->functions[function], &rnic_vfio_user_protocol, fds[0]) ==
                   0);
        return fds[1];
    }

    /** Whether the program at this end gets an answer, and the right one. */
    bool ask_id(int fd)
    {
        std::uint8_t bytes[2 * VFU_HEADER_BYTES + VFU_VERSION_BYTES + VFU_ACCESS_BYTES];
        const vfu_header hello = {1, VFU_VERSION, VFU_HEADER_BYTES + VFU_VERSION_BYTES, 0, 0};
        const vfu_header ask = {2, VFU_REGION_READ, VFU_HEADER_BYTES + VFU_ACCESS_BYTES, 0, 0};
        const vfu_access access = {RNIC_REG_ID, VFU_REGION_BAR0, 4};
        std::uint8_t *at = bytes;
        vfu_header_write(at, &hello);
        std::memset(at + VFU_HEADER_BYTES, 0, VFU_VERSION_BYTES);
        at += greeted_ ? 0 : VFU_HEADER_BYTES + VFU_VERSION_BYTES;
        greeted_ = true;
        vfu_header_write(at, &ask);
        vfu_access_write(at + VFU_HEADER_BYTES, &access);
        at += VFU_HEADER_BYTES + VFU_ACCESS_BYTES;
        size_t sent = 0;
        FUZZ_CHECK(vipl_unix_send(fd, bytes, static_cast<size_t>(at - bytes), nullptr, 0, &sent) == 0);
        rnic_adapter_turn(adapter);
        std::uint8_t reply[1024];
        size_t length = 0;
        unsigned count = 0;
        FUZZ_CHECK(vipl_unix_receive(fd, reply, sizeof reply, &length, nullptr, 0, &count) == 0);
        const std::uint8_t id[] = {RNIC_ID_VALUE & 0xFF, RNIC_ID_VALUE >> 8 & 0xFF,
                                   RNIC_ID_VALUE >> 16 & 0xFF, RNIC_ID_VALUE >> 24 & 0xFF};
        return length >= 4 && std::memcmp(reply + length - 4, id, 4) == 0;
    }

    int witness = -1;

private:
    bool greeted_ = false;
};

void drain(int fd)
{
    std::uint8_t part[65536];
    size_t length = 1;
    int fds[VFU_MAX_FDS];
    unsigned count = 0;
    while (length > 0 && vipl_unix_receive(fd, part, sizeof part, &length, fds, VFU_MAX_FDS, &count) == 0) {
        while (count > 0) {
            vipl_fd_close(fds[--count]);
        }
    }
}

/** What a program may pass. */
int descriptor(unsigned kind)
{
    if (kind == 0) {
        return eventfd(0, EFD_CLOEXEC);
    }
    if (kind == 3) {
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    const int fd = memfd_create("fuzz", MFD_CLOEXEC | (kind == 1 ? MFD_ALLOW_SEALING : 0u));
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 65536) == 0);
    return fd;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static Adapter adapter; // what a program has done must not stay with the function
    int fd = adapter.attach(0);
    for (std::size_t at = 0; at + 2 <= size;) {
        const unsigned kind = data[at] >> 5 & 7, length = (data[at] & 31u) << 8 | data[at + 1];
        at += 2;
        const std::size_t bytes = std::min<std::size_t>(length, size - at);
        std::size_t sent = 0;
        int pass = kind < 4 ? descriptor(kind) : -1;
        (void)vipl_unix_send(fd, fuzz::exactly(data + at, bytes).get(), bytes, &pass,
                             pass >= 0 && bytes > 0 ? 1 : 0, &sent);
        at += bytes;
        if (pass >= 0) {
            close(pass);
        }
        for (int turn = 0; turn < 4; ++turn) {
            rnic_adapter_turn(adapter.adapter);
        }
        drain(fd);
    }
    vipl_fd_close(fd);
    for (int turn = 0; turn < 4 && adapter.adapter->functions[0].channel.fd >= 0; ++turn) {
        rnic_adapter_turn(adapter.adapter);
    }
    FUZZ_CHECK(adapter.adapter->functions[0].channel.fd < 0);
    FUZZ_CHECK(adapter.ask_id(adapter.witness));
    return 0;
}
