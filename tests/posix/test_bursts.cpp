// SPDX-License-Identifier: MIT
//
// POSIX extensions, sends that follow each other closely: they leave without another call of the
// program, and what a program was told is complete is never lost, however it ends.
#include <atomic>
#include <csignal>
#include <future>

#include <sys/mman.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "support/forked.hpp"
#include "support/held_handler.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kBurst = 64, kBytes = 16;
constexpr unsigned kSizes[] = {kBytes, 4096, 20000}; // copied into a burst, or not

/** Two connected VIs, and so many receives. */
struct Pair : ConnectedPair {
    explicit Pair(unsigned receives, unsigned size = kBytes)
        : out(client_memory.bytes(size)), in(server_memory.bytes(size))
    {
        for (unsigned i = 0; i < receives; ++i) {
            post_recv(server, server_memory.transfer(in));
        }
    }
    void post() { post_send(client, client_memory.transfer(out)); }
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

    Span out, in;
};

/** What a child was told; and to where it writes. */
struct Books {
    std::atomic<unsigned> told;
    RemoteSpan remote;
};

/** How a program ends that has not disconnected. */
enum class Ending { Killed, Exits, ClosesNic };
constexpr int kExit = 7;

[[noreturn]] void end_so(Ending ending, const Nic &nic)
{
    if (ending == Ending::Exits) {
        _exit(kExit);
    }
    if (ending == Ending::ClosesNic) {
        VipCloseNic(nic);
    }
    raise(SIGKILL);
    _exit(1);
}

void expect_end(Forked &child, Ending ending)
{
    if (ending == Ending::Exits) {
        child.finish_with_exit(kExit);
    } else {
        child.finish_with_signal(SIGKILL);
    }
}

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

/** What the child posts, on a VI that is connected. */
class Sender {
public:
    Sender(const std::string &to, unsigned size) : memory_(nic_), vi_(nic_)
    {
        const Span out = memory_.bytes(size);
        for (unsigned i = 0; i < kBurst; ++i) {
            works_.push_back(memory_.transfer(out));
        }
        post_recv(vi_, memory_.transfer(memory_.bytes(kBytes)));
        REQUIRE_VIP(request(vi_, nic_.address(to + "c"), nic_.address(to)));
    }
    /** Until so many are open. */
    void post(unsigned most = kBurst)
    {
        for (; open_ < most; ++open_, ++posted_) {
            post_send(vi_, works_[posted_ % kBurst]);
        }
    }
    void sent_one()
    {
        sent(vi_);
        --open_;
    }
    /** Counts upwards in the peer's memory: item i becomes i + 1, in so many bytes' writes. */
    void write(unsigned i, RemoteSpan to)
    {
        const Span item = memory_.bytes(sizeof(VIP_UINT64));
        const VIP_UINT64 value = i + 1;
        std::memcpy(item.data, &value, sizeof value);
        post_send(vi_, memory_.rdma(VIP_CONTROL_OP_RDMAWRITE, to + i * sizeof value, item));
    }
    const Nic &nic() const { return nic_; }

private:
    const Nic nic_;
    Memory memory_;
    const Vi vi_;
    std::vector<Work> works_;
    unsigned posted_ = 0, open_ = 0;
};

/** Posts bursts and takes note of each send that is complete, until it has been told so often
 * enough to end. */
void send_bursts(const std::string &to, unsigned size, unsigned enough, Ending ending, Books &books)
{
    for (Sender sender(to, size);;) {
        sender.post();
        sender.sent_one();
        if (++books.told == enough) {
            end_so(ending, sender.nic());
        }
    }
}

/** The same with RDMA Writes. */
void write_bursts(const std::string &to, unsigned enough, Ending ending, Books &books)
{
    Sender sender(to, kBytes);
    for (unsigned posted = 0;;) {
        for (; posted < books.told + kBurst; ++posted) {
            sender.write(posted, books.remote);
        }
        sender.sent_one();
        if (++books.told == enough) {
            end_so(ending, sender.nic());
        }
    }
}

/** One burst, of which all is told as complete. It is killed when there is something that it has
 * not received: for that the system resets the connection, and sends nothing more. */
void send_until_unread(const ParentLine &line, const std::string &to, unsigned size, unsigned enough,
                       Books &books)
{
    setenv("VIPL_PROGRESS", "inline", 1); // nothing leaves but in its own calls
    Sender sender(to, size);
    sender.post(enough);
    for (; books.told < enough; ++books.told) {
        sender.sent_one();
    }
    line.tell();
    line.await(); // something has come
    raise(SIGKILL);
}

