// SPDX-License-Identifier: MIT
//
// The driver's verbs on the model of the card in this process: two functions that send to each
// other, rings and completion queues that grow under way, interrupts, memory that is mapped, and a
// card that stops to answer or is pulled out.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "backends/rnic/verbs/verbs.h"
#include "core/device.h"
#include "os/os.h"
#include "rnic/registers.h"
}

namespace {

constexpr std::size_t kBytes = 65536;

/** A setting of the card, while it is opened. */
class Setting {
public:
    Setting(const char *name, const char *value) : name_(name) { setenv(name, value, 1); }
    ~Setting() { unsetenv(name_); }
    Setting(const Setting &) = delete;
    Setting &operator=(const Setting &) = delete;

private:
    const char *name_;
};

/** A function with memory, a completion queue of 16 entries, and a queue pair. */
struct End {
    explicit End(unsigned level = RNIC_LEVEL_DELIVERY, unsigned memory_rights = 3)
    {
        REQUIRE(rnic_pci_open("inproc", &pci) == 0);
        REQUIRE(vipl_rnic_start(pci, &rnic) == 0);
        REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
        REQUIRE(vipl_rnic_create_cq(rnic, 4, 3, &cq) == 0);
        const vipl_rnic_qp_attributes attributes = {pd, static_cast<std::uint8_t>(level), 3};
        REQUIRE(vipl_rnic_create_qp(rnic, cq, &attributes, &qp) == 0);
        REQUIRE(vipl_rnic_allocate_mr(rnic, &pd, bytes.data(), bytes.size(), memory_rights, &mr) == 0);
    }
    ~End()
    {
        vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_ERROR, nullptr);
        vipl_rnic_destroy_qp(&qp);
        vipl_rnic_destroy_cq(cq);
        vipl_rnic_close(rnic);
    }
    End(const End &) = delete;
    End &operator=(const End &) = delete;

    void connect(const End &peer)
    {
        const struct vipl_rnic_caps &caps = *vipl_rnic_query(peer.rnic);
        vipl_rnic_qp_connection connection = {{{}, caps.function, peer.qp.number}, 8, 8, 0};
        std::copy(std::begin(caps.mac), std::end(caps.mac), connection.peer.mac);
        REQUIRE(vipl_rnic_modify_qp(&qp, RNIC_QP_STATE_CONNECTED, &connection) == 0);
    }

    /** Posts, with the growth that this needs. */
    void post(unsigned which, vipl_rnic_work work, const std::vector<vipl_rnic_segment> &segments)
    {
        work.segments = static_cast<std::uint16_t>(segments.size());
        work.segment = segments.data();
        int error = EAGAIN;
        for (unsigned i = 0; error == EAGAIN && i < 8; ++i) {
            error = which == VIPL_RNIC_RQ ? vipl_rnic_post_rq(&qp, &work) : vipl_rnic_post_sq(&qp, &work);
            if (error == EAGAIN) {
                poll();
                const int grown = vipl_rnic_grow_queue(&qp, which);
                REQUIRE((grown == 0 || grown == EAGAIN));
            }
        }
        REQUIRE(error == 0);
    }
    vipl_rnic_segment at(std::size_t offset, std::uint32_t length) const
    {
        return {reinterpret_cast<std::uintptr_t>(bytes.data()) + offset, length, mr.stag};
    }
    void receive(std::uint32_t cookie, std::size_t offset, std::uint32_t length)
    {
        vipl_rnic_work work = {};
        work.opcode = RNIC_WORK_RECEIVE;
        work.cookie = cookie;
        post(VIPL_RNIC_RQ, work, {at(offset, length)});
    }
    void send(std::uint32_t cookie, std::size_t offset, std::uint32_t length)
    {
        vipl_rnic_work work = {};
        work.opcode = RNIC_WORK_SEND;
        work.cookie = cookie;
        post(VIPL_RNIC_SQ, work, {at(offset, length)});
    }
    /** A frame for the card itself, of a raw queue pair. */
    void frame(std::uint32_t cookie, std::size_t offset, std::uint32_t length, std::uint64_t launch)
    {
        std::copy_n(vipl_rnic_query(rnic)->mac, 6, bytes.data() + offset);
        vipl_rnic_work work = {};
        work.opcode = RNIC_WORK_SEND;
        work.cookie = cookie;
        work.remote_address = launch;
        post(VIPL_RNIC_SQ, work, {at(offset, length)});
    }
    void rdma(std::uint8_t opcode, const End &peer, std::uint32_t length)
    {
        vipl_rnic_work work = {};
        work.opcode = opcode;
        work.remote_address = peer.at(0, 0).address;
        work.remote_stag = peer.mr.stag;
        post(VIPL_RNIC_SQ, work, {at(0, length)});
    }

