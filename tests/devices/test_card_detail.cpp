// SPDX-License-Identifier: MIT
//
// Single rules of the card, each where breaking it would show.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "devices/two.hpp"

using namespace card;

namespace {

Modify to(unsigned state)
{
    Modify what;
    what.state = state;
    return what;
}

unsigned type_of(const Bytes &frame)
{
    return frame[14] & 15u;
}

unsigned operation_of(const Bytes &frame)
{
    return frame[63] & 15u;
}

/** Hands over what `from` has sent; frames of one type are kept back. */
void carry(Host &from, Host &to_host, unsigned kept = 99)
{
    std::deque<Bytes> rest;
    for (; !from.wire.empty(); from.wire.pop_front()) {
        const Bytes &frame = from.wire.front();
        if (type_of(frame) == kept) {
            rest.push_back(frame);
        } else {
            rnic_card_receive(&to_host.card, frame.data(), static_cast<std::uint32_t>(frame.size()));
        }
    }
    from.wire = rest;
}

void step(Two &two, std::uint64_t ns = 0)
{
    two.host.now += ns;
    two.other->now = two.host.now;
    rnic_card_advance(&two.host.card, two.host.now);
    rnic_card_advance(&two.other->card, two.host.now);
}

Setup apart()
{
    Setup setup;
    setup.two_cards = true;
    return setup;
}

} // namespace

