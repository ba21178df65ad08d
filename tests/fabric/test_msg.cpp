// SPDX-License-Identifier: MIT
//
// Messages, and the credits behind them.
#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

TEST_CASE("messages of any size arrive whole", "[msg]")
{
    Pair pair;
    Memory from(pair.client_side, size_t{4} << 20), to(pair.server_side, size_t{4} << 20);
    unsigned seed = 0;
    for (const size_t bytes : {0, 1, 7, 64, 255, 256, 257, 4095, 4096, 16384, 65537, 1 << 20, 4 << 20}) {
        INFO(bytes);
        pair.exchange(from, to, bytes, ++seed);
    }
}

TEST_CASE("a message is gathered from pieces, and scattered over pieces", "[msg]")
{
    Pair pair;
    Memory from(pair.client_side, 4096), to(pair.server_side, 4096);
    from.fill(3);
    const iovec out[] = {
        {from.data(), 10}, {from.data() + 10, 0}, {from.data() + 10, 300}, {from.data() + 310, 690}};
    const iovec in[] = {{to.data(), 500}, {to.data() + 500, 3000}};
    void *out_desc[] = {from.desc(), nullptr, from.desc(), from.desc()}, *in_desc[] = {to.desc(), to.desc()};
    FABRIC(fi_recvv(pair.server.get(), in, in_desc, 2, 0, nullptr));
    FABRIC(fi_sendv(pair.client.get(), out, out_desc, 4, 0, nullptr));
    CHECK(next_completion(pair.client_side.tx.get()).error == 0);
    const Completion done = next_completion(pair.server_side.rx.get());
    CHECK(done.entry.len == 1000);
    CHECK(to.is_filled(3, 0, 1000));
}

TEST_CASE("injected bytes are the program's again at once, without a completion", "[msg]")
{
    Pair pair;
    Memory to(pair.server_side, 256);
    std::vector<uint8_t> text(256, 'a');
    FABRIC(fi_recv(pair.server.get(), to.data(), 256, to.desc(), 0, nullptr));
    FABRIC(fi_inject(pair.client.get(), text.data(), 256, 0));
    memset(text.data(), 'b', text.size());
    CHECK(next_completion(pair.server_side.rx.get()).entry.len == 256);
    CHECK(std::all_of(to.data(), to.data() + 256, [](uint8_t byte) { return byte == 'a'; }));
    CHECK(!try_completion(pair.client_side.tx.get()));
    FABRIC_RC(-FI_EMSGSIZE, fi_inject(pair.client.get(), std::vector<uint8_t>(257).data(), 257, 0));
}

TEST_CASE("four bytes of data travel with a message", "[msg]")
{
    Pair pair;
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    for (const uint64_t data : {uint64_t{0}, uint64_t{0x01020304}, uint64_t{0xffffffff}}) {
        FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
        FABRIC(fi_senddata(pair.client.get(), from.data(), 5, from.desc(), data, 0, nullptr));
        const Completion done = next_completion(pair.server_side.rx.get());
        CHECK(done.entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA));
        CHECK(done.entry.data == data);
        CHECK(next_completion(pair.client_side.tx.get()).error == 0);
    }
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    FABRIC(fi_injectdata(pair.client.get(), from.data(), 5, 77, 0));
    CHECK(next_completion(pair.server_side.rx.get()).entry.data == 77);
    FABRIC_RC(-FI_EINVAL,
              fi_senddata(pair.client.get(), from.data(), 5, from.desc(), uint64_t{1} << 32, 0, nullptr));
}

TEST_CASE("with selective completion, those that are asked for come", "[msg]")
{
    Pair pair(FI_WAIT_NONE, nullptr, FI_SELECTIVE_COMPLETION);
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    for (int i = 0; i < 400;
         i++) { // more than there are operations: those without a completion are free again
        FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
        eventually("room for a message", [&] {
            const ssize_t rc = fi_send(pair.client.get(), from.data(), 64, from.desc(), 0, &from);
            EXPECT(rc == 0 || rc == -FI_EAGAIN);
            return rc == 0;
        });
        CHECK(next_completion(pair.server_side.rx.get()).error == 0);
    }
    CHECK(!try_completion(pair.client_side.tx.get()));
    const iovec iov = {from.data(), 64};
    void *desc = from.desc();
    fi_msg message = {};
    message.msg_iov = &iov;
    message.desc = &desc;
    message.iov_count = 1;
    message.context = &pair;
    FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
    FABRIC(fi_sendmsg(pair.client.get(), &message, FI_COMPLETION));
    CHECK(next_completion(pair.client_side.tx.get()).entry.op_context == &pair);
    CHECK(next_completion(pair.server_side.rx.get()).error == 0); // before the memory ends
}

