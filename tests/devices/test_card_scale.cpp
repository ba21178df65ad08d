// SPDX-License-Identifier: MIT
//
// As many as the data sheet promises, and what they cost.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

/** All that the data sheet promises, if their windows have addresses. */
constexpr unsigned kFunctions = sizeof(void *) >= 8 ? 256 : 8;

rnic_card_config large_config()
{
    rnic_card_config config = small_config();
    config.functions = kFunctions;
    config.qps = config.cqs = config.stags = 65536;
    config.pbl_entries = 4 << 20;
    config.flows = 4096;
    config.frames = 4096;
    config.mtu = 9000;
    return config;
}

/** Bytes of the card's area that have pages. */
std::size_t resident(const Host &host, const rnic_card_config &config)
{
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = rnic_card_bytes(&config);
    const auto first = reinterpret_cast<std::uintptr_t>(host.card.area) / page * page;
    std::vector<unsigned char> pages(bytes / page + 1);
    REQUIRE(mincore(reinterpret_cast<void *>(first), bytes, pages.data()) == 0);
    std::size_t there = 0;
    for (const unsigned char one : pages) {
        there += one & 1;
    }
    return there * page;
}

/** Posts so many commands, a ring at a time; how many were answered otherwise than OK. */
template <typename Make, typename Take>
unsigned many(Driver &driver, unsigned count, Make make, Take take)
{
    unsigned wrong = 0;
    for (unsigned done = 0; done < count;) {
        const unsigned part = std::min(count - done, 16u);
        for (unsigned i = 0; i < part; ++i) {
            driver.post_command(make(done + i));
        }
        driver.host.run();
        for (unsigned i = 0; i < part; ++i, ++done) {
            Completion answer;
            REQUIRE(driver.answered(&answer));
            wrong += answer.status != RNIC_STATUS_OK;
            take(done, answer.info);
        }
    }
    return wrong;
}

} // namespace

TEST_CASE("65,536 connected queue pairs on one card, at most 512 bytes each", "[card]")
{
    const rnic_card_config config = large_config();
    Host host(config);
    CHECK(resident(host, config) < 16 << 20); // a card that nobody uses: EFE begins with its tables of flows
    Driver drivers[2] = {{host, 0}, {host, kFunctions - 1}};
    std::vector<std::uint32_t> qps[2];
    std::uint32_t cqs[2];
    for (unsigned side = 0; side < 2; ++side) {
        Driver &driver = drivers[side];
        driver.enable();
        cqs[side] = driver.create_cq();
        qps[side].resize(32768);
    }
    const std::size_t before = resident(host, config);
    for (unsigned side = 0; side < 2; ++side) {
        Driver &driver = drivers[side];
        Bytes create = driver.command(RNIC_COMMAND_CREATE_QP);
        create[RNIC_CMD_QP_LEVEL] = 2;
        rnic_put16(&create[RNIC_CMD_QP_REALM], 1, false);
        rnic_put32(&create[RNIC_CMD_QP_SEND_CQ], cqs[side], false);
        rnic_put32(&create[RNIC_CMD_QP_RECV_CQ], cqs[side], false);
        CHECK(many(
                  driver, 32768, [&](unsigned) { return create; },
                  [&](unsigned i, std::uint32_t qp) { qps[side][i] = qp; }) == 0);
    }
    Bytes one_more = drivers[0].command(RNIC_COMMAND_CREATE_QP);
    rnic_put32(&one_more[RNIC_CMD_QP_SEND_CQ], cqs[0], false);
    rnic_put32(&one_more[RNIC_CMD_QP_RECV_CQ], cqs[0], false);
    CHECK(drivers[0].execute(one_more).status == RNIC_STATUS_NO_ROOM);
    for (unsigned side = 0; side < 2; ++side) {
        const Modify peer = towards(drivers[1 - side], 0);
        Bytes modify = drivers[side].command(RNIC_COMMAND_MODIFY_QP);
        modify[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_CONNECTED;
        std::memcpy(&modify[RNIC_CMD_QP_PEER_MAC], peer.mac.data(), 6);
        rnic_put16(&modify[RNIC_CMD_QP_PEER_FUNCTION], static_cast<std::uint16_t>(peer.peer_fn), false);
        const auto connect = [&](unsigned i) {
            rnic_put32(&modify[RNIC_CMD_OBJECT], qps[side][i], false);
            rnic_put32(&modify[RNIC_CMD_QP_PEER_QP], qps[1 - side][i], false);
            return modify;
        };
        CHECK(many(drivers[side], 32768, connect, [](unsigned, std::uint32_t) {}) == 0);
    }
    CHECK(resident(host, config) - before <= 65536u * 512);

    // The last pair works like the first.
    std::uint64_t from, to;
    const std::uint32_t from_tag = drivers[0].memory(4096, &from), to_tag = drivers[1].memory(4096, &to);
    const std::uint32_t a = qps[0].back(), b = qps[1].back();
    for (unsigned queue = 0; queue < 2; ++queue) {
        REQUIRE(drivers[0].set_ring(a, queue, 2).status == 0);
        REQUIRE(drivers[1].set_ring(b, queue, 2).status == 0);
    }
    Work send, receive;
    send.segments = {{from, 100, from_tag}};
    receive.opcode = RNIC_WORK_RECEIVE;
    receive.segments = {{to, 100, to_tag}};
    drivers[1].post(b, receive);
    drivers[0].post(a, send);
    host.run_for(10000000);
    Completion got;
    REQUIRE(drivers[1].poll(cqs[1], &got));
    CHECK(got.qp == b);
    CHECK(got.status == RNIC_STATUS_OK);
    CHECK(got.length == 100);
}

TEST_CASE("every tag and queue of the card, and all of them again after a reset", "[card]")
{
    const rnic_card_config config = large_config();
    Host host(config);
    Driver driver(host, 7);
    for (unsigned life = 0; life < 2; ++life) {
        driver.commands.index = driver.answers.index = 0;
        std::memset(driver.at(driver.answers.base), 0, 16 * RNIC_COMPLETION_BYTES);
        driver.enable();
        Bytes memory = driver.command(RNIC_COMMAND_REGISTER);
        rnic_put32(&memory[RNIC_CMD_MR_DOMAIN], 1, false);
        rnic_put64(&memory[RNIC_CMD_MR_LENGTH], 1, false);
        CHECK(many(
                  driver, 65536, [&](unsigned) { return memory; }, [](unsigned, std::uint32_t) {}) == 0);
        CHECK(driver.execute(memory).status == RNIC_STATUS_NO_ROOM);
        Bytes queue = driver.command(RNIC_COMMAND_CREATE_CQ);
        rnic_put16(&queue[RNIC_CMD_CQ_LOG2], 2, false);
        rnic_put16(&queue[RNIC_CMD_CQ_VECTOR], 1, false);
        CHECK(many(
                  driver, 65536, [&](unsigned) { return queue; }, [](unsigned, std::uint32_t) {}) == 0);
        CHECK(driver.execute(queue).status == RNIC_STATUS_NO_ROOM);
        host.set_reg(7, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    }
}
