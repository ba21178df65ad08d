// SPDX-License-Identifier: MIT
//
// AOTF: stores into BAR0 that become RDMA Writes. What each store becomes on the wire and in the
// peer's memory, the order in which they leave, the count by which a driver knows how many it may
// still make, and what drivers do wrong.
#include <algorithm>
#include <catch2/catch.hpp>

#include "devices/frames.hpp"
#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint32_t kTarget = 1024; // of b's memory, where page kPage begins
constexpr unsigned kPage = 5;

/** SET_TEMPLATE for a page of a driver's function. */
Completion set_template(Driver &driver, unsigned page, std::uint32_t qp, std::uint32_t stag,
                        std::uint64_t address, unsigned kind = 0)
{
    Bytes entry = driver.command(RNIC_COMMAND_SET_TEMPLATE, qp);
    rnic_put16(&entry[RNIC_CMD_OBJECT_KIND], static_cast<std::uint16_t>(kind), driver.big);
    rnic_put16(&entry[RNIC_CMD_TEMPLATE_PAGE], static_cast<std::uint16_t>(page), driver.big);
    rnic_put32(&entry[RNIC_CMD_TEMPLATE_REMOTE_STAG], stag, driver.big);
    rnic_put64(&entry[RNIC_CMD_TEMPLATE_REMOTE_ADDRESS], address, driver.big);
    return driver.execute(entry);
}

/** A store of a driver's processor: these bytes in memory's order. */
void store_bytes(Driver &driver, unsigned page, std::uint32_t offset, const Bytes &bytes)
{
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size() && i < 8; ++i) {
        value |= std::uint64_t{bytes[i]} << 8 * i;
    }
    rnic_card_bar_write(&driver.host.card, driver.fn, 0,
                        RNIC_REG_AOTF + std::uint64_t{page} * RNIC_AOTF_PAGE_BYTES + offset,
                        static_cast<unsigned>(bytes.size()), value);
}

std::uint32_t done_of(Driver &driver)
{
    return driver.load(RNIC_DB_AOTF_DONE);
}
std::uint32_t overrun_of(Driver &driver)
{
    return driver.host.reg(driver.fn, RNIC_REG_AOTF_OVERRUN_LO);
}
std::uint32_t dropped_of(Driver &driver)
{
    return driver.host.reg(driver.fn, RNIC_REG_AOTF_DROPPED_LO);
}
std::uint32_t error_of(Driver &driver)
{
    return driver.host.reg(driver.fn, RNIC_REG_ERROR_CODE);
}

/** A pair whose a has a page over b's memory from kTarget on. */
struct Paged : Two {
    explicit Paged(const Setup &setup = {}) : Two(setup)
    {
        REQUIRE(set_template(a, kPage, pair->qp_a, tag_b, mem_b + kTarget).status == RNIC_STATUS_OK);
    }
    void put(std::uint32_t offset, const Bytes &bytes) { store_bytes(a, kPage, offset, bytes); }
    Bytes at_b(std::uint32_t offset, std::size_t count)
    {
        return {b.at(mem_b) + offset, b.at(mem_b) + offset + count};
    }
};

/** What has left a function as data: of each frame the message's number and the bytes of RDMAP. */
struct Sent {
    efe_header header;
    Bytes segment;
};
std::vector<Sent> sent_by(const Host &host, unsigned fn)
{
    std::vector<Sent> all;
    for (const Crossing &each : host.transactions) {
        if (each.kind == RNIC_TRANSACTION_FRAME_SENT && each.fn == fn) {
            const efe_header header = adapters::header_of(each.bytes_moved);
            if (header.type == EFE_DATA) {
                all.push_back({header,
                               {each.bytes_moved.begin() + EFE_PAYLOAD_AT,
                                each.bytes_moved.begin() + EFE_PAYLOAD_AT + header.payload_bytes}});
            }
        }
    }
    return all;
}

} // namespace