    /** Takes what is there. */
    void poll()
    {
        std::array<vipl_rnic_completion, 16> batch;
        vipl_rnic_progress(rnic);
        const unsigned count = vipl_rnic_poll_cq(cq, batch.data(), batch.size());
        for (unsigned i = 0; i < count; ++i) {
            if (batch[i].opcode != RNIC_WORK_DRAINED) {
                REQUIRE(vipl_rnic_retire(&qp, &batch[i]));
            }
            taken.push_back(batch[i]);
        }
    }
    /** The next completion, which has to come. */
    vipl_rnic_completion next()
    {
        for (const std::uint64_t end = vipl_now_ns() + 5000000000;
             seen == taken.size() && vipl_now_ns() < end;) {
            poll();
        }
        REQUIRE(seen < taken.size());
        return taken[seen++];
    }

    alignas(4096) std::array<std::uint8_t, kBytes> bytes{};
    rnic_pci *pci = nullptr; // the function's
    vipl_rnic *rnic = nullptr;
    vipl_rnic_pd pd = {};
    vipl_rnic_cq *cq = nullptr;
    vipl_rnic_qp qp = {};
    vipl_rnic_mr mr = {};
    std::vector<vipl_rnic_completion> taken;
    std::size_t seen = 0;
};

struct Pair {
    explicit Pair(unsigned level = RNIC_LEVEL_DELIVERY)
        : a(std::make_unique<End>(level)), b(std::make_unique<End>(level))
    {
        a->connect(*b);
        b->connect(*a);
    }
    std::unique_ptr<End> a, b;
};

void fill(End &end, std::size_t offset, std::size_t length, unsigned seed)
{
    for (std::size_t i = 0; i < length; ++i) {
        end.bytes[offset + i] = static_cast<std::uint8_t>(seed + i * 7 + i / 256);
    }
}

bool same(const End &a, std::size_t a_offset, const End &b, std::size_t b_offset, std::size_t length)
{
    return std::equal(a.bytes.data() + a_offset, a.bytes.data() + a_offset + length,
                      b.bytes.data() + b_offset);
}

bool is_readable(int fd)
{
    return vipl_poll(&fd, 1, 0, nullptr) == 0;
}

} // namespace

TEST_CASE("a message goes from one function to another, and both are told", "[verbs_model]")
{
    const unsigned level = GENERATE(0u, 1u, 2u);
    const std::uint32_t length = GENERATE(0u, 1u, 9000u, 60000u);
    Pair pair(level);
    pair.b->receive(5, 0, length);
    fill(*pair.a, 100, length, 3);
    pair.a->send(6, 100, length);
    const vipl_rnic_completion in = pair.b->next(), out = pair.a->next();
    CHECK(in.status == RNIC_STATUS_OK);
    CHECK(in.cookie == 5);
    CHECK(in.length == length);
    CHECK(in.opcode == RNIC_WORK_RECEIVE);
    CHECK(in.index == 1);
    CHECK(out.status == RNIC_STATUS_OK);
    CHECK(out.cookie == 6);
    CHECK(out.opcode == RNIC_WORK_SEND);
    CHECK(same(*pair.b, 0, *pair.a, 100, length));
}

TEST_CASE("RDMA writes and reads the other function's memory", "[verbs_model]")
{
    Pair pair;
    fill(*pair.a, 0, 50000, 1);
    pair.a->rdma(RNIC_WORK_WRITE, *pair.b, 50000);
    CHECK(pair.a->next().status == RNIC_STATUS_OK);
    CHECK(same(*pair.b, 0, *pair.a, 0, 50000));
    fill(*pair.b, 0, 50000, 9);
    pair.a->rdma(RNIC_WORK_READ, *pair.b, 50000);
    CHECK(pair.a->next().status == RNIC_STATUS_OK);
    CHECK(same(*pair.b, 0, *pair.a, 0, 50000));
}

