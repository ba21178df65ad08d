// SPDX-License-Identifier: MIT
//
// The handle table: what was created is found until it is destroyed and never again, whatever the
// kind asked for, however often slots are used again, and while other threads create and destroy.
#include <catch2/catch.hpp>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/os_hooks.hpp"

using namespace unit;

namespace {

constexpr vipl_kind kKinds[] = {VIPL_KIND_NIC,  VIPL_KIND_VI,   VIPL_KIND_CQ,
                                VIPL_KIND_PTAG, VIPL_KIND_CONN, VIPL_KIND_REGISTRATION};

void *changed(const void *handle, std::uintptr_t bits)
{
    return reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(handle) ^ bits);
}

} // namespace

TEST_CASE("a handle finds its object under its own kind only", "[handle]")
{
    int object = 0;
    for (const vipl_kind kind : kKinds) {
        void *handle = vipl_handle_create(kind, &object);
        REQUIRE(handle != nullptr);
        for (const vipl_kind other : kKinds) {
            REQUIRE(vipl_handle_find(other, handle) == (other == kind ? &object : nullptr));
        }
        vipl_handle_destroy(handle);
        REQUIRE(vipl_handle_find(kind, handle) == nullptr);
    }
}

TEST_CASE("what is no handle finds nothing", "[handle]")
{
    int object = 0;
    void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
    for (const vipl_kind kind : kKinds) {
        for (const std::uintptr_t value : {std::uintptr_t{0}, std::uintptr_t{1}, ~std::uintptr_t{0},
                                           reinterpret_cast<std::uintptr_t>(&object)}) {
            REQUIRE(vipl_handle_find(kind, reinterpret_cast<void *>(value)) == nullptr);
        }
    }
    for (unsigned bit = 0; bit < sizeof(void *) * 8; ++bit) { // each bit of a handle matters
        REQUIRE(vipl_handle_find(VIPL_KIND_VI, changed(handle, std::uintptr_t{1} << bit)) == nullptr);
    }
    vipl_handle_destroy(handle);
}

TEST_CASE("random numbers find nothing", "[handle]")
{
    int object = 0;
    void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
    Random random(1);
    for (int i = 0; i < 100000; ++i) {
        void *guess = reinterpret_cast<void *>(static_cast<std::uintptr_t>(random()));
        if (guess != handle && sizeof(void *) == 8) { // 32 bits of stamp: no luck; else guesses may hit
            REQUIRE(vipl_handle_find(VIPL_KIND_VI, guess) == nullptr);
        }
    }
    vipl_handle_destroy(handle);
}

TEST_CASE("a slot that is used again does not revive old handles", "[handle]")
{
    int object = 0;
    std::vector<void *> old;
    for (int i = 0; i < 5000; ++i) { // more than the free slots of a chunk: each is used several times
        void *handle = vipl_handle_create(VIPL_KIND_CQ, &object);
        REQUIRE(vipl_handle_find(VIPL_KIND_CQ, handle) == &object);
        vipl_handle_destroy(handle);
        old.push_back(handle);
    }
    void *handle = vipl_handle_create(VIPL_KIND_CQ, &object);
    for (void *stale : old) {
        REQUIRE(vipl_handle_find(VIPL_KIND_CQ, stale) == nullptr);
    }
    REQUIRE(std::set<void *>(old.begin(), old.end()).size() == old.size());
    vipl_handle_destroy(handle);
}

TEST_CASE("100,000 handles live at once", "[handle]")
{
    constexpr unsigned kMany = 100000;
    std::vector<int> objects(kMany);
    std::vector<void *> handles;
    for (int &object : objects) {
        handles.push_back(vipl_handle_create(VIPL_KIND_VI, &object));
    }
    unsigned wrong = 0;
    for (unsigned i = 0; i < kMany; ++i) {
        wrong += vipl_handle_find(VIPL_KIND_VI, handles[i]) != &objects[i] ? 1 : 0;
    }
    REQUIRE(wrong == 0);
    REQUIRE(std::set<void *>(handles.begin(), handles.end()).size() == kMany);
    for (void *handle : handles) {
        vipl_handle_destroy(handle);
        wrong += vipl_handle_find(VIPL_KIND_VI, handle) != nullptr ? 1 : 0;
    }
    REQUIRE(wrong == 0);
}

TEST_CASE("no memory for another chunk gives no handle, and harms none", "[handle]")
{
    int object = 0;
    std::vector<void *> handles;
    while (handles.size() < 200000) {
        vipl_alloc_fail_after(1); // whenever a chunk is needed
        void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
        if (handle == nullptr) {
            break;
        }
        handles.push_back(handle);
    }
    vipl_alloc_fail_after(-1);
    REQUIRE(handles.size() < 200000);
    void *handle = vipl_handle_create(VIPL_KIND_VI, &object);
    REQUIRE(handle != nullptr);
    handles.push_back(handle);
    for (void *one : handles) {
        vipl_handle_destroy(one);
    }
}

TEST_CASE("look-ups see the object or nothing while others create and destroy", "[handle]")
{
    struct Published {
        std::atomic<void *> handle{nullptr};
        int object = 0;
    };
    std::vector<Published> cells(64);
    std::atomic<bool> stop{false};
    std::atomic<unsigned> wrong{0}, found{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 50000 || (found == 0 && i < 50000000); ++i) {
                Published &cell = cells[t * 32 + i % 32];
                void *old = cell.handle.exchange(nullptr);
                if (old != nullptr) {
                    vipl_handle_destroy(old);
                }
                cell.handle = vipl_handle_create(VIPL_KIND_VI, &cell.object);
            }
            stop = true;
        });
        threads.emplace_back([&, t] {
            for (unsigned i = t; !stop; i = (i + 7) % 64) {
                void *handle = cells[i].handle;
                void *object = handle == nullptr ? nullptr : vipl_handle_find(VIPL_KIND_VI, handle);
                wrong += object != nullptr && object != &cells[i].object ? 1 : 0;
                found += object != nullptr ? 1 : 0;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (Published &cell : cells) {
        vipl_handle_destroy(cell.handle);
    }
    REQUIRE(wrong == 0);
    REQUIRE(found > 0);
}