TEST_CASE("a store is an RDMA Write of its bytes", "[card]")
{
    Setup setup;
    setup.big_a = GENERATE(false, true);
    setup.level = GENERATE(0u, 1u, 2u);
    setup.two_cards = GENERATE(false, true);
    Paged two(setup);
    const std::size_t count = GENERATE(1u, 2u, 4u, 8u);
    const Bytes bytes = Bytes{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    const Bytes before = two.at_b(kTarget, 64);
    two.host.record = true;
    two.put(24, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)});
    two.host.run();
    if (two.other) {
        two.other->run();
        two.host.run();
    }
    Bytes wanted = before;
    std::copy_n(bytes.begin(), count, wanted.begin() + 24);
    CHECK(two.at_b(kTarget, 64) == wanted);
    CHECK(done_of(two.a) == 1);
    CHECK(dropped_of(two.a) == 0);
    const std::vector<Sent> sent = sent_by(two.host, two.a.fn);
    REQUIRE(sent.size() == 1);
    // RFC 5041: tagged, last, version 1; RFC 5040: version 1, RDMA Write; the tag; the offset
    Bytes golden = {0xC1, 0x40};
    for (unsigned i = 4; i-- > 0;) {
        golden.push_back(static_cast<std::uint8_t>(two.tag_b >> 8 * i));
    }
    for (unsigned i = 8; i-- > 0;) {
        golden.push_back(static_cast<std::uint8_t>((two.mem_b + kTarget + 24) >> 8 * i));
    }
    golden.insert(golden.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    CHECK(sent[0].segment == golden);
    CHECK((sent[0].header.flags & (EFE_FIRST | EFE_LAST)) == (EFE_FIRST | EFE_LAST));
    CHECK(sent[0].header.left == count);
    CHECK(sent[0].header.message == 0);
    CHECK(sent[0].header.to_qp == two.pair->qp_b);
    CHECK(sent[0].header.from_qp == two.pair->qp_a);
    CHECK(two.quiet_a()); // there is no completion
    const bool reads =
        std::any_of(two.host.transactions.begin(), two.host.transactions.end(), [&two](const Crossing &each) {
            return each.kind == RNIC_TRANSACTION_DMA_READ && each.fn == two.a.fn;
        });
    CHECK_FALSE(reads);
}

TEST_CASE("stores of 4 and 8 bytes are one access to memory each", "[card]")
{
    Paged two;
    two.host.record = true;
    two.put(0, Bytes(8, 1));
    two.put(12, Bytes(4, 2));
    two.host.run();
    std::vector<std::uint32_t> widths;
    for (const Crossing &each : two.host.transactions) {
        if (each.kind == RNIC_TRANSACTION_DMA_WRITE && each.fn == two.b.fn) {
            widths.push_back(each.bytes);
        }
    }
    CHECK(widths == std::vector<std::uint32_t>{8, 4});
}

TEST_CASE("the space reads as zeros", "[card]")
{
    Paged two;
    two.put(0, Bytes(4, 0xEE));
    for (const unsigned bytes : {1u, 2u, 4u, 8u}) {
        CHECK(rnic_card_bar_read(&two.host.card, 0, 0, RNIC_REG_AOTF + kPage * RNIC_AOTF_PAGE_BYTES, bytes) ==
              0);
        CHECK(rnic_card_bar_read(&two.host.card, 0, 0, RNIC_BAR0_BYTES - bytes, bytes) == 0);
    }
    CHECK((two.host.reg(0, RNIC_REG_CAPS) & RNIC_CAPS_AOTF) != 0);
}

TEST_CASE("stores leave in their order, to whomever they go", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_RECEPTION;
    Paged two(setup);
    Pair second(two.a, two.b, RNIC_LEVEL_UNRELIABLE);
    second.connect();
    REQUIRE(set_template(two.a, 0, second.qp_a, two.tag_b, two.mem_b).status == RNIC_STATUS_OK);
    two.host.record = true;
    for (std::uint8_t i = 0; i < RNIC_AOTF_STORES; ++i) { // the pages are of the two, at random
        store_bytes(two.a, i % 7 < 3 ? 0u : kPage, 8, Bytes(4, i));
    }
    CHECK(done_of(two.a) == 0);
    two.host.run();
    CHECK(done_of(two.a) == RNIC_AOTF_STORES);
    const std::vector<Sent> sent = sent_by(two.host, two.a.fn);
    REQUIRE(sent.size() == RNIC_AOTF_STORES);
    std::uint32_t of_first = 0, of_second = 0; // each has its own messages
    for (std::uint8_t i = 0; i < RNIC_AOTF_STORES; ++i) {
        INFO(unsigned{i});
        const bool is_second = i % 7 < 3;
        CHECK(sent[i].segment.back() == i);
        CHECK(sent[i].header.from_qp == (is_second ? second.qp_a : two.pair->qp_a));
        CHECK(sent[i].header.message == (is_second ? of_second++ : of_first++));
    }
    CHECK(two.at_b(kTarget + 8, 4) == Bytes(4, RNIC_AOTF_STORES - 2));
    CHECK(two.at_b(8, 4) == Bytes(4, RNIC_AOTF_STORES - 1));
}

