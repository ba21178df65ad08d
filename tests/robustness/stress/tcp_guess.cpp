// SPDX-License-Identifier: MIT
//
// A connected peer that guesses handles, bounds and rights of memory, for RDMA Writes and Reads.
// The first wrong guess ends a reliable connection, with what was sent behind it; on an unreliable
// one it is dropped. Never is a byte written or given away. test_regions.cpp has the million
// look-ups.
#include "stress.hpp"

#include "census.hpp"
#include "tcp_prey.hpp"

using namespace stress;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kUsual = 100000;
#else
constexpr unsigned kUsual = 1000000;
#endif

/** Where no peer may write (or read) that many bytes. */
std::vector<RemoteSpan> wrong_places(const Target &target, bool write, std::uint32_t bytes, Random &random)
{
    const RemoteSpan right = target.open.remote();
    std::vector<RemoteSpan> wrong;
    for (unsigned bit = 0; bit < 32; ++bit) {
        wrong.push_back({right.address, right.handle ^ 1u << bit});
    }
    for (unsigned i = 0; i < 100; ++i) {
        wrong.push_back({right.address, static_cast<VIP_MEM_HANDLE>(random())});
        wrong.push_back({random(), right.handle});
    }
    const VIP_UINT64 end = right.address + kPage;
    const std::vector<VIP_UINT64> outside = {
        0,   ~VIP_UINT64{0}, VIP_UINT64{0} - bytes, right.address - 1, right.address - bytes,
        end, end - bytes + 1};
    for (const VIP_UINT64 address : outside) {
        wrong.push_back({address, right.handle});
    }
    for (const Prey *prey :
         {write ? &target.read_only : &target.write_only, &target.closed, &target.of_stranger}) {
        wrong.push_back(prey->remote());
    }
    return wrong;
}

/** The operation of the last FPDU of a stream without CRC. */
std::uint8_t last_op(const Bytes &stream)
{
    vipl_ddp ddp{};
    for (size_t at = 0; at < stream.size();) {
        EXPECT(stream.size() - at > 2);
        const size_t ulpdu = vipl_get16(&stream[at]);
        EXPECT(at + vipl_mpa_fpdu_bytes(ulpdu) <= stream.size());
        EXPECT(vipl_ddp_read(&stream[at + 2], ulpdu, &ddp) == VIPL_DDP_OK);
        at += vipl_mpa_fpdu_bytes(ulpdu);
    }
    return ddp.op;
}

/** A guess ends the connection, and what comes behind it is not done either. */
void guess_once(Target &target, VIP_RELIABILITY_LEVEL level, const Bytes &guess)
{
    Claim claim;
    claim.level = level;
    const Vi vi(target.nic, target.attributes(level));
    const Fd fd = accept_raw(target.nic, target.name, vi, claim);
    Bytes stream = guess;
    const Bytes behind = write_frame(target.open.remote(), Bytes(64, 0xEE));
    stream.insert(stream.end(), behind.begin(), behind.end());
    put_out(fd, stream);
    shutdown(fd.get(), SHUT_WR);
    const Bytes answer = take_all(fd);
    EXPECT_EQ(VIPL_RDMAP_TERMINATE, last_op(answer));
    vi.await(VIP_STATE_ERROR);
    for (Prey *prey : target.all) {
        EXPECT(prey->untouched());
    }
    REQUIRE_VIP(VipDisconnect(vi));
}

void await_byte(const Span &where, VIP_UINT8 value)
{
    const unsigned long long end = now_ms() + patience();
    while (where.poll_last() != value && now_ms() < end) {
        give_way();
    }
    EXPECT_EQ(value, where.poll_last());
}

} // namespace

TEST_CASE("the first wrong guess of memory ends a reliable connection", "[guess]")
{
    constexpr std::uint32_t kBytes = 64;
    Target target;
    Random random(seed());
    unsigned writes = 0, reads = 0;
    for (const RemoteSpan &where : wrong_places(target, true, kBytes, random)) {
        const auto level = writes % 2 == 0 ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_RELIABLE_RECEPTION;
        guess_once(target, level, write_frame(where, random_bytes(random, kBytes)));
        ++writes;
    }
    for (const RemoteSpan &where : wrong_places(target, false, kBytes, random)) {
        guess_once(target, VIP_SERVICE_RELIABLE_DELIVERY, read_frame(where, kBytes, 1));
        ++reads;
    }
    for (const std::uint32_t bytes : {kPage + 1, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        guess_once(target, VIP_SERVICE_RELIABLE_DELIVERY, read_frame(target.open.remote(), bytes, 1));
        ++reads;
    }
    target.reports.expect(VIP_ERROR_RDMAW_PROT, writes);
    target.reports.expect(VIP_ERROR_RDMAR_PROT, reads);
}

TEST_CASE("a million guesses hit nothing on an unreliable connection, which lives", "[guess]")
{
    constexpr unsigned kBatch = 1000;
    const unsigned guesses = setting("VIPL_STRESS_GUESSES", kUsual);
    Target target;
    Claim claim;
    claim.level = VIP_SERVICE_UNRELIABLE;
    Random random(seed());
    const Vi vi(target.nic, target.attributes(VIP_SERVICE_UNRELIABLE));
    const Fd fd = accept_raw(target.nic, target.name, vi, claim);
    const RemoteSpan right = target.open.remote();
    const long resident = resident_kib();
    for (unsigned i = 0; i < guesses / kBatch; ++i) {
        Bytes stream;
        for (unsigned k = 0; k < kBatch; ++k) {
            auto handle = static_cast<VIP_MEM_HANDLE>(random());
            handle += handle == right.handle ? 1 : 0;
            const Bytes guess = write_frame({right.address, handle}, Bytes(8, 0xEE));
            stream.insert(stream.end(), guess.begin(), guess.end());
        }
        REQUIRE(put_out(fd, stream));
        target.reports.expect(VIP_ERROR_RDMAW_PROT,
                              (i + 1) * kBatch); // of more at a time some would not be reported
    }
    std::cout << "memory grew by " << resident_kib() - resident << " KiB" << std::endl;
    for (Prey *prey : target.all) {
        REQUIRE(prey->untouched());
    }
    put_out(fd, write_frame(right, Bytes(64, 0xEE))); // this one may
    await_byte(target.open.window().part(0, 64), 0xEE);
    REQUIRE(target.open.window().part(0, 64).all(0xEE));
    REQUIRE(vi.state() == VIP_STATE_CONNECTED);
    REQUIRE_VIP(VipDisconnect(vi));
}

TEST_CASE("more RDMA Reads at a time than were agreed end the connection", "[guess]")
{
    constexpr std::uint32_t kBytes = 1 << 20;
    Target target;
    Memory memory(target.nic, kBytes, rdma_memory());
    const RemoteSpan all = {reinterpret_cast<uintptr_t>(memory.data()), memory.handle()};
    const Vi vi(target.nic);
    const Fd fd = accept_raw(target.nic, target.name, vi);
    Bytes stream;
    for (std::uint32_t msn = 1; msn <= 400; ++msn) { // far more than sockets take
        const Bytes read = read_frame(all, kBytes, msn);
        stream.insert(stream.end(), read.begin(), read.end());
    }
    put_out(fd, stream); // and the responses are not received
    vi.await(VIP_STATE_ERROR);
    target.reports.expect(VIP_ERROR_RDMA_TRANSPORT, 1);
    REQUIRE_VIP(VipDisconnect(vi));
}