TEST_CASE("memory that is freed, or changed, is not there for the peer any more", "[verbs_model]")
{
    Pair pair;
    const bool freed = GENERATE(false, true);
    const auto before = pair.b->bytes;
    fill(*pair.a, 0, 1000, 1);
    const int error =
        freed ? vipl_rnic_free_mr(pair.b->rnic, &pair.b->mr)
              : vipl_rnic_change_mr(pair.b->rnic, &pair.b->mr, pair.b->pd.domain, RNIC_RIGHT_REMOTE_READ);
    REQUIRE(error == 0);
    pair.a->rdma(RNIC_WORK_WRITE, *pair.b, 1000);
    CHECK(pair.a->next().status == RNIC_STATUS_REMOTE_ACCESS);
    CHECK(pair.b->bytes == before);
}

TEST_CASE("memory that is registered read-only sends, and receives nothing", "[verbs_model]")
{
    End reader(RNIC_LEVEL_DELIVERY, RNIC_RIGHT_LOCAL_READ_ONLY), other;
    reader.connect(other);
    other.connect(reader);
    other.receive(1, 0, 100);
    fill(reader, 0, 100, 4);
    reader.send(2, 0, 100);
    CHECK(other.next().status == RNIC_STATUS_OK);
    CHECK(reader.next().status == RNIC_STATUS_OK);
    const auto before = reader.bytes;
    reader.receive(3, 0, 100);
    other.send(4, 200, 100);
    CHECK(reader.next().status == RNIC_STATUS_LOCAL_PROTECTION);
    CHECK(reader.bytes == before);
}

TEST_CASE("rings and completion queues grow while messages are under way, and nothing is lost",
          "[verbs_model]")
{
    Pair pair(GENERATE(1u, 2u));
    constexpr std::uint32_t kMessages = 3000, kAhead = 500;
    std::uint32_t posted = 0, received = 0;
    for (std::uint32_t got = 0; got < kMessages; ++got) {
        for (; received < kMessages && received < got + 2 * kAhead;
             ++received) { // ahead of what is sent: their ring grows
            pair.b->receive(received, received % 1000 * 8, 8);
        }
        for (; posted < kMessages && posted < got + kAhead; ++posted) {
            const std::size_t place = posted % 1000 * 8;
            fill(*pair.a, place, 8, posted);
            pair.a->send(posted, place, 8);
        }
        const vipl_rnic_completion in = pair.b->next();
        REQUIRE(in.status == RNIC_STATUS_OK);
        REQUIRE(in.cookie == got);
        REQUIRE(in.index == got + 1);
        REQUIRE(same(*pair.b, got % 1000 * 8, *pair.a, got % 1000 * 8, 8));
    }
    for (std::uint32_t sent = 0; sent < kMessages; ++sent) {
        const vipl_rnic_completion out = pair.a->next();
        REQUIRE(out.status == RNIC_STATUS_OK);
        REQUIRE(out.cookie == sent);
    }
    CHECK(pair.b->qp.queues[VIPL_RNIC_RQ].entries > 16);
}

TEST_CASE("a message of many segments is gathered and scattered", "[verbs_model]")
{
    Pair pair;
    std::vector<vipl_rnic_segment> from, to;
    std::vector<std::uint8_t> sent, got;
    fill(*pair.a, 0, kBytes, 1);
    for (unsigned i = 0; i < 252; ++i) {
        from.push_back(pair.a->at(i * 200, i % 100));
        to.push_back(pair.b->at(i * 100, 50));
        sent.insert(sent.end(), pair.a->bytes.data() + i * 200, pair.a->bytes.data() + i * 200 + i % 100);
    }
    vipl_rnic_work work = {};
    work.opcode = RNIC_WORK_RECEIVE;
    pair.b->post(VIPL_RNIC_RQ, work, to);
    work.opcode = RNIC_WORK_SEND;
    pair.a->post(VIPL_RNIC_SQ, work, from);
    REQUIRE(pair.b->next().status == RNIC_STATUS_OK);
    for (unsigned i = 0; i < 252; ++i) {
        got.insert(got.end(), pair.b->bytes.data() + i * 100, pair.b->bytes.data() + i * 100 + 50);
    }
    REQUIRE(sent.size() <= got.size());
    got.resize(sent.size());
    CHECK(got == sent);
}

TEST_CASE("an armed completion queue interrupts once, for what is there already too", "[verbs_model]")
{
    Pair pair;
    const int fd = vipl_rnic_interrupt_fd(pair.b->rnic, 3);
    REQUIRE(fd >= 0);
    pair.b->receive(1, 0, 8);
    pair.b->receive(2, 8, 8);
    pair.a->send(1, 0, 8);
    CHECK(pair.b->next().cookie == 1);
    CHECK_FALSE(is_readable(fd)); // it was not armed
    vipl_rnic_arm_cq(pair.b->cq);
    CHECK_FALSE(is_readable(fd));
    pair.a->send(2, 0, 8);
    CHECK(is_readable(fd));
    vipl_rnic_interrupt_clear(pair.b->rnic, 3);
    CHECK_FALSE(is_readable(fd));
    vipl_rnic_arm_cq(pair.b->cq); // the second one has not been taken
    CHECK(is_readable(fd));
}

