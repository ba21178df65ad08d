// SPDX-License-Identifier: MIT
//
// The list of where a message lies that its receiver fetches: what is written is read back, and
// what a hostile sender writes leads nowhere.
#include <cstring>
#include <vector>

#include "shown.hpp"

extern "C" {
#include "backends/loopback/pieces.h"
}

using namespace unit;

namespace {

struct Piece {
    unsigned char *base;
    std::size_t bytes;
};

/** What a sender writes for a message of those pieces. */
struct Written {
    explicit Written(const std::vector<Piece> &list)
    {
        for (const Piece &piece : list) {
            local.iov[local.count++] = {piece.base, piece.bytes};
            local.bytes += piece.bytes;
        }
        vipl_lo_pieces_find(&pieces, &local);
        payload.resize(
            vipl_lo_pieces_bytes(&pieces)); // exactly: what is read behind it is found by a sanitizer
        vipl_lo_pieces_put(payload.data(), &pieces);
        message.type = LO_RENDEZVOUS;
        message.flags = pieces.are_mappable ? LO_FLAG_MAPPABLE : 0;
        message.bytes = static_cast<std::uint32_t>(payload.size());
        message.total = static_cast<std::uint32_t>(local.bytes);
    }
    bool read() { return vipl_lo_pieces_read(&message, payload.data(), &from); }
    bool map(Link &link) { return vipl_lo_pieces_map(&link.link, &message, payload.data(), &from); }
    void claim_start(std::uint64_t start) { std::memcpy(payload.data() + payload.size() - 8, &start, 8); }

    LongList local;
    LongList from;
    lo_pieces pieces{};
    lo_message message{};
    std::vector<unsigned char> payload;
};

} // namespace

TEST_CASE("pieces of memory that is shown are found where they are mapped", "[pieces]")
{
    const Shown shown;
    Link link;
    Written list({{shown.base + 4096, 10}, {shown.base + 64, 20}, {shown.base + Shown::kBytes - 30, 30}});
    REQUIRE(list.pieces.are_mappable);
    REQUIRE(list.read());
    REQUIRE(list.from.count == 3);
    CHECK(list.from.bytes == 60);
    CHECK(list.from.iov[1].base == shown.base + 64);
    REQUIRE(list.map(link));
    const auto *there = link.find(shown.at(0));
    CHECK(list.from.iov[0].base == there + 4096);
    CHECK(list.from.iov[1].base == there + 64);
    CHECK(list.from.iov[2].base == there + Shown::kBytes - 30);
    CHECK(list.from.iov[2].len == 30);
}

TEST_CASE("a message of which any piece lies elsewhere is not shown", "[pieces]")
{
    const Shown shown;
    Link link;
    std::vector<unsigned char> elsewhere(100);
    const Piece inside = {shown.base, 100};
    const Piece outside = {elsewhere.data(), elsewhere.size()};
    const Piece beyond = {shown.base + Shown::kBytes - 10, 11};
    for (const auto &pieces :
         {std::vector<Piece>{outside}, {inside, outside}, {outside, inside}, {inside, beyond}}) {
        Written list(pieces);
        CHECK(!list.pieces.are_mappable);
        CHECK(list.payload.size() == pieces.size() * 16);
        CHECK(list.read());
        CHECK(!list.map(link));
        CHECK(list.from.iov[0].base == pieces[0].base);
    }
    CHECK(link.link.mapped == nullptr);
}

TEST_CASE("pieces that the memory does not have are not mapped, and the list stays as it is", "[pieces]")
{
    const Shown shown;
    Link link;
    Written list({{shown.base, 4096}, {shown.base + Shown::kBytes - 4096, 4096}});
    const std::uint64_t start = reinterpret_cast<std::uintptr_t>(shown.base);
    for (const std::uint64_t claimed : {start - 1, start + 1, start + Shown::kBytes, std::uint64_t{0}}) {
        list.claim_start(claimed);
        REQUIRE(list.read());
        CHECK(!list.map(link));
        CHECK(list.from.iov[0].base == shown.base);
    }
    list.claim_start(start);
    CHECK(list.map(link));
}

TEST_CASE("a list that does not add up is refused", "[pieces]")
{
    const Shown shown;
    Written list({{shown.base, 100}, {shown.base + 200, 100}});
    REQUIRE(list.read());
    SECTION("another length")
    {
        list.message.total++;
    }
    SECTION("a piece and a half")
    {
        list.message.bytes -= 8;
    }
    SECTION("less than what is to be behind it")
    {
        list.message.bytes = 16;
        list.payload.resize(16);
    }
    SECTION("nothing at all")
    {
        list.message.bytes = 0;
        list.payload.clear();
    }
    CHECK(!list.read());
}
