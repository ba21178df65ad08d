// SPDX-License-Identifier: MIT
//
// A client that has a fault plan or a trace, and its peer: in this process, or in one of its own.
// Between the hook and the device this program puts a table that counts what comes to the device:
// so it is seen which way a message took.
#ifndef VIPL_TESTS_SHORT_SCENE_HPP
#define VIPL_TESTS_SHORT_SCENE_HPP

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

#include "fault_scene.hpp"
#include "support/forked.hpp"

extern "C" {
#include "hook/hook.h"
}

namespace vipl_test {

/** What came to the device of this process, since the last reset(). */
struct Device {
    static std::atomic<unsigned> posts;  // post_send
    static std::atomic<unsigned> tried;  // send_short and rdma_short
    static std::atomic<unsigned> shorts; // those that have sent
    static std::atomic<unsigned> polls;  // poll; not what `poll_filter` does in its place
    /** Every so many of send_short and rdma_short are refused; 0: none. */
    static std::atomic<unsigned> refuses_every;
    static std::atomic<bool> full;        // post_send has no room
    static bool sends_short, moves_short; // it has send_short, rdma_short

    static void reset() { posts = tried = shorts = polls = 0; }
};

inline std::atomic<unsigned> Device::posts, Device::tried, Device::shorts, Device::polls,
    Device::refuses_every;
inline std::atomic<bool> Device::full;
inline bool Device::sends_short, Device::moves_short;

/** Where the peer is. */
enum class Peer { near, far };

/** That the device and this build can have. */
inline std::vector<Peer> peers()
{
#if defined(__SANITIZE_THREAD__)
    return {Peer::near}; // a child of a process with threads is not supported
#else
    return std::strcmp(device_under_test(), "rnic:inproc") == 0 ? std::vector<Peer>{Peer::near}
                                                                : std::vector<Peer>{Peer::near, Peer::far};
#endif
}

/** The end that receives: posts receives and has a window for RDMA. */
class Receiver {
public:
    static constexpr unsigned kReceives = 32;
    static constexpr const char *kWindow = "as it was";

    Receiver(VIP_RELIABILITY_LEVEL level, unsigned receives)
        : memory_(nic_, 64 * 1024, rdma_memory()), vi_(nic_, vi_attributes(level))
    {
        window_ = memory_.text(kWindow);
        for (unsigned i = 0; i < receives; ++i) {
            works_.push_back(memory_.transfer(memory_.bytes(16)));
            post_recv(vi_, works_.back());
        }
    }
    void accept(const std::string &name)
    {
        NetAddress listen = nic_.address(name), from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        REQUIRE_VIP(VipConnectWait(nic_, listen, patience(), from, &attributes, &request));
        REQUIRE_VIP(VipConnectAccept(request, vi_));
    }
    /** The next messages, which must come. */
    std::string take(unsigned messages)
    {
        std::string all;
        for (unsigned i = 0; i < messages; ++i) {
            const Work &work = works_[taken_++];
            EXPECT(received(vi_) == work.desc);
            all += work.buffer.text().substr(0, work.desc->CS.Length);
        }
        return all;
    }
    RemoteSpan window() const { return window_.remote(); }
    std::string written() const { return window_.text(); }
    const Nic &nic() const { return nic_; }
    const Vi &vi() const { return vi_; }

private:
    Nic nic_;
    Memory memory_;
    Vi vi_;
    Span window_;
    std::vector<Work> works_;
    unsigned taken_ = 0;
};

/** The client and its peer, connected. Where the peer has receives, the first message has arrived:
 * the plan's number 1. */
class ShortScene {
public:
    ShortScene(Peer peer, const std::string &plan, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_UNRELIABLE,
               unsigned receives = Receiver::kReceives, bool through_cq = false)
        : far_(peer == Peer::far ? std::make_unique<Far>(level, receives) : nullptr),
          near_(peer == Peer::near ? std::make_unique<Receiver>(level, receives) : nullptr),
          nic_(nic_with_faults(plan)), nic(*nic_), memory(nic, 1024 * 1024, rdma_memory()), cq(nic),
          vi(nic, vi_attributes(level), through_cq ? static_cast<VIP_CQ_HANDLE>(cq) : nullptr)
    {
        connect();
        if (receives > 0) { // core looks the memory up with the first message, and takes the long way
            const Work first = send("0");
            if (through_cq) {
                cq.expect(vi, VIP_FALSE);
            }
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(through_cq ? VipSendDone(vi, &done) : VipSendWait(vi, patience(), &done));
            EXPECT(done == first.desc);
            EXPECT(received_by_peer(1) == "0");
        }
        Device::reset();
    }