TEST_CASE("page lists of live tags are never shared, however the table is broken up", "[card]")
{
    rnic_card_config config = small_config();
    config.pbl_entries = 64;
    Setup setup;
    setup.config = config;
    Two two(setup);
    Driver &b = two.b;
    const std::uint64_t pages = b.allocate(64 * 4096, 4096), list = b.allocate(64 * 8);
    for (unsigned i = 0; i < 64; ++i) {
        std::memset(b.at(pages + 4096 * i), static_cast<int>(i), 4096);
    }
    struct Live {
        std::uint32_t tag;
        unsigned first, count;
    };
    std::vector<Live> live;
    std::uint32_t seed = GENERATE(1u, 2u, 3u);
    const auto dice = [&seed](unsigned below) { return ((seed = seed * 1664525 + 1013904223) >> 8) % below; };
    for (unsigned round = 0; round < 200; ++round) {
        const unsigned count = 1 + dice(9), first = dice(64 - count);
        Bytes entry = b.command(RNIC_COMMAND_REGISTER);
        rnic_put16(&entry[RNIC_CMD_MR_REALM], 1, false);
        entry[RNIC_CMD_MR_RIGHTS] = 3;
        entry[RNIC_CMD_MR_PAGE_SHIFT] = 12;
        rnic_put32(&entry[RNIC_CMD_MR_DOMAIN], 1, false);
        rnic_put32(&entry[RNIC_CMD_MR_PAGES], count, false);
        rnic_put64(&entry[RNIC_CMD_MR_LENGTH], 4096 * count, false);
        rnic_put64(&entry[RNIC_CMD_MR_IOVA], list, false);
        for (unsigned i = 0; i < count; ++i) {
            rnic_put64(b.at(list + 8 * i), pages + 4096 * (first + i), false);
        }
        const Completion answer = b.execute(entry);
        if (answer.status == RNIC_STATUS_OK) {
            live.push_back({answer.info, first, count});
        }
        if (answer.status != RNIC_STATUS_OK || dice(3) == 0) {
            const std::size_t i = dice(static_cast<unsigned>(live.size()));
            REQUIRE(b.simple(RNIC_COMMAND_INVALIDATE, live[i].tag).status == RNIC_STATUS_OK);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (!live.empty()) {
            const Live &one = live[dice(static_cast<unsigned>(live.size()))];
            const unsigned page = dice(one.count);
            Work read = two.read(1);
            read.remote_stag = one.tag;
            read.remote_address = 4096 * page + 7;
            two.post_a(read);
            REQUIRE(two.next_a().status == RNIC_STATUS_OK);
            REQUIRE(*two.a.at(two.mem_a) == one.first + page);
        }
    }
}

TEST_CASE("numbers are used again late, but not so late that all are touched", "[card]")
{
    rnic_card_config config = small_config();
    config.cqs = 65536;
    Host host(config);
    Driver driver(host, 0);
    driver.enable();
    const std::uint64_t base = driver.allocate(4096);
    std::vector<std::uint32_t> seen;
    for (unsigned i = 0; i < 4000; ++i) {
        const Completion answer = driver.try_create_cq(2, 1, base);
        REQUIRE(answer.status == RNIC_STATUS_OK);
        REQUIRE(driver.simple(RNIC_COMMAND_DESTROY_CQ, answer.info).status == RNIC_STATUS_OK);
        seen.push_back(answer.info);
    }
    CHECK(std::set<std::uint32_t>(seen.begin(), seen.begin() + 1024).size() == 1024);
    CHECK(*std::max_element(seen.begin(), seen.end()) < 1100);
}

TEST_CASE("the longest message that is taken", "[card]")
{
    const bool write = GENERATE(false, true);
    Setup setup;
    setup.connected = false;
    Two two(setup);
    Modify to_a = towards(two.a, two.pair->qp_a);
    to_a.max_message = 3000;
    REQUIRE(two.b.modify(two.pair->qp_b, to_a).status == 0);
    REQUIRE(two.a.modify(two.pair->qp_a, towards(two.b, two.pair->qp_b)).status == 0);
    for (const std::uint32_t bytes : {3000u, 3001u}) {
        two.post_b(two.receive(65536, bytes));
        two.post_a(write ? two.write(bytes) : two.send(bytes));
        if (write) {
            const unsigned status = two.next_a().status;
            CHECK(status == (bytes == 3000 ? 0u : static_cast<unsigned>(RNIC_STATUS_REMOTE_ACCESS)));
        } else {
            const Completion got = two.next_b();
            CHECK(got.cookie == bytes);
            CHECK(got.status == (bytes == 3000 ? 0u : static_cast<unsigned>(RNIC_STATUS_LOCAL_LENGTH)));
        }
    }
}

TEST_CASE("memory that ends while a peer reads it gives no byte after that", "[card]")
{
    Two two(apart());
    two.post_a(two.read(60000));
    step(two);
    carry(two.host, *two.other);
    step(two); // the first answers
    bool ended = false;
    unsigned after = 0;
    two.other->moved = [&](unsigned, std::uint64_t iova, std::uint32_t, bool write) {
        after += ended && !write && iova >= two.mem_b && iova < two.mem_b + Two::kBytes;
    };
    two.b.post_command(two.b.command(RNIC_COMMAND_INVALIDATE, two.tag_b));
    step(two);
    Completion answer;
    REQUIRE(two.b.answered(&answer));
    ended = true;
    const Completion got = two.next_a();
    CHECK(got.opcode == RNIC_WORK_READ);
    CHECK(got.status == RNIC_STATUS_REMOTE_ACCESS);
    CHECK(after == 0);
    check_error(two, two.b, two.pair->qp_b, two.pair->cq_b, RNIC_ERROR_READ_DENIED);
}

TEST_CASE("answers to reads of an earlier life are dropped", "[card]")
{
    Two two(apart());
    two.post_a(two.read(1000));
    step(two);
    carry(two.host, *two.other);
    step(two);
    const std::deque<Bytes> answers = two.other->wire; // on their way
    two.other->wire.clear();
    two.host.peer = two.other->peer = nullptr;
    for (const unsigned state : {RNIC_QP_STATE_ERROR, RNIC_QP_STATE_IDLE}) {
        REQUIRE(two.a.modify(two.pair->qp_a, to(state)).status == 0);
        REQUIRE(two.b.modify(two.pair->qp_b, to(state)).status == 0);
    }
    two.pair->connect();
    two.a.drain(two.pair->cq_a);
    const Bytes before(two.a.at(two.mem_a), two.a.at(two.mem_a + 1000));
    for (const Bytes &frame : answers) {
        rnic_card_receive(&two.host.card, frame.data(), static_cast<std::uint32_t>(frame.size()));
    }
    step(two);
    CHECK((Bytes(two.a.at(two.mem_a), two.a.at(two.mem_a + 1000)) == before));
    CHECK(two.state_of(two.a, two.pair->qp_a) == RNIC_QP_STATE_CONNECTED);
}

TEST_CASE("what was received before the message that could not be", "[card]")
{
    Setup setup = apart();
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.post_b(two.receive(100, 1));
    for (unsigned i = 1; i <= 3; ++i) {
        two.a.post(two.pair->qp_a, two.send(8, i), false);
    }
    two.a.ring(two.pair->qp_a);
    Completion got = two.next_a();
    CHECK(got.cookie == 1);
    CHECK(got.status == 0);
    got = two.next_a();
    CHECK(got.cookie == 2);
    CHECK(got.status == RNIC_STATUS_REMOTE_RECEIVE);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_REMOTE_RECEIVE);
}

