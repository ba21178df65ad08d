// SPDX-License-Identifier: MIT
//
// Messages whose memory is allocated and freed for each, with the registration cache, and every
// byte of them. VIPL_STRESS_MESSAGES of them, or as many as a test run has time for. The test is
// run with the C library's allocator, with others (LD_PRELOAD), and with one that maps each larger
// piece; VIPL_STRESS_ALLOCATOR says which of them it is to be.
#include "caching.hpp"

#include <deque>

#include <dlfcn.h>
#include <malloc.h>

using namespace stress;

namespace {

constexpr unsigned kAhead = 4; // receives that are posted before their messages
constexpr unsigned kLargestBits = 18;

/** Whether the allocator is the one that the test is about. */
bool is_allocator(const std::string &name)
{
    if (name == "jemalloc" || name == "tcmalloc") {
        return dlsym(RTLD_DEFAULT, name == "jemalloc" ? "mallctl" : "tc_version") != nullptr;
    }
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#if __GLIBC_PREREQ(2, 33)
    if (name == "mapping") {
        const size_t before = mallinfo2().hblks;
        std::vector<std::unique_ptr<VIP_UINT8[]>> pieces; // more than there is room for elsewhere
        for (unsigned i = 0; i < 32; ++i) {
            pieces.push_back(std::make_unique<VIP_UINT8[]>(100000));
        }
        return mallinfo2().hblks > before;
    }
#endif
#endif
    return name.empty();
}

/** Sizes that the two sides choose alike: as many small ones as large ones. */
class Sizes {
public:
    explicit Sizes(std::uint64_t seed) : random_(seed) {}
    VIP_UINT32 next()
    {
        const auto most = VIP_UINT32{1} << (4 + below(random_, kLargestBits - 3));
        return most - static_cast<VIP_UINT32>(below(random_, most / 2));
    }

private:
    Random random_;
};

/** A message's memory, from the allocator, and registered. */
struct Message {
    Span bytes;
    VIPX_REGISTRATION registration{};
};

Message make_message(const CachingDevice &device, VIP_UINT32 bytes)
{
    auto *memory = static_cast<VIP_UINT8 *>(std::malloc(bytes));
    EXPECT(memory != nullptr);
    Message message;
    message.registration = device.acquire(memory, bytes);
    message.bytes = {memory, bytes, message.registration.Handle};
    return message;
}

void end_message(const CachingDevice &device, const Message &message)
{
    device.release(message.registration);
    std::free(message.bytes.data);
}

/** One side: its device, its VI, and descriptors. */
struct Side {
    Side()
        : memory(device.nic()),
          vi(device.nic(), vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, 1u << kLargestBits))
    {
    }
    CachingDevice device;
    Memory memory;
    Vi vi;
};

class Receiver {
public:
    Receiver(Side &side, std::uint64_t seed) : side_(side), sizes_(seed) {}

    void run(unsigned count, std::atomic<unsigned> &posted)
    {
        std::vector<Work> works;
        for (unsigned i = 0; i < kAhead; ++i) {
            works.push_back(side_.memory.work());
        }
        for (unsigned i = 0; i < count + kAhead; ++i) {
            if (i >= kAhead) {
                take(i - kAhead);
            }
            if (i < count) {
                post(works[i % kAhead]);
                ++posted;
            }
        }
    }

private:
    void post(Work work) // a copy of the handles: the descriptor is cleared
    {
        messages_.push_back(make_message(side_.device, sizes_.next()));
        std::memset(work.desc, 0, sizeof(*work.desc));
        work.local(messages_.back().bytes);
        post_recv(side_.vi, work);
    }
    void take(unsigned number)
    {
        const Message message = messages_.front();
        messages_.pop_front();
        VIP_DESCRIPTOR *done = received(side_.vi);
        EXPECT_EQ(message.bytes.size, done->CS.Length);
        EXPECT(message.bytes.holds(number));
        end_message(side_.device, message);
    }

    Side &side_;
    Sizes sizes_;
    std::deque<Message> messages_;
};

void send_all(Side &side, std::uint64_t seed, unsigned count, const std::atomic<unsigned> &posted)
{
    Sizes sizes(seed);
    Work work = side.memory.work();
    for (unsigned i = 0; i < count; ++i) {
        const Message message = make_message(side.device, sizes.next());
        message.bytes.fill(i);
        std::memset(work.desc, 0, sizeof(*work.desc));
        Work send = work;
        send.local(message.bytes);
        await([&] { return posted > i; });
        post_send(side.vi, send);
        EXPECT(sent(side.vi) == send.desc);
        end_message(side.device, message);
    }
}

void expect_good(const Side &side, const char *name)
{
    const VIPX_CACHE_STATISTICS seen = side.device.statistics();
    std::cout << name << ": " << seen.Hits << " hits, " << seen.Misses << " misses, " << seen.Invalidated
              << " regions lost their memory, " << seen.Stale << " stale" << std::endl;
    EXPECT_EQ(0u, seen.Stale);
}

} // namespace

TEST_CASE("messages whose memory is allocated and freed for each")
{
    const char *allocator = std::getenv("VIPL_STRESS_ALLOCATOR");
    EXPECT(is_allocator(allocator != nullptr ? allocator : ""));
    require_sight();
    const unsigned count = times("VIPL_STRESS_MESSAGES", 3000);
    Side receiving, sending;
    connect_pair(receiving.device.nic(), receiving.vi, sending.device.nic(), sending.vi);
    std::atomic<unsigned> posted{0};
    Crew crew;
    crew.add([&] { Receiver(receiving, seed()).run(count, posted); });
    crew.add([&] { send_all(sending, seed(), count, posted); });
    crew.join();
    expect_good(receiving, "receiver");
    expect_good(sending, "sender");
}
