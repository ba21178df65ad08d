// SPDX-License-Identifier: MIT
//
// What a log has next (tools/rnic_log/ahead.h), for cards that are faster and slower than the
// log's, do their DMA in other pieces and other orders, or do something else.
#include <catch2/catch.hpp>

#include <cstdio>
#include <string>
#include <vector>

extern "C" {
#include "rnic_log/ahead.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string hex(const Bytes &bytes)
{
    std::string text;
    for (const std::uint8_t byte : bytes) {
        const char *digits = "0123456789abcdef";
        text += {digits[byte / 16], digits[byte % 16]};
    }
    return text;
}

std::string record(const std::string &what, unsigned fn, std::uint64_t address, std::uint64_t value,
                   unsigned bytes, const Bytes &data = {})
{
    char head[160];
    const int bar = what == "register-write" || what == "doorbell" ? 2 : 0;
    std::snprintf(head, sizeof head, "1.000000000 fn=%u %s bar=%d address=0x%llx value=0x%llx bytes=%u", fn,
                  what.c_str(), bar, static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(value), bytes);
    return std::string(head) + (data.empty() ? "" : " data=" + hex(data)) + "\n";
}
std::string reads(std::uint64_t address, const Bytes &data, unsigned fn = 0)
{
    return record("dma-read", fn, address, 0, static_cast<unsigned>(data.size()), data);
}
std::string writes(std::uint64_t address, const Bytes &data, unsigned fn = 0)
{
    return record("dma-write", fn, address, 0, static_cast<unsigned>(data.size()), data);
}
std::string interrupts(unsigned vector)
{
    return record("interrupt", 0, 0, vector, 0);
}
/** Something that the host does: where it leads to does not matter here. */
std::string act()
{
    return record("register-write", 0, RNIC_DB_EVENT_CONSUMER, 1, 4);
}

Bytes filled(size_t size, std::uint8_t with)
{
    return Bytes(size, with);
}
Bytes joined(const Bytes &a, const Bytes &b)
{
    Bytes both = a;
    both.insert(both.end(), b.begin(), b.end());
    return both;
}

class Ahead {
public:
    explicit Ahead(const std::string &log)
    {
        FILE *file = std::tmpfile();
        REQUIRE(file != nullptr);
        REQUIRE(std::fwrite(log.data(), 1, log.size(), file) == log.size());
        std::rewind(file);
        REQUIRE(log_read_from(&reader_, file) == 0);
        options_.kinds = UINT32_MAX;
        options_.qp = -1;
        select_begin(&selection_, &options_);
        REQUIRE(ahead_begin(&ahead, &reader_, &selection_));
        (void)has_act(); // it is read
    }
    ~Ahead()
    {
        ahead_end(&ahead);
        log_read_close(&reader_);
    }
    Ahead(const Ahead &) = delete;
    Ahead &operator=(const Ahead &) = delete;

    /** Whether the host's turn is next. */
    bool has_act()
    {
        const ahead_record *missing = nullptr;
        const bool is_one = ahead_act(&ahead, &missing) != nullptr;
        missing_ = missing == nullptr ? 0 : missing->number;
        return is_one;
    }
    void pass()
    {
        REQUIRE(has_act());
        ahead_pass(&ahead);
        (void)has_act();
    }
    /** The record that the card has to do first; 0: none. */
    std::uint64_t missing()
    {
        (void)has_act();
        return missing_;
    }
    Bytes read(std::uint64_t address, unsigned bytes, unsigned fn = 0)
    {
        Bytes out(bytes);
        bool is_refused = false;
        return ahead_read(&ahead, fn, address, out.data(), bytes, &is_refused) && !is_refused ? out : Bytes{};
    }
    bool write(std::uint64_t address, const Bytes &data, unsigned fn = 0)
    {
        return ahead_write(&ahead, fn, address, data.data(), static_cast<std::uint32_t>(data.size()),
                           &other_);
    }
    /** The record that the last write should have been; 0: none. */
    std::uint64_t other() const { return other_ == nullptr ? 0 : other_->number; }

    struct ahead ahead {};

private:
    log_reader reader_{};
    log_options options_{};
    selection selection_{};
    std::uint64_t missing_ = 0;
    const ahead_record *other_ = nullptr;
};

const Bytes kA = filled(64, 0xaa), kB = filled(64, 0xbb), kC = filled(64, 0xcc);

} // namespace