TEST_CASE("control messages reach the function that listens, and interrupt it", "[verbs_model]")
{
    Pair pair;
    const int fd = vipl_rnic_interrupt_fd(pair.b->rnic, 0);
    REQUIRE(vipl_rnic_listen_for(pair.b->rnic, 33, "disc", 4) == 0);
    vipl_rnic_interrupt_clear(pair.b->rnic, 0);
    const std::uint8_t request[22] = {
        RNIC_CONTROL_REQUEST, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 'd', 'i', 's', 'c', 1, 2};
    REQUIRE(vipl_rnic_send_control(pair.a->rnic, vipl_rnic_query(pair.b->rnic)->mac, RNIC_FUNCTION_ADAPTER,
                                   request, sizeof(request)) == 0);
    CHECK(is_readable(fd));
    vipl_rnic_event event;
    REQUIRE(vipl_rnic_next_event(pair.b->rnic, &event));
    CHECK(event.kind == RNIC_EVENT_CONTROL);
    CHECK(event.object == 33);
    CHECK(event.function == vipl_rnic_query(pair.a->rnic)->function);
    CHECK(event.length == sizeof(request));
    CHECK(std::equal(std::begin(request), std::end(request), event.message));
}

TEST_CASE("a function that closes breaks its peer's queue pair", "[verbs_model]")
{
    Pair pair;
    pair.b->receive(1, 0, 8);
    pair.b->receive(2, 8, 8);
    pair.a->send(1, 0, 8); // the cards know each other from now on
    CHECK(pair.b->next().cookie == 1);
    pair.a.reset();
    CHECK(pair.b->next().opcode == RNIC_WORK_DRAINED);
    vipl_rnic_event event;
    REQUIRE(vipl_rnic_next_event(pair.b->rnic, &event));
    CHECK(event.kind == RNIC_EVENT_QP_ERROR);
    CHECK(event.object == pair.b->qp.number);
    CHECK(event.code == RNIC_ERROR_CONNECTION_LOST);
}

