// SPDX-License-Identifier: MIT
//
// The registration cache never finds pages that are not there any more. Threads use memory, lose it
// in each way that there is, and use what comes in its place; each hit compares the physical pages
// with those at the registration. VIPL_STRESS_CHECKS hits, or as many as a test run has time for.
// The control: the same without the watch, which finds stale regions.
#include "caching.hpp"

#include <array>
#include <map>
#include <shared_mutex>

#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>

using namespace stress;

extern "C" {
int __real_vipl_watch_add(uintptr_t first, uintptr_t end);
int __wrap_vipl_watch_add(uintptr_t first, uintptr_t end);
}

namespace {

std::atomic<bool> g_watches{true}; // false: memory is taken for watched, and is not

constexpr size_t kMost = 8; // pages of a mapping
constexpr unsigned kThreads = 3;
constexpr int kDontUnmap = 4; // MREMAP_DONTUNMAP, since Linux 5.7
#if defined(__SANITIZE_THREAD__)
constexpr bool kKnowsAllCalls = false; // it does not know mremap(), nor a fork of several threads
#else
constexpr bool kKnowsAllCalls = true;
#endif

/** Lets one thread be alone for what concerns the memory of all: a fork, and the program break. */
class World {
public:
    template <class Body>
    void with_others(const Body &body)
    {
        std::shared_lock<std::shared_mutex> lock;
        {
            const std::lock_guard<std::mutex> turn(turn_);
            lock = std::shared_lock<std::shared_mutex>(all_);
        }
        body();
    }
    template <class Body>
    void alone(const Body &body)
    {
        const std::lock_guard<std::mutex> turn(turn_);
        const std::unique_lock<std::shared_mutex> lock(all_);
        body();
    }

private:
    std::mutex turn_; // so that those who come all the time let one pass who waits to be alone
    std::shared_mutex all_;
};

/** A thread that maps memory, which the system takes from what other threads have given back. */
class Worker {
public:
    Worker(const CachingDevice &device, World &world, std::uint64_t seed)
        : device_(device), world_(world), random_(seed)
    {
    }

    /** Until the device has had so many hits, or has found a stale region. */
    void run(std::uint64_t hits, const std::atomic<bool> &failed)
    {
        for (unsigned rounds = 0; !failed; ++rounds) {
            if (rounds % 64 == 0) {
                const VIPX_CACHE_STATISTICS now = device_.statistics();
                if (now.Hits >= hits || (now.Stale > 0 && rounds >= 1024)) {
                    return;
                }
            }
            const bool alone = kKnowsAllCalls && below(random_, 64) == 0;
            const Way &way = alone ? kAlone[below(random_, kAlone.size())]
                                   : kWays[below(random_, kKnowsAllCalls ? kWays.size() : kKnown)];
            ++counts[way.name];
            const auto round = [&] { one_round(way); };
            alone ? world_.alone(round) : world_.with_others(round);
        }
    }

    std::map<std::string, unsigned> counts;

private:
    struct Way {
        const char *name;
        void (Worker::*lose)();
    };
    static constexpr size_t kKnown = 5; // of kWays, those that every sanitizer knows
    static const std::array<Way, 9> kWays;
    static const std::array<Way, 2> kAlone;