TEST_CASE("AOTF_DONE is the credit, and a store without a place is an overrun", "[card]")
{
    Setup setup;
    setup.big_a = GENERATE(false, true);
    Paged two(setup);
    for (unsigned i = 0; i < RNIC_AOTF_STORES; ++i) {
        two.put(4 * i, Bytes(4, static_cast<std::uint8_t>(i + 1)));
    }
    CHECK(overrun_of(two.a) == 0);
    CHECK(error_of(two.a) == RNIC_ERROR_NONE);
    CHECK(done_of(two.a) == 0);
    const Bytes before = two.at_b(kTarget + 4 * RNIC_AOTF_STORES, 4);
    two.put(4 * RNIC_AOTF_STORES, Bytes(4, 0xEE));
    CHECK(overrun_of(two.a) == 1);
    CHECK(done_of(two.a) == 1); // it is over
    CHECK(error_of(two.a) == RNIC_ERROR_AOTF_OVERRUN);
    CHECK(two.host.reg(two.a.fn, RNIC_REG_ERROR_OBJECT) == two.pair->qp_a);
    CHECK(two.host.reg(two.a.fn, RNIC_REG_ERROR_ADDRESS_LO) ==
          RNIC_REG_AOTF + kPage * RNIC_AOTF_PAGE_BYTES + 4 * RNIC_AOTF_STORES);
    two.host.run();
    CHECK(done_of(two.a) == RNIC_AOTF_STORES + 1);
    for (unsigned i = 0; i < RNIC_AOTF_STORES; ++i) {
        CHECK(two.at_b(kTarget + 4 * i, 4) == Bytes(4, static_cast<std::uint8_t>(i + 1)));
    }
    CHECK(two.at_b(kTarget + 4 * RNIC_AOTF_STORES, 4) == before);
    CHECK(dropped_of(two.a) == 0);
    two.put(0, Bytes(1, 0x77)); // and goes on
    two.host.run();
    CHECK(two.at_b(kTarget, 1) == Bytes(1, 0x77));
}

TEST_CASE("fault aotf_full: a store finds no place", "[card]")
{
    Paged two;
    char error[100];
    REQUIRE(rnic_card_faults(&two.host.card, "aotf_full=@2", error, sizeof error));
    const Bytes before = two.at_b(kTarget, 3);
    for (std::uint8_t i = 0; i < 3; ++i) {
        two.put(i, Bytes(1, static_cast<std::uint8_t>(0xA0 + i)));
    }
    two.host.run();
    CHECK(two.at_b(kTarget, 3) == Bytes{0xA0, before[1], 0xA2});
    CHECK(overrun_of(two.a) == 1);
    CHECK(done_of(two.a) == 3);
}

TEST_CASE("a store waits until the message that its queue pair is sending has left whole", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.level = GENERATE(0u, 1u, 2u);
    setup.config.profile = RNIC_PROFILE_MARTINI_2002; // so that frames leave one after the other
    setup.config.simulated = true;
    Paged two(setup);
    Work work = two.write(20000, 8192, 51);
    work.flags = RNIC_WORK_FLAG_IMMEDIATE; // which is the message's last frame
    two.post_b(two.receive(0));
    two.host.record = true;
    two.post_a(work);
    while (sent_by(two.host, two.a.fn).empty()) {
        two.host.run_for(100);
    }
    REQUIRE((sent_by(two.host, two.a.fn).back().header.flags & EFE_LAST) == 0);
    two.put(0, Bytes(8, 0xAB));
    two.host.run_for(2000000);
    CHECK(two.next_b().status == RNIC_STATUS_OK);
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(two.same(0, 8192, 20000));
    CHECK(two.at_b(kTarget, 8) == Bytes(8, 0xAB));
    const std::vector<Sent> sent = sent_by(two.host, two.a.fn);
    REQUIRE(sent.size() > 3);
    CHECK(sent.back().header.message == 1);
    CHECK(sent.back().header.left == 8);
    CHECK(std::count_if(sent.begin(), sent.end(), [](const Sent &each) {
              return each.header.message == 0;
          }) == static_cast<std::ptrdiff_t>(sent.size()) - 1);
}

