// SPDX-License-Identifier: MIT
//
// A process that writes directly to another one's memory, and is held between its look at what it
// may write and the write itself, for as long as a case likes. Programs with it are linked so that
// the library's vipl_peer_write() is ours (-Wl,--wrap).
#ifndef VIPL_STRESS_STUCK_HPP
#define VIPL_STRESS_STUCK_HPP

#include "stress.hpp"

extern "C" {
#include "os/os.h"
int __real_vipl_peer_write(const vipl_peer *peer, vipl_iov *local, unsigned locals, vipl_iov *remote,
                           unsigned remotes, size_t bytes);
int __wrap_vipl_peer_write(const vipl_peer *peer, vipl_iov *local, unsigned locals, vipl_iov *remote,
                           unsigned remotes, size_t bytes);
}

namespace stress {

inline constexpr VIP_UINT32 kBytes = 4096;
inline constexpr VIP_UINT8 kOurs = 0x5A, kTheirs = 0xA5;

/** Between the case and its writer. */
struct Board {
    std::atomic<std::uint64_t> address;
    std::atomic<VIP_MEM_HANDLE> handle;
    std::atomic<bool> hold;         // the next direct write waits
    std::atomic<bool> held;         // it does
    std::atomic<bool> go;           // it may go on
    std::atomic<unsigned> writes;   // direct writes
    std::atomic<int> process;       // whose memory the latest one was for,
    std::atomic<int> error;         // and its outcome
    std::atomic<unsigned> refusals; // of VipDeregisterMem, where the program counts them
};

inline Board &fresh_ring()
{
    Board &ring = shared<Board>();
    ring.hold = ring.held = ring.go = false;
    ring.writes = ring.refusals = 0;
    return ring;
}

/** Write to the owner's memory once for each 'W' that it sends; 'E' ends. */
inline void write_when_told(const Scene &scene, Line &line)
{
    Board &ring = shared<Board>();
    VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_UNRELIABLE);
    attributes.EnableRdmaWrite = attributes.EnableRdmaRead = VIP_FALSE; // no service thread
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic, attributes);
    const Span bytes = memory.bytes(kBytes);
    std::memset(bytes.data, kTheirs, kBytes);
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    while (line.receive<char>() == 'W') {
        Work work = memory.rdma(VIP_CONTROL_OP_RDMAWRITE, {ring.address, ring.handle}, bytes);
        VipPostSend(vi, work.desc, work.handle);
        line.send('D');
        VIP_DESCRIPTOR *done = nullptr;
        VipSendWait(vi, patience(), &done);
        line.send('C');
    }
}

/** The writer, at the other end of the scene's connection. */
class StuckWriter {
public:
    StuckWriter() : ring(fresh_ring()), scene(make_scene("on")), child(write_when_told, scene) {}
    ~StuckWriter() { ring.go = true; }

    /** Have it look, and stop before it writes. False: the kernel does not let it write
     * directly. */
    bool hold_a_write()
    {
        ring.hold = true;
        child.line.send('W');
        const unsigned long long end = now_ms() + 2 * patience();
        pollfd done = {child.line.fd(), POLLIN, 0};
        while (!ring.held && poll(&done, 1, 1) == 0) {
            EXPECT(now_ms() < end);
        }
        if (!ring.held) {
            WARN("this system does not let processes write to each other's memory");
        }
        return ring.held;
    }

    void let_it_write()
    {
        ring.go = true;
        EXPECT(child.line.receive<char>() == 'D');
        EXPECT(child.line.receive<char>() == 'C');
    }

    void finish()
    {
        ring.go = true;
        child.line.send('E');
        child.finish();
    }

    Board &ring;
    Scene scene;
    Child child;
};

/** Of the owner's VI. */
inline VIP_VI_ATTRIBUTES written_attributes()
{
    VIP_VI_ATTRIBUTES lenient = vi_attributes(VIP_SERVICE_UNRELIABLE);
    lenient.EnableRdmaRead = VIP_FALSE;
    return lenient;
}

} // namespace stress

int __wrap_vipl_peer_write(const vipl_peer *peer, vipl_iov *local, unsigned locals, vipl_iov *remote,
                           unsigned remotes, size_t bytes)
{
    stress::Board &ring = stress::shared<stress::Board>();
    ring.process = peer->pid;
    if (ring.hold.exchange(false)) {
        ring.held = true;
        while (!ring.go) {
            poll(nullptr, 0, 1);
        }
    }
    ring.writes++;
    ring.error = __real_vipl_peer_write(peer, local, locals, remote, remotes, bytes);
    return ring.error;
}

#endif
