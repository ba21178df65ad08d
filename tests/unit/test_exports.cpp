// SPDX-License-Identifier: MIT
//
// The exports of registered memory that peers read: ranges, rights, tags, crowded neighbourhoods,
// and look-ups while regions come and go.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "internal.hpp"
#include "support/portable.hpp"

using namespace unit;

namespace {

constexpr std::uint64_t kAddress = 0x10000, kBytes = 0x1000;

vipl_region_params params(VIP_MEM_HANDLE handle, bool write = true, bool read = true)
{
    return {reinterpret_cast<void *>(kAddress), kBytes, handle, 7, write, read};
}

/** A table whose parts all have memory. */
std::unique_ptr<lo_exports> backed_table()
{
    auto table = std::make_unique<lo_exports>();
    table->backed = UINT32_MAX;
    return table;
}

/** Whether a peer finds the range in the table, with the right. */
bool finds(const lo_exports &exports, std::uint32_t tag, bool write, VIP_MEM_HANDLE handle,
           std::uint64_t address, std::uint64_t bytes)
{
    lo_exported region{};
    return vipl_lo_exports_find(&exports, tag, handle, &region) &&
           lo_exported_allows(&region, write, address, bytes);
}

bool allows(const lo_exports &w, VIP_MEM_HANDLE handle, std::uint64_t address, std::uint64_t bytes)
{
    const bool write = finds(w, 0, true, handle, address, bytes);
    REQUIRE(finds(w, 0, false, handle, address, bytes) == write);
    return write;
}

#if __has_include(<sys/mman.h>)
/** Whether the system allocates the pages of a segment when it is asked to. */
bool system_allocates()
{
    constexpr int kPopulateWrite = 23; // since Linux 5.14
    const size_t page = vipl_page_bytes();
    struct stat file = {};
    const int fd = memfd_create("probe", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(ftruncate(fd, static_cast<off_t>(page)) == 0);
    void *bytes = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(bytes != MAP_FAILED);
    const bool allocates = madvise(bytes, page, kPopulateWrite) == 0 && fstat(fd, &file) == 0;
    munmap(bytes, page);
    close(fd);
    return allocates && file.st_blocks > 0;
}
#endif

} // namespace

TEST_CASE("the exports allows what lies inside a region, and not a byte more", "[exports]")
{
    const auto exports = backed_table();
    const vipl_region_params region = params(0xABCD1234);
    REQUIRE_FALSE(allows(*exports, region.handle, kAddress, 1));
    vipl_lo_exports_add(exports.get(), &region);
    const std::uint64_t end = kAddress + kBytes;
    REQUIRE(allows(*exports, region.handle, kAddress, kBytes));
    REQUIRE(allows(*exports, region.handle, kAddress, 0));
    REQUIRE(allows(*exports, region.handle, end, 0));
    REQUIRE(allows(*exports, region.handle, end - 1, 1));
    REQUIRE_FALSE(allows(*exports, region.handle, end, 1));
    REQUIRE_FALSE(allows(*exports, region.handle, end + 1, 0));
    REQUIRE_FALSE(allows(*exports, region.handle, kAddress - 1, 1));
    REQUIRE_FALSE(allows(*exports, region.handle, kAddress, kBytes + 1));
    REQUIRE_FALSE(allows(*exports, region.handle, kAddress + 1, ~std::uint64_t{0})); // wraps around
    REQUIRE_FALSE(allows(*exports, region.handle, ~std::uint64_t{0}, 2));
    REQUIRE_FALSE(allows(*exports, region.handle + 1, kAddress, 1));
    REQUIRE_FALSE(allows(*exports, 0, kAddress, 1));
    REQUIRE(vipl_lo_exports_remove(exports.get(), region.handle));
    REQUIRE_FALSE(vipl_lo_exports_remove(exports.get(), region.handle));
    REQUIRE_FALSE(allows(*exports, region.handle, kAddress, 1));
}

TEST_CASE("the exports keeps rights and tags", "[exports]")
{
    for (const bool write : {false, true}) {
        for (const bool read : {false, true}) {
            const auto exports = backed_table();
            const vipl_region_params region = params(5, write, read);
            vipl_lo_exports_add(exports.get(), &region);
            for (const std::uint32_t tag : {0u, 7u, 8u}) {
                const bool tagged = tag != 8;
                REQUIRE(finds(*exports, tag, true, 5, kAddress, 1) == (write && tagged));
                REQUIRE(finds(*exports, tag, false, 5, kAddress, 1) == (read && tagged));
            }
        }
    }
}

TEST_CASE("a crowded neighbourhood leaves regions out, and takes others when some have left", "[exports]")
{
    const auto exports = backed_table();
    const auto handle_at = [](unsigned i) { return (i + 1) * LO_EXPORTS + 9; }; // all want one entry
    unsigned entered = 0;
    for (unsigned i = 0; i < 20; ++i) {
        const vipl_region_params region = params(handle_at(i));
        vipl_lo_exports_add(exports.get(), &region);
        entered += allows(*exports, region.handle, kAddress, 1) ? 1 : 0;
    }
    REQUIRE(entered == LO_EXPORT_PROBES);
    REQUIRE_FALSE(vipl_lo_exports_remove(exports.get(), handle_at(19)));
    REQUIRE(vipl_lo_exports_remove(exports.get(), handle_at(3)));
    REQUIRE(allows(*exports, handle_at(15), kAddress, 1)); // behind the gap
    const vipl_region_params late = params(handle_at(19));
    vipl_lo_exports_add(exports.get(), &late);
    REQUIRE(allows(*exports, late.handle, kAddress, 1));
}

TEST_CASE("handles at the end of the table continue at its start", "[exports]")
{
    const auto exports = backed_table();
    for (unsigned i = 1; i <= LO_EXPORT_PROBES; ++i) {
        const vipl_region_params region = params(i * LO_EXPORTS - 1);
        vipl_lo_exports_add(exports.get(), &region);
        REQUIRE(allows(*exports, region.handle, kAddress, kBytes));
    }
}

#if __has_include(<sys/mman.h>)
TEST_CASE("a table has memory for the parts that have regions", "[exports]")
{
    constexpr unsigned kEach = LO_EXPORTS / LO_EXPORT_PARTS;
    if (!system_allocates() || vipl_test::library_is_portable()) {
        WARN("a part of a mapping is not allocated ahead: by emulators, and by the portable layer");
        return;
    }
    vipl_shm shm = {};
    REQUIRE(vipl_shm_create_sparse(&shm, "exports", sizeof(lo_exports)) == 0);
    auto *table = static_cast<lo_exports *>(shm.base);
    REQUIRE(vipl_shm_allocate(table, offsetof(lo_exports, entries)) == 0);
    const auto kib = [&] {
        struct stat file = {};
        REQUIRE(fstat(shm.fd, &file) == 0);
        return file.st_blocks / 2;
    };
    const auto page_kib = static_cast<blkcnt_t>(vipl_page_bytes() / 1024);
    CHECK(kib() == page_kib);
    const vipl_region_params one = params(5 * kEach + 1);
    const vipl_region_params other = params(31 * kEach - 2); // whose later probes are another part's
    CHECK_FALSE(allows(*table, one.handle, kAddress, 1));
    CHECK_FALSE(vipl_lo_exports_remove(table, one.handle));
    CHECK(kib() == page_kib); // a look allocates nothing
    vipl_lo_exports_add(table, &one);
    vipl_lo_exports_add(table, &other);
    CHECK(table->backed == (lo_export_part(one.handle) | lo_export_part(other.handle)));
    CHECK(allows(*table, one.handle, kAddress, kBytes));
    CHECK(allows(*table, other.handle, kAddress, kBytes));
    CHECK_FALSE(allows(*table, 17 * kEach, kAddress, 1));
    CHECK(kib() <= 5 * page_kib); // a part may lie in two pages
    CHECK(vipl_lo_exports_remove(table, one.handle));
    CHECK_FALSE(allows(*table, one.handle, kAddress, 1));
    table->entries[17 * kEach].handle = 17 * kEach; // where the table says that nothing is
    CHECK_FALSE(allows(*table, 17 * kEach, kAddress, 1));
    vipl_shm_release(&shm);
}
#endif

TEST_CASE("look-ups while a region comes and goes never see half of it", "[exports]")
{
    const auto exports = backed_table();
    std::atomic<bool> stop{false};
    std::atomic<unsigned> wrong{0}, seen{0};
    std::thread reader([&] {
        while (!stop) { // bytes that no life of the region had
            seen += finds(*exports, 7, true, 42, kAddress + 8, 8) ? 1 : 0;
            wrong += finds(*exports, 7, true, 42, kAddress + kBytes, 1) ? 1 : 0;
        }
    });
    for (unsigned i = 0; i < 100000 || seen == 0; ++i) {
        const vipl_region_params region = params(42);
        vipl_lo_exports_add(exports.get(), &region);
        wrong += vipl_lo_exports_remove(exports.get(), 42) ? 0 : 1;
        if (i > 100000) {
            std::this_thread::yield();
        }
    }
    stop = true;
    reader.join();
    REQUIRE(wrong == 0);
}