TEST_CASE("a store passes an entry that waits for a read", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.level = GENERATE(1u, 2u);
    Paged two(setup);
    Host *const peer = two.host.peer;
    two.host.peer = nullptr; // whose answer comes later
    Work fenced = two.write(100, 8192, 62);
    fenced.flags = RNIC_WORK_FLAG_FENCE;
    two.host.record = true;
    two.post_a(two.read(8, 4096, 61));
    two.post_a(fenced);
    two.host.run(); // the entry has been copied, and waits
    REQUIRE(sent_by(two.host, two.a.fn).size() == 1);
    two.put(0, Bytes(8, 0xAB));
    two.host.run();
    CHECK(done_of(two.a) == 1);
    two.host.peer = peer;
    CHECK(two.next_a().cookie == 61);
    const Completion done = two.next_a();
    CHECK(done.cookie == 62);
    CHECK(done.status == RNIC_STATUS_OK);
    CHECK(two.at_b(kTarget, 8) == Bytes(8, 0xAB));
    const std::vector<Sent> sent = sent_by(two.host, two.a.fn);
    REQUIRE(sent.size() == 3);
    for (std::uint32_t i = 0; i < 3; ++i) { // numbers are given when messages leave
        CHECK(sent[i].header.message == i);
    }
    CHECK(sent[1].header.left == 8);
    CHECK(sent[2].header.left == 100);
}

TEST_CASE("a store is not sent behind an entry that has failed", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Paged two(setup);
    Host *const peer = two.host.peer;
    two.host.peer = nullptr; // whose acknowledgment comes later
    Work wrong = two.write(8, 8, 52);
    wrong.segments[0].stag ^= 1;
    two.post_a(two.write(8, 0, 51));
    two.post_a(wrong);
    two.host.run();
    two.put(0, Bytes(8, 0xEE));
    two.host.run();
    CHECK(done_of(two.a) == 0);
    two.host.peer = peer;
    CHECK(two.next_a().cookie == 51);
    CHECK(two.next_a().status == RNIC_STATUS_LOCAL_PROTECTION);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_SEND_PROTECTION);
    CHECK(done_of(two.a) == 1);
    CHECK(dropped_of(two.a) == 1);
}

TEST_CASE("an entry that is posted after a store is over arrives behind it", "[card]")
{
    Setup setup;
    setup.level = GENERATE(1u, 2u);
    Paged two(setup);
    two.put(0, Bytes(8, 0x5C));
    while (done_of(two.a) == 0) {
        rnic_card_advance(&two.host.card, two.host.now);
    }
    bool seen = false;
    two.host.moved = [&](unsigned fn, std::uint64_t iova, std::uint32_t, bool write) {
        if (write && fn == two.b.fn && iova == two.mem_b) {
            seen = two.at_b(kTarget, 8) == Bytes(8, 0x5C);
        }
    };
    two.post_a(two.write(8, 0));
    CHECK(two.next_a().status == RNIC_STATUS_OK);
    CHECK(seen);
}

TEST_CASE("stores and entries of a queue pair, and those of others, have their turns", "[card]")
{
    Paged two;
    for (unsigned i = 0; i < 16; ++i) {
        two.a.post(two.pair->qp_a, two.write(8, 8192 + 8 * i, i), i == 15);
        two.put(8 * i, Bytes(8, static_cast<std::uint8_t>(i)));
    }
    two.host.record = true;
    two.host.run();
    const std::vector<Sent> sent = sent_by(two.host, two.a.fn);
    REQUIRE(sent.size() == 32);
    const auto is_store = [&two](const Sent &each) {
        return each.segment[12] == static_cast<std::uint8_t>((two.mem_b + kTarget) >> 8);
    };
    for (std::size_t i = 0; i + 1 < sent.size(); i += 2) {
        CHECK(is_store(sent[i]) != is_store(sent[i + 1]));
    }
}