    Work send(const std::string &text, unsigned pieces = 1)
    {
        const Span bytes = memory.text(text);
        Work work =
            memory.work(pieces).op(VIP_CONTROL_OP_SENDRECV).local(bytes.part(0, bytes.size - (pieces - 1)));
        if (pieces == 2) { // no device sends that the short way
            work.local(bytes.part(bytes.size - 1, 1));
        }
        post_send(vi, work);
        return work;
    }
    Work rdma(VIP_UINT16 op, Span bytes)
    {
        const Work work = memory.rdma(op, window(), bytes);
        post_send(vi, work);
        return work;
    }
    RemoteSpan window() const { return far_ ? far_->shared->window : near_->window(); }
    /** The messages that the peer gets, one behind the other; so many must come. */
    std::string received_by_peer(unsigned messages)
    {
        return far_ ? far_->take(messages) : near_->take(messages);
    }
    /** What the peer's window is now. */
    std::string written() { return far_ ? far_->look() : near_->written(); }

private:
    /** The peer's process, which does what it is told to in shared memory. */
    struct Far {
        struct Shared {
            char name[32];
            RemoteSpan window;
            unsigned messages; // that it is to take; 0: it tells what is in its window
            char text[256];
        };
        Far(VIP_RELIABILITY_LEVEL level, unsigned receives)
            : shared(static_cast<Shared *>(
                  mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
        {
            std::strcpy(shared->name, unique_discriminator().c_str());
            child = std::make_unique<Forked>([=](const ParentLine &line) { serve(line, level, receives); });
            child->await();
        }
        ~Far()
        {
            child.reset();
            munmap(shared, sizeof(Shared));
        }
        void serve(const ParentLine &line, VIP_RELIABILITY_LEVEL level, unsigned receives) const
        {
            Receiver receiver(level, receives);
            shared->window = receiver.window();
            line.tell();
            receiver.accept(shared->name);
            for (;;) {
                line.await();
                const std::string text =
                    shared->messages == 0 ? receiver.written() : receiver.take(shared->messages);
                std::strcpy(shared->text, text.c_str());
                line.tell();
            }
        }
        std::string take(unsigned messages)
        {
            shared->messages = messages;
            child->tell();
            child->await();
            return shared->text;
        }
        std::string look() { return take(0); }

        Shared *shared;
        std::unique_ptr<Forked> child;
    };

    void connect()
    {
        if (near_) {
            connect_pair(near_->nic(), near_->vi(), nic, vi);
            return;
        }
        NetAddress local = nic.address("client"), remote = nic.address(far_->shared->name);
        VIP_VI_ATTRIBUTES attributes{};
        VIP_RETURN rc;
        do { // on some devices the server has to be there first
            rc = VipConnectRequest(vi, local, remote, patience(), &attributes);
        } while (rc == VIP_NO_MATCH || rc == VIP_REJECT);
        REQUIRE_VIP(rc);
    }

    std::unique_ptr<Far> far_;
    std::unique_ptr<Receiver> near_;
    std::unique_ptr<Nic> nic_;

public:
    Nic &nic;
    Memory memory;
    Cq cq;
    Vi vi;
};

} // namespace vipl_test

#endif
