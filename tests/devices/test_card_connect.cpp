// SPDX-License-Identifier: MIT
//
// Control messages: who gets them, and who is told that nobody does.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

Bytes message(unsigned kind, const std::string &discriminator, const std::string &rest = "")
{
    Bytes bytes(16);
    bytes[RNIC_CTL_KIND] = static_cast<std::uint8_t>(kind);
    rnic_put16(&bytes[RNIC_CTL_DISCRIMINATOR_LENGTH], static_cast<std::uint16_t>(discriminator.size()), true);
    rnic_put32(&bytes[RNIC_CTL_SOURCE_QP], 0x1234, true);
    rnic_put32(&bytes[RNIC_CTL_DESTINATION_QP], 0x5678, true);
    rnic_put32(&bytes[RNIC_CTL_SERIAL], 0x9ABCDEF0, true);
    bytes.insert(bytes.end(), discriminator.begin(), discriminator.end());
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
}

struct Mac {
    explicit Mac(Driver &driver) { std::memcpy(bytes, towards(driver, 0).mac.data(), 6); }
    std::uint8_t bytes[6];
};

} // namespace

TEST_CASE("a request goes to the function that listens", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    setup.big_b = GENERATE(false, true);
    Two two(setup);
    const std::string text =
        GENERATE(std::string(), std::string("x"), std::string(64, 'd'), std::string("a\0b", 3));
    CHECK(two.b.listen(text, 4711).status == 0);
    const Bytes sent = message(RNIC_CONTROL_REQUEST, text, "and attributes");
    CHECK(two.a.send_control(sent, Mac(two.b).bytes, RNIC_FUNCTION_ADAPTER).status == 0);
    two.host.run_for(1000000);
    const Event event = Two::event_of(two.b);
    CHECK(event.kind == RNIC_EVENT_CONTROL);
    CHECK(event.object == 4711);
    CHECK(event.message == sent);
    CHECK(event.peer_fn == 0);
    CHECK(std::memcmp(event.mac.data(), Mac(two.a).bytes, 6) == 0);
    CHECK(Two::event_of(two.a).kind == 0);
}