TEST_CASE("a card reads what the log's card found: each time, in pieces, again, and later", "[ahead]")
{
    Ahead a(act() + reads(0x1000, kA) + reads(0x1000, kB) + writes(0x2000, kC) + act() + reads(0x1000, kC) +
            act());
    a.pass();
    CHECK(a.read(0x1000, 32) == filled(32, 0xaa));
    CHECK(a.read(0x1020, 32) == filled(32, 0xaa));
    CHECK(a.read(0x1000, 64) == kB); // the second time
    CHECK(a.read(0x1000, 64) == kB); // it is there still
    CHECK(a.write(0x2000, kC));
    CHECK(a.read(0x2000, 64) == kC); // its own
    a.pass();
    CHECK(a.read(0x1000, 16) == filled(16, 0xcc));
    a.pass(); // the host goes on, and the card has not read the rest
    CHECK(a.read(0x1010, 48) == filled(48, 0xcc));
    CHECK(a.read(0x1000, 64) == kC);
    CHECK(a.read(0x1ff8, 16).empty());    // half of it is not known
    CHECK(a.read(0x1000, 64, 1).empty()); // another function's memory
    Ahead two(act() + reads(0x1000, kA) + reads(0x1000, kB, 1) + act());
    two.pass();
    two.pass();
    CHECK((two.read(0x1000, 64) == kA && two.read(0x1000, 64, 1) == kB));
    Ahead second(act() + reads(0x1000, kA, 1) + act());
    second.pass();
    second.pass();
    CHECK(second.read(0x1000, 64).empty());
}

TEST_CASE("a card that is slower finds what it has not read, before what comes later", "[ahead]")
{
    Ahead a(act() + reads(0x1000, kA) + act() + act() + reads(0x1000, kB) + act() + reads(0x1000, kC) +
            writes(0x3000, kA) + act());
    a.pass();
    a.pass(); // what it should have read is behind
    CHECK(a.read(0x1000, 64) == kA);
    CHECK(a.read(0x1000, 64) == kB); // and now it is faster than the log's card
    CHECK(a.read(0x1000, 64) == kB); // as long as the host does nothing
    CHECK(a.read(0x1020, 8) == filled(8, 0xbb));
    CHECK(a.write(0x3000, kA)); // faster still
    CHECK(a.read(0x3000, 64) == kA);
}

TEST_CASE("a DMA that the log refuses is refused once", "[ahead]")
{
    Ahead a(act() + record("dma-read failed", 0, 0x1000, 0, 64) +
            record("dma-write failed", 0, 0x2000, 0, 64, kB) + act() + reads(0x1000, kA));
    a.pass();
    CHECK(a.missing() == 0); // what was refused is not waited for
    CHECK(a.read(0x1000, 64).empty());
    a.pass();
    CHECK(a.read(0x1000, 64) == kA);
}

TEST_CASE("a card's writes are the log's, whatever their pieces", "[ahead]")
{
    Ahead a(act() + writes(0x1000, kA) + writes(0x1040, kB) + writes(0x5000, kC) + act());
    a.pass();
    CHECK(a.missing() == 2);
    CHECK(a.write(0x1000, filled(10, 0xaa)));
    CHECK(a.missing() == 2);
    CHECK(a.write(0x100a, joined(filled(54, 0xaa), filled(32, 0xbb)))); // over the end of the record
    CHECK(a.missing() == 3);
    CHECK_FALSE(a.has_act());
    CHECK(a.write(0x5000, kC)); // before the rest of the second one
    CHECK(a.ahead.reordered == 1);
    CHECK(a.missing() == 3);
    CHECK(a.write(0x1060, filled(32, 0xbb)));
    CHECK(a.missing() == 0);
    CHECK(a.has_act());
    CHECK(a.ahead.reordered == 1);
}

TEST_CASE("a write that the log does not have is told from which it differs", "[ahead]")
{
    Ahead a(act() + writes(0x1000, kA) + act());
    a.pass();
    CHECK_FALSE(ahead_is_over(&a.ahead)); // the log is read, but the host has something to do
    CHECK_FALSE(a.write(0x1000, joined(filled(63, 0xaa), filled(1, 0xab))));
    CHECK(a.other() == 2);
    CHECK_FALSE(a.write(0x1001, filled(1, 0xaa))); // not from its beginning on
    CHECK(a.other() == 2);
    CHECK_FALSE(a.write(0xff0, filled(32, 0xaa))); // before it, and into it
    CHECK(a.other() == 2);
    CHECK_FALSE(a.write(0x1000, kA, 1)); // another function's
    CHECK(a.other() == 0);
    CHECK_FALSE(a.write(0x1040, filled(1, 0xaa))); // behind it
    CHECK(a.other() == 0);
    CHECK_FALSE(a.write(0x1000, filled(65, 0xaa))); // longer
    CHECK(a.other() == 0);
    CHECK_FALSE(a.write(0x1000, kA)); // it has been made
    Ahead halves(act() + writes(0x1000, joined(filled(8, 1), filled(8, 2))));
    halves.pass();
    CHECK(halves.write(0x1000, filled(8, 1)));
    CHECK_FALSE(halves.write(0x1008, filled(8, 1)));
    CHECK(halves.write(0x1008, filled(8, 2)));
}

