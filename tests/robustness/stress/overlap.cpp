// SPDX-License-Identifier: MIT
//
// One buffer is registered six times: twice the same, in overlapping ranges, with different tags,
// and by two NIC handles. All are used at once, by VIs with a tag and without, for RDMA Writes,
// RDMA Reads, receives and sends. Then one of each couple is deregistered, which changes nothing
// for the others; and an access by it is refused.
#include <memory>
#include <vector>

#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

constexpr VIP_UINT32 kStripe = 10000, kHalf = kStripe / 2, kMargin = 1500;
constexpr unsigned kLanes = 6;
constexpr VIP_UINT32 kBytes = kLanes * kStripe + 2 * kMargin;

/** A registration, and the VI that goes with it. Lanes 0 and 1, 2 and 3, 4 and 5 are couples: each
 * may use the other's. */
struct Lane {
    unsigned nic;         // of the owner's two
    unsigned tag, vi_tag; // 0: none, or the number of a tag
    VIP_UINT32 from, to;
};
constexpr Lane kPlan[kLanes] = {
    {0, 1, 1, 0, kBytes},       {0, 1, 1, 0, kBytes}, // the same twice
    {0, 2, 0, 100, kBytes - 7}, {0, 0, 0, kMargin - 1, kBytes},
    {1, 0, 0, 0, kBytes},       {1, 0, 0, 5, kBytes - 5},
};

unsigned couple(unsigned lane)
{
    return lane ^ 1;
}

/** What the owner tells: where the buffer is, and by which handles. */
struct Map {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handles[kLanes];

    RemoteSpan stripe(unsigned lane, unsigned handle) const
    {
        return {address + kMargin + lane * kStripe, handles[handle]};
    }
};

unsigned item(unsigned round, unsigned lane, unsigned what)
{
    return (round * kLanes + lane) * 4 + what;
}

// --- the owner -----------------------------------------------------------------------------------

class Owner {
public:
    Owner() : buffer_(kBytes + 64)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            VIP_MEM_ATTRIBUTES attributes = rdma_memory(tag(kPlan[i].tag));
            REQUIRE_VIP(VipRegisterMem(nics_[kPlan[i].nic], start() + kPlan[i].from,
                                       kPlan[i].to - kPlan[i].from, &attributes, &map_.handles[i]));
            VIP_VI_ATTRIBUTES of_vi = vi_attributes();
            of_vi.Ptag = tag(kPlan[i].vi_tag);
            vis_.push_back(std::make_unique<Vi>(nics_[kPlan[i].nic], of_vi));
            VIP_MEM_ATTRIBUTES of_descriptors{};
            of_descriptors.Ptag = of_vi.Ptag;
            descriptors_.push_back(std::make_unique<Memory>(nics_[kPlan[i].nic], 4096, of_descriptors));
        }
        map_.address = reinterpret_cast<std::uintptr_t>(start());
        describe(couple);
    }
    ~Owner()
    {
        vis_.clear();
        for (unsigned i = 0; i < kLanes; ++i) {
            end(i);
        }
    }

    const Map &map() const { return map_; }

    void deregister(unsigned lane) { REQUIRE_VIP(end(lane)); }

    void accept_all(const Scene &scene)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            REQUIRE_VIP(accept_on(nics_[kPlan[i].nic], scene.name() + std::to_string(i), *vis_[i]));
        }
    }

    /** The receive goes by the couple's handle, the send by the own one; `choose` says which those
     * are. */
    template <class Choose>
    void describe(const Choose &choose)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            in_[i] = descriptors_[i]->transfer(Span{stripe(i) + kHalf, kHalf, map_.handles[choose(i)]});
            out_[i] = descriptors_[i]->transfer(Span{stripe(i), kStripe, map_.handles[choose(couple(i))]});
        }
    }

    void post_receives()
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            in_[i].desc->CS.Length = kHalf;
            post_recv(*vis_[i], in_[i]);
        }
    }

    /** What was written and sent is there; all of it goes back. */
    void answer(unsigned round)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            EXPECT(received(*vis_[i]) == in_[i].desc);
            EXPECT((Span{stripe(i), kHalf, 0}.holds(item(round, i, 0))));
            EXPECT((Span{stripe(i) + kHalf, kHalf, 0}.holds(item(round, i, 1))));
            post_send(*vis_[i], out_[i]);
        }
        for (unsigned i = 0; i < kLanes; ++i) {
            EXPECT(sent(*vis_[i]) == out_[i].desc);
        }
    }

    bool holds(unsigned lane, unsigned round) const
    {
        return Span{stripe(lane), kHalf, 0}.holds(item(round, lane, 0));
    }

private:
    VIP_RETURN end(unsigned lane)
    {
        return VipDeregisterMem(nics_[kPlan[lane].nic], start() + kPlan[lane].from, map_.handles[lane]);
    }
    VIP_UINT8 *start() const { return const_cast<VIP_UINT8 *>(buffer_.data()) + 3; } // of no alignment
    VIP_UINT8 *stripe(unsigned lane) const { return start() + kMargin + lane * kStripe; }
    VIP_PROTECTION_HANDLE tag(unsigned number) const
    {
        return number == 0 ? nullptr : static_cast<VIP_PROTECTION_HANDLE>(tags_[number - 1]);
    }

    std::vector<VIP_UINT8> buffer_;
    Nic nics_[2];
    Ptag tags_[2] = {Ptag(nics_[0]), Ptag(nics_[0])};
    std::vector<std::unique_ptr<Memory>> descriptors_;
    std::vector<std::unique_ptr<Vi>> vis_;
    Map map_{};
    Work in_[kLanes], out_[kLanes];
};

