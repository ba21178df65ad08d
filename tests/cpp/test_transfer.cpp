// SPDX-License-Identifier: MIT
//
// Messages, RDMA and completion queues by the C++ header.
#include "pair.hpp"

#include <cstring>

using namespace cpp;

namespace {

/** The oldest completion of a queue, which has to be good. */
vipl::completion good(const vipl::completion &done)
{
    REQUIRE(done);
    INFO(done.status_text());
    REQUIRE(done.good());
    return done;
}

} // namespace

TEST_CASE("a message with immediate data arrives in the receive that was posted")
{
    Pair pair;
    CHECK(pair.from.name() == "client");
    vipl::messages &in = pair.messages(2, 100), &out = pair.messages(1, 100);
    for (std::size_t i = 0; i < in.size(); ++i) {
        pair.server.post_receive(vipl::work(in.descriptor(i)).local(in.bytes(i)), in.region().handle());
    }
    std::memcpy(out.bytes(0).data, "hello", 6);
    pair.client.post_send(
        vipl::work(out.descriptor(0)).local(out.region().part(sizeof(VIP_DESCRIPTOR), 6)).immediate(42),
        out.region().handle());
    good(pair.client.wait_send(patience()));
    const vipl::completion done = good(pair.server.wait_receive(patience()));
    CHECK(done.descriptor() == in.descriptor(0));
    CHECK(done.length() == 6);
    CHECK(done.immediate() == 42u);
    CHECK(in.bytes_of(done.descriptor()).data == in.bytes(0).data);
    CHECK(std::memcmp(in.bytes(0).data, "hello", 6) == 0);
    CHECK(done.status_text() == "DONE RECEIVE IMMEDIATE");
}

TEST_CASE("several pieces make one message, and a message without immediate data has none")
{
    Pair pair;
    vipl::messages &in = pair.messages(1, 100), &out = pair.messages(1, 100);
    pair.server.post_receive(vipl::work(in.descriptor(0)).local(in.bytes(0)), in.region().handle());
    std::memcpy(out.bytes(0).data, "abcdefgh", 8);
    const auto base = sizeof(VIP_DESCRIPTOR);
    pair.client.post_send(
        vipl::work(out.descriptor(0)).local(out.region().part(base + 4, 4)).local(out.region().part(base, 2)),
        out.region().handle());
    good(pair.client.wait_send(patience()));
    const vipl::completion done = good(pair.server.wait_receive(patience()));
    CHECK(done.length() == 6);
    CHECK_FALSE(done.immediate().has_value());
    CHECK(std::memcmp(in.bytes(0).data, "efghab", 6) == 0);
}

TEST_CASE("a message that is too long is a completion with an error, not an exception")
{
    Pair pair;
    vipl::messages &in = pair.messages(1, 8), &out = pair.messages(1, 100);
    pair.server.post_receive(vipl::work(in.descriptor(0)).local(in.bytes(0)), in.region().handle());
    pair.client.post_send(vipl::work(out.descriptor(0)).local(out.bytes(0)), out.region().handle());
    const vipl::completion done = pair.server.wait_receive(patience());
    REQUIRE(done);
    CHECK_FALSE(done.good());
    CHECK((done.status() & VIP_STATUS_LENGTH_ERROR) != 0);
}

TEST_CASE("RDMA Write and RDMA Read move bytes to and from what the peer has told of")
{
    vipl::vi_options options;
    options.rdma_write = options.rdma_read = true;
    Pair pair(options);
    std::vector<char> there(64, 'x');
    const vipl::region region(pair.nic, there, vipl::access::rdma);
    vipl::messages &here = pair.messages(1, 64);
    std::memcpy(here.bytes(0).data, "written", 8);
    const auto post = [&](vipl::work work) {
        pair.client.post_send(work.local(here.region().part(sizeof(VIP_DESCRIPTOR), 8)),
                              here.region().handle());
        good(pair.client.wait_send(patience()));
    };
    post(vipl::work(here.descriptor(0)).rdma_write(region.remote().part(16)));
    std::memset(here.bytes(0).data, 0, 8);
    post(vipl::work(here.descriptor(0)).rdma_read(region.remote().part(16)).fence());
    CHECK(std::memcmp(here.bytes(0).data, "written", 8) == 0);
    CHECK(std::memcmp(there.data() + 16, "written", 8) == 0);
    CHECK(there[15] == 'x');
}

TEST_CASE("memory that may not be written from afar is not")
{
    vipl::vi_options options;
    options.rdma_write = true;
    Pair pair(options);
    std::vector<char> there(64, 'x');
    const vipl::region region(pair.nic, there, vipl::access::rdma_read);
    vipl::messages &here = pair.messages(1, 64);
    pair.client.post_send(vipl::work(here.descriptor(0)).rdma_write(region.remote()).local(here.bytes(0)),
                          here.region().handle());
    const vipl::completion done = pair.client.wait_send(patience());
    REQUIRE(done);
    CHECK_FALSE(done.good());
    CHECK(there == std::vector<char>(64, 'x'));
}

TEST_CASE("a completion queue names the VI, and has a descriptor for event loops")
{
    vipl::nic nic(vipl_test::device_under_test());
    const vipl::cq cq(nic, 16);
    Pair pair({}, &cq, &nic);
    vipl::messages &in = pair.messages(1, 64), &out = pair.messages(1, 64);
    CHECK(cq.fd() >= 0);
    pair.server.post_receive(vipl::work(in.descriptor(0)).local(in.bytes(0)), in.region().handle());
    pair.client.post_send(vipl::work(out.descriptor(0)).local(out.bytes(0)), out.region().handle());
    const auto entry = cq.wait(patience());
    REQUIRE(entry.has_value());
    CHECK(entry->vi == pair.server.handle());
    CHECK(entry->is_receive);
    good(pair.server.receive_done());
    good(pair.client.wait_send(patience()));
}

TEST_CASE("shared memory is memory to register, and is given back", "[sharing]")
{
    vipl::shared_memory memory(100000);
    CHECK(memory.size() == 100000);
    static_cast<char *>(memory.data())[99999] = 1;
    const vipl::nic nic(vipl_test::device_under_test());
    const vipl::region region(nic, memory, vipl::access::rdma);
    CHECK(region.size() == 100000);
    CHECK(region.part(99990, 100).size == 10);
    CHECK(region.part(200000).size == 0);
}