TEST_CASE("interrupts come for what was written, once or several times", "[ahead]")
{
    Ahead a(act() + writes(0x1000, kA) + interrupts(1) + interrupts(2) + interrupts(1) + act() +
            interrupts(1) + act());
    a.pass();
    CHECK(ahead_interrupt(&a.ahead, 0, 1)); // before the write: of what was there already
    CHECK(a.ahead.all_early == 1);
    CHECK(a.write(0x1000, kA));
    CHECK(a.missing() == 4); // the first was made, early
    CHECK(ahead_interrupt(&a.ahead, 0, 2));
    CHECK(a.missing() == 5);
    CHECK(ahead_interrupt(&a.ahead, 0, 1));
    CHECK(a.has_act());
    CHECK(a.ahead.all_early == 1);
    CHECK(ahead_interrupt(&a.ahead, 0, 1)); // before the host's act: of behind it
    CHECK(a.ahead.all_early == 1);
    a.pass();
    CHECK(a.has_act());
    CHECK_FALSE(ahead_interrupt(&a.ahead, 0, RNIC_VECTORS));
}

TEST_CASE("one interrupt is enough for those of the log between two acts", "[ahead]")
{
    Ahead a(act() + interrupts(1) + writes(0x1000, kA) + interrupts(1) + act() + interrupts(1) + act());
    a.pass();
    CHECK(a.write(0x1000, kA));
    CHECK(ahead_interrupt(&a.ahead, 0, 1));
    CHECK(a.has_act());
    a.pass();
    CHECK(a.missing() == 6); // but not for what comes behind an act
}

TEST_CASE("a doorbell is rung where the log's card has seen it", "[ahead]")
{
    Ahead a(record("register-write", 0, RNIC_DB_QP + 64, 1, 4) +
            record("register-write", 0, RNIC_DB_QP + 64, 2, 4) +
            record("register-write", 0, RNIC_DB_CQ, 5, 4) + writes(0x1000, kA) +
            record("doorbell", 0, RNIC_DB_QP + 64, 2, 0) + record("doorbell", 0, RNIC_DB_QP + 68, 9, 0));
    const ahead_record *missing = nullptr;
    const ahead_record *first = ahead_act(&a.ahead, &missing);
    REQUIRE(first != nullptr);
    CHECK(first->number == 3); // where a completion queue is consumed is no doorbell
    const ahead_record *second = ahead_second_act(&a.ahead);
    REQUIRE(second != nullptr);
    CHECK((second->number == 5 && second->c.kind == RNIC_TRANSACTION_DOORBELL));
    a.pass();
    CHECK(a.write(0x1000, kA));
    CHECK(ahead_second_act(&a.ahead) == nullptr); // a receive queue's was written in the driver's order
}

TEST_CASE("a register of BAR0 is no doorbell, where that is in BAR2", "[ahead]")
{
    std::string text = record("register-write", 0, RNIC_DB_COMMAND_PRODUCER, 1, 4);
    text.replace(text.find("bar=2"), 5, "bar=0");
    Ahead a(text);
    CHECK(a.has_act());
}

TEST_CASE("whose turn it is on the card is what the log has first, up to what is missing", "[ahead]")
{
    Ahead a(act() + reads(0x1000, kA, 1) + writes(0x2000, kA, 1) + writes(0x3000, kA, 2) + act() +
            writes(0x4000, kA, 3));
    bool of[RNIC_CARD_MAX_FUNCTIONS] = {};
    of[1] = of[2] = of[3] = true;
    CHECK(ahead_turn(&a.ahead, of) == RNIC_CARD_MAX_FUNCTIONS); // the host's
    a.pass();
    CHECK(ahead_turn(&a.ahead, of) == 1);
    of[1] = false;
    CHECK(ahead_turn(&a.ahead, of) == RNIC_CARD_MAX_FUNCTIONS); // the first one is not done
    CHECK(a.write(0x2000, kA, 1));
    CHECK(ahead_turn(&a.ahead, of) == 2);
    of[2] = false;
    CHECK(a.write(0x3000, kA, 2));
    CHECK(ahead_turn(&a.ahead, of) == RNIC_CARD_MAX_FUNCTIONS); // the third one is behind an act
    a.pass();
    CHECK(ahead_turn(&a.ahead, of) == 3);
}

TEST_CASE("more between two acts than is read ahead is done piece by piece", "[ahead]")
{
    const unsigned count = AHEAD_RECORDS + 500;
    std::string log = act();
    for (unsigned i = 0; i < count; ++i) {
        log += writes(0x1000 + 64 * i, filled(64, static_cast<std::uint8_t>(i)));
    }
    Ahead a(log + act());
    a.pass();
    for (unsigned i = 0; i < count; ++i) {
        CHECK(a.missing() == 2 + i);
        REQUIRE(a.write(0x1000 + 64 * i, filled(64, static_cast<std::uint8_t>(i))));
    }
    CHECK(a.has_act());
    CHECK(a.ahead.read == count + 2);
    CHECK(a.read(0x1000, 64) == filled(64, 0)); // it is known, though it is not kept
    CHECK_FALSE(ahead_is_over(&a.ahead));
    a.pass();
    CHECK(ahead_is_over(&a.ahead));
}