// --- the peer ------------------------------------------------------------------------------------

class Peer {
public:
    explicit Peer(const Map &map) : map_(map), memory_(nic_, kLanes * 5 * kStripe)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            bytes_[i] = memory_.bytes(kStripe);
            back_[i] = memory_.bytes(kHalf);
            whole_[i] = memory_.bytes(kStripe);
            write_[i] = memory_.work();
            read_[i] = memory_.work();
            send_[i] = memory_.transfer(bytes_[i].part(kHalf, kHalf));
            in_[i] = memory_.transfer(whole_[i]);
            post_recv(vis_[i], in_[i]);
        }
    }

    void request_all(const Scene &scene)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            REQUIRE_VIP(request_to(nic_, scene.name() + std::to_string(i), vis_[i]));
        }
    }

    /** Written by one registration, read back by another. */
    template <class Choose>
    void round(unsigned round, const Choose &choose)
    {
        for (unsigned i = 0; i < kLanes; ++i) {
            bytes_[i].part(0, kHalf).fill(item(round, i, 0));
            bytes_[i].part(kHalf, kHalf).fill(item(round, i, 1));
            write(i, choose(couple(i)));
            rdma(read_[i], VIP_CONTROL_OP_RDMAREAD, map_.stripe(i, choose(i)), back_[i]);
            post_send(vis_[i], read_[i]);
            post_send(vis_[i], send_[i]);
        }
        for (unsigned i = 0; i < kLanes; ++i) {
            EXPECT(sent(vis_[i]) == write_[i].desc);
            EXPECT(sent(vis_[i]) == read_[i].desc);
            EXPECT(back_[i].holds(item(round, i, 0)));
            EXPECT(sent(vis_[i]) == send_[i].desc);
            EXPECT(received(vis_[i]) == in_[i].desc);
            EXPECT(whole_[i].part(0, kHalf).holds(item(round, i, 0)));
            EXPECT(whole_[i].part(kHalf, kHalf).holds(item(round, i, 1)));
            in_[i].desc->CS.Length = kStripe;
            post_recv(vis_[i], in_[i]);
        }
    }

    /** A write by a handle that has ended breaks the connection. */
    void write_by_ended(unsigned lane)
    {
        bytes_[lane].fill(1);
        write(lane, lane);
        vis_[lane].await(VIP_STATE_ERROR);
    }

private:
    static void rdma(Work &work, VIP_UINT16 operation, RemoteSpan where, Span bytes)
    {
        std::memset(work.desc, 0, sizeof(VIP_CONTROL_SEGMENT));
        work.op(operation).remote(where).local(bytes);
    }
    void write(unsigned lane, unsigned handle)
    {
        rdma(write_[lane], VIP_CONTROL_OP_RDMAWRITE, map_.stripe(lane, handle), bytes_[lane].part(0, kHalf));
        post_send(vis_[lane], write_[lane]);
    }

    Map map_;
    Nic nic_;
    Memory memory_;
    Span bytes_[kLanes], back_[kLanes], whole_[kLanes];
    Work write_[kLanes], read_[kLanes], send_[kLanes], in_[kLanes];
    Vi vis_[kLanes] = {Vi(nic_), Vi(nic_), Vi(nic_), Vi(nic_), Vi(nic_), Vi(nic_)};
};

unsigned rounds()
{
    return times("VIPL_STRESS_OVERLAPS", 200);
}

unsigned the_odd_one(unsigned lane)
{
    return lane | 1;
}

void peer(const Scene &scene, Line &line)
{
    Peer peer(line.receive<Map>());
    peer.request_all(scene);
    for (unsigned round = 0; round < rounds(); ++round) {
        line.sync();
        peer.round(round, couple);
    }
    line.sync();
    peer.round(rounds(), the_odd_one);
    line.sync();
    peer.write_by_ended(0);
    line.sync();
}

void overlap(Where where)
{
    const Scene scene = make_scene();
    Partner partner(where, peer, scene);
    Owner owner;
    partner.line().send(owner.map());
    owner.accept_all(scene);
    for (unsigned round = 0; round < rounds(); ++round) {
        owner.post_receives();
        partner.line().sync();
        owner.answer(round);
    }
    for (unsigned lane = 0; lane < kLanes; lane += 2) {
        owner.deregister(lane);
    }
    owner.describe(the_odd_one);
    owner.post_receives();
    partner.line().sync();
    owner.answer(rounds());
    partner.line().sync();
    partner.line().sync();
    EXPECT(owner.holds(0, rounds())); // nothing of it has come
    partner.finish();
}

} // namespace

TEST_CASE("registrations of the same memory work at once and end alone, in one process", "[overlap][inproc]")
{
    overlap(Where::thread);
}

TEST_CASE("registrations of the same memory work at once and end alone, between processes",
          "[overlap][procs]")
{
    overlap(Where::process);
}