TEST_CASE("SET_TEMPLATE is refused for what it may not name", "[card]")
{
    Setup setup;
    setup.config.raw[0] = 1;
    setup.big_a = GENERATE(false, true);
    Paged two(setup);
    const std::uint32_t raw = two.a.try_create_qp(RNIC_LEVEL_RAW, two.pair->cq_a, two.pair->cq_a, 0).info;
    CHECK(set_template(two.a, 1, two.pair->qp_b, two.tag_b, 0).status == RNIC_STATUS_NO_OBJECT);
    CHECK(set_template(two.a, 1, 99999, two.tag_b, 0).status == RNIC_STATUS_NO_OBJECT);
    CHECK(set_template(two.a, 1, raw, two.tag_b, 0).status == RNIC_STATUS_INVALID);
    CHECK(set_template(two.a, RNIC_AOTF_PAGES, two.pair->qp_a, two.tag_b, 0).status == RNIC_STATUS_INVALID);
    CHECK(set_template(two.a, 1, two.pair->qp_a, two.tag_b, 0, 2).status == RNIC_STATUS_INVALID);
    CHECK(set_template(two.a, 1, two.pair->qp_a, two.tag_b, UINT64_MAX - 4094).status == RNIC_STATUS_INVALID);
    CHECK(set_template(two.a, 1, two.pair->qp_a, two.tag_b, UINT64_MAX - 4095).status == RNIC_STATUS_OK);
    CHECK(set_template(two.a, RNIC_AOTF_PAGES - 1, two.pair->qp_a, two.tag_b, 0).status == RNIC_STATUS_OK);
    two.put(0, Bytes(4, 0x31)); // the page that was set before is as it was
    two.host.run();
    CHECK(two.at_b(kTarget, 4) == Bytes(4, 0x31));
}

TEST_CASE("a store is what its page's template was when it came", "[card]")
{
    Paged two;
    two.put(0, Bytes(4, 0x41));
    Bytes entry = two.a.command(RNIC_COMMAND_SET_TEMPLATE, two.pair->qp_a);
    rnic_put16(&entry[RNIC_CMD_TEMPLATE_PAGE], kPage, false);
    rnic_put32(&entry[RNIC_CMD_TEMPLATE_REMOTE_STAG], two.tag_b, false);
    rnic_put64(&entry[RNIC_CMD_TEMPLATE_REMOTE_ADDRESS], two.mem_b + 4096, false);
    CHECK(two.a.execute(entry).status == RNIC_STATUS_OK);
    two.put(0, Bytes(4, 0x42));
    two.host.run();
    CHECK(two.at_b(kTarget, 4) == Bytes(4, 0x41));
    CHECK(two.at_b(4096, 4) == Bytes(4, 0x42));
    CHECK(set_template(two.a, kPage, 0, 0, 0, 1).status == RNIC_STATUS_OK); // none from now on
    two.put(0, Bytes(4, 0x43));
    two.host.run();
    CHECK(two.at_b(4096, 4) == Bytes(4, 0x42));
    CHECK(dropped_of(two.a) == 1);
    CHECK(error_of(two.a) == RNIC_ERROR_AOTF_STORE);
    CHECK(done_of(two.a) == 3);
}

TEST_CASE("stores that are not valid are dropped, counted and logged", "[card]")
{
    Paged two;
    const Bytes before = two.at_b(0, 16384);
    struct Wrong {
        unsigned page;
        std::uint32_t offset;
        std::size_t bytes;
    };
    const Wrong wrong = GENERATE(
        Wrong{0, 0, 4}, // a page without a template
        Wrong{kPage - 1, 4095, 1}, Wrong{kPage + 1, 0, 8}, Wrong{RNIC_AOTF_PAGES - 1, 4088, 8},
        Wrong{kPage, 1, 2},                                            // not aligned
        Wrong{kPage, 2, 4}, Wrong{kPage, 4, 8}, Wrong{kPage, 4092, 8}, // beyond the page
        Wrong{kPage, 0, 0}, Wrong{kPage, 0, 3}, Wrong{kPage, 0, 5}, Wrong{kPage, 0, 6}, Wrong{kPage, 0, 7});
    store_bytes(two.a, wrong.page, wrong.offset, Bytes(wrong.bytes, 0xEE));
    two.host.run();
    CHECK(two.at_b(0, 16384) == before);
    CHECK(dropped_of(two.a) == 1);
    CHECK(done_of(two.a) == 1);
    CHECK(error_of(two.a) == RNIC_ERROR_AOTF_STORE);
    CHECK(two.host.reg(two.a.fn, RNIC_REG_ERROR_ADDRESS_LO) ==
          RNIC_REG_AOTF + wrong.page * RNIC_AOTF_PAGE_BYTES + wrong.offset);
    CHECK(error_of(two.b) == RNIC_ERROR_NONE);
    two.put(8, Bytes(8, 0x61));
    two.host.run();
    CHECK(two.at_b(kTarget + 8, 8) == Bytes(8, 0x61));
}