TEST_CASE("messages wait for receives, and keep their order", "[msg]")
{
    constexpr uint32_t count = 2000;
    Pair pair;
    Memory from(pair.client_side, sizeof(uint32_t) * count), to(pair.server_side, sizeof(uint32_t) * 8);
    auto *out = reinterpret_cast<uint32_t *>(from.data());
    auto *in = reinterpret_cast<uint32_t *>(to.data());
    uint32_t sent = 0, completed = 0, posted = 0, received = 0;
    // No receive is posted while the first messages are sent: they are taken all the same.
    while (sent < 100) {
        out[sent] = sent;
        FABRIC(fi_send(pair.client.get(), &out[sent], sizeof(*out), from.desc(), 0, nullptr));
        sent++;
    }
    CHECK(!try_completion(pair.client_side.tx.get()));
    eventually("all messages", [&] {
        while (posted < count && posted - received < 1 + received % 8) {
            FABRIC(fi_recv(pair.server.get(), &in[posted % 8], sizeof(*in), to.desc(), 0, nullptr));
            posted++;
        }
        while (sent < count) {
            out[sent] = sent;
            const ssize_t rc = fi_send(pair.client.get(), &out[sent], sizeof(*out), from.desc(), 0, nullptr);
            if (rc == -FI_EAGAIN) {
                break;
            }
            FABRIC(rc);
            sent++;
        }
        while (const auto done = try_completion(pair.client_side.tx.get())) {
            EXPECT_EQ(0, done->error);
            completed++;
        }
        while (const auto done = try_completion(pair.server_side.rx.get())) {
            EXPECT_EQ(0, done->error);
            EXPECT_EQ(received, in[received % 8]);
            received++;
        }
        return received == count && completed == count;
    });
}

TEST_CASE("receives that are posted ahead are told to the peer", "[msg]")
{
    Pair pair;
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            FABRIC(fi_recv(pair.server.get(), to.data(), 64, to.desc(), 0, nullptr));
        }
        for (int i = 0; i < 100; i++) {
            // What the peer has received of the round before may not be known to have been sent.
            eventually("room for a message", [&] {
                const ssize_t rc = fi_inject(pair.client.get(), from.data(), 32, 0);
                if (rc == -FI_EAGAIN) {
                    (void)try_completion(pair.client_side.tx.get());
                    return false;
                }
                FABRIC(rc);
                return true;
            });
        }
        for (int i = 0; i < 100; i++) {
            // The sender reads its queue, so that messages without credit go on.
            eventually("a message", [&] {
                (void)try_completion(pair.client_side.tx.get());
                return try_completion(pair.server_side.rx.get()).has_value();
            });
        }
    }
}

TEST_CASE("the queues take as much as their sizes say", "[msg]")
{
    const Info wanted = hints();
    wanted->tx_attr->size = 5;
    wanted->rx_attr->size = 7;
    Pair pair(FI_WAIT_NONE, wanted.get());
    Memory memory(pair.client_side, 64);
    for (int i = 0; i < 7; i++) {
        FABRIC(fi_recv(pair.client.get(), memory.data(), 64, memory.desc(), 0, nullptr));
    }
    FABRIC_RC(-FI_EAGAIN, fi_recv(pair.client.get(), memory.data(), 64, memory.desc(), 0, nullptr));
    for (int i = 0; i < 5; i++) {
        FABRIC(fi_send(pair.client.get(), memory.data(), 64, memory.desc(), 0, nullptr));
    }
    FABRIC_RC(-FI_EAGAIN, fi_send(pair.client.get(), memory.data(), 64, memory.desc(), 0, nullptr));
}