TEST_CASE("whoever listens is told that a function that sent to the adapter was reset", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    const bool by_request = GENERATE(false, true), listens = GENERATE(false, true);
    Two two(setup);
    if (listens) {
        REQUIRE(two.b.listen("here", 1).status == 0);
    }
    const unsigned to = by_request ? static_cast<unsigned>(RNIC_FUNCTION_ADAPTER) : two.b.fn;
    REQUIRE(two.a
                .send_control(message(RNIC_CONTROL_REQUEST, "here"), Mac(two.b).bytes,
                              static_cast<std::uint16_t>(to))
                .status == 0);
    two.host.run_for(1000000);
    if (listens || !by_request) {
        CHECK(Two::event_of(two.b).kind == RNIC_EVENT_CONTROL);
    }
    const Mac mac(two.a);
    two.host.set_reg(two.a.fn, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    two.host.run_for(20000000);
    unsigned told = 0;
    for (Event event = Two::event_of(two.b); event.kind != 0;
         event = Two::event_of(two.b)) { // of its queue pair, too
        if (event.kind == RNIC_EVENT_PEER_LOST) {
            ++told;
            CHECK(event.peer_fn == two.a.fn);
            CHECK(std::memcmp(event.mac.data(), mac.bytes, 6) == 0);
        }
    }
    CHECK(told == (listens && by_request ? 1 : 0));
}

TEST_CASE("a request that nobody listens for is answered", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    Two two(setup);
    REQUIRE(two.b.listen("here", 1).status == 0);
    REQUIRE(two.a.send_control(message(RNIC_CONTROL_REQUEST, "there"), Mac(two.b).bytes, 0xFFFF).status == 0);
    two.host.run_for(1000000);
    const Event event = Two::event_of(two.a);
    CHECK(event.kind == RNIC_EVENT_CONTROL);
    CHECK(event.peer_fn == RNIC_FUNCTION_ADAPTER);
    REQUIRE(event.message.size() == 16);
    CHECK(event.message[RNIC_CTL_KIND] == RNIC_CONTROL_REFUSED);
    CHECK(event.message[RNIC_CTL_REASON] == RNIC_REFUSED_NO_LISTENER);
    CHECK(rnic_get32(&event.message[RNIC_CTL_DESTINATION_QP], true) == 0x1234);
    CHECK(rnic_get32(&event.message[RNIC_CTL_SERIAL], true) == 0x9ABCDEF0);
    CHECK(Two::event_of(two.b).kind == 0);
}

TEST_CASE("who listens, and who does no more", "[card]")
{
    Two two;
    CHECK(two.a.listen("d", 1).status == 0);
    CHECK(two.b.listen("d", 2, false).status == RNIC_STATUS_NO_OBJECT);
    CHECK(two.a.listen("d", 3).status == 0); // again: the new number counts
    CHECK(two.a.listen(std::string(65, 'x'), 1).status == RNIC_STATUS_INVALID);
    CHECK(two.a.listen("d", 3, false).status == 0);
    CHECK(two.a.listen("d", 3, false).status == RNIC_STATUS_NO_OBJECT);
}

TEST_CASE("a request, and its end, go to all functions that listen", "[card]")
{
    Two two;
    const unsigned kind = GENERATE(unsigned{RNIC_CONTROL_REQUEST}, unsigned{RNIC_CONTROL_CANCEL});
    const auto object_at = [](Driver &driver) {
        const Event event = Two::event_of(driver);
        return event.kind == 0 ? 0 : event.object;
    };
    const auto send = [&] {
        REQUIRE(two.a.send_control(message(kind, "d"), Mac(two.b).bytes, RNIC_FUNCTION_ADAPTER).status == 0);
        two.host.run_for(1000000);
    };
    REQUIRE(two.a.listen("d", 1).status == 0);
    REQUIRE(two.a.listen("another", 7).status == 0);
    REQUIRE(two.b.listen("d", 2).status == 0);
    send();
    CHECK(object_at(two.a) == 1);
    CHECK(object_at(two.b) == 2);
    CHECK(object_at(two.a) == 0);
    CHECK(two.a.listen("d", 1, false).status == 0); // the other one goes on
    send();
    CHECK(object_at(two.a) == 0);
    CHECK(object_at(two.b) == 2);
    REQUIRE(two.a.listen("d", 4).status == 0);
    two.host.set_reg(1, RNIC_REG_CTRL, RNIC_CTRL_RESET); // so it does when the function of one is reset
    two.host.run();
    send();
    CHECK(object_at(two.a) == 4);
}

namespace {

/** Takes a request for the function. */
unsigned claim(Driver &driver, const Driver &from, std::uint32_t qp = 0x1234,
               std::uint32_t serial = 0x9ABCDEF0, unsigned last_of_mac = 0)
{
    Bytes entry = driver.command(RNIC_COMMAND_CLAIM);
    const Modify peer = towards(const_cast<Driver &>(from), qp);
    std::memcpy(&entry[RNIC_CMD_CLAIM_PEER_MAC], peer.mac.data(), 6);
    entry[RNIC_CMD_CLAIM_PEER_MAC + 5] =
        static_cast<std::uint8_t>(entry[RNIC_CMD_CLAIM_PEER_MAC + 5] + last_of_mac);
    rnic_put16(&entry[RNIC_CMD_CLAIM_PEER_FUNCTION], static_cast<std::uint16_t>(from.fn), driver.big);
    rnic_put32(&entry[RNIC_CMD_CLAIM_PEER_QP], qp, driver.big);
    rnic_put32(&entry[RNIC_CMD_CLAIM_SERIAL], serial, driver.big);
    return driver.execute(entry).status;
}

} // namespace

TEST_CASE("a request that a function has claimed is no other's, until that function ends", "[card]")
{
    Setup setup;
    setup.big_b = GENERATE(false, true);
    Two two(setup);
    Driver &a = two.a, &b = two.b;
    Driver requester(two.host, 2);
    requester.enable();
    REQUIRE(a.listen("d", 1).status == 0);
    REQUIRE(b.listen("d", 2).status == 0);
    const auto heard = [](Driver &driver) { return Two::event_of(driver).kind == RNIC_EVENT_CONTROL; };
    const auto ask = [&](unsigned kind) {
        REQUIRE(requester.send_control(message(kind, "d"), Mac(a).bytes, RNIC_FUNCTION_ADAPTER).status == 0);
        two.host.run_for(1000000);
    };
    ask(RNIC_CONTROL_REQUEST);
    CHECK(heard(a));
    CHECK(heard(b));
    CHECK(claim(b, requester) == RNIC_STATUS_OK);
    CHECK(claim(a, requester) == RNIC_STATUS_IN_USE);
    CHECK(claim(b, requester) == RNIC_STATUS_OK); // it has it already
    ask(RNIC_CONTROL_REQUEST);
    CHECK_FALSE(heard(a));
    CHECK(heard(b));
    ask(RNIC_CONTROL_CANCEL);
    CHECK(heard(a));
    CHECK(heard(b));

    SECTION("other requests are others'")
    {
        CHECK(claim(a, requester, 0x1235) == RNIC_STATUS_OK);
        CHECK(claim(a, requester, 0x1234, 0x9ABCDEF1) == RNIC_STATUS_OK);
        CHECK(claim(a, a) == RNIC_STATUS_OK);
        CHECK(claim(a, requester, 0x1234, 0x9ABCDEF0, 1) == RNIC_STATUS_OK);
        CHECK(claim(a, requester) == RNIC_STATUS_IN_USE);
    }
    SECTION("a function that listens no more has it still")
    {
        REQUIRE(b.listen("d", 2, false).status == 0);
        ask(RNIC_CONTROL_REQUEST);
        CHECK_FALSE(heard(a));
        CHECK_FALSE(heard(requester)); // nobody says that there is no listener
    }
    SECTION("its reset gives it to others")
    {
        two.host.set_reg(b.fn, RNIC_REG_CTRL, RNIC_CTRL_RESET);
        two.host.run_for(1000000);
        while (Two::event_of(a).kind != 0) { // of the connection with it
        }
        ask(RNIC_CONTROL_REQUEST);
        CHECK(heard(a));
        CHECK(claim(a, requester) == RNIC_STATUS_OK);
    }
    SECTION("the card remembers the last 1,024")
    {
        for (std::uint32_t i = 0; i < 1023; ++i) {
            REQUIRE(claim(b, requester, 1, i) == RNIC_STATUS_OK);
        }
        CHECK(claim(a, requester) == RNIC_STATUS_IN_USE);
        CHECK(claim(b, requester, 1, 1023) == RNIC_STATUS_OK);
        CHECK(claim(a, requester) == RNIC_STATUS_OK);
        CHECK(claim(a, requester, 1, 0) == RNIC_STATUS_OK); // the next that was forgotten
        CHECK(claim(a, requester, 1, 2) == RNIC_STATUS_IN_USE);
    }
}

TEST_CASE("many listeners, and those that share a place in the table", "[card]")
{
    Host host;
    Driver driver(host, 0);
    driver.enable();
    const std::uint64_t text = driver.allocate(8);
    const auto command = [&](unsigned opcode, std::uint32_t i) {
        rnic_put32(driver.at(text), i, true);
        Bytes entry = driver.command(opcode, i);
        rnic_put16(&entry[RNIC_CMD_LISTEN_LENGTH], 4, false);
        rnic_put64(&entry[RNIC_CMD_LISTEN_ADDRESS], text, false);
        return driver.execute(entry).status;
    };
    const std::uint32_t most = host.reg(0, RNIC_REG_MAX_LISTENS);
    unsigned wrong = 0;
    for (std::uint32_t i = 0; i < most; ++i) {
        wrong += command(RNIC_COMMAND_LISTEN, i) != RNIC_STATUS_OK;
    }
    CHECK(wrong == 0);
    CHECK(command(RNIC_COMMAND_LISTEN, most) == RNIC_STATUS_NO_ROOM);
    for (std::uint32_t i = 0; i < most; ++i) {
        wrong += command(RNIC_COMMAND_UNLISTEN, i * 7 % most) != RNIC_STATUS_OK;
    }
    CHECK(wrong == 0);
    CHECK(command(RNIC_COMMAND_LISTEN, 0) == RNIC_STATUS_OK);
}

TEST_CASE("what SEND_CONTROL refuses", "[card]")
{
    Two two;
    const Mac mac(two.b);
    CHECK(two.a.send_control(Bytes(15), mac.bytes, 1).status == RNIC_STATUS_INVALID);
    CHECK(two.a.send_control(Bytes(16 + 449), mac.bytes, 1).status == RNIC_STATUS_INVALID);
    CHECK(two.a.send_control(Bytes(16), mac.bytes, 256).status == RNIC_STATUS_INVALID);
    CHECK(two.a.send_control(message(RNIC_CONTROL_ACCEPT, "d"), mac.bytes, 0xFFFF).status ==
          RNIC_STATUS_INVALID);
    Bytes lying = message(RNIC_CONTROL_REQUEST, "d");
    lying[RNIC_CTL_DISCRIMINATOR_LENGTH + 1] = 2;
    CHECK(two.a.send_control(lying, mac.bytes, 0xFFFF).status == RNIC_STATUS_INVALID);
    CHECK(two.a.send_control(message(RNIC_CONTROL_REQUEST, std::string(65, 'd')), mac.bytes, 0xFFFF).status ==
          RNIC_STATUS_INVALID);
    Bytes entry = two.a.command(RNIC_COMMAND_SEND_CONTROL);
    rnic_put16(&entry[RNIC_CMD_CONTROL_LENGTH], 16, false);
    rnic_put64(&entry[RNIC_CMD_CONTROL_ADDRESS], Host::kMemory, false);
    CHECK(two.a.execute(entry).status == RNIC_STATUS_DMA);
    CHECK(two.host.reg(0, RNIC_REG_STATUS) ==
          (RNIC_STATUS_READY | RNIC_STATUS_ENABLED | RNIC_STATUS_LINK_UP));
}

TEST_CASE("control messages travel behind the data of their flow", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    setup.level = RNIC_LEVEL_UNRELIABLE;
    Two two(setup);
    const Mac mac(two.b);
    two.post_b(two.receive(65536));
    two.host.peer = nullptr; // nothing arrives yet
    two.post_a(two.send(20000));
    CHECK(two.next_a().status == 0); // all of it is in the flow
    const Bytes last = message(RNIC_CONTROL_DISCONNECT, "");
    CHECK(two.a.send_control(last, mac.bytes, two.b.fn).status == 0);
    two.other->record = true;
    two.host.peer = two.other.get();
    two.host.run_for(100000000);
    std::size_t data = 0, event = 0;
    for (std::size_t i = 0; i < two.other->transactions.size(); ++i) {
        const Crossing &transaction = two.other->transactions[i];
        const bool write = transaction.kind == RNIC_TRANSACTION_DMA_WRITE;
        data =
            write && transaction.address >= two.mem_b && transaction.address < two.mem_b + 20000 ? i : data;
        event = write && transaction.bytes == RNIC_EVT_OWNER ? i : event;
    }
    CHECK(data > 0);
    CHECK(event > data);
    CHECK(Two::event_of(two.b).message == last);
}

TEST_CASE("a full event ring: requests are refused, other messages wait, errors are kept", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    Two two(setup);
    const Mac to_b(two.b), to_a(two.a);
    REQUIRE(two.b.listen("d", 1).status == 0);
    for (unsigned i = 0; i < 10; ++i) {
        REQUIRE(two.a.send_control(message(RNIC_CONTROL_ACCEPT, "", std::to_string(i)), to_b.bytes, two.b.fn)
                    .status == 0);
    }
    two.host.run_for(1000000);
    REQUIRE(two.a.send_control(message(RNIC_CONTROL_REQUEST, "d"), to_b.bytes, 0xFFFF).status == 0);
    two.host.run_for(1000000);
    const Event refused = Two::event_of(two.a);
    REQUIRE(refused.message.size() == 16);
    CHECK(refused.message[RNIC_CTL_REASON] == RNIC_REFUSED_BUSY);
    two.b.store(RNIC_DB_QP + 64 * two.pair->qp_b, 99); // an error that has no room either
    two.b.hint(RNIC_DB_QP_HINTS, two.pair->qp_b);
    two.host.run_for(1000000);
    unsigned control = 0, errors = 0;
    for (Event event; two.b.event(&event); two.host.run_for(1000000)) {
        if (event.kind == RNIC_EVENT_CONTROL) {
            CHECK(event.message[16] == std::to_string(control)[0]);
            ++control;
        } else {
            CHECK(event.code == RNIC_ERROR_RING_INDEX);
            ++errors;
        }
    }
    CHECK(control == 10);
    CHECK(errors == 1);
}

TEST_CASE("a message for a function that is not enabled", "[card]")
{
    Setup setup;
    setup.two_cards = GENERATE(false, true);
    Two two(setup);
    REQUIRE(two.a.send_control(message(RNIC_CONTROL_ACCEPT, ""), Mac(two.b).bytes, 3).status == 0);
    two.host.run_for(1000000);
    CHECK(two.host.reg(0, RNIC_REG_STATUS) ==
          (RNIC_STATUS_READY | RNIC_STATUS_ENABLED | RNIC_STATUS_LINK_UP));
    two.post_b(two.receive(64));
    two.post_a(two.send(8));
    CHECK(two.next_b().status == 0);
}

TEST_CASE("a command that waits for room in its flow is answered in time", "[card]")
{
    Setup setup;
    setup.two_cards = true;
    Two two(setup);
    const Mac mac(two.b);
    two.host.peer = nullptr;
    unsigned sent = 0;
    Completion answer;
    const std::uint64_t place = two.a.allocate(16);
    for (; sent < 2000; ++sent) {
        Bytes entry = two.a.command(RNIC_COMMAND_SEND_CONTROL);
        rnic_put16(&entry[RNIC_CMD_CONTROL_LENGTH], 16, false);
        rnic_put64(&entry[RNIC_CMD_CONTROL_ADDRESS], place, false);
        std::memcpy(&entry[RNIC_CMD_CONTROL_PEER_MAC], mac.bytes, 6);
        rnic_put16(&entry[RNIC_CMD_CONTROL_PEER_FUNCTION], 1, false);
        two.a.post_command(entry);
        two.host.run();
        if (!two.a.answered(&answer)) {
            break;
        }
        REQUIRE(answer.status == 0);
    }
    REQUIRE(sent < 2000);
    two.host.run_for(90000000);
    CHECK_FALSE(two.a.answered(&answer));
    two.host.run_for(20000000);
    REQUIRE(two.a.answered(&answer));
    CHECK(answer.status == RNIC_STATUS_BUSY);
    CHECK(two.a.send_control(Bytes(16), mac.bytes, 1).status == RNIC_STATUS_BUSY); // it does not wait again
    two.host.peer = two.other.get();
    two.host.run_for(1000000000);
    CHECK(two.a.send_control(Bytes(16), mac.bytes, 1).status == RNIC_STATUS_OK);
}