TEST_CASE("another function's pages are its own", "[card]")
{
    Paged two;
    const Bytes before = two.at_b(kTarget, 8);
    store_bytes(two.b, kPage, 0, Bytes(8, 0xEE));
    two.host.run();
    CHECK(dropped_of(two.b) == 1);
    CHECK(dropped_of(two.a) == 0);
    CHECK(two.at_b(kTarget, 8) == before);
}

TEST_CASE("the peer refuses a store as any RDMA Write", "[card]")
{
    Setup setup;
    setup.level = GENERATE(0u, 1u, 2u);
    Paged two(setup);
    const Bytes before = two.at_b(0, 16384);
    const std::uint64_t end = two.mem_b + Two::kBytes;
    const bool by_tag = GENERATE(false, true);
    REQUIRE(set_template(two.a, 0, two.pair->qp_a, by_tag ? two.tag_b ^ 1 : two.tag_b,
                         by_tag ? two.mem_b : end - 4)
                .status == RNIC_STATUS_OK);
    store_bytes(two.a, 0, 0, Bytes(8, 0xEE));
    two.put(0, Bytes(8, 0x71)); // behind it
    two.host.run();
    if (setup.level == RNIC_LEVEL_UNRELIABLE) {
        CHECK(two.at_b(kTarget, 8) == Bytes(8, 0x71));
        CHECK(Two::event_of(two.b).code == RNIC_ERROR_WRITE_DENIED);
    } else {
        CHECK(two.at_b(0, 16384) == before);
        check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_REMOTE_ACCESS);
        check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_WRITE_DENIED);
    }
    CHECK(done_of(two.a) == 2);
}

TEST_CASE("stores of a queue pair that is not CONNECTED are dropped", "[card]")
{
    Setup setup;
    setup.connected = false;
    Paged two(setup);
    two.put(0, Bytes(4, 1)); // IDLE
    CHECK(dropped_of(two.a) == 1);
    CHECK(error_of(two.a) == RNIC_ERROR_NONE);
    two.a.modify(two.pair->qp_a, towards(two.b, two.pair->qp_b, RNIC_QP_STATE_RECEIVE));
    two.put(0, Bytes(4, 1));
    CHECK(dropped_of(two.a) == 2);
    Modify what;
    what.state = RNIC_QP_STATE_ERROR;
    two.a.modify(two.pair->qp_a, what);
    two.put(0, Bytes(4, 1));
    CHECK(dropped_of(two.a) == 3);
    CHECK(done_of(two.a) == 3);
}

