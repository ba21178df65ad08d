// SPDX-License-Identifier: MIT
//
// Indexes: what a recording comes to, files of them, and files that lie.
#include "simulated.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <unistd.h>

using namespace dm_test;

namespace {

/** A file's name that is free, and is so again afterwards. */
struct Scratch {
    std::string path;
    Scratch()
    {
        char name[] = "/tmp/vipl-dm-index-XXXXXX";
        const int fd = mkstemp(name);
        REQUIRE(fd >= 0);
        close(fd);
        path = name;
    }
    ~Scratch() { unlink(path.c_str()); }
};

struct Index : dm_index {
    explicit Index(const Bytes &file)
    {
        const dm_source source = source_of(file);
        vipl_dm_reason reason{};
        error = dm_index_make(&source, 77, this, &reason);
        why = reason.text;
    }
    ~Index()
    {
        if (error == 0) {
            dm_index_free(this);
        }
    }
    dm_entry entry(std::uint64_t number) const
    {
        dm_entry one{};
        dm_index_get(this, number, &one);
        return one;
    }
    int error;
    std::string why;
};

Bytes sample()
{
    return Writer(true)
        .pcap_head(true)
        .record(10, 0, frame(0, 60))
        .record(10, 500, frame(1, 1514), 9000)
        .record(20, 0, frame(2, 99))
        .bytes();
}

} // namespace

TEST_CASE("an index has where packets are, and how long after one another they came", "[dm_index]")
{
    const Bytes file = sample();
    Index index(file);
    REQUIRE(index.error == 0);
    CHECK(index.packets == 3);
    REQUIRE(index.entries == 4); // a gap of more than 4.29 s is an entry
    CHECK(index.longest == 1514);
    CHECK(index.span == 10000000000);
    CHECK(index.partial == 1);
    CHECK(index.entry(0).offset == 40);
    CHECK(index.entry(0).gap == 0);
    CHECK(index.entry(1).gap == 500);
    CHECK(index.entry(1).is_partial);
    CHECK(index.entry(1).bytes == 1514);
    CHECK(index.entry(2).bytes == 0);
    CHECK(index.entry(2).offset == 9999999500);
    CHECK(index.entry(3).bytes == 99);
    CHECK(index.entry(3).gap == 0);
    CHECK(std::memcmp(file.data() + index.entry(3).offset, frame(2, 99).data(), 99) == 0);
}

TEST_CASE("times that go back stand still, and the sum is right again afterwards", "[dm_index]")
{
    Index index(Writer(false)
                    .pcap_head(true)
                    .record(1, 0, frame(0, 60))
                    .record(1, 900, frame(1, 60))
                    .record(1, 100, frame(2, 60))
                    .record(0, 5, frame(3, 60))
                    .record(1, 1000, frame(4, 60))
                    .bytes());
    REQUIRE(index.error == 0);
    std::uint64_t gaps[5];
    for (unsigned i = 0; i < 5; ++i) {
        gaps[i] = index.entry(i).gap;
    }
    CHECK(gaps[1] == 900);
    CHECK(gaps[2] == 0);
    CHECK(gaps[3] == 0);
    CHECK(gaps[4] == 100);
    CHECK(index.span == 1000);
}

TEST_CASE("an index of a recording that is wrong is refused", "[dm_index]")
{
    Index index(
        Writer(false).pcap_head(true).record(1, 0, frame(0, 60)).u32(0).u32(0).u32(300000).u32(0).bytes());
    CHECK(index.error == EINVAL);
    CHECK(index.why.find("300000") != std::string::npos);
}

TEST_CASE("an index is the same out of its file; that of another store is refused", "[dm_index]")
{
    const Bytes file = sample();
    Index made(file);
    Store store(file);
    store.identity = 77;
    Scratch scratch;
    vipl_dm_reason reason{};
    REQUIRE(dm_index_save(&made, scratch.path.c_str(), &reason) == 0);
    dm_index loaded{};
    REQUIRE(dm_index_load(scratch.path.c_str(), &store, &loaded, &reason) == 0);
    CHECK(loaded.entries == made.entries);
    CHECK(loaded.span == made.span);
    CHECK(loaded.longest == made.longest);
    CHECK(loaded.partial == made.partial);
    CHECK(std::memcmp(loaded.all, made.all, DM_INDEX_HEAD_BYTES + 4 * DM_INDEX_ENTRY_BYTES) == 0);
    dm_index_free(&loaded);
    store.identity = 78;
    CHECK(dm_index_load(scratch.path.c_str(), &store, &loaded, &reason) == ESTALE);
    store.identity = 77;
    store.bytes++;
    CHECK(dm_index_load(scratch.path.c_str(), &store, &loaded, &reason) == ESTALE);
    CHECK(dm_index_load("/nowhere/at/all", &store, &loaded, &reason) == ENOENT);
    CHECK(dm_index_save(&made, "/nowhere/at/all", &reason) == ENOENT);
}

TEST_CASE("the bytes of an index are the same on every CPU", "[dm_index]")
{
    Index index(sample());
    const Bytes head = {'V', 'I', 'P', 'L', 'D', 'M', 'I', 'X', 1, 0, 0, 0, 0xEA, 5, 0, 0,
                        4,   0,   0,   0,   0,   0,   0,   0,   3, 0, 0, 0, 0,    0, 0, 0};
    CHECK(std::memcmp(index.all, head.data(), head.size()) == 0);
    const Bytes second = {0x74, 0, 0, 0, 0, 0, 0, 0, 0xEA, 5, 0, 0x80, 0xF4, 1, 0, 0};
    CHECK(std::memcmp(index.all + DM_INDEX_HEAD_BYTES + DM_INDEX_ENTRY_BYTES, second.data(), second.size()) ==
          0);
}

TEST_CASE("an index that lies is refused", "[dm_index]")
{
    Index made(sample());
    const Bytes whole(made.all, made.all + DM_INDEX_HEAD_BYTES + made.entries * DM_INDEX_ENTRY_BYTES);
    const auto refused = [](Bytes bytes) {
        dm_index index{};
        vipl_dm_reason reason{};
        int error = dm_index_read(bytes.data(), bytes.size(), &index, &reason);
        error = error == 0 ? dm_index_check(&index, &reason) : error;
        return error == EINVAL;
    };
    CHECK_FALSE(refused(whole));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        REQUIRE(refused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))));
    }
    const auto with = [&](std::size_t at, std::uint8_t value) {
        Bytes changed = whole;
        changed[at] = value;
        return changed;
    };
    CHECK(refused(with(0, 'W')));
    CHECK(refused(with(8, 2)));
    CHECK(refused(with(12, 0)));                         // shorter than its packets
    CHECK(refused(with(15, 4)));                         // longer than any packet
    CHECK(refused(with(16, 5)));                         // entries
    CHECK(refused(with(24, 4)));                         // packets
    CHECK(refused(with(32, 10)));                        // a smaller store
    CHECK(refused(with(DM_INDEX_HEAD_BYTES + 7, 0x80))); // outside
    CHECK(refused(with(DM_INDEX_HEAD_BYTES + 8, 13)));   // no header
    CHECK(refused(with(DM_INDEX_HEAD_BYTES + 16, 0)));   // before the one before
}
