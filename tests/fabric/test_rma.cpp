// SPDX-License-Identifier: MIT
//
// The peer's memory, read and written.
#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

constexpr uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr size_t most_of_one = size_t{4} << 20; // the devices' MaxTransferSize

} // namespace

TEST_CASE("memory of any size is written and read", "[rma]")
{
    Pair pair;
    const size_t all = 5 * most_of_one + 12345;
    Memory here(pair.client_side, all), there(pair.server_side, all, remote);
    unsigned seed = 0;
    for (const size_t bytes :
         {size_t{1}, size_t{255}, size_t{4096}, size_t{65537}, most_of_one, most_of_one + 1, all}) {
        INFO(bytes);
        here.fill(++seed);
        memset(there.data(), 0, all);
        FABRIC(fi_write(pair.client.get(), here.data(), bytes, here.desc(), 0, there.address(), there.key(),
                        &here));
        const Completion written = next_completion(pair.client_side.tx.get());
        CHECK(written.error == 0);
        CHECK(written.entry.op_context == &here);
        CHECK(written.entry.flags == (FI_WRITE | FI_RMA));
        memset(here.data(), 0, all);
        FABRIC(fi_read(pair.client.get(), here.data(), bytes, here.desc(), 0, there.address(), there.key(),
                       &there));
        const Completion read = next_completion(pair.client_side.tx.get());
        CHECK(read.error == 0);
        CHECK(read.entry.op_context == &there);
        CHECK(read.entry.flags == (FI_READ | FI_RMA));
        CHECK(there.is_filled(seed, 0, bytes));
        CHECK(here.is_filled(seed, 0, bytes));
        CHECK(!try_completion(pair.client_side.tx.get()));
    }
}

TEST_CASE("pieces of memory longer than one transfer", "[rma]")
{
    Pair pair;
    const size_t all = 3 * most_of_one;
    Memory here(pair.client_side, all), there(pair.server_side, all, remote);
    here.fill(5);
    const iovec iov[] = {{here.data(), 100},
                         {here.data() + 100, most_of_one + 1},
                         {nullptr, 0},
                         {here.data() + 101 + most_of_one, all - 101 - most_of_one}};
    void *desc[] = {here.desc(), here.desc(), nullptr, here.desc()};
    FABRIC(fi_writev(pair.client.get(), iov, desc, 4, 0, there.address(), there.key(), nullptr));
    CHECK(next_completion(pair.client_side.tx.get()).error == 0);
    // RDMA Writes are in the memory when a later read has come back.
    FABRIC(fi_read(pair.client.get(), here.data(), 1, here.desc(), 0, there.address(), there.key(), nullptr));
    CHECK(next_completion(pair.client_side.tx.get()).error == 0);
    CHECK(there.is_filled(5, 0, all));
}

TEST_CASE("a message behind a long write comes behind it", "[rma]")
{
    Pair pair;
    const size_t all = 20 * most_of_one;
    Memory here(pair.client_side, all), there(pair.server_side, all, remote), note(pair.server_side, 64);
    here.fill(6);
    FABRIC(fi_recv(pair.server.get(), note.data(), 64, note.desc(), 0, nullptr));
    FABRIC(
        fi_write(pair.client.get(), here.data(), all, here.desc(), 0, there.address(), there.key(), nullptr));
    FABRIC(fi_inject(pair.client.get(), "done", 4, 0));
    FABRIC_RC(-FI_EAGAIN, fi_write(pair.client.get(), here.data(), all, here.desc(), 0, there.address(),
                                   there.key(), nullptr));
    eventually("the message", [&] {
        if (const auto done = try_completion(pair.client_side.tx.get())) {
            EXPECT_EQ(0, done->error);
        }
        return try_completion(pair.server_side.rx.get()).has_value();
    });
    CHECK(there.is_filled(6, 0, all));
}

TEST_CASE("a write that is complete when it is delivered", "[rma]")
{
    Pair pair;
    const size_t bytes = GENERATE(size_t{64}, 3 * most_of_one);
    const uint64_t flags = GENERATE(uint64_t{0}, uint64_t{FI_INJECT}, uint64_t{FI_REMOTE_CQ_DATA});
    if (flags == FI_INJECT && bytes > 256) {
        return;
    }
    Memory here(pair.client_side, bytes), there(pair.server_side, bytes, FI_REMOTE_WRITE),
        note(pair.server_side, 64);
    here.fill(8);
    const iovec iov = {here.data(), bytes};
    const fi_rma_iov target = {there.address(), bytes, there.key()};
    void *desc = here.desc();
    fi_msg_rma message = {};
    message.msg_iov = &iov;
    message.desc = &desc;
    message.iov_count = 1;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = &here;
    message.data = 99;
    FABRIC(fi_recv(pair.server.get(), note.data(), 64, note.desc(), 0, nullptr));
    FABRIC(fi_writemsg(pair.client.get(), &message, FI_DELIVERY_COMPLETE | flags));
    if (flags == FI_INJECT) {
        memset(here.data(), 0, bytes);
    }
    const Completion done = next_completion(pair.client_side.tx.get());
    CHECK(done.error == 0);
    CHECK(done.entry.op_context == &here);
    CHECK(done.entry.flags == (FI_WRITE | FI_RMA));
    CHECK(there.is_filled(8, 0, bytes)); // the server has done nothing
    CHECK(!try_completion(pair.client_side.tx.get()));
    if (flags == FI_REMOTE_CQ_DATA) {
        CHECK(next_completion(pair.server_side.rx.get()).entry.data == 99);
    }
    FABRIC(fi_writemsg(pair.client.get(), &message, FI_DELIVERY_COMPLETE)); // and the next one
    CHECK(next_completion(pair.client_side.tx.get()).error == 0);
}