TEST_CASE("a queue pair that ends takes its waiting stores along, and nobody else's", "[card]")
{
    Paged two;
    Pair second(two.a, two.b, RNIC_LEVEL_DELIVERY);
    second.connect();
    REQUIRE(set_template(two.a, 0, second.qp_a, two.tag_b, two.mem_b + 8192).status == RNIC_STATUS_OK);
    const Bytes before = two.at_b(kTarget, 64);
    Modify what;
    what.state = RNIC_QP_STATE_ERROR;
    Bytes entry = two.a.command(RNIC_COMMAND_MODIFY_QP, two.pair->qp_a);
    entry[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_ERROR;
    two.a.post_command(entry);
    for (std::uint8_t i = 0; i < 20; ++i) {
        store_bytes(two.a, i % 3 == 1 ? 0u : kPage, i, Bytes(1, static_cast<std::uint8_t>(0x80 + i)));
    }
    Completion answer;
    two.host.run(); // the command comes first
    REQUIRE(two.a.answered(&answer));
    CHECK(answer.status == RNIC_STATUS_OK);
    CHECK(two.at_b(kTarget, 64) == before);
    for (std::uint8_t i = 1; i < 20; i = static_cast<std::uint8_t>(i + 3)) {
        CHECK(two.at_b(8192u + i, 1) == Bytes(1, static_cast<std::uint8_t>(0x80 + i)));
    }
    CHECK(dropped_of(two.a) == 13);
    CHECK(done_of(two.a) == 20);

    // its templates end with it, or when it begins again
    what.state = RNIC_QP_STATE_IDLE;
    const bool destroys = GENERATE(false, true);
    if (destroys) {
        REQUIRE(two.a.simple(RNIC_COMMAND_DESTROY_QP, two.pair->qp_a).status == RNIC_STATUS_OK);
    } else {
        REQUIRE(two.a.modify(two.pair->qp_a, what).status == RNIC_STATUS_OK);
    }
    CHECK(error_of(two.a) == RNIC_ERROR_NONE);
    two.put(0, Bytes(1, 1));
    CHECK(error_of(two.a) == RNIC_ERROR_AOTF_STORE);
    store_bytes(two.a, 0, 40, Bytes(1, 0x99)); // the other one has its own
    two.host.run();
    CHECK(two.at_b(8192 + 40, 1) == Bytes(1, 0x99));
}

TEST_CASE("CLOSING sends the stores that came before, and no others", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Paged two(setup);
    const Bytes before = two.at_b(kTarget + 10, 1);
    Host *const peer = two.host.peer;
    two.host.peer = nullptr; // which hears nothing for now
    two.post_a(two.write(8, 0));
    for (std::uint8_t i = 0; i < 10; ++i) {
        two.put(i, Bytes(1, static_cast<std::uint8_t>(0x20 + i)));
    }
    Modify what;
    what.state = RNIC_QP_STATE_CLOSING;
    REQUIRE(two.a.modify(two.pair->qp_a, what).status == RNIC_STATUS_OK);
    REQUIRE(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CLOSING); // the entry is not acknowledged
    CHECK(done_of(two.a) == 10);
    CHECK(dropped_of(two.a) == 0);
    two.put(10, Bytes(1, 0x99));
    CHECK(dropped_of(two.a) == 1);
    two.host.peer = peer;
    two.host.run_for(200000000);
    for (std::uint8_t i = 0; i < 10; ++i) {
        CHECK(two.at_b(kTarget + i, 1) == Bytes(1, static_cast<std::uint8_t>(0x20 + i)));
    }
    CHECK(two.at_b(kTarget + 10, 1) == before);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_ERROR);
}

TEST_CASE("CLOSING does not end while stores wait", "[card]")
{
    Paged two;
    Bytes entry = two.a.command(RNIC_COMMAND_MODIFY_QP, two.pair->qp_a);
    entry[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_CLOSING;
    two.a.post_command(entry);
    for (std::uint8_t i = 0; i < 10; ++i) {
        two.put(i, Bytes(1, static_cast<std::uint8_t>(0x20 + i)));
    }
    two.host.run(); // the command is executed before the stores are sent
    Completion answer;
    REQUIRE(two.a.answered(&answer));
    for (std::uint8_t i = 0; i < 10; ++i) {
        CHECK(two.at_b(kTarget + i, 1) == Bytes(1, static_cast<std::uint8_t>(0x20 + i)));
    }
    CHECK(dropped_of(two.a) == 0);
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_ERROR);
}

