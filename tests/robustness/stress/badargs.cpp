// SPDX-License-Identifier: MIT
//
// Bad arguments: every public function with each argument NULL, stale, foreign, of another kind,
// misaligned, huge and random, on idle, connected and broken VIs. One spoiled argument must give an
// error code and change nothing; then thousands of calls with random arguments must not crash.
// VIPL_STRESS_SEED repeats a run; VIPL_STRESS_WORLDS is how often what the calls may name is made
// anew.
#include "stress.hpp"

#include <algorithm>

#include "badargs_world.hpp"

using namespace stress;

namespace {

/** One way to spoil a bag, and what may come of it. */
struct Spoiler {
    std::string what;
    std::function<void(Arguments &)> spoil;
    std::vector<VIP_RETURN> allowed = {VIP_INVALID_PARAMETER};
};

using Handles = std::vector<std::pair<std::string, VIP_PVOID>>;

/** Values that are no handle of the kind whose good one is given. */
Handles bad_handles(World &world, VIP_PVOID good, bool null_is_bad)
{
    Random random(seed());
    const auto bits = reinterpret_cast<std::uintptr_t>(good);
    Handles all = {{"all ones", reinterpret_cast<VIP_PVOID>(~std::uintptr_t{0})},
                   {"misaligned", reinterpret_cast<VIP_PVOID>(bits + 1)},
                   {"one", reinterpret_cast<VIP_PVOID>(std::uintptr_t{1})},
                   {"a pointer", &world},
                   {"top bit changed", reinterpret_cast<VIP_PVOID>(bits ^ (~(~std::uintptr_t{0} >> 1)))}};
    if (null_is_bad) {
        all.emplace_back("NULL", nullptr);
    }
    for (const VIP_PVOID stale : world.stale) {
        all.emplace_back("stale", stale);
    }
    const VIP_PVOID kinds[] = {world.nic, world.idle, world.cq, world.ptag, world.conn};
    for (const VIP_PVOID kind : kinds) {
        const bool also_vi = kind == world.idle && (good == world.connected || good == world.broken);
        if (kind != good && !also_vi) {
            all.emplace_back("of another kind", kind);
        }
    }
    for (int i = 0; i < 8; ++i) {
        all.emplace_back("random", reinterpret_cast<VIP_PVOID>(static_cast<std::uintptr_t>(random())));
    }
    return all;
}

template <class Member>
void add_handles(std::vector<Spoiler> &to, const std::string &name, Member member, const Handles &values,
                 std::vector<VIP_RETURN> allowed = {VIP_INVALID_PARAMETER})
{
    for (const auto &[what, value] : values) {
        to.push_back({name + ' ' + what, [member, bad = value](Arguments &a) { a.*member = bad; }, allowed});
    }
}

void add_addresses(std::vector<Spoiler> &to, const std::string &name, VIP_NET_ADDRESS *Arguments::*member)
{
    to.push_back({name + " NULL", [member](Arguments &a) { a.*member = nullptr; }});
    for (const auto &[host, disc] : {std::pair{65535, 4}, {6, 65535}, {17, 4}, {6, 65}, {65535, 65535}}) {
        to.push_back({name + " with lengths " + std::to_string(host) + ", " + std::to_string(disc),
                      [member, host_length = host, length = disc](Arguments &a) {
                          (a.*member)->HostAddressLen = static_cast<VIP_UINT16>(host_length);
                          (a.*member)->DiscriminatorLen = static_cast<VIP_UINT16>(length);
                      },
                      {VIP_INVALID_PARAMETER, VIP_INVALID_STATE, VIP_ERROR_NAMESERVICE}});
    }
}

void add_memory(std::vector<Spoiler> &to, World &world, unsigned looks_at)
{
    if ((looks_at & kMemHandle) != 0) {
        for (const VIP_MEM_HANDLE handle :
             {VIP_MEM_HANDLE{0}, ~VIP_MEM_HANDLE{0}, world.stale_mem, world.foreign_memory.handle(),
              world.memory.handle() + 1, world.memory.handle() ^ 0x80000000u}) {
            to.push_back({"memory handle", [handle](Arguments &a) { a.mem = handle; }});
        }
    }
    if ((looks_at & kMemAddress) != 0) {
        to.push_back({"address NULL", [](Arguments &a) { a.address = nullptr; }});
        to.push_back({"address past the end",
                      [](Arguments &a) { a.address = reinterpret_cast<VIP_PVOID>(~std::uintptr_t{0} - 3); }});
    }
    if ((looks_at & kLength) != 0) {
        const std::vector<VIP_RETURN> refused = {VIP_INVALID_PARAMETER, VIP_ERROR_RESOURCE};
        to.push_back({"length 0", [](Arguments &a) { a.length = 0; }});
        to.push_back({"length huge", [](Arguments &a) { a.length = ~VIP_ULONG{0}; }, refused});
        to.push_back({"length huge", [](Arguments &a) { a.length = ~VIP_ULONG{0} / 2 + 1; }, refused});
    }
    if ((looks_at & kDescriptor) != 0) {
        to.push_back({"descriptor NULL", [](Arguments &a) { a.descriptor = nullptr; }});
        to.push_back({"descriptor unregistered",
                      [](Arguments &a) { a.descriptor = reinterpret_cast<VIP_DESCRIPTOR *>(64 * 1024); }});
        to.push_back({"descriptor at the end of memory", [](Arguments &a) {
                          a.descriptor = reinterpret_cast<VIP_DESCRIPTOR *>(~std::uintptr_t{63});
                      }});
        to.push_back({"descriptor misaligned", [](Arguments &a) {
                          a.descriptor = reinterpret_cast<VIP_DESCRIPTOR *>(
                              reinterpret_cast<std::uintptr_t>(a.descriptor) + 1);
                      }});
    }
}

void lose_out_pointers(Arguments &a)
{
    a.out_handle = nullptr;
    a.out_mem = nullptr;
    a.out_descriptor = nullptr;
    a.out_boolean = nullptr;
    a.out_nic = nullptr;
    a.out_mem_attributes = nullptr;
    a.out_vi_attributes = nullptr;
    a.out_state = nullptr;
    a.out_address = nullptr;
    a.out_name = nullptr;
    a.out_name_length = nullptr;
    a.out_list = nullptr;
}

std::vector<Spoiler> spoilers_for(World &world, const Call &call, VIP_VI_HANDLE vi)
{
    std::vector<Spoiler> all;
    const auto looks_at = [&](unsigned bit) { return (call.looks_at & bit) != 0; };
    if (looks_at(kNic)) {
        add_handles(all, "NIC handle", &Arguments::nic, bad_handles(world, world.nic, true));
    }
    if (looks_at(kVi)) {
        add_handles(all, "VI handle", &Arguments::vi, bad_handles(world, vi, true));
    }
    if (looks_at(kCq)) {
        add_handles(all, "CQ handle", &Arguments::cq, bad_handles(world, world.cq, true));
    }
    for (const auto &[bit, member] :
         {std::pair{kSendCq, &Arguments::send_cq}, {kRecvCq, &Arguments::recv_cq}}) {
        if (looks_at(bit)) {
            Handles bad = bad_handles(world, world.cq, false);
            bad.emplace_back("foreign", world.foreign_cq);
            add_handles(all, "CQ handle", member, bad);
        }
    }
    if (looks_at(kPtag)) {
        Handles bad = bad_handles(world, world.ptag, true);
        bad.emplace_back("foreign", world.foreign_ptag);
        add_handles(all, "tag", &Arguments::ptag, bad, {VIP_INVALID_PARAMETER, VIP_INVALID_PTAG});
    }
    if (looks_at(kConn)) {
        add_handles(all, "connection handle", &Arguments::conn, bad_handles(world, world.conn, true));
    }
    if (looks_at(kHandler)) {
        all.push_back({"handler NULL", [](Arguments &a) {
                           a.vi_handler = nullptr;
                           a.cq_handler = nullptr;
                       }});
    }
    if (looks_at(kIn)) {
        all.push_back({"input NULL", [](Arguments &a) {
                           a.mem_attributes = nullptr;
                           a.vi_attributes = nullptr;
                       }});
    }
    if (looks_at(kName)) {
        all.push_back({"name unknown",
                       [](Arguments &a) { std::strcpy(a.name, "no such thing"); },
                       {VIP_ERROR_RESOURCE, VIP_ERROR_NAMESERVICE}});
        all.push_back({"name long",
                       [](Arguments &a) { std::memset(a.name, 'x', 1999); },
                       {VIP_ERROR_RESOURCE, VIP_ERROR_NAMESERVICE}});
    }
    if (looks_at(kLocal)) {
        add_addresses(all, "local address", &Arguments::local);
    }
    if (looks_at(kRemote)) {
        add_addresses(all, "remote address", &Arguments::remote);
    }
    if (looks_at(kOut)) {
        all.push_back({"output pointers NULL", lose_out_pointers});
    }
    add_memory(all, world, call.looks_at);
    return all;
}

void try_all(World &world, VIP_VI_HANDLE vi, VIP_VI_STATE state)
{
    unsigned tried = 0;
    for (const Call &call : all_calls()) {
        for (const Spoiler &spoiler : spoilers_for(world, call, vi)) {
            world.reset_inputs();
            Arguments arguments = world.good;
            arguments.vi = vi;
            spoiler.spoil(arguments);
            const VIP_RETURN rc = call.run(arguments);
            INFO(call.name << " with " << spoiler.what << " returned " << return_name(rc));
            REQUIRE(std::count(spoiler.allowed.begin(), spoiler.allowed.end(), rc) == 1);
            VIP_VI_STATE now{};
            REQUIRE_VIP(VipQueryVi(vi, &now, nullptr, nullptr, nullptr));
            REQUIRE(now == state);
            ++tried;
        }
    }
    std::cout << tried << " calls with one bad argument" << std::endl;
}

} // namespace