TEST_CASE("what was received before the end is acknowledged before it", "[card]")
{
    Setup setup = apart();
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    two.post_b(two.receive(100, 1));
    two.host.run();
    // Seen when the second message looks for a receive.
    two.b.store(RNIC_DB_QP + 64 * two.pair->qp_b + RNIC_QPDB_RQ, 999);
    two.a.post(two.pair->qp_a, two.send(8, 1), false);
    two.post_a(two.send(8, 2));
    const Completion got = two.next_a();
    CHECK(got.cookie == 1);
    CHECK(got.status == 0);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_TERMINATED);
    two.b.drain(two.pair->cq_b);
    CHECK(two.b.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_b).length == RNIC_ERROR_RING_INDEX);
}

TEST_CASE("a MODIFY_QP that is refused leaves rights and domain as they were", "[card]")
{
    Two two;
    Modify what = to(RNIC_QP_STATE_RECEIVE); // not from CONNECTED
    what.change = 3;
    what.domain = 99;
    CHECK(two.b.modify(two.pair->qp_b, what).status == RNIC_STATUS_WRONG_STATE);
    two.post_a(two.write(100));
    CHECK(two.next_a().status == 0);
}

TEST_CASE("errors of one queue pair that do not fit into the ring become one event", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_UNRELIABLE;
    Two two(setup);
    std::vector<std::unique_ptr<Pair>> pairs;
    for (unsigned i = 0; i < 9; ++i) {
        pairs.push_back(std::make_unique<Pair>(two.a, two.b, 0));
        pairs.back()->connect();
        two.a.post(pairs.back()->qp_a,
                   two.send(8)); // no receive: an event each, and the ring has eight places
        two.host.run_for(10000);
    }
    for (unsigned i = 0; i < 3; ++i) {
        two.a.post(pairs.back()->qp_a, two.send(8)); // the last one's event waits already
        two.host.run_for(10000);
    }
    unsigned events = 0, missed = 0;
    for (Event event; two.b.event(&event); two.host.run_for(10000)) {
        CHECK(event.kind == RNIC_EVENT_QP_ERROR);
        CHECK(event.object == pairs[events]->qp_b);
        missed += event.missed;
        ++events;
    }
    CHECK(events == 9);
    CHECK(missed == 3);
}

TEST_CASE("a flow without room costs the card nothing until there is some", "[card]")
{
    Two two(apart());
    two.host.peer = nullptr;
    for (unsigned i = 0; i < 15; ++i) {
        two.a.post(two.pair->qp_a, two.write(60000), false);
    }
    two.a.ring(two.pair->qp_a);
    two.host.run();
    const std::uint64_t read = two.host.reg(0, RNIC_REG_DMA_READS_LO);
    CHECK(rnic_card_deadline(&two.host.card) > two.host.now);
    CHECK(rnic_card_sleep(&two.host.card));
    rnic_card_wake(&two.host.card);
    two.host.run();
    CHECK(two.host.reg(0, RNIC_REG_DMA_READS_LO) == read);
}

TEST_CASE("the acknowledgment of a frame of an earlier life completes nothing", "[card]")
{
    Two two(apart());
    Pair second(two.a, two.b, RNIC_LEVEL_DELIVERY);
    second.connect();
    two.post_b(two.receive(64));
    two.b.post(second.qp_b, two.receive(64));
    two.post_a(two.send(8, 1));
    step(two);
    std::deque<Bytes> first = two.host.wire;
    two.host.wire.clear();
    two.host.peer = nullptr;
    REQUIRE(two.a.modify(two.pair->qp_a, to(RNIC_QP_STATE_ERROR)).status == 0); // its request's row is free
    two.host.wire.clear();
    two.a.post(second.qp_a, two.send(8, 2));
    rnic_card_advance(&two.host.card, two.host.now);
    two.host.wire.clear(); // the second send does not arrive yet
    for (const Bytes &frame : first) {
        rnic_card_receive(&two.other->card, frame.data(), static_cast<std::uint32_t>(frame.size()));
    }
    step(two, 5000000);
    two.host.wire.clear();
    carry(*two.other, two.host);
    step(two);
    Completion got;
    CHECK_FALSE(two.a.poll(second.cq_a, &got));
    two.host.peer = two.other.get();
    two.host.run_for(1000000000);
    REQUIRE(two.a.poll(second.cq_a, &got));
    CHECK(got.cookie == 2);
}