TEST_CASE("a function that is reset under load takes its own connections with it, and no others",
          "[verbs_model]")
{
    Pair whole(GENERATE(1u, 2u)), cut;
    for (std::uint32_t i = 0; i < 300; ++i) {
        if (i < 100) {
            cut.b->receive(i, 0, 60000);
            cut.a->send(i, 0, 60000);
        } else if (i == 100) { // as one that does not know of the driver may: several are under way
            cut.a->pci->ops->write(cut.a->pci, 0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
        }
        const std::size_t place = i % 10 * 6000;
        whole.b->receive(i, place, 6000);
        fill(*whole.a, place, 6000, i);
        whole.a->send(i, place, 6000);
        const vipl_rnic_completion in = whole.b->next(), out = whole.a->next();
        REQUIRE(in.status == RNIC_STATUS_OK);
        REQUIRE(in.cookie == i);
        REQUIRE(out.status == RNIC_STATUS_OK);
        REQUIRE(out.cookie == i);
        REQUIRE(same(*whole.b, place, *whole.a, place, 6000));
    }
    CHECK(vipl_rnic_probe(cut.a->rnic));
    CHECK(vipl_rnic_listen_for(cut.a->rnic, 1, "a", 1) == ENODEV);
    std::uint32_t received = 0;
    vipl_rnic_completion each = cut.b->next();
    for (; each.opcode != RNIC_WORK_DRAINED; each = cut.b->next()) {
        REQUIRE(each.status == RNIC_STATUS_OK);
        REQUIRE(each.cookie == received++);
    }
    CHECK(received <= 100);
    vipl_rnic_event event;
    REQUIRE(vipl_rnic_next_event(cut.b->rnic, &event));
    CHECK(event.kind == RNIC_EVENT_QP_ERROR);
    CHECK(event.object == cut.b->qp.number);
    CHECK(event.code == RNIC_ERROR_CONNECTION_LOST);
    Pair again;
    again.b->receive(1, 0, 8);
    again.a->send(2, 0, 8);
    CHECK(again.b->next().cookie == 1);
    CHECK(again.a->next().cookie == 2);
}

TEST_CASE("a queue pair connects again after an error, with empty queues", "[verbs_model]")
{
    Pair pair;
    for (std::uint32_t round = 0; round < 5; ++round) {
        pair.a->receive(1, 0, 8); // is given up
        pair.b->receive(2, 0, 8);
        pair.a->send(3, 0, 8);
        CHECK(pair.b->next().cookie == 2);
        CHECK(pair.a->next().cookie == 3);
        for (End *end : {pair.a.get(), pair.b.get()}) {
            REQUIRE(vipl_rnic_modify_qp(&end->qp, RNIC_QP_STATE_ERROR, nullptr) == 0);
            CHECK(end->next().opcode == RNIC_WORK_DRAINED);
            REQUIRE(vipl_rnic_renew_qp(&end->qp) == 0);
        }
        pair.a->connect(*pair.b);
        pair.b->connect(*pair.a);
    }
}

TEST_CASE("the card has functions for eight drivers in this process", "[verbs_model]")
{
    std::vector<vipl_rnic *> opened;
    vipl_rnic *rnic = nullptr;
    while (opened.size() < 100 && vipl_rnic_open("inproc", &rnic) == 0) {
        opened.push_back(rnic);
    }
    CHECK(opened.size() == 8);
    REQUIRE_FALSE(opened.empty());
    vipl_rnic_close(opened.back());
    CHECK(vipl_rnic_open("inproc", &opened.back()) == 0);
    for (vipl_rnic *each : opened) {
        vipl_rnic_close(each);
    }
}

TEST_CASE("a card that answers no command is dead after a second, and then one can be opened again",
          "[verbs_model]")
{
    vipl_rnic *rnic = nullptr;
    {
        const Setting setting("VIPL_RNIC_FAULTS", "command_timeout=@2");
        REQUIRE(vipl_rnic_open("inproc", &rnic) == 0);
    }
    CHECK(vipl_rnic_listen_for(rnic, 1, "a", 1) == 0);
    const std::uint64_t begun = vipl_now_ns();
    CHECK(vipl_rnic_listen_for(rnic, 2, "b", 1) == ENODEV);
    CHECK(vipl_now_ns() - begun >= 900000000);
    CHECK(vipl_rnic_is_dead(rnic));
    const std::uint64_t later = vipl_now_ns();
    CHECK(vipl_rnic_listen_for(rnic, 3, "c", 1) == ENODEV); // at once
    CHECK(vipl_now_ns() - later < 900000000);
    vipl_rnic_close(rnic);
    const End works;
}

TEST_CASE("a card that is pulled out is dead, and closing it gives everything back", "[verbs_model]")
{
    vipl_rnic *rnic = nullptr;
    {
        const Setting setting("VIPL_RNIC_FAULTS", "removed=@60");
        REQUIRE(vipl_rnic_open("inproc", &rnic) == 0);
    }
    vipl_rnic_pd pd;
    vipl_rnic_mr mr;
    std::array<std::uint8_t, 100> bytes{};
    REQUIRE(vipl_rnic_allocate_pd(rnic, &pd) == 0);
    REQUIRE(vipl_rnic_allocate_mr(rnic, &pd, bytes.data(), bytes.size(), 0, &mr) == 0);
    for (unsigned i = 0; i < 100 && !vipl_rnic_probe(rnic); ++i) {
    }
    CHECK(vipl_rnic_is_dead(rnic));
    CHECK(vipl_rnic_free_mr(rnic, &mr) == ENODEV);
    CHECK(vipl_rnic_allocate_mr(rnic, &pd, bytes.data(), bytes.size(), 0, &mr) == ENODEV);
    vipl_rnic_close(rnic);
    const End works;
}

TEST_CASE("a command that the card fails is an error, and the next one works", "[verbs_model]")
{
    vipl_rnic *rnic = nullptr;
    {
        const Setting setting("VIPL_RNIC_FAULTS", "command_fail=@1");
        REQUIRE(vipl_rnic_open("inproc", &rnic) == 0);
    }
    vipl_rnic_cq *cq = nullptr;
    CHECK(vipl_rnic_create_cq(rnic, 4, 1, &cq) == EFAULT);
    CHECK(cq == nullptr);
    REQUIRE(vipl_rnic_create_cq(rnic, 4, 1, &cq) == 0);
    CHECK(vipl_rnic_destroy_cq(cq) == 0);
    vipl_rnic_close(rnic);
}

TEST_CASE("messages arrive over a bad wire, in order", "[verbs_model]")
{
    const Setting setting("VIPL_RNIC_IMPAIR", "seed=5,loss=0.05,reorder=0.05,duplicate=0.02,corrupt=0.02");
    Pair pair;
    for (std::uint32_t i = 0; i < 200; ++i) {
        pair.b->receive(i, i * 300, 300);
        fill(*pair.a, i * 300, 300, i);
        pair.a->send(i, i * 300, 300);
    }
    for (std::uint32_t i = 0; i < 200; ++i) {
        const vipl_rnic_completion in = pair.b->next();
        REQUIRE(in.status == RNIC_STATUS_OK);
        REQUIRE(in.cookie == i);
    }
    CHECK(same(*pair.b, 0, *pair.a, 0, 60000));
}

namespace {

/** What the forking function has learned: in the child, that it is one. */
bool g_is_child;
unsigned g_turns; // of the wait
constexpr unsigned kForksAt = 3;

/** Forks in the middle of a wait for the card, as a signal handler of the program may. */
void fork_in_progress(rnic_pci *)
{
    if (++g_turns == kForksAt) {
        g_is_child = fork() == 0;
    }
}

} // namespace

TEST_CASE("a child that is forked while its parent waits for the card leaves the wait and touches nothing",
          "[verbs_model]")
{
    bool handlers = true;
    REQUIRE(vipl_device_watch_forks(&handlers) == 0);
    rnic_pci *pci = nullptr;
    vipl_rnic *rnic = nullptr;
    {
        const Setting setting("VIPL_RNIC_FAULTS", "command_timeout=@1");
        REQUIRE(rnic_pci_open("inproc", &pci) == 0);
        REQUIRE(vipl_rnic_start(pci, &rnic) == 0);
    }
    const rnic_pci_ops *usual = pci->ops;
    rnic_pci_ops forking = *usual;
    forking.progress = fork_in_progress;
    forking.is_gone = [](rnic_pci *) { return g_turns >= kForksAt; }; // nothing is left to wait for then
    pci->ops = &forking;
    const int error = vipl_rnic_listen_for(rnic, 1, "a", 1);
    if (g_is_child) {
        _exit(error == ENODEV ? 0 : 1);
    }
    pci->ops = usual;
    CHECK(error == ENODEV);
    int status = -1;
    CHECK(wait(&status) > 0);
    CHECK(status == 0);
    vipl_rnic_close(rnic);
}

TEST_CASE("raw queue pairs exchange frames, whose completions have the card's time", "[verbs]")
{
    End a(RNIC_LEVEL_RAW), b(RNIC_LEVEL_RAW);
    CHECK((vipl_rnic_query(a.rnic)->features & RNIC_CAPS_RAW) != 0);
    for (std::size_t i = 0; i < a.bytes.size(); ++i) {
        a.bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
    }
    REQUIRE(vipl_rnic_modify_qp(&a.qp, RNIC_QP_STATE_CONNECTED, nullptr) == 0);
    b.receive(70, 0, 2048);
    b.receive(71, 2048, 2048);
    b.receive(72, 4096, 100);
    REQUIRE(vipl_rnic_modify_qp(&b.qp, RNIC_QP_STATE_CONNECTED, nullptr) == 0);
    a.frame(1, 0, 1514, 0);
    const vipl_rnic_completion first = a.next();
    CHECK(first.status == RNIC_STATUS_OK);
    CHECK(first.flags == RNIC_CQE_FLAG_TIME);
    REQUIRE(first.time > 0);
    const std::uint64_t launch = first.time + 20000000;
    a.frame(2, 4096, 60, launch);
    a.frame(3, 8192, 200, 0); // behind it
    for (std::uint32_t cookie = 2; cookie <= 3; ++cookie) {
        const vipl_rnic_completion sent = a.next();
        CHECK(sent.cookie == cookie);
        CHECK(sent.time >= launch);
    }
    const std::uint32_t lengths[] = {1514, 60, 100};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const vipl_rnic_completion came = b.next();
        CHECK(came.cookie == 70 + i);
        CHECK(came.length == lengths[i]);
        CHECK(came.status == (i < 2 ? RNIC_STATUS_OK : RNIC_STATUS_LOCAL_LENGTH)); // the last one is cut
        CHECK(came.time >= (i == 0 ? first.time : launch));
        CHECK(std::equal(b.bytes.data() + i * 2048, b.bytes.data() + i * 2048 + lengths[i],
                         a.bytes.data() + i * 4096));
    }
}
