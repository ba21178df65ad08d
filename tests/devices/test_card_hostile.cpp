// SPDX-License-Identifier: MIT
//
// A peer that breaks the protocol: frames of a real card, changed on the wire and sealed again.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

extern "C" {
#include "devices/rnic/efe/frame.h"
#include "iwarp/rdmap.h"
}

using namespace card;

namespace {

/** What is changed in the n-th data frame that a sends. */
struct Lie {
    const char *name;
    unsigned frame;
    std::function<void(efe_header &header, vipl_ddp &ddp, Bytes &payload)> tell;
};

/** Carries frames from a to b, and tells the lie on the way. */
void carry(Two &two, const Lie &lie)
{
    unsigned seen = 0;
    for (unsigned round = 0; round < 200; ++round) {
        rnic_card_advance(&two.host.card, two.host.now);
        for (; !two.host.wire.empty(); two.host.wire.pop_front()) {
            Bytes frame = two.host.wire.front();
            efe_header header;
            REQUIRE(efe_frame_read(frame.data(), frame.size(), &header) == EFE_FRAME_OK);
            if (header.type == EFE_DATA && seen++ == lie.frame) {
                vipl_ddp ddp;
                REQUIRE(vipl_ddp_read(frame.data() + EFE_PAYLOAD_AT, header.payload_bytes, &ddp) ==
                        VIPL_DDP_OK);
                Bytes payload(frame.begin() + static_cast<std::ptrdiff_t>(EFE_PAYLOAD_AT + ddp.header_bytes),
                              frame.begin() + EFE_PAYLOAD_AT + header.payload_bytes);
                lie.tell(header, ddp, payload);
                Bytes changed(EFE_PAYLOAD_AT + 32 + payload.size() + EFE_CRC_BYTES);
                const std::size_t head = vipl_ddp_write(&changed[EFE_PAYLOAD_AT], &ddp);
                std::copy(payload.begin(), payload.end(),
                          changed.begin() + static_cast<std::ptrdiff_t>(EFE_PAYLOAD_AT + head));
                header.payload_bytes = static_cast<std::uint16_t>(head + payload.size());
                efe_frame_write(changed.data(), &header);
                changed.resize(efe_frame_seal(changed.data()));
                frame = changed;
            }
            rnic_card_receive(&two.other->card, frame.data(), static_cast<std::uint32_t>(frame.size()));
        }
        rnic_card_advance(&two.other->card, two.host.now);
        for (; !two.other->wire.empty(); two.other->wire.pop_front()) {
            rnic_card_receive(&two.host.card, two.other->wire.front().data(),
                              static_cast<std::uint32_t>(two.other->wire.front().size()));
        }
        two.host.now += 10000;
        two.other->now = two.host.now;
    }
}

#define LIE(name, frame, what) \
    Lie \
    { \
        name, frame, \
            []([[maybe_unused]] efe_header &header, [[maybe_unused]] vipl_ddp &ddp, \
               [[maybe_unused]] Bytes &payload) { what; } \
    }

/** Lies about a Send with immediate data of three frames and its immediate data. */
std::vector<Lie> lies_of_sends()
{
    return
    {
        LIE("another number of the message", 1, header.message++),
            LIE("a first frame in the middle", 1, header.flags |= EFE_FIRST),
            LIE("no first frame", 0, header.flags &= static_cast<std::uint8_t>(~EFE_FIRST)),
            LIE("the last frame in the middle", 1, header.flags |= EFE_LAST),
            LIE("more is left than was", 1, header.left += 100),
            LIE("less is left than there is", 1, header.left = 10),
            LIE("the last segment in the middle", 1, ddp.last = true),
            LIE("the last segment is not the last", 2, ddp.last = false),
            LIE("another offset", 1, ddp.mo += 8), LIE("another message's number", 1, ddp.msn++),
            LIE("the first message's number is wrong", 0, ddp.msn = 5),
            LIE("another queue", 1, ddp.queue = 1), LIE("bytes are missing", 1, payload.pop_back()),
            LIE("a Send that promises nothing", 1, ddp.op = VIPL_RDMAP_SEND),
            LIE("a Send that invalidates", 0, ddp.op = VIPL_RDMAP_SEND_INVALIDATE),
            LIE("a Write in the middle", 1, ddp.tagged = true; ddp.op = VIPL_RDMAP_WRITE),
            LIE("a Read Request in the middle", 1, ddp.op = VIPL_RDMAP_READ_REQUEST; ddp.queue = 1),
            LIE("an answer to no read", 0, ddp.tagged = true; ddp.op = VIPL_RDMAP_READ_RESPONSE;
                ddp.stag = 0x10000),
            LIE("an unknown operation", 0, ddp.op = 15),
            LIE("immediate data that is too short", 3, payload.pop_back()),
            LIE("immediate data that is too long", 3, payload.push_back(1)),
            LIE("immediate data with another number", 3, ddp.msn--),
            LIE("immediate data that is not last", 3, ddp.last = false),
            LIE("a Send where immediate data is due", 3, ddp.op = VIPL_RDMAP_SEND),
            LIE("an empty Send where immediate data is due", 3, ddp.op = VIPL_RDMAP_SEND_SE; payload.clear()),
            LIE("immediate data that nobody promised", 0, ddp.op = VIPL_RDMAP_IMMEDIATE),
    };
}

std::vector<Lie> lies_of_writes()
{
    return
    {
        LIE("another tag", 1, ddp.stag ^= 1), LIE("an address further on", 1, ddp.offset += 8),
            LIE("an address before", 2, ddp.offset -= 16), LIE("more is left than was", 1, header.left += 1),
            LIE("last too early", 1, ddp.last = true),
            LIE("the message's last too early", 1, header.flags |= EFE_LAST),
            LIE("never last", 2, ddp.last = false), LIE("bytes are missing", 0, payload.pop_back()),
            LIE("a Send in the middle", 1, payload.resize(payload.size() - 4); ddp.tagged = false;
                ddp.op = VIPL_RDMAP_SEND; ddp.msn = 1),
            LIE("immediate data in the middle", 1, payload.resize(8); ddp.tagged = false;
                ddp.op = VIPL_RDMAP_IMMEDIATE; ddp.msn = 1),
    };
}

std::vector<Lie> lies_of_reads()
{
    return {
        LIE("another number", 0, ddp.msn = 2),
        LIE("an offset", 0, ddp.mo = 1),
        LIE("not last", 0, ddp.last = false),
        LIE("too short", 0, payload.pop_back()),
        LIE("too long", 0, payload.push_back(0)),
        LIE("not the message's last", 0, header.flags &= static_cast<std::uint8_t>(~EFE_LAST)),
    };
}

void check_ended(Two &two, Lie lie, unsigned level)
{
    INFO(lie.name);
    const Bytes beyond(two.b.at(two.mem_b + 5000), two.b.at(two.mem_b + Two::kBytes));
    carry(two, lie);
    const Completion answer = two.b.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_b);
    CHECK(answer.info == RNIC_QP_STATE_ERROR);
    CHECK(answer.length == RNIC_ERROR_PROTOCOL);
    CHECK(two.b.drain(two.pair->cq_b).back().opcode == RNIC_WORK_DRAINED);
    CHECK(two.a.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_a).info == RNIC_QP_STATE_ERROR);
    CHECK((Bytes(two.b.at(two.mem_b + 5000), two.b.at(two.mem_b + Two::kBytes)) == beyond));
    CHECK(two.other->reg(0, RNIC_REG_STATUS) ==
          (RNIC_STATUS_READY | RNIC_STATUS_ENABLED | RNIC_STATUS_LINK_UP));
    Pair again(two.a, two.b, level); // only that connection is the price
    again.connect();
    two.b.post(again.qp_b, two.receive(64, 3));
    two.a.post(again.qp_a, two.send(8, 4));
    two.host.run_for(10000000);
    Completion got;
    REQUIRE(two.b.poll(again.cq_b, &got));
    CHECK(got.cookie == 3);
}

} // namespace

