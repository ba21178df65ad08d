// SPDX-License-Identifier: MIT
//
// One work queue: works come back once, in posting order, however they finish; it grows while
// entries wait in a completion queue; a flush completes what is left; outcomes are written to the
// descriptor once, and nothing else of it is touched.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <vector>

#include "internal.hpp"
#include "support/objects.hpp"
#include "support/os_hooks.hpp"

using namespace unit;

namespace {

/** A queue, locked, with descriptors; and a completion queue if wanted. */
class Bench {
public:
    explicit Bench(bool with_cq = false, std::uint32_t limit = 1024, bool is_recv = false) : descriptors(2048)
    {
        vipl_cq_make(&cq);
        cq.nic = nic_.get();
        vipl_queue_make(&q, nullptr, is_recv);
        vipl_queue_open(&q, with_cq ? &cq : nullptr, limit);
        vipl_biased_lock(&q.lock);
    }
    ~Bench()
    {
        vipl_queue_close_locked(&q);
        vipl_biased_unlock(&q.lock);
    }

    VIP_RETURN post(unsigned i) { return vipl_queue_post_locked(&q, &descriptors[i], 2); }
    void finish(unsigned i, std::uint32_t status = 0)
    {
        vipl_queue_finish_locked(&q, vipl_queue_at(&q, i), status, 1000 + i);
    }
    /** Which descriptor comes back; -1: none. */
    int reap(VIP_RETURN expected = VIP_SUCCESS)
    {
        VIP_DESCRIPTOR *out = descriptors.data();
        const VIP_RETURN rc = vipl_queue_reap_locked(&q, &out);
        REQUIRE(rc == (out == nullptr ? VIP_NOT_DONE : expected));
        return out == nullptr ? -1 : static_cast<int>(out - descriptors.data());
    }
    unsigned entries() const
    {
        unsigned n = 0;
        for (const vipl_list *l = cq.entries.next; l != &cq.entries; l = l->next) {
            ++n;
        }
        REQUIRE(n == cq.count);
        return n;
    }

    vipl_queue q{};
    vipl_cq cq{};
    std::vector<VIP_DESCRIPTOR> descriptors;

private:
    struct Delete {
        void operator()(vipl_nic *nic) const { std::free(nic); }
    };
    std::unique_ptr<vipl_nic, Delete> nic_{static_cast<vipl_nic *>(std::calloc(1, sizeof(vipl_nic)))};
};

} // namespace

TEST_CASE("works that finish in order come back in order", "[queue]")
{
    Bench bench;
    REQUIRE(bench.reap() == -1);
    for (unsigned i = 0; i < 100; ++i) {
        REQUIRE(bench.post(i) == VIP_SUCCESS);
    }
    REQUIRE(bench.reap() == -1);
    for (unsigned i = 0; i < 100; ++i) {
        bench.finish(i);
        REQUIRE(bench.reap() == static_cast<int>(i));
        REQUIRE(bench.descriptors[i].CS.Status == VIP_STATUS_DONE);
        REQUIRE(bench.descriptors[i].CS.Length == 1000 + i);
    }
    REQUIRE(bench.reap() == -1);
}

TEST_CASE("works that finish out of order are published in order", "[queue]")
{
    Bench bench;
    for (unsigned i = 0; i < 5; ++i) {
        bench.post(i);
    }
    for (const unsigned i : {4u, 2u, 1u}) {
        bench.finish(i);
        REQUIRE(bench.reap() == -1);
        REQUIRE(bench.descriptors[i].CS.Status == 0); // not yet the program's again
    }
    bench.finish(0);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(bench.reap() == i);
    }
    REQUIRE(bench.reap() == -1);
    bench.finish(3);
    REQUIRE(bench.reap() == 3);
    REQUIRE(bench.reap() == 4);
}