TEST_CASE("data with a write takes a receive", "[rma]")
{
    Pair pair;
    const size_t bytes = GENERATE(size_t{64}, 2 * most_of_one + 5);
    Memory here(pair.client_side, bytes), there(pair.server_side, bytes, remote), note(pair.server_side, 64);
    here.fill(7);
    // It waits for the receive, as a message does.
    FABRIC(fi_writedata(pair.client.get(), here.data(), bytes, here.desc(), 1234, 0, there.address(),
                        there.key(), &here));
    FABRIC(fi_recv(pair.server.get(), note.data(), 64, note.desc(), 0, &note));
    Completion done = {};
    eventually("the data", [&] {
        (void)try_completion(pair.client_side.tx.get());
        const auto one = try_completion(pair.server_side.rx.get());
        if (one) {
            done = *one;
        }
        return one.has_value();
    });
    CHECK(done.error == 0);
    CHECK(done.entry.op_context == &note);
    CHECK(done.entry.flags == (FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA));
    CHECK(done.entry.data == 1234);
    CHECK(there.is_filled(7, 0, bytes));
}

TEST_CASE("without the mode FI_RX_CQ_DATA a write has no data", "[rma]")
{
    const Info wanted = hints();
    wanted->mode = 0;
    Pair pair(FI_WAIT_NONE, wanted.get());
    Memory here(pair.client_side, 64), there(pair.server_side, 64, remote);
    FABRIC_RC(-FI_EOPNOTSUPP, fi_writedata(pair.client.get(), here.data(), 64, here.desc(), 1, 0,
                                           there.address(), there.key(), nullptr));
}

TEST_CASE("injected writes", "[rma]")
{
    Pair pair;
    Memory here(pair.client_side, 64), there(pair.server_side, 64, remote), note(pair.server_side, 64);
    FABRIC(fi_recv(pair.server.get(), note.data(), 64, note.desc(), 0, nullptr));
    FABRIC(fi_inject_write(pair.client.get(), "abc", 3, 0, there.address(), there.key()));
    FABRIC(fi_inject_writedata(pair.client.get(), "def", 3, 9, 0, there.address() + 3, there.key()));
    CHECK(next_completion(pair.server_side.rx.get()).entry.data == 9);
    CHECK(memcmp(there.data(), "abcdef", 6) == 0);
    CHECK(!try_completion(pair.client_side.tx.get()));
}

TEST_CASE("memory that the peer may not access is an error, and the end of the connection", "[rma]")
{
    enum Fault { WRONG_KEY, NO_RIGHT, BEYOND, LONG };
    const Fault fault = GENERATE(WRONG_KEY, NO_RIGHT, BEYOND, LONG);
    Pair pair;
    Memory here(pair.client_side, 3 * most_of_one),
        there(pair.server_side, 64, fault == NO_RIGHT ? FI_REMOTE_READ : remote);
    const uint64_t key = fault == WRONG_KEY ? there.key() ^ 1 : there.key();
    const size_t bytes = fault == BEYOND ? 65 : fault == LONG ? 3 * most_of_one : 64;
    FABRIC(fi_write(pair.client.get(), here.data(), bytes, here.desc(), 0, there.address(), key, &here));
    // A write may be complete before the peer has refused it; a read behind it is not.
    const ssize_t rc =
        fi_read(pair.client.get(), here.data(), 1, here.desc(), 0, there.address(), key, &there);
    CHECK((rc == 0 || rc == -FI_EAGAIN || rc == -FI_ENOTCONN));
    CHECK(next_event(pair.client_side).type == FI_SHUTDOWN);
    CHECK(next_event(pair.server_side).type == FI_SHUTDOWN);
    bool failed = false;
    eventually("the completions", [&] {
        const auto done = try_completion(pair.client_side.tx.get());
        failed = failed || (done && done->error != 0);
        return failed;
    });
}

TEST_CASE("what cannot be an operation is refused", "[rma]")
{
    Pair pair;
    Memory here(pair.client_side, 64), there(pair.server_side, 64, remote);
    FABRIC_RC(-FI_EINVAL, fi_write(pair.client.get(), here.data(), 64, here.desc(), 0, there.address(),
                                   uint64_t{1} << 32, nullptr));
    FABRIC_RC(-FI_EINVAL,
              fi_read(pair.client.get(), here.data(), 64, nullptr, 0, there.address(), there.key(), nullptr));
    FABRIC_RC(-FI_EINVAL, fi_write(pair.client.get(), here.data(), most_of_one + 1, nullptr, 0,
                                   there.address(), there.key(), nullptr));
    FABRIC_RC(-FI_EMSGSIZE,
              fi_inject_write(pair.client.get(), here.data(), 257, 0, there.address(), there.key()));
    FABRIC_RC(-FI_EMSGSIZE, fi_write(pair.client.get(), here.data(), SIZE_MAX, here.desc(), 0,
                                     there.address(), there.key(), nullptr));
    FABRIC(
        fi_write(pair.client.get(), here.data(), 64, here.desc(), 0, there.address(), there.key(), nullptr));
    CHECK(next_completion(pair.client_side.tx.get()).error == 0);
}
