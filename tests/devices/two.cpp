// SPDX-License-Identifier: MIT
#include "devices/two.hpp"

#include <catch2/catch.hpp>

namespace card {

namespace {

rnic_card_config other_config(rnic_card_config config)
{
    config.mac[5] = 2;
    config.seed += 1000;
    return config;
}

} // namespace

Two::Two(const Setup &setup)
    : host(setup.config), other(setup.two_cards ? new Host(other_config(setup.config)) : nullptr),
      a(host, 0, setup.big_a), b(other ? *other : host, other ? 0 : 1, setup.big_b)
{
    if (other) {
        Host::join(host, *other);
    }
    a.enable();
    b.enable();
    tag_a = a.memory(kBytes, &mem_a);
    tag_b = b.memory(kBytes, &mem_b);
    for (std::uint32_t i = 0; i < kBytes; ++i) {
        a.at(mem_a)[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
        b.at(mem_b)[i] = static_cast<std::uint8_t>(i * 11 + i / 241 + 3);
    }
    pair = std::make_unique<Pair>(a, b, setup.level, setup.rights);
    if (setup.connected) {
        pair->connect();
    }
}

Segment Two::in_a(std::uint32_t offset, std::uint32_t length) const
{
    return {mem_a + offset, length, tag_a};
}

Segment Two::in_b(std::uint32_t offset, std::uint32_t length) const
{
    return {mem_b + offset, length, tag_b};
}

Work Two::receive(std::uint32_t length, std::uint32_t cookie) const
{
    Work work;
    work.opcode = RNIC_WORK_RECEIVE;
    work.cookie = cookie;
    work.segments = {in_b(0, length)};
    return work;
}

Work Two::send(std::uint32_t length, std::uint32_t cookie) const
{
    Work work;
    work.cookie = cookie;
    work.segments = {in_a(0, length)};
    return work;
}

Work Two::write(std::uint32_t length, std::uint32_t to_offset, std::uint32_t cookie) const
{
    Work work = send(length, cookie);
    work.opcode = RNIC_WORK_WRITE;
    work.remote_address = mem_b + to_offset;
    work.remote_stag = tag_b;
    return work;
}

Work Two::read(std::uint32_t length, std::uint32_t from_offset, std::uint32_t cookie) const
{
    Work work = write(length, from_offset, cookie);
    work.opcode = RNIC_WORK_READ;
    return work;
}

void Two::post_a(const Work &work)
{
    a.post(pair->qp_a, work);
}

void Two::post_b(const Work &work)
{
    b.post(pair->qp_b, work);
}

Completion Two::next(Driver &driver, std::uint32_t cq)
{
    Completion got;
    for (unsigned i = 0; i < 100; ++i) {
        host.run();
        if (driver.poll(cq, &got)) {
            return got;
        }
        host.run_for(1000000);
    }
    FAIL("no completion within a tenth of a second of the card's time");
    return got;
}

Completion Two::next_a()
{
    return next(a, pair->cq_a);
}

Completion Two::next_b()
{
    return next(b, pair->cq_b);
}

bool Two::quiet_a()
{
    Completion got;
    host.run_for(10000000);
    return !a.poll(pair->cq_a, &got);
}

bool Two::quiet_b()
{
    Completion got;
    host.run_for(10000000);
    return !b.poll(pair->cq_b, &got);
}

Event Two::event_of(Driver &driver)
{
    Event event;
    driver.event(&event);
    return event;
}

bool Two::same(std::uint32_t offset_a, std::uint32_t offset_b, std::uint32_t bytes)
{
    return std::memcmp(a.at(mem_a + offset_a), b.at(mem_b + offset_b), bytes) == 0;
}

unsigned Two::state_of(Driver &driver, std::uint32_t qp)
{
    return driver.simple(RNIC_COMMAND_QUERY_QP, qp).info;
}

void check_error(Two &two, Driver &driver, std::uint32_t qp, std::uint32_t cq, unsigned code)
{
    two.host.run_for(10000000);
    const std::vector<Completion> rest = driver.drain(cq);
    REQUIRE(rest.size() == 1);
    CHECK(rest[0].opcode == RNIC_WORK_DRAINED);
    CHECK(rest[0].qp == qp);
    const Completion answer = driver.simple(RNIC_COMMAND_QUERY_QP, qp);
    CHECK(answer.info == RNIC_QP_STATE_ERROR);
    CHECK(answer.length == code);
    const Event event = Two::event_of(driver);
    CHECK(event.kind == RNIC_EVENT_QP_ERROR);
    CHECK(event.object == qp);
    CHECK(event.code == code);
}

} // namespace card