TEST_CASE("entries that wait for the peer's word are many, but not all", "[card]")
{
    Setup setup = apart();
    setup.level = RNIC_LEVEL_RECEPTION;
    Two two(setup);
    REQUIRE(two.a.set_ring(two.pair->qp_a, 0, 10).status == 0);
    const std::uint32_t cq = two.a.create_cq(10);
    const std::uint32_t qp = two.a.create_qp(2, cq, cq),
                        peer = two.b.create_qp(2, two.pair->cq_b, two.pair->cq_b);
    REQUIRE(two.a.set_ring(qp, 0, 10).status == 0);
    REQUIRE(two.b.modify(peer, towards(two.a, qp)).status == 0);
    REQUIRE(two.a.modify(qp, towards(two.b, peer)).status == 0);
    const std::uint64_t ring = two.a.qps[qp].sq.base;
    std::set<std::uint64_t> fetched;
    two.host.moved = [&](unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool write) {
        if (fn == 0 && !write && bytes == RNIC_WORK_BYTES && iova >= ring &&
            iova < ring + (RNIC_WORK_BYTES << 10)) {
            fetched.insert(iova);
        }
    };
    for (unsigned i = 0; i < 600; ++i) {
        two.a.post(qp, two.write(0, 0, i), false);
    }
    two.a.ring(qp);
    for (unsigned i = 0; i < 100; ++i) {
        step(two, 1000);
        carry(two.host, *two.other);
        step(two);
        carry(*two.other, two.host, RNIC_EFE_TYPE_MESSAGE_ACK);
    }
    CHECK(fetched.size() >= 64);
    CHECK(fetched.size() <= 128);
    two.host.run_for(1000000000);
    const std::vector<Completion> done = two.a.drain(cq);
    REQUIRE(done.size() == 600);
    for (unsigned i = 0; i < 600; ++i) {
        REQUIRE(done[i].cookie == i);
    }
}

TEST_CASE("answers and requests of a queue pair take turns", "[card]")
{
    Two two;
    two.post_a(two.read(60000)); // answered by b ...
    Work write = two.receive(0);
    write.opcode = RNIC_WORK_WRITE; // ... which writes as much
    write.segments = {two.in_b(0, 60000)};
    write.remote_address = two.mem_a;
    write.remote_stag = two.tag_a;
    two.host.record = true;
    two.post_b(write);
    two.next_b();
    two.next_a();
    std::string order;
    for (const Crossing &transaction : two.host.transactions) {
        const bool data = transaction.kind == RNIC_TRANSACTION_FRAME_SENT && transaction.fn == 1 &&
                          type_of(transaction.bytes_moved) == RNIC_EFE_TYPE_DATA;
        if (data) {
            order += operation_of(transaction.bytes_moved) == 0 ? 'w' : 'a';
        }
    }
    REQUIRE(order.size() > 80);
    const std::size_t begin = order.find("aw"); // both have something to send from here on
    REQUIRE(begin < 30);
    CHECK(order.substr(begin, 40) == "awawawawawawawawawawawawawawawawawawawaw");
}

TEST_CASE("a CANCEL waits for room in the listener's ring", "[card]")
{
    Two two;
    std::array<std::uint8_t, 6> mac = towards(two.b, 0).mac;
    REQUIRE(two.b.listen("d", 5).status == 0);
    Bytes message(17);
    message[RNIC_CTL_DISCRIMINATOR_LENGTH + 1] = 1;
    message[16] = 'd';
    for (unsigned i = 0; i < 9; ++i) {
        message[RNIC_CTL_KIND] = i < 8 ? RNIC_CONTROL_REQUEST : RNIC_CONTROL_CANCEL;
        REQUIRE(two.a.send_control(message, mac.data(), 0xFFFF).status == 0);
        two.host.run_for(10000);
    }
    unsigned kinds[8] = {};
    for (Event event; two.b.event(&event); two.host.run_for(10000)) {
        ++kinds[event.message[RNIC_CTL_KIND]];
    }
    CHECK(kinds[RNIC_CONTROL_REQUEST] == 8);
    CHECK(kinds[RNIC_CONTROL_CANCEL] == 1);
    CHECK(Two::event_of(two.a).kind == 0);
}

