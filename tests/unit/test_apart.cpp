// SPDX-License-Identifier: MIT
//
// The driver's verbs on a card that is in another process and has nothing of this one's: register
// accesses, doorbells, DMA to what was mapped for it, and interrupts are enough for everything; and
// a DMA to anything else is refused, which harms one queue pair.
#include <catch2/catch.hpp>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "apart.hpp"
#include "support/environment.hpp"

extern "C" {
#include "rnic/registers.h"
}

using namespace unit;

namespace {

constexpr std::size_t kBytes = 64 * 1024, kArea = 8 * 1024;

/** A function's queue pair, with memory that was allocated after the card's process had begun. */
struct End {
    explicit End(vipl_rnic *function, unsigned rights = RNIC_RIGHT_REMOTE_READ | RNIC_RIGHT_REMOTE_WRITE)
        : rnic(function), memory(kBytes + 100)
    {
        REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
        REQUIRE(vipl_rnic_create_cq(rnic, 4, 1, &cq) == 0);
        const vipl_rnic_qp_attributes attributes = {pd, RNIC_LEVEL_RECEPTION,
                                                    RNIC_RIGHT_REMOTE_READ | RNIC_RIGHT_REMOTE_WRITE};
        REQUIRE(vipl_rnic_create_qp(rnic, cq, &attributes, &qp) == 0);
        REQUIRE(vipl_rnic_allocate_mr(rnic, &pd, base(), kBytes, rights, &mr) == 0);
    }

    std::uint8_t *base() { return memory.data() + 37; } // of no alignment
    std::uint8_t *area(unsigned i) { return base() + i * kArea; }
    vipl_rnic_segment part(unsigned area_number, std::uint32_t offset, std::uint32_t bytes)
    {
        return {reinterpret_cast<std::uintptr_t>(area(area_number)) + offset, bytes, mr.stag};
    }
    std::uint64_t address(unsigned area_number)
    {
        return reinterpret_cast<std::uintptr_t>(area(area_number));
    }

    void connect_to(const End &peer)
    {
        const vipl_rnic_caps &caps = *vipl_rnic_query(peer.rnic);
        vipl_rnic_qp_connection connection{};
        std::copy(caps.mac, caps.mac + 6, connection.peer.mac);
        connection.peer.function = caps.function;
        connection.peer.qp = peer.qp.number;
        connection.ird = connection.ord = 4;
        connection.max_message = kBytes;
        REQUIRE(vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_CONNECTED, &connection) == 0);
    }

    void post(unsigned queue, const vipl_rnic_work &work)
    {
        const auto post_one = queue == VIPL_RNIC_SQ ? vipl_rnic_post_sq : vipl_rnic_post_rq;
        int error = post_one(&qp, &work);
        if (error == EAGAIN) {
            REQUIRE(vipl_rnic_grow_queue(&qp, queue) == 0);
            error = post_one(&qp, &work);
        }
        REQUIRE(error == 0);
    }

    /** The next completion, in a while. */
    vipl_rnic_completion next()
    {
        vipl_rnic_completion out{};
        const unsigned long long end = vipl_test::now_ms() + vipl_test::patience();
        while (vipl_rnic_poll_cq(cq, &out, 1) == 0) {
            REQUIRE(vipl_test::now_ms() < end);
            vipl_rnic_progress(rnic);
        }
        if (out.opcode == RNIC_WORK_DRAINED) {
            drained = true;
        } else {
            REQUIRE(vipl_rnic_retire(&qp, &out));
        }
        return out;
    }

    void release()
    {
        const int error = vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_ERROR, nullptr);
        CHECK((error == 0 || error == EALREADY)); // it ended with its peer
        while (!drained) {
            next();
        }
        CHECK(vipl_rnic_destroy_qp(&qp) == 0);
        CHECK(vipl_rnic_destroy_cq(cq) == 0);
        CHECK(vipl_rnic_free_mr(rnic, &mr) == 0);
    }

    vipl_rnic *rnic;
    std::vector<std::uint8_t> memory;
    vipl_rnic_pd pd{};
    vipl_rnic_cq *cq = nullptr;
    vipl_rnic_qp qp{};
    vipl_rnic_mr mr{};
    bool drained = false;
};

vipl_rnic *start(Apart &apart, unsigned fn)
{
    vipl_rnic *rnic = nullptr;
    REQUIRE(vipl_rnic_start(apart.function(fn), &rnic) == 0);
    return rnic;
}

void fill(std::uint8_t *bytes, std::size_t count, unsigned seed)
{
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = static_cast<std::uint8_t>((i * 7 + seed * 31) >> (i % 3));
    }
}

/** The card's process, and two functions that are connected. */
struct Two {
    explicit Two(unsigned rights = RNIC_RIGHT_REMOTE_READ | RNIC_RIGHT_REMOTE_WRITE)
        : left_rnic(start(apart, 0)), right_rnic(start(apart, 1)), left(left_rnic), right(right_rnic, rights)
    {
        left.connect_to(right);
        right.connect_to(left);
    }
    ~Two()
    {
        left.release();
        right.release();
        vipl_rnic_close(left_rnic);
        vipl_rnic_close(right_rnic);
        for (const unsigned fn : {0u, 1u}) {
            CHECK(apart.maps(fn).empty()); // nothing stays mapped
        }
    }

    Apart apart;
    vipl_rnic *left_rnic, *right_rnic;
    End left, right;
};

