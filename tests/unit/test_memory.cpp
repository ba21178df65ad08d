// SPDX-License-Identifier: MIT
//
// The library's own heap.
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "internal.hpp"
#include "support/os_hooks.hpp"

namespace {

struct Block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;

    bool holds() const
    {
        for (size_t i = 0; i < size; ++i) {
            if (bytes[i] != mark) {
                return false;
            }
        }
        return true;
    }
};

/** Takes and gives back blocks of all sizes: each keeps what is in it, and none lies in another. */
bool churn(unsigned seed)
{
    std::mt19937 random(seed);
    std::vector<Block> blocks;
    for (unsigned i = 0; i < 4000; ++i) {
        if (blocks.size() > 200 || (!blocks.empty() && random() % 3 == 0)) {
            const size_t which = random() % blocks.size();
            if (!blocks[which].holds()) {
                return false;
            }
            vipl_free(blocks[which].bytes);
            blocks[which] = blocks.back();
            blocks.pop_back();
        } else {
            const size_t size = size_t{1} << random() % 18;
            const size_t exact = 1 + random() % size;
            auto *bytes = static_cast<unsigned char *>(vipl_alloc(exact));
            if (bytes == nullptr || reinterpret_cast<std::uintptr_t>(bytes) % 16 != 0) {
                return false;
            }
            blocks.push_back({bytes, exact, static_cast<unsigned char>(i)});
            std::memset(bytes, blocks.back().mark, exact);
        }
    }
    bool good = true;
    for (const Block &block : blocks) {
        good = good && block.holds();
        vipl_free(block.bytes);
    }
    return good;
}

} // namespace

TEST_CASE("blocks of all sizes, and of several threads, do not overlap")
{
    bool good[3] = {};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
        threads.emplace_back([&good, i] { good[i] = churn(i); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK((good[0] && good[1] && good[2]));
}

TEST_CASE("what is given back is cleared on demand, and NULL may be")
{
    for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{100000}}) {
        for (int i = 0; i < 3; ++i) {
            auto *bytes = static_cast<unsigned char *>(vipl_zalloc(size));
            REQUIRE(bytes != nullptr);
            const Block block = {bytes, size, 0};
            CHECK(block.holds());
            std::memset(bytes, 0xFF, size);
            vipl_free(bytes);
        }
    }
    vipl_free(nullptr);
}

TEST_CASE("memory is to be had under each lock of the library")
{
    for (uint32_t rank = 1; rank <= VIPL_RANK_LOG; ++rank) {
        vipl_mutex lock;
        vipl_mutex_init(&lock, rank);
        vipl_mutex_lock(&lock); // a debug build ends the program where the order is broken
        void *bytes = vipl_alloc(10);
        CHECK(bytes != nullptr);
        vipl_free(bytes);
        vipl_shm segment;
        CHECK(vipl_shm_create(&segment, "test", 4096) == 0);
        vipl_shm_close_fd(&segment);
        vipl_shm_retire(&segment);
        vipl_mutex_unlock(&lock);
    }
}

TEST_CASE("the n-th allocation fails when it is to, of each kind")
{
    vipl_alloc_fail_after(2);
    void *first = vipl_alloc(10);
    CHECK(first != nullptr);
    CHECK(vipl_zalloc(10) == nullptr);
    vipl_free(first);
    vipl_alloc_fail_after(1);
    CHECK(vipl_alloc_slab(65536) == nullptr);
    vipl_alloc_fail_after(-1);
}