TEST_CASE("an entry whose memory ends before its first frame has no number", "[card]")
{
    Setup setup = apart();
    setup.level = RNIC_LEVEL_UNRELIABLE;
    Two two(setup);
    REQUIRE(two.a.set_ring(two.pair->qp_a, 0, 5).status == 0);
    REQUIRE(two.b.set_ring(two.pair->qp_b, 1, 5).status == 0);
    std::uint64_t place = 0;
    Work fails = two.send(8, 16);
    fails.segments[0].stag = two.a.memory(64, &place);
    fails.segments[0].address = place;
    for (unsigned i = 0; i < 18; ++i) {
        two.b.post(two.pair->qp_b, two.receive(64, i), false);
        two.a.post(two.pair->qp_a, i == 16 ? fails : two.send(8, i), false);
    }
    two.b.ring(two.pair->qp_b);
    two.a.ring(two.pair->qp_a);
    step(two); // a flow that has not heard from its peer sends sixteen frames; the next entry was looked at
    two.a.post_command(two.a.command(RNIC_COMMAND_INVALIDATE, fails.segments[0].stag));
    step(two);
    two.host.run_for(1000000);
    const std::vector<Completion> sent = two.a.drain(two.pair->cq_a);
    REQUIRE(sent.size() == 18);
    for (unsigned i = 0; i < 18; ++i) {
        CHECK(sent[i].cookie == i);
        CHECK(sent[i].status == (i == 16 ? static_cast<unsigned>(RNIC_STATUS_LOCAL_PROTECTION) : 0u));
    }
    CHECK(two.b.drain(two.pair->cq_b).size() == 17);
    CHECK(two.state_of(two.b, two.pair->qp_b) == RNIC_QP_STATE_CONNECTED);
}

TEST_CASE("what was received before the message that failed completes, though a read before it does not",
          "[card]")
{
    Setup setup = apart();
    setup.level = GENERATE(1u, 2u);
    Two two(setup);
    two.post_b(two.receive(64));
    two.a.post(two.pair->qp_a, two.read(100, 0, 1), false);
    two.a.post(two.pair->qp_a, two.send(8, 2), false);
    two.post_a(two.write(8, Two::kBytes, 3)); // beyond the end
    step(two);
    carry(two.host, *two.other); // all at once: the read is not answered before the write is refused
    Completion got = two.next_a();
    CHECK(got.cookie == 2);
    CHECK(got.status == 0);
    got = two.next_a();
    CHECK(got.cookie == 3);
    CHECK(got.status == RNIC_STATUS_REMOTE_ACCESS);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_REMOTE_ACCESS);
}

TEST_CASE("what was received before a read whose own memory is gone completes before it", "[card]")
{
    Two two(apart());
    std::uint64_t place = 0;
    Work fails = two.read(8, 0, 2);
    fails.segments[0].stag = two.a.memory(64, &place);
    fails.segments[0].address = place;
    two.post_b(two.receive(64));
    two.a.post(two.pair->qp_a, two.send(8, 1), false);
    two.post_a(fails);
    step(two);
    two.a.post_command(two.a.command(RNIC_COMMAND_INVALIDATE, fails.segments[0].stag));
    step(two);
    carry(two.host, *two.other);
    step(two);
    carry(*two.other, two.host, RNIC_EFE_TYPE_ACK); // that the send has arrived is told by the answer alone
    two.other->wire.clear();
    Completion got = two.next_a();
    Completion answer;
    REQUIRE(two.a.answered(&answer));
    CHECK(got.cookie == 1);
    CHECK(got.status == 0);
    got = two.next_a();
    CHECK(got.cookie == 2);
    CHECK(got.status == RNIC_STATUS_LOCAL_PROTECTION);
    check_error(two, two.a, two.pair->qp_a, two.pair->cq_a, RNIC_ERROR_SEND_PROTECTION);
}

TEST_CASE("an error that was not reported yet is forgotten when its queue pair begins again", "[card]")
{
    Setup setup;
    setup.level = RNIC_LEVEL_UNRELIABLE;
    Two two(setup);
    for (unsigned i = 0; i < 8; ++i) {
        two.post_a(two.send(8)); // no receive: the ring's eight places are taken
        two.host.run_for(10000);
    }
    Pair pair(two.a, two.b, RNIC_LEVEL_DELIVERY);
    pair.connect();
    two.a.post(pair.qp_a, two.send(8));
    two.host.run_for(1000000);
    REQUIRE(two.state_of(two.b, pair.qp_b) == RNIC_QP_STATE_ERROR);
    REQUIRE(two.b.modify(pair.qp_b, to(RNIC_QP_STATE_IDLE)).status == 0);
    unsigned events = 0;
    for (Event event; two.b.event(&event); two.host.run_for(10000)) {
        CHECK(event.object == two.pair->qp_b);
        ++events;
    }
    CHECK(events == 8);
}