TEST_CASE("a message that does not fit is an error of both sides", "[msg]")
{
    Pair pair;
    Memory from(pair.client_side, 4096), to(pair.server_side, 4096);
    FABRIC(fi_recv(pair.server.get(), to.data(), 16, to.desc(), 0, &to));
    FABRIC(fi_send(pair.client.get(), from.data(), 17, from.desc(), 0, &from));
    const Completion received = next_completion(pair.server_side.rx.get());
    CHECK(received.error == FI_ETRUNC);
    CHECK(received.entry.op_context == &to);
    CHECK(next_event(pair.server_side).type == FI_SHUTDOWN);
    CHECK(next_event(pair.client_side).type == FI_SHUTDOWN);
}

TEST_CASE("what cannot be a message is refused", "[msg]")
{
    Pair pair;
    Memory memory(pair.client_side, 64);
    std::vector<iovec> many(5, iovec{memory.data(), 1});
    std::vector<void *> desc(5, memory.desc());
    const size_t most = size_t{4} << 20;
    FABRIC_RC(-FI_EINVAL, fi_sendv(pair.client.get(), many.data(), desc.data(), 5, 0, nullptr));
    FABRIC_RC(-FI_EINVAL, fi_recvv(pair.client.get(), many.data(), desc.data(), 5, 0, nullptr));
    FABRIC_RC(-FI_EMSGSIZE, fi_send(pair.client.get(), memory.data(), most + 1, memory.desc(), 0, nullptr));
    FABRIC_RC(-FI_EINVAL, fi_send(pair.client.get(), memory.data(), 64, nullptr, 0, nullptr));
    FABRIC_RC(-FI_EINVAL, fi_recv(pair.client.get(), memory.data(), 64, nullptr, 0, nullptr));
    fi_msg message = {};
    message.msg_iov = many.data();
    message.desc = desc.data();
    message.iov_count = 1;
    FABRIC_RC(-FI_EOPNOTSUPP, fi_sendmsg(pair.client.get(), &message, FI_DELIVERY_COMPLETE));
    FABRIC_RC(-FI_EOPNOTSUPP, fi_recvmsg(pair.client.get(), &message, FI_MULTI_RECV));
    FABRIC_RC(-FI_ENOSYS, fi_cancel(&pair.client->fid, nullptr));
    Memory from(pair.client_side, 64), to(pair.server_side, 64);
    pair.exchange(from, to, 64, 9); // nothing of it has changed the connection
}

TEST_CASE("what cannot be a region or a queue is refused", "[msg]")
{
    Node node;
    std::vector<uint8_t> bytes(64);
    fid_mr *region = nullptr;
    FABRIC_RC(-FI_EINVAL, fi_mr_reg(node.domain.get(), bytes.data(), 0, FI_SEND, 0, 0, 0, &region, nullptr));
    FABRIC_RC(-FI_EINVAL,
              fi_mr_reg(node.domain.get(), bytes.data(), 64, FI_ATOMIC, 0, 0, 0, &region, nullptr));
    const iovec two[] = {{bytes.data(), 1}, {bytes.data() + 2, 1}};
    FABRIC_RC(-FI_EINVAL, fi_mr_regv(node.domain.get(), two, 2, FI_SEND, 0, 0, 0, &region, nullptr));
    fid_cq *cq = nullptr;
    fi_cq_attr attributes = {};
    attributes.wait_obj = FI_WAIT_MUTEX_COND;
    FABRIC_RC(-FI_ENOSYS, fi_cq_open(node.domain.get(), &attributes, &cq, nullptr));
    attributes.wait_obj = FI_WAIT_NONE;
    attributes.size = SIZE_MAX;
    FABRIC_RC(-FI_EINVAL, fi_cq_open(node.domain.get(), &attributes, &cq, nullptr));
    fid_av *av = nullptr;
    fi_av_attr av_attributes = {};
    FABRIC_RC(-FI_ENOSYS, fi_av_open(node.domain.get(), &av_attributes, &av, nullptr));
    fi_cntr_attr counter_attributes = {};
    fid_cntr *counter = nullptr;
    FABRIC_RC(-FI_ENOSYS, fi_cntr_open(node.domain.get(), &counter_attributes, &counter, nullptr));
}