    void one_round(const Way &way)
    {
        bytes_ = (1 + below(random_, kMost)) * kPage;
        at_ = map(nullptr);
        use(at_, bytes_);
        const bool holds = below(random_, 4) == 0; // a region whose memory goes while it is in use
        const VIPX_REGISTRATION held = holds ? device_.acquire(at_, bytes_) : VIPX_REGISTRATION{};
        (this->*way.lose)();
        use(at_, bytes_);
        EXPECT(munmap(at_, bytes_) == 0);
        if (holds) {
            device_.release(held);
        }
    }
    unsigned char *map(void *where)
    {
        const int fixed = where == nullptr ? 0 : MAP_FIXED;
        void *at = mmap(where, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        EXPECT(at != MAP_FAILED);
        std::memset(at, 1, bytes_);
        return static_cast<unsigned char *>(at);
    }
    /** mremap() of bytes_ at `from`. While another thread has the system watch a mapping that ended
     * here, these pages may be two mappings for some microseconds, which mremap() refuses
     * (docs/design/registration-cache.md). */
    unsigned char *remap(void *from, size_t bytes, int flags, void *to)
    {
        constexpr int kTries = 100000;
        long moved = -1;
        for (int i = 0; moved == -1 && i < kTries; ++i) {
            moved = syscall(SYS_mremap, from, bytes_, bytes, flags, to);
            if (moved == -1) {
                EXPECT_EQ(EFAULT, errno);
                std::this_thread::yield();
            }
        }
        EXPECT(moved != -1);
        return reinterpret_cast<unsigned char *>(moved);
    }
    void use(const unsigned char *at, size_t bytes)
    {
        for (std::uint64_t i = below(random_, 12); i > 0; --i) {
            const size_t from = below(random_, bytes);
            device_.release(device_.acquire(at + from, bytes - from));
        }
    }

    // --- the ways; each leaves a mapping of bytes_ at at_

    void unmap()
    {
        EXPECT(munmap(at_, bytes_) == 0);
        at_ = map(nullptr);
    }
    void unmap_part()
    {
        void *last = at_ + bytes_ - kPage;
        EXPECT(munmap(last, kPage) == 0);
        const size_t all = std::exchange(bytes_, bytes_ - kPage); // another thread may be there now
        if (bytes_ == 0) {
            bytes_ = all;
            at_ = map(nullptr);
        }
    }
    void map_over() { map(at_); }
    void discard()
    {
        EXPECT(madvise(at_, kPage, MADV_DONTNEED) == 0);
        std::memset(at_, 2, bytes_);
    }
    void give_to_allocator()
    {
        size_t bytes = 1 + below(random_, 400000);
        auto *memory = static_cast<unsigned char *>(std::malloc(bytes));
        for (int i = 0; i < 3; ++i) {
            EXPECT(memory != nullptr);
            std::memset(memory, 4, bytes);
            use(memory, bytes);
            bytes = 1 + below(random_, 400000);
            if (i == 1) {
                memory = static_cast<unsigned char *>(std::realloc(memory, bytes));
            } else {
                std::free(memory);
                memory = static_cast<unsigned char *>(std::malloc(bytes));
            }
        }
        std::free(memory);
    }
    void move_onto()
    {
        void *other = map(nullptr);
        EXPECT(remap(other, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, at_) == at_);
    }
    void move_away()
    {
        at_ = remap(at_, 2 * bytes_, MREMAP_MAYMOVE, nullptr);
        bytes_ *= 2;
        std::memset(at_, 3, bytes_);
    }
    void move_pages()
    {
        unsigned char *to = remap(at_, bytes_, MREMAP_MAYMOVE | kDontUnmap, nullptr);
        std::memset(at_, 5, bytes_);
        use(at_, bytes_);
        EXPECT(munmap(to, bytes_) == 0);
    }
    /** System V memory, which has a file, so that it is registered each time. */
    void detach()
    {
        for (int i = 0; i < 2; ++i) {
            const int id = shmget(IPC_PRIVATE, bytes_, 0600);
            auto *segment = static_cast<unsigned char *>(shmat(id, nullptr, 0));
            EXPECT(shmctl(id, IPC_RMID, nullptr) == 0);
            std::memset(segment, 6, bytes_);
            use(segment, bytes_);
            EXPECT(shmdt(segment) == 0);
        }
    }
    void lower_break()
    {
        for (int i = 0; i < 2; ++i) {
            const auto top = reinterpret_cast<uintptr_t>(sbrk(static_cast<intptr_t>(bytes_ + kPage)));
            auto *page = reinterpret_cast<unsigned char *>((top + kPage - 1) & ~(kPage - 1));
            std::memset(page, 7, bytes_);
            use(page, bytes_);
            EXPECT(sbrk(-static_cast<intptr_t>(bytes_ + kPage)) != nullptr);
        }
    }
    /** Each side's writes are to pages of its own, and those that are registered are this one's. */
    void fork_and_write()
    {
        const VIPX_REGISTRATION before = device_.acquire(at_, bytes_);
        device_.release(before);
        const pid_t child = fork();
        if (child == 0) {
            std::memset(at_, 8, bytes_);
            _exit(0);
        }
        std::memset(at_, 9, bytes_);
        int status = -1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        EXPECT_EQ(0, status);
        const VIPX_REGISTRATION after = device_.acquire(at_, bytes_);
        EXPECT(before.Handle == after.Handle || !g_watches); // there may be other, stale regions
        device_.release(after);
    }

    const CachingDevice &device_;
    World &world_;
    Random random_;
    unsigned char *at_ = nullptr;
    size_t bytes_ = 0;
};

const std::array<Worker::Way, 9> Worker::kWays = {{{"munmap", &Worker::unmap},
                                                   {"munmap of a part", &Worker::unmap_part},
                                                   {"mmap over it", &Worker::map_over},
                                                   {"MADV_DONTNEED", &Worker::discard},
                                                   {"free and realloc", &Worker::give_to_allocator},
                                                   {"mremap onto it", &Worker::move_onto},
                                                   {"mremap away", &Worker::move_away},
                                                   {"mremap of the pages alone", &Worker::move_pages},
                                                   {"shmdt", &Worker::detach}}};
const std::array<Worker::Way, 2> Worker::kAlone = {
    {{"brk", &Worker::lower_break}, {"fork and copy", &Worker::fork_and_write}}};

VIPX_CACHE_STATISTICS run_workers(std::uint64_t hits)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // large pages move by themselves
    const CachingDevice device;
    World world;
    std::vector<std::unique_ptr<Worker>> workers;
    std::atomic<bool> failed{false};
    Crew crew;
    for (unsigned i = 0; i < kThreads; ++i) {
        workers.push_back(std::make_unique<Worker>(device, world, seed() + i));
        crew.add([&, worker = workers.back().get()] {
            try {
                worker->run(hits, failed);
            } catch (...) {
                failed = true;
                throw;
            }
        });
    }
    crew.join();
    std::map<std::string, unsigned> counts;
    for (const auto &worker : workers) {
        for (const auto &[name, count] : worker->counts) {
            counts[name] += count;
        }
    }
    const VIPX_CACHE_STATISTICS seen = device.statistics();
    std::cout << seen.Hits + seen.Stale << " checks, " << seen.Stale << " stale; " << seen.Invalidated
              << " regions lost their memory, " << seen.InvalidatedInUse << " of them in use; " << seen.Waits
              << " waits\n";
    for (const auto &[name, count] : counts) {
        std::cout << "  " << name << ": " << count << std::endl;
    }
    return seen;
}

} // namespace

int __wrap_vipl_watch_add(uintptr_t first, uintptr_t end)
{
    return g_watches ? __real_vipl_watch_add(first, end) : 0;
}

TEST_CASE("no hit is of pages that were taken away")
{
    require_sight();
    const std::uint64_t hits = times("VIPL_STRESS_CHECKS", 30000);
    const VIPX_CACHE_STATISTICS seen = run_workers(hits);
    EXPECT(seen.Hits >= hits);
    EXPECT(seen.Invalidated > hits / 10);
    EXPECT_EQ(0u, seen.Stale);
}

TEST_CASE("without the watch, pages that were taken away are found")
{
    require_sight();
    g_watches = false;
    setenv("VIPL_LOG", "off", 1); // each is an error
    const VIPX_CACHE_STATISTICS seen = run_workers(30000);
    g_watches = true;
    EXPECT(seen.Stale > 0);
}