vipl_rnic_work work_of(std::uint8_t opcode, std::uint32_t cookie,
                       const std::vector<vipl_rnic_segment> &segments)
{
    vipl_rnic_work work{};
    work.opcode = opcode;
    work.cookie = cookie;
    work.segments = static_cast<std::uint16_t>(segments.size());
    work.segment = segments.data();
    return work;
}

vipl_rnic_work rdma_of(std::uint8_t opcode, std::uint32_t cookie,
                       const std::vector<vipl_rnic_segment> &segments, End &peer, unsigned area)
{
    vipl_rnic_work work = work_of(opcode, cookie, segments);
    work.remote_stag = peer.mr.stag;
    work.remote_address = peer.address(area);
    return work;
}

void expect_ok(End &end, std::uint32_t cookie)
{
    const vipl_rnic_completion done = end.next();
    CHECK(done.cookie == cookie);
    CHECK(done.status == RNIC_STATUS_OK);
}

/** A write from three pieces, read back into one, and a message from five pieces into three. */
void exchange(End &from, End &to, unsigned seed)
{
    fill(from.area(0), kArea, seed);
    std::fill(from.area(1), from.area(2), std::uint8_t{0});
    std::fill(to.area(3), to.area(4), std::uint8_t{0});
    const std::vector<vipl_rnic_segment> in = {to.part(3, 0, 1000), to.part(3, 1000, 1),
                                               to.part(3, 1001, 4000)};
    const std::vector<vipl_rnic_segment> out = {from.part(0, 0, 1), from.part(0, 1, 2000),
                                                from.part(0, 2001, 7), from.part(0, 2008, 0),
                                                from.part(0, 2008, 2493)};
    const std::vector<vipl_rnic_segment> pieces = {from.part(0, 0, 3000), from.part(0, 3000, 5),
                                                   from.part(0, 3005, 4000)};
    const std::vector<vipl_rnic_segment> back = {from.part(1, 0, 7005)};
    to.post(VIPL_RNIC_RQ, work_of(RNIC_WORK_RECEIVE, 100 + seed, in));
    from.post(VIPL_RNIC_SQ, rdma_of(RNIC_WORK_WRITE, 200 + seed, pieces, to, 2));
    from.post(VIPL_RNIC_SQ, rdma_of(RNIC_WORK_READ, 300 + seed, back, to, 2));
    from.post(VIPL_RNIC_SQ, work_of(RNIC_WORK_SEND, 400 + seed, out));
    expect_ok(from, 200 + seed);
    expect_ok(from, 300 + seed);
    expect_ok(from, 400 + seed);
    expect_ok(to, 100 + seed);
    CHECK(std::equal(from.area(0), from.area(0) + 7005, to.area(2)));
    CHECK(std::equal(from.area(0), from.area(0) + 7005, from.area(1)));
    CHECK(std::equal(from.area(0), from.area(0) + 4501, to.area(3)));
}

} // namespace

TEST_CASE("a driver and a card that share nothing but what was mapped do everything", "[apart]")
{
    Two two;
    for (unsigned i = 0; i < 40; ++i) { // the rings go round, and grow
        exchange(two.left, two.right, i);
        exchange(two.right, two.left, i);
    }
    for (const unsigned fn : {0u, 1u}) {
        CHECK(two.apart.dma(fn).refused == 0);
        CHECK(two.apart.dma(fn).bytes > 40 * (7005 * 2 + 4501));
    }
}

TEST_CASE("what the card may only read it cannot write: it was not mapped so", "[apart]")
{
    Two two(RNIC_RIGHT_REMOTE_READ | RNIC_RIGHT_LOCAL_READ_ONLY);
    const auto found = two.apart.maps(1).find(two.right.mr.iova);
    REQUIRE(found != two.apart.maps(1).end());
    CHECK(found->second.access == RNIC_PCI_READ);
    fill(two.right.area(2), kArea, 9);
    const std::vector<vipl_rnic_segment> back = {two.left.part(1, 0, kArea)};
    two.left.post(VIPL_RNIC_SQ, rdma_of(RNIC_WORK_READ, 1, back, two.right, 2));
    expect_ok(two.left, 1);
    CHECK(std::equal(two.right.area(2), two.right.area(3), two.left.area(1)));
    CHECK(two.apart.dma(1).refused == 0);
}

TEST_CASE("a DMA to what is not mapped is refused, and harms its queue pair alone", "[apart]")
{
    Two two;
    End left(two.left_rnic), right(two.right_rnic); // bystanders
    left.connect_to(right);
    right.connect_to(left);
    exchange(two.left, two.right, 1);
    exchange(left, right, 2);

    REQUIRE(two.apart.maps(0).erase(two.left.mr.iova) == 1); // behind the driver's back
    const std::vector<vipl_rnic_segment> out = {two.left.part(0, 0, 500)};
    std::fill(two.right.area(2), two.right.area(3), std::uint8_t{0x33});
    two.left.post(VIPL_RNIC_SQ, rdma_of(RNIC_WORK_WRITE, 5, out, two.right, 2));
    while (!two.left.drained) {
        two.left.next();
    }
    unsigned state = 0, error = 0;
    REQUIRE(vipl_rnic_query_qp(&two.left.qp, &state, &error) == 0);
    CHECK(state == RNIC_QP_STATE_ERROR);
    CHECK(two.apart.dma(0).refused > 0);
    CHECK(std::count(two.right.area(2), two.right.area(3), std::uint8_t{0x33}) == kArea);
    CHECK_FALSE(vipl_rnic_is_dead(two.left_rnic));

    exchange(left, right, 3);
    exchange(right, left, 4);
    left.release();
    right.release();
}
