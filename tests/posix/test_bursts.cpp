// SPDX-License-Identifier: MIT
//
// POSIX extensions, sends that follow each other closely: they leave without another call of the program, and what a program was
// told is complete is never lost, however it ends.
#include <atomic>
#include <csignal>
#include <future>

#include <sys/mman.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "support/forked.hpp"
#include "support/held_handler.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kBurst = 64, kBytes = 16;

/** Two connected VIs, and so many receives. */
struct Pair : ConnectedPair {
    explicit Pair(unsigned receives)
    {
        for (unsigned i = 0; i < receives; ++i) {
            post_recv(server, server_memory.transfer(server_memory.bytes(kBytes)));
        }
    }
    void post() { post_send(client, client_memory.transfer(client_memory.bytes(kBytes))); }
    void post(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            post();
        }
    }
    void expect_received(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            received(server);
        }
    }
    void expect_sent(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            sent(client);
        }
    }
};

/** What a child was told. */
struct Books {
    std::atomic<unsigned> told;
};

/** Memory that a child shares with its parent. */
class SharedBooks {
public:
    SharedBooks()
        : books_(static_cast<Books *>(
              mmap(nullptr, sizeof(Books), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
    {
        EXPECT(books_ != MAP_FAILED);
    }
    ~SharedBooks() { munmap(books_, sizeof(Books)); }
    Books *operator->() const { return books_; }

private:
    Books *books_;
};

/** Posts bursts and takes note of each send that is complete, until it has been told so often enough to be killed. */
void send_bursts(const std::string &to, unsigned enough, Books &books)
{
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    std::vector<Work> works;
    for (unsigned i = 0; i < kBurst; ++i) {
        works.push_back(memory.transfer(memory.bytes(kBytes)));
    }
    REQUIRE_VIP(request(vi, nic.address(to + "c"), nic.address(to)));
    for (unsigned posted = 0, open = 0;; --open) {
        for (; open < kBurst; ++open, ++posted) {
            post_send(vi, works[posted % kBurst]);
        }
        sent(vi);
        if (++books.told == enough) {
            raise(SIGKILL);
        }
    }
}

} // namespace

TEST_CASE("a message that is posted alone leaves in the post", "[VipPostSend][posix][private]")
{
    Pair pair(kBurst);
    for (unsigned i = 0; i < kBurst; ++i) {
        pair.post();
        pair.expect_received(1); // the sender has called nothing else meanwhile
        pair.expect_sent(1);
    }
}

TEST_CASE("a burst arrives though its program calls nothing more", "[VipPostSend][posix][private]")
{
    Pair pair(4 * kBurst);
    for (unsigned i = 0; i < 4; ++i) {
        pair.post(kBurst);
        pair.expect_received(kBurst);
        pair.expect_sent(kBurst);
    }
}

TEST_CASE("a burst arrives while the library's thread is in a handler", "[VipPostSend][posix][private]")
{
    Pair pair(kBurst + 1);
    HeldHandler held;
    REQUIRE_VIP(VipSendNotify(pair.client, &held, HeldHandler::handler));
    pair.post();
    held.await();
    pair.post(kBurst);
    pair.expect_received(kBurst + 1);
    held.release();
    pair.expect_sent(kBurst);
}

TEST_CASE("a program that is killed in a burst loses nothing that it was told is complete",
          "[VipSendDone][posix][private][fork]")
{
    for (const unsigned enough : {1u, 2u, kBurst - 1, kBurst, kBurst + 1, 8 * kBurst + 3}) {
        const SharedBooks books;
        const std::string name = unique_discriminator();
        Forked child([&](const ParentLine &line) {
            line.await();
            send_bursts(name, enough, *books.operator->());
        });
        const Nic nic;
        Memory memory(nic);
        const Vi vi(nic);
        for (unsigned i = 0; i < enough + 2 * kBurst; ++i) {
            post_recv(vi, memory.transfer(memory.bytes(kBytes)));
        }
        std::future<Incoming> incoming =
            std::async(std::launch::async, [&] { return wait_for_request(nic, nic.address(name)); });
        child.tell();
        REQUIRE_VIP(VipConnectAccept(incoming.get().connection, vi));
        child.finish_with_signal(SIGKILL);
        vi.await(VIP_STATE_ERROR);
        unsigned came = 0;
        VIP_DESCRIPTOR *done = nullptr;
        while (VipRecvDone(vi, &done) == VIP_SUCCESS) {
            ++came;
        }
        EXPECT(came >= books->told);
        REQUIRE_VIP(VipDisconnect(vi));
        while (VipRecvDone(vi, &done) != VIP_NOT_DONE) {
        }
    }
}