TEST_CASE("a peer that takes nothing holds stores back until the queue pair ends", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Paged two(setup);
    Driver third(two.host, 1); // of a's card
    third.enable();
    std::uint64_t memory = 0;
    const std::uint32_t tag = third.memory(4096, &memory);
    Pair near(two.a, third, RNIC_LEVEL_DELIVERY);
    near.connect();
    REQUIRE(set_template(two.a, 0, near.qp_a, tag, memory).status == RNIC_STATUS_OK);
    two.host.peer = nullptr; // nothing arrives there, and nothing comes back
    std::uint32_t stores = 0;
    const auto go_on = [&] {
        for (unsigned i = 0; i < 4; ++i) {
            rnic_card_advance(&two.host.card, two.host.now);
        }
        two.host.wire.clear();
    };
    while (stores - done_of(two.a) < RNIC_AOTF_STORES && stores < 10000) {
        two.put(0, Bytes(4, 1));
        ++stores;
        go_on();
    }
    REQUIRE(stores < 10000); // the flow took so many frames
    CHECK(overrun_of(two.a) == 0);
    store_bytes(two.a, 0, 0, Bytes(4, 0xEE)); // without a place: for the near one, too
    ++stores;
    CHECK(overrun_of(two.a) == 1);
    Bytes entry = two.a.command(RNIC_COMMAND_MODIFY_QP, two.pair->qp_a);
    entry[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_ERROR;
    two.a.post_command(entry);
    go_on();
    CHECK(done_of(two.a) == stores);
    CHECK(dropped_of(two.a) == RNIC_AOTF_STORES);
    store_bytes(two.a, 0, 8, Bytes(4, 0x3D));
    go_on();
    CHECK(Bytes(third.at(memory + 8), third.at(memory + 8) + 4) == Bytes(4, 0x3D));
}

TEST_CASE("a reset forgets stores, templates and counts", "[card]")
{
    Paged two;
    const Bytes before = two.at_b(kTarget, 64);
    for (unsigned i = 0; i < 10; ++i) {
        two.put(i, Bytes(1, 0xEE));
    }
    const bool whole = GENERATE(false, true);
    if (whole) {
        rnic_card_attach(&two.host.card, two.a.fn, two.host.bar2(two.a.fn), two.host.bar4(two.a.fn));
    } else {
        two.host.set_reg(two.a.fn, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    }
    CHECK(done_of(two.a) == 0);
    CHECK(dropped_of(two.a) == 0);
    two.put(0, Bytes(1, 0xEE)); // it is not enabled
    two.host.run();
    CHECK(done_of(two.a) == 0);
    CHECK(two.at_b(kTarget, 64) == before);
    Driver again(two.host, two.a.fn);
    again.enable();
    two.put(0, Bytes(1, 0xEE));
    CHECK(error_of(again) == RNIC_ERROR_AOTF_STORE);
    CHECK(done_of(again) == 1);
    Pair pair(again, two.b, RNIC_LEVEL_DELIVERY);
    pair.connect();
    REQUIRE(set_template(again, kPage, pair.qp_a, two.tag_b, two.mem_b + kTarget).status == RNIC_STATUS_OK);
    two.put(0, Bytes(1, 0x44));
    two.host.run();
    CHECK(two.at_b(kTarget, 1) == Bytes(1, 0x44));
    CHECK(done_of(again) == 2);
}

TEST_CASE("a store costs what a message of a window does", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.config.profile = RNIC_PROFILE_MARTINI_2002;
    setup.config.simulated = true;
    Paged two(setup);
    const std::uint64_t before = two.host.reg(0, RNIC_REG_COST_NS_LO);
    two.put(0, Bytes(8, 1));
    rnic_card_advance(&two.host.card, two.host.now);
    CHECK(done_of(two.a) == 1);
    CHECK(two.host.reg(0, RNIC_REG_COST_NS_LO) - before == 300);
    two.put(0, Bytes(8, 2)); // the engine is busy
    rnic_card_advance(&two.host.card, two.host.now + 299);
    CHECK(done_of(two.a) == 1);
    rnic_card_advance(&two.host.card, two.host.now + 300);
    CHECK(done_of(two.a) == 2);
}

TEST_CASE("a card that is saved with stores that wait goes on with them", "[card]")
{
    Paged two;
    for (unsigned i = 0; i < 70; ++i) { // the ring's beginning is not its first row
        two.put(0, Bytes(4, 1));
        two.host.run();
    }
    for (std::uint8_t i = 0; i < 5; ++i) {
        two.put(4u * i, Bytes(4, static_cast<std::uint8_t>(0x50 + i)));
    }
    const rnic_card_config config = small_config();
    rnic_card again{};
    const rnic_card old = two.host.card;
    REQUIRE(rnic_card_continue(&again, old.area, &config, false, old.host, old.context));
    for (unsigned fn = 0; fn < config.functions; ++fn) {
        rnic_card_give(&again, fn, old.bar2[fn], old.bar4[fn]);
    }
    two.host.card = again;
    two.host.run();
    for (std::uint8_t i = 0; i < 5; ++i) {
        CHECK(two.at_b(kTarget + 4u * i, 4) == Bytes(4, static_cast<std::uint8_t>(0x50 + i)));
    }
    CHECK(done_of(two.a) == 75);
}