TEST_CASE("a work that is finished before it is executed counts as executed when it is complete", "[queue]")
{
    const bool fails = GENERATE(false, true); // the short way, and the other one
    Bench bench;
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(bench.post(i) == VIP_SUCCESS);
    }
    bench.finish(0, fails ? VIP_STATUS_FORMAT_ERROR : 0);
    CHECK(bench.q.completed == 1);
    CHECK(bench.q.executed == 1);
    bench.finish(2);
    CHECK(bench.q.executed == 1); // the one before it is still to be executed
    bench.finish(1, fails ? VIP_STATUS_FORMAT_ERROR : 0);
    CHECK(bench.q.completed == 3);
    CHECK(bench.q.executed == 3);
    bench.q.executed++; // a backend has taken it
    bench.finish(3);
    CHECK(bench.q.completed == 4);
    CHECK(bench.q.executed == 4);
}

TEST_CASE("any order of posting, finishing and reaping keeps the order", "[queue]")
{
    Random random(3);
    Bench bench(true);
    std::vector<unsigned> pending;
    unsigned posted = 0, reaped = 0, completed_entries = 0;
    while (reaped < 20000) {
        switch (below(random, 3)) {
        case 0:
            if (posted - reaped < 1000) {
                REQUIRE(bench.post(posted % 2048) == VIP_SUCCESS);
                pending.push_back(posted++);
            }
            break;
        case 1:
            if (!pending.empty()) {
                const size_t which = below(random, pending.size());
                bench.finish(pending[which]);
                pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(which));
            }
            break;
        default:
            if (const int seen = bench.reap(); seen != -1) {
                REQUIRE(static_cast<unsigned>(seen) == reaped % 2048);
                ++reaped;
            }
        }
        completed_entries = bench.q.completed - bench.q.reaped;
        if (reaped % 64 == 0) {
            REQUIRE(bench.entries() == completed_entries);
        }
    }
}

TEST_CASE("a queue that grows keeps its works and their completion queue entries", "[queue]")
{
    Bench bench(true);
    for (unsigned i = 0; i < 8; ++i) {
        bench.post(i);
        bench.finish(i);
    }
    REQUIRE(bench.reap() == 0); // indices do not start at 0 when it grows
    for (unsigned i = 8; i < 600; ++i) {
        REQUIRE(bench.post(i) == VIP_SUCCESS);
        bench.finish(i);
        REQUIRE(bench.entries() == i);
    }
    unsigned at = 1;
    for (vipl_list *l; (l = vipl_list_take(&bench.cq.entries)) != nullptr; ++at) {
        const auto *work = VIPL_CONTAINER(l, vipl_work, cq_link);
        REQUIRE(work->descriptor == &bench.descriptors[at]);
        REQUIRE(work->queue == &bench.q);
        --bench.cq.count;
    }
    REQUIRE(at == 600);
    REQUIRE(bench.reap() == 1);
}

TEST_CASE("a full queue refuses, and takes again after a reap", "[queue]")
{
    Bench bench(false, 5);
    for (unsigned i = 0; i < 5; ++i) {
        REQUIRE(bench.post(i) == VIP_SUCCESS);
    }
    REQUIRE(bench.post(5) == VIP_ERROR_RESOURCE);
    bench.finish(0);
    REQUIRE(bench.post(5) == VIP_ERROR_RESOURCE); // complete, but not reaped
    REQUIRE(bench.reap() == 0);
    REQUIRE(bench.post(5) == VIP_SUCCESS);
}

TEST_CASE("a queue that cannot grow refuses, and loses nothing", "[queue]")
{
    Bench bench;
    vipl_alloc_fail_after(1);
    REQUIRE(bench.post(0) == VIP_ERROR_RESOURCE);
    vipl_alloc_fail_after(-1);
    for (unsigned i = 0; i < 8; ++i) {
        REQUIRE(bench.post(i) == VIP_SUCCESS);
    }
    vipl_alloc_fail_after(1);
    REQUIRE(bench.post(8) == VIP_ERROR_RESOURCE);
    vipl_alloc_fail_after(-1);
    REQUIRE(bench.post(8) == VIP_SUCCESS);
    vipl_queue_flush_locked(&bench.q);
    for (int i = 0; i < 9; ++i) {
        REQUIRE(bench.reap(VIP_DESCRIPTOR_ERROR) == i);
    }
}

