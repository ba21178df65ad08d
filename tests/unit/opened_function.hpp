// SPDX-License-Identifier: MIT
//
// A function that a test has opened, for the tests of the verbs.
#ifndef VIPL_UNIT_OPENED_FUNCTION_HPP
#define VIPL_UNIT_OPENED_FUNCTION_HPP

#include <catch2/catch.hpp>

#include <cerrno>

#include "fake_function.hpp"

namespace unit {

/** An opened function, with a completion queue of 16 entries and a queue pair. */
struct Opened {
    explicit Opened(bool mapped = true, unsigned max_work = 6, const CardMemory &memory = {}) : fake(mapped)
    {
        fake.registers[RNIC_REG_MAX_WORK] = max_work;
        fake.give(memory);
        fake.answer = [this](const FakeFunction::Command &c) { return obey(c); };
        REQUIRE(vipl_rnic_start(&fake, &rnic) == 0);
        REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
        REQUIRE(vipl_rnic_create_cq(rnic, 4, 5, &cq) == 0);
        const vipl_rnic_qp_attributes attributes = {pd, RNIC_LEVEL_DELIVERY, RNIC_RIGHT_REMOTE_READ};
        REQUIRE(vipl_rnic_create_qp(rnic, cq, &attributes, &qp) == 0);
    }
    ~Opened()
    {
        if (rnic != nullptr) {
            fake.answer = [](const FakeFunction::Command &) { return Answer{}; };
            vipl_rnic_destroy_qp(&qp);
            vipl_rnic_destroy_cq(cq);
            vipl_rnic_close(rnic);
        }
        CHECK(fake.slabs == 0);
    }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;

    /** Numbers for what is made; rings are remembered. */
    Answer obey(const FakeFunction::Command &c)
    {
        switch (fake.u16(c, RNIC_CMD_OPCODE)) {
        case RNIC_COMMAND_CREATE_CQ:
        case RNIC_COMMAND_RESIZE_CQ:
            cq_ring = fake.u64(c, RNIC_CMD_CQ_BASE);
            cq_log2 = fake.u16(c, RNIC_CMD_CQ_LOG2);
            return {RNIC_STATUS_OK, fake.u16(c, RNIC_CMD_OPCODE) == RNIC_COMMAND_CREATE_CQ ? 7 : switch_at};
        case RNIC_COMMAND_CREATE_QP:
            return {RNIC_STATUS_OK, 300};
        case RNIC_COMMAND_REGISTER:
            return {RNIC_STATUS_OK, 0x00010203};
        case RNIC_COMMAND_SET_RING: {
            const unsigned which = fake.u16(c, RNIC_CMD_OBJECT_KIND);
            rings[which] = fake.u64(c, RNIC_CMD_RING_BASE);
            entries[which] = 1u << fake.u16(c, RNIC_CMD_RING_LOG2);
            return refuse_rings ? Answer{RNIC_STATUS_NO_ROOM} : Answer{};
        }
        default:
            return {};
        }
    }

    const std::uint8_t *entry(unsigned which, std::uint32_t index) const
    {
        return FakeFunction::at(rings[which]) + index % entries[which] * std::size_t{RNIC_WORK_BYTES};
    }
    std::uint32_t cookie(unsigned which, std::uint32_t index)
    {
        return rnic_get32(entry(which, index) + RNIC_WQE_COOKIE, fake.big());
    }
    int post(unsigned which, std::uint32_t cookie, unsigned segments = 0)
    {
        std::vector<vipl_rnic_segment> list(segments);
        for (unsigned i = 0; i < segments; ++i) {
            list[i] = {0x1000 + i, 10 + i, 0x77};
        }
        const vipl_rnic_work work = {
            static_cast<std::uint8_t>(which == VIPL_RNIC_RQ ? RNIC_WORK_RECEIVE : RNIC_WORK_SEND),
            0,
            static_cast<std::uint16_t>(segments),
            cookie,
            0,
            0,
            0,
            list.data(),
            nullptr,
            nullptr};
        return which == VIPL_RNIC_RQ ? vipl_rnic_post_rq(&qp, &work) : vipl_rnic_post_sq(&qp, &work);
    }
    /** Posts, with the growth that this needs. */
    void must_post(unsigned which, std::uint32_t cookie, unsigned segments = 0)
    {
        if (post(which, cookie, segments) == EAGAIN) {
            REQUIRE(vipl_rnic_grow_queue(&qp, which) == 0);
            REQUIRE(post(which, cookie, segments) == 0);
        }
    }
    /** The card completes the next entry of the completion queue. */
    void complete(std::uint8_t opcode, std::uint32_t index)
    {
        vipl_rnic_completion c = {300,   9, 8, 7, opcode, RNIC_CQE_FLAG_IMMEDIATE, RNIC_STATUS_REMOTE_RECEIVE,
                                  index, 0};
        fake.complete(cq_ring, cq_log2, completed++, c);
    }
    unsigned poll(unsigned most = 64)
    {
        const unsigned count = vipl_rnic_poll_cq(cq, taken, most);
        for (unsigned i = 0; i < count; ++i) {
            if (taken[i].opcode != RNIC_WORK_DRAINED) {
                REQUIRE(vipl_rnic_retire(&qp, &taken[i]));
            }
        }
        return count;
    }

    FakeFunction fake;
    vipl_rnic *rnic = nullptr;
    vipl_rnic_pd pd = {};
    vipl_rnic_cq *cq = nullptr;
    vipl_rnic_qp qp = {};
    std::uint64_t cq_ring = 0, rings[2] = {};
    unsigned cq_log2 = 0, entries[2] = {};
    std::uint32_t completed = 0, switch_at = 0;
    bool refuse_rings = false;
    vipl_rnic_completion taken[64] = {};
};

} // namespace unit

#endif