/** The other end of a child's connection. */
struct Receiver {
    explicit Receiver(unsigned receives, unsigned size) : memory(nic), vi(nic), in(memory.bytes(size))
    {
        for (unsigned i = 0; i < receives; ++i) {
            post_recv(vi, memory.transfer(in));
        }
    }
    void connect(Forked &child, const std::string &name)
    {
        std::future<Incoming> incoming =
            std::async(std::launch::async, [&] { return wait_for_request(nic, nic.address(name)); });
        child.tell();
        REQUIRE_VIP(VipConnectAccept(incoming.get().connection, vi));
    }
    /** How many messages came of a child that was killed. */
    unsigned came()
    {
        VIP_DESCRIPTOR *done = nullptr;
        unsigned count = 0;
        vi.await(VIP_STATE_ERROR);
        while (VipRecvDone(vi, &done) == VIP_SUCCESS) {
            ++count;
        }
        REQUIRE_VIP(VipDisconnect(vi));
        while (VipRecvDone(vi, &done) != VIP_NOT_DONE) {
        }
        while (VipSendDone(vi, &done) != VIP_NOT_DONE) {
        }
        return count;
    }

    const Nic nic;
    Memory memory;
    const Vi vi;
    const Span in;
};

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
    for (const unsigned size : kSizes) {
        Pair pair(4 * kBurst, size);
        for (unsigned i = 0; i < 4; ++i) {
            pair.post(kBurst);
            pair.expect_received(kBurst);
            pair.expect_sent(kBurst);
        }
    }
}

TEST_CASE("a burst arrives while the library's thread is in a handler", "[VipPostSend][posix][private]")
{
    for (const unsigned size : kSizes) {
        Pair pair(kBurst + 1, size);
        HeldHandler held;
        REQUIRE_VIP(VipSendNotify(pair.client, &held, HeldHandler::handler));
        pair.post();
        held.await();
        pair.post(kBurst);
        pair.expect_received(kBurst + 1);
        held.release();
        pair.expect_sent(kBurst);
    }
}

namespace {

void lose_nothing(Ending ending, unsigned size, unsigned enough)
{
    const SharedBooks books;
    const std::string name = unique_discriminator();
    Forked child([&](const ParentLine &line) {
        line.await();
        send_bursts(name, size, enough, ending, *books.operator->());
    });
    Receiver receiver(enough + 2 * kBurst, size);
    receiver.connect(child, name);
    expect_end(child, ending);
    EXPECT(receiver.came() >= books->told);
}

void find_all_written(Ending ending, unsigned enough)
{
    const SharedBooks books;
    const std::string name = unique_discriminator();
    Forked child([&](const ParentLine &line) {
        line.await();
        write_bursts(name, enough, ending, *books.operator->());
    });
    Receiver receiver(1, kBytes);
    Memory window(receiver.nic, 16384, rdma_memory());
    const Span items = window.bytes((enough + 2 * kBurst) * sizeof(VIP_UINT64));
    books->remote = items.remote();
    receiver.connect(child, name);
    expect_end(child, ending);
    receiver.came();
    for (unsigned i = 0; i < books->told; ++i) {
        VIP_UINT64 value = 0;
        std::memcpy(&value, items.data + i * sizeof value, sizeof value);
        EXPECT_EQ(i + 1, value);
    }
}

} // namespace

TEST_CASE("a program that is killed in a burst loses nothing that it was told is complete",
          "[VipSendDone][posix][private][fork]")
{
    for (const unsigned size : {kBytes, 4096u}) {
        for (const unsigned enough : {1u, 2u, kBurst - 1, kBurst, kBurst + 1, 8 * kBurst + 3}) {
            lose_nothing(Ending::Killed, size, enough);
        }
    }
}

TEST_CASE("a program that ends in a burst by itself loses nothing that it was told is complete",
          "[VipSendDone][posix][private][fork]")
{
    for (const Ending ending : {Ending::Exits, Ending::ClosesNic}) {
        for (const unsigned enough : {1u, kBurst, 2 * kBurst + 3}) {
            lose_nothing(ending, 4096, enough);
        }
    }
}

TEST_CASE("RDMA Writes that are complete are in the peer's memory, however the writer ends",
          "[VipSendDone][posix][private][fork]")
{
    for (const Ending ending : {Ending::Killed, Ending::Exits, Ending::ClosesNic}) {
        for (const unsigned enough : {1u, kBurst, 2 * kBurst + 3}) {
            find_all_written(ending, enough);
        }
    }
}

TEST_CASE("a program that is killed before it has received all loses nothing that it was told is complete",
          "[VipSendDone][posix][private][fork]")
{
    for (const unsigned size : kSizes) {
        for (const unsigned enough : {1u, 2u, 3u}) { // for so much the receiver has room
            const SharedBooks books;
            const std::string name = unique_discriminator();
            Forked child([&](const ParentLine &line) {
                line.await();
                send_until_unread(line, name, size, enough, *books.operator->());
            });
            Receiver receiver(enough + 2 * kBurst, size);
            receiver.connect(child, name);
            child.await();
            post_send(receiver.vi, receiver.memory.transfer(receiver.memory.bytes(kBytes)));
            child.tell();
            child.finish_with_signal(SIGKILL);
            EXPECT(receiver.came() >= books->told);
        }
    }
}