TEST_CASE("a peer that lies about its Sends", "[card]")
{
    for (const Lie &lie : lies_of_sends()) {
        for (const unsigned level : {0u, 2u}) {
            Setup setup;
            setup.level = level;
            setup.two_cards = true;
            Two two(setup);
            Work work = two.send(4000);
            work.flags = RNIC_WORK_FLAG_IMMEDIATE;
            two.post_b(two.receive(4000));
            two.post_b(two.receive(4000));
            two.post_a(work);
            check_ended(two, lie, level);
        }
    }
}

TEST_CASE("a peer that lies about its RDMA Writes", "[card]")
{
    for (const Lie &lie : lies_of_writes()) {
        for (const unsigned level : {0u, 1u}) {
            Setup setup;
            setup.level = level;
            setup.two_cards = true;
            Two two(setup);
            two.post_b(two.receive(4000));
            two.post_a(two.write(4000));
            check_ended(two, lie, level);
        }
    }
}

TEST_CASE("a peer that lies about its RDMA Reads", "[card]")
{
    for (const Lie &lie : lies_of_reads()) {
        Setup setup;
        setup.two_cards = true;
        Two two(setup);
        two.post_a(two.read(4000));
        check_ended(two, lie, 1);
    }
}

TEST_CASE("an answer to a read of an earlier life is dropped, another wrong one ends the connection",
          "[card]")
{
    // b reads from a: a's data frames are the answers.
    const unsigned which = GENERATE(0u, 1u, 2u, 3u, 4u);
    const Lie lies[] = {
        LIE("another generation", 0, ddp.stag ^= 0x55), LIE("another slot", 0, ddp.stag += 0x10000),
        LIE("another offset", 1, ddp.offset += 8),      LIE("another length", 0, header.left--),
        LIE("last too early", 0, ddp.last = true),
    };
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    Work work = two.receive(0, 9);
    work.opcode = RNIC_WORK_READ;
    work.segments = {two.in_b(0, 4000)};
    work.remote_address = two.mem_a;
    work.remote_stag = two.tag_a;
    const Bytes before(two.b.at(two.mem_b), two.b.at(two.mem_b + 4000));
    two.post_b(work);
    INFO(lies[which].name);
    carry(two, lies[which]);
    const Completion answer = two.b.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_b);
    CHECK(answer.info == RNIC_QP_STATE_ERROR);
    CHECK(answer.length == RNIC_ERROR_PROTOCOL); // of the first, too: the second frame comes out of place
    if (which != 2) {
        CHECK((Bytes(two.b.at(two.mem_b), two.b.at(two.mem_b + 4000)) == before));
    }
}