TEST_CASE("one bad argument gives an error code and changes nothing on an idle VI", "[badargs]")
{
    World world;
    try_all(world, world.idle, VIP_STATE_IDLE);
}

TEST_CASE("one bad argument gives an error code and changes nothing on a connected VI", "[badargs]")
{
    World world;
    try_all(world, world.connected, VIP_STATE_CONNECTED);
}

TEST_CASE("one bad argument gives an error code and changes nothing on a broken VI", "[badargs]")
{
    World world;
    try_all(world, world.broken, VIP_STATE_ERROR);
}

namespace {

template <class T>
T pick(Random &random, const std::vector<T> &from)
{
    return from[below(random, from.size())];
}

VIP_PVOID any_handle(World &world, Random &random, VIP_PVOID good)
{
    if (below(random, 3) != 0) {
        return good;
    }
    return pick<VIP_PVOID>(random, {nullptr, world.nic, world.foreign_nic, world.idle, world.connected,
                                    world.connected_peer, world.broken, world.foreign_vi, world.cq,
                                    world.foreign_cq, world.ptag, world.foreign_ptag, world.conn,
                                    world.stale[0], world.stale[1], world.stale[2], &world,
                                    reinterpret_cast<VIP_PVOID>(static_cast<std::uintptr_t>(random()))});
}

/** A descriptor somewhere in the registered memory, with contents that are often nearly right. */
VIP_DESCRIPTOR *any_descriptor(World &world, Random &random)
{
    VIP_UINT8 *base = world.memory.data();
    auto *d = reinterpret_cast<VIP_DESCRIPTOR *>(base + below(random, 1024) * 64);
    const auto word = [&] { return static_cast<VIP_UINT32>(random()); };
    d->CS.SegCount = static_cast<VIP_UINT16>(below(random, 8) == 0 ? word() : below(random, 3));
    d->CS.Control = static_cast<VIP_UINT16>(below(random, 8) == 0 ? word() : below(random, 16));
    d->CS.Length = below(random, 4) == 0 ? word() : 0;
    d->CS.Status = word();
    for (VIP_DESCRIPTOR_SEGMENT &segment : d->DS) {
        segment.Local.Data.AddressBits =
            below(random, 8) == 0 ? random() : reinterpret_cast<std::uintptr_t>(base + below(random, 300000));
        segment.Local.Handle = below(random, 8) == 0 ? word() : world.memory.handle();
        segment.Local.Length = below(random, 8) == 0 ? word() : word() % 3000;
    }
    const std::uint64_t odd = below(random, 8) == 0 ? below(random, 64) & ~7u : 0;
    return reinterpret_cast<VIP_DESCRIPTOR *>(reinterpret_cast<VIP_UINT8 *>(d) + odd);
}

Arguments any_arguments(World &world, Random &random)
{
    world.reset_inputs();
    Arguments a = world.good;
    a.nic = any_handle(world, random, a.nic);
    a.vi = any_handle(world, random,
                      pick<VIP_PVOID>(random, {world.idle, world.connected, world.connected_peer,
                                               world.broken, world.broken_peer}));
    a.cq = any_handle(world, random, a.cq);
    a.send_cq = any_handle(world, random, a.send_cq);
    a.recv_cq = any_handle(world, random, a.recv_cq);
    a.ptag = any_handle(world, random, a.ptag);
    a.conn = any_handle(world, random, a.conn);
    a.mem =
        pick<VIP_MEM_HANDLE>(random, {a.mem, a.mem, a.mem, a.mem, a.mem, a.mem, 0, ~0u, world.stale_mem,
                                      world.foreign_memory.handle(), static_cast<VIP_MEM_HANDLE>(random())});
    a.length = pick<VIP_ULONG>(random, {1, 64, 0, ~VIP_ULONG{0}, static_cast<VIP_ULONG>(random())});
    a.timeout = below(random, 2);
    a.descriptor = any_descriptor(world, random);
    world.mem_attributes.Ptag = any_handle(world, random, nullptr);
    world.attributes_in = {static_cast<VIP_RELIABILITY_LEVEL>(below(random, 9)),
                           below(random, 2) == 0 ? kTransferSize : static_cast<VIP_ULONG>(random()),
                           below(random, 8) == 0 ? &world : nullptr,
                           any_handle(world, random, nullptr),
                           static_cast<VIP_BOOLEAN>(random() & 3),
                           static_cast<VIP_BOOLEAN>(random() & 3)};
    for (RoomyAddress *address : {&world.local_address, &world.remote_address, &world.out_address}) {
        if (below(random, 4) == 0) {
            address->set(static_cast<VIP_UINT16>(random()), static_cast<VIP_UINT16>(random()));
        } else if (below(random, 2) == 0) {
            address->set(6, static_cast<VIP_UINT16>(below(random, 66)));
        }
    }
    world.out_name_length = below(random, sizeof world.out_name);
    if (below(random, 8) == 0) {
        lose_out_pointers(a);
    }
    return a;
}

} // namespace

TEST_CASE("calls with random arguments never crash", "[badargs]")
{
    Random random(seed());
    std::uint64_t counts[VIP_INTERRUPTED + 1] = {};
    const unsigned rounds = times("VIPL_STRESS_WORLDS", 100);
    for (unsigned round = 0; round < rounds; ++round) {
        World world;
        for (unsigned i = 0; i < 1000; ++i) {
            const Call &call = pick(random, all_calls());
            const Arguments arguments = any_arguments(world, random);
            const bool ends = std::strcmp(call.name, "VipCloseNic") == 0;
            const bool cuts = std::strcmp(call.name, "VipDisconnect") == 0;
            if ((ends && i < 990) || (cuts && below(random, 20) != 0)) {
                continue; // most calls are to find what they name
            }
            const VIP_RETURN rc = call.run(arguments);
            REQUIRE(rc >= VIP_SUCCESS);
            REQUIRE(rc <= VIP_INTERRUPTED);
            counts[rc]++;
        }
    }
    for (int rc = VIP_SUCCESS; rc <= VIP_INTERRUPTED; ++rc) {
        std::cout << return_name(static_cast<VIP_RETURN>(rc)) << ' ' << counts[rc] << '\n';
    }
}