TEST_CASE("a flush completes what is unfinished, after what was finished before it", "[queue]")
{
    Bench bench(false, 1024, true);
    for (unsigned i = 0; i < 4; ++i) {
        bench.post(i);
    }
    bench.finish(2, VIP_STATUS_OP_RECEIVE);
    vipl_queue_flush_locked(&bench.q);
    const std::uint32_t flushed = VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;
    REQUIRE(bench.reap(VIP_DESCRIPTOR_ERROR) == 0);
    REQUIRE(bench.reap(VIP_DESCRIPTOR_ERROR) == 1);
    REQUIRE(bench.reap() == 2);
    REQUIRE(bench.reap(VIP_DESCRIPTOR_ERROR) == 3);
    REQUIRE(bench.descriptors[0].CS.Status == flushed);
    REQUIRE(bench.descriptors[0].CS.Length == 0);
    REQUIRE(bench.descriptors[2].CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE));
    REQUIRE(bench.q.works_failed == 3);
    REQUIRE(bench.q.done[VIP_CONTROL_OP_SENDRECV].works == 1);
}

TEST_CASE("only Status and Length of a descriptor are written, and ImmediateData that came", "[queue]")
{
    Bench bench;
    for (unsigned i = 0; i < 2; ++i) {
        std::memset(&bench.descriptors[i], 0xA5, sizeof(VIP_DESCRIPTOR));
        bench.post(i);
    }
    vipl_queue_at(&bench.q, 1)->immediate = 0x12345678;
    bench.finish(0);
    bench.finish(1, VIP_STATUS_IMMEDIATE);
    for (unsigned i = 0; i < 2; ++i) {
        VIP_DESCRIPTOR expected;
        std::memset(&expected, 0xA5, sizeof expected);
        expected.CS.Length = 1000 + i;
        expected.CS.Status = VIP_STATUS_DONE | (i == 1 ? VIP_STATUS_IMMEDIATE : 0);
        expected.CS.ImmediateData = i == 1 ? 0x12345678 : 0xA5A5A5A5;
        REQUIRE(std::memcmp(&expected, &bench.descriptors[i], sizeof expected) == 0);
    }
}

TEST_CASE("a queue that is closed takes its entries along and touches no descriptor", "[queue]")
{
    Bench bench(true);
    bench.post(0);
    bench.post(1);
    bench.finish(0);
    REQUIRE(bench.entries() == 1);
    vipl_queue_close_locked(&bench.q);
    REQUIRE(bench.entries() == 0);
    REQUIRE(bench.descriptors[1].CS.Status == 0);
    REQUIRE(bench.reap() == -1);
}

TEST_CASE("a post of more segments than few that finds no memory for their list posts nothing", "[queue]")
{
    vipl_test::ConnectedPair pair;
    const auto scattered = [](vipl_test::Memory &memory, unsigned pieces) {
        vipl_test::Work work = memory.work(pieces);
        for (unsigned i = 0; i < pieces; ++i) {
            work.local(memory.bytes(10));
        }
        return work;
    };
    const auto few = scattered(pair.client_memory, VIPL_FEW_SEGMENTS);
    const auto many = scattered(pair.client_memory, VIPL_FEW_SEGMENTS + 1);
    const auto in = scattered(pair.server_memory, 100), again = scattered(pair.server_memory, 100);
    vipl_test::post_recv(pair.server, in); // its queue has a ring and a list from now on
    vipl_test::post_send(pair.client, few);
    REQUIRE(vipl_test::received(pair.server) == in.desc);
    REQUIRE(vipl_test::sent(pair.client) == few.desc);
    vipl_test::post_recv(pair.server, again);
    vipl_alloc_fail_after(1);
    const VIP_RETURN rc = VipPostSend(pair.client, many.desc, many.handle);
    vipl_alloc_fail_after(-1);
    CHECK(rc == VIP_ERROR_RESOURCE);
    VIP_DESCRIPTOR *none = nullptr;
    CHECK(VipSendDone(pair.client, &none) == VIP_NOT_DONE);
    vipl_test::post_send(pair.client, many);
    CHECK(vipl_test::received(pair.server) == again.desc);
    CHECK(vipl_test::sent(pair.client) == many.desc);
    CHECK(again.desc->CS.Length == 10 * (VIPL_FEW_SEGMENTS + 1));
}