TEST_CASE("frames that are garbage cost nobody anything", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    std::uint32_t seed = GENERATE(1u, 2u);
    const auto dice = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 8; };
    two.post_b(two.receive(65536, 1));
    two.post_a(two.send(60000, 2));
    for (unsigned i = 0; i < 300; ++i) {
        rnic_card_advance(&two.host.card, two.host.now);
        Bytes frame = two.host.wire.empty() ? Bytes(100) : two.host.wire.front();
        for (unsigned n = 0; n < 3; ++n) {
            frame[dice() % frame.size()] ^= static_cast<std::uint8_t>(1 + dice() % 255);
        }
        frame.resize(dice() % 4 == 0 ? dice() % (frame.size() + 1) : frame.size());
        rnic_card_receive(&two.other->card, frame.data(), static_cast<std::uint32_t>(frame.size()));
        rnic_card_advance(&two.other->card, two.host.now);
    }
    CHECK(two.next_b().length == 60000);
    CHECK(two.same(0, 0, 60000));
    CHECK(two.next_a().status == 0);
}

TEST_CASE("message acknowledgments that were never earned complete nothing that was not sent", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.level = 2;
    Two two(setup);
    two.post_b(two.receive(64));
    two.post_a(two.send(8, 1));
    CHECK(two.next_a().cookie == 1);
    // b's next acknowledgment claims a message that a has not sent yet.
    two.post_b(two.receive(64));
    two.post_a(two.send(8, 2));
    rnic_card_advance(&two.host.card, two.host.now);
    for (; !two.host.wire.empty(); two.host.wire.pop_front()) {
        rnic_card_receive(&two.other->card, two.host.wire.front().data(),
                          static_cast<std::uint32_t>(two.host.wire.front().size()));
    }
    rnic_card_advance(&two.other->card, two.host.now);
    for (; !two.other->wire.empty(); two.other->wire.pop_front()) {
        Bytes &frame = two.other->wire.front();
        if ((frame[14] & 15) == EFE_MESSAGE_ACK) {
            frame[EFE_PAYLOAD_AT + 3] = 100;
            efe_frame_seal(frame.data());
        }
        rnic_card_receive(&two.host.card, frame.data(), static_cast<std::uint32_t>(frame.size()));
    }
    rnic_card_advance(&two.host.card, two.host.now);
    Completion got;
    REQUIRE(two.a.poll(two.pair->cq_a, &got));
    CHECK(got.cookie == 2);
    two.host.peer = nullptr;
    two.post_a(two.send(8, 3));
    two.host.run_for(1000000);
    CHECK_FALSE(two.a.poll(two.pair->cq_a, &got));
}

TEST_CASE("a Terminate about an entry that was not begun completes nothing", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    Work read = two.receive(100, 1), write = read;
    read.opcode = RNIC_WORK_READ;
    write.opcode = RNIC_WORK_WRITE;
    write.flags = RNIC_WORK_FLAG_FENCE; // waits for the read, which is not answered
    write.remote_address = read.remote_address = two.mem_a;
    write.remote_stag = read.remote_stag = two.tag_a;
    two.post_b(read);
    two.post_b(write);
    rnic_card_advance(&two.other->card, two.host.now);
    two.post_a(two.send(8));
    vipl_ddp denied{};
    denied.tagged = denied.last = true;
    denied.op = VIPL_RDMAP_WRITE;
    denied.stag = two.tag_a;
    denied.offset = two.mem_a;
    carry(two, {"", 0, [&](efe_header &, vipl_ddp &ddp, Bytes &payload) {
                    vipl_rdmap_terminate terminate{};
                    terminate.reason = VIPL_TERM_DDP_TAGGED_STAG;
                    terminate.with_ddp = true;
                    terminate.ddp = denied;
                    payload.resize(VIPL_RDMAP_MAX_TERMINATE_BYTES);
                    payload.resize(vipl_rdmap_terminate_write(payload.data(), &terminate));
                    ddp.op = VIPL_RDMAP_TERMINATE;
                    ddp.queue = VIPL_DDP_QUEUE_TERMINATE;
                    ddp.msn = 1;
                }});
    const std::vector<Completion> done = two.b.drain(two.pair->cq_b);
    REQUIRE(done.size() == 1);
    CHECK(done[0].opcode == RNIC_WORK_DRAINED);
    CHECK(two.b.simple(RNIC_COMMAND_QUERY_QP, two.pair->qp_b).length == RNIC_ERROR_REMOTE_ACCESS);
}
