// SPDX-License-Identifier: MIT
//
// The card's end of the bus protocol (docs/rnic/socket.md): an adapter, and hosts that speak with
// it message by message, as they may and as they may not.
#include "bus_end.hpp"

#include <functional>

#include <sys/ioctl.h>

using namespace adapter_test;

namespace {

constexpr std::uint64_t kIova = 0x5000;

int connected(const std::string &path)
{
    int fd = -1;
    REQUIRE(vipl_unix_connect(path.c_str(), &fd) == 0);
    return fd;
}

class Host : public BusEnd {
public:
    explicit Host(const Adapter &adapter, bool greets = true) : BusEnd(connected(adapter.bus))
    {
        if (greets) {
            REQUIRE(send(hello()));
            greeting = receive();
            REQUIRE(!greeting.ended);
        }
    }
    /** The next message, which must be of this kind. */
    BusMessage next(unsigned kind) const
    {
        BusMessage m = receive();
        REQUIRE(!m.ended);
        REQUIRE(m.header.kind == kind);
        return m;
    }
    BusMessage done(std::uint32_t id) const
    {
        BusMessage m = next(BUS_DONE);
        REQUIRE(m.header.id == id);
        return m;
    }
    std::uint32_t ask(std::uint64_t address, unsigned width = 4, unsigned space = 0)
    {
        REQUIRE(send(access(BUS_READ, ++id_, address, width, space)));
        return id_;
    }
    BusMessage answered(std::uint64_t address, unsigned width = 4, unsigned space = 0)
    {
        return done(ask(address, width, space));
    }
    std::uint64_t get(std::uint64_t address, unsigned width = 4, unsigned space = 0)
    {
        const BusMessage m = answered(address, width, space);
        REQUIRE(m.header.status == 0);
        return m.header.value;
    }
    void set(std::uint64_t address, std::uint64_t value, unsigned width = 4, unsigned space = 0) const
    {
        REQUIRE(send(access(BUS_WRITE, 0, address, width, space, value)));
    }
    void begin(unsigned command, std::uint64_t iova, std::uint32_t bytes) const
    {
        set(FAKE_IOVA, iova, 8);
        set(FAKE_BYTES, bytes);
        set(FAKE_COMMAND, command);
    }
    std::uint64_t result()
    {
        std::uint64_t result;
        while ((result = get(FAKE_RESULT)) == 0) {
        }
        return result;
    }
    /** Has the card ask for memory; its message. */
    BusMessage asked(std::uint32_t bytes = 4) const
    {
        begin(FAKE_DMA_READ, kIova, bytes);
        return next(BUS_DMA_READ);
    }
    bool give(const BusMessage &m, const Bytes &data) const
    {
        return send(answer(BUS_DMA_DATA, m.header.id), data);
    }

    BusMessage greeting;

private:
    std::uint32_t id_ = 0x80000000; // of 32 bits
};

bool is_alive(Host &host)
{
    return host.get(FAKE_ID) == RNIC_ID_VALUE;
}

} // namespace

TEST_CASE("the card answers a HELLO by its own, with the sizes of its BARs", "[rnic_bus]")
{
    const Adapter adapter;
    const Host host(adapter);
    const rnic_bus_message &m = host.greeting.header;
    CHECK((m.kind == BUS_HELLO && m.id == BUS_MAGIC && m.value == 1 && m.status == 0 && m.function == 0));
    Bytes bars;
    for (const std::uint64_t bytes :
         {std::uint64_t{RNIC_BAR0_BYTES}, std::uint64_t{0}, std::uint64_t{RNIC_BAR2_BYTES}, std::uint64_t{0},
          std::uint64_t{kDeviceMemory}, std::uint64_t{0}}) {
        put(bars, bytes, 8);
    }
    CHECK(host.greeting.data == bars);
}

TEST_CASE("registers are read and written in each width, in each space that the card has", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    host.set(FAKE_SCRATCH, 0x1122334455667788, 8);
    host.set(FAKE_SCRATCH + 2, 0xFFFFFFFFFFFFAABB, 2); // its low bytes
    CHECK(host.get(FAKE_SCRATCH, 8) == 0x11223344AABB7788);
    CHECK(host.get(FAKE_SCRATCH, 4) == 0xAABB7788);
    CHECK(host.get(FAKE_SCRATCH + 2, 2) == 0xAABB);
    CHECK(host.get(FAKE_SCRATCH + 7, 1) == 0x11);
    CHECK(host.get(0, 4, BUS_CONFIG) == (RNIC_PCI_DEVICE << 16 | RNIC_PCI_VENDOR));
    CHECK(host.get(0, 2, BUS_CONFIG) == RNIC_PCI_VENDOR);
    host.set(8, 77, 4, 4); // its memory
    CHECK(host.get(8, 8, 4) == 77);
    host.set(RNIC_DB_QP, 4711, 4, 2);
    while (host.get(FAKE_DOORBELL) != 4711) {
    }
}

TEST_CASE("a READ of nothing is refused, and a WRITE there changes nothing", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    const struct {
        std::uint64_t address;
        unsigned space;
    } nothing[] = {{RNIC_BAR0_BYTES, 0}, {0, 1}, {RNIC_BAR2_BYTES, 2},
                   {kDeviceMemory, 4},   {0, 5}, {4096, BUS_CONFIG},
                   {UINT64_MAX - 3, 0}};
    for (const auto &n : nothing) {
        host.set(n.address, 1, 4, n.space);
        const BusMessage m = host.answered(n.address, 4, n.space);
        CHECK((m.header.status == 1 && m.data.empty()));
    }
    CHECK(is_alive(host));
}

TEST_CASE("a RESET is answered when the function is as new", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    host.set(FAKE_SCRATCH, 5);
    REQUIRE(host.send(BusEnd::message(BUS_RESET, 99)));
    CHECK(host.done(99).header.status == 0);
    CHECK(host.get(FAKE_SCRATCH) == 0);
    CHECK(host.get(FAKE_ATTACHES) == 2);
}

TEST_CASE("the card asks for memory in pieces, and the bytes arrive", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    Bytes data(10000);
    for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<std::uint8_t>(i * 7);
    }
    host.begin(FAKE_DMA_READ, kIova, 10000);
    for (const std::uint32_t at : {0u, 4096u, 8192u}) {
        const std::uint32_t bytes = std::min(10000 - at, 4096u);
        const BusMessage m = host.next(BUS_DMA_READ);
        CHECK((m.header.address == kIova + at && m.header.value == bytes && m.data.empty()));
        REQUIRE(host.give(m, Bytes(data.begin() + at, data.begin() + at + bytes)));
    }
    CHECK(host.result() == 1);
    host.begin(FAKE_DMA_WRITE, kIova + 3, 10000);
    Bytes back;
    for (const std::uint32_t at : {0u, 4096u, 8192u}) {
        const BusMessage m = host.next(BUS_DMA_WRITE);
        CHECK((m.header.address == kIova + 3 + at && m.header.value == 0));
        back.insert(back.end(), m.data.begin(), m.data.end());
    }
    CHECK(back == data);
    CHECK(host.result() == 1);
}

TEST_CASE("memory that the host refuses is a failed access, and nothing more", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    const BusMessage m = host.asked();
    REQUIRE(host.send(BusEnd::answer(BUS_DMA_DATA, m.header.id, 0, 1)));
    CHECK(host.result() == 2);
    REQUIRE(host.give(host.asked(), {1, 2, 3, 4}));
    CHECK(host.result() == 1);
}

TEST_CASE("an interrupt is a message with its vector, behind the writes before", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    host.begin(FAKE_DMA_WRITE, kIova, 1);
    host.next(BUS_DMA_WRITE);
    for (const unsigned vector : {0u, 5u, RNIC_VECTORS - 1u}) {
        host.begin(FAKE_INTERRUPT, 0, vector);
        CHECK(host.next(BUS_INTERRUPT).header.value == vector);
        CHECK(host.result() == 1);
    }
    host.begin(FAKE_INTERRUPT, 0, RNIC_VECTORS); // there is none
    CHECK(host.result() == 1);
}

TEST_CASE("another program hears of a write only when it is in memory", "[rnic_bus]")
{
    const Adapter adapter;
    const Host host(adapter);
    Host other(adapter);
    const auto wrote = [&] { // the host has not said that it has stored what it was sent
        host.begin(FAKE_DMA_WRITE, kIova, 100);
        host.next(BUS_DMA_WRITE);
    };
    const auto flushed = [&](unsigned status) {
        const BusMessage read = host.next(BUS_DMA_READ);
        CHECK((read.header.address == kIova && read.header.value == 1));
        CHECK(other.has_nothing());
        REQUIRE(host.send(BusEnd::answer(BUS_DMA_DATA, read.header.id, 0, status), Bytes(1 - status)));
    };
    wrote();
    other.begin(FAKE_DMA_WRITE, kIova + 8, 4);
    flushed(0);
    CHECK(other.next(BUS_DMA_WRITE).header.address == kIova + 8);
    wrote(); // for which the other has to store what it was sent
    REQUIRE(other.give(other.next(BUS_DMA_READ), {1}));
    other.begin(FAKE_INTERRUPT, 0, 3);
    flushed(1); // memory that was taken from the card meanwhile
    CHECK(other.next(BUS_INTERRUPT).header.value == 3);
    CHECK(other.result() == 1);
    wrote();
    REQUIRE(host.give(host.asked(), {1, 2, 3, 4})); // by which it has said so
    other.begin(FAKE_INTERRUPT, 0, 4);
    CHECK(other.next(BUS_INTERRUPT).header.value == 4);
    CHECK(host.has_nothing());
}

TEST_CASE("a program that ends before it has stored what it was sent delays no other", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter), other(adapter);
    host.begin(FAKE_DMA_WRITE, kIova, 100);
    host.next(BUS_DMA_WRITE);
    other.begin(FAKE_INTERRUPT, 0, 3);
    host.next(BUS_DMA_READ);
    host.hang_up();
    CHECK(other.next(BUS_INTERRUPT).header.value == 3);
    CHECK(is_alive(other));
}

TEST_CASE("a program is not asked for what the one before it was sent", "[rnic_bus]")
{
    const Adapter adapter(2);
    Host other(adapter);
    {
        Host first(adapter);
        first.begin(FAKE_DMA_WRITE, kIova, 100);
        first.next(BUS_DMA_WRITE);
        REQUIRE(first.send(BusEnd::message(BUS_BYE)));
        CHECK(first.ends_next());
    }
    const Host next(adapter);
    CHECK(next.greeting.header.status == 0);
    other.begin(FAKE_INTERRUPT, 0, 3);
    CHECK(other.next(BUS_INTERRUPT).header.value == 3);
    CHECK(next.has_nothing());
}

TEST_CASE("a card on the wire hears of a write only when it is in memory", "[rnic_bus][wire]")
{
    const std::string here = port(), there = port();
    vipl_inet at{};
    int fd = -1;
    REQUIRE(vipl_inet_resolve("127.0.0.1", 0, 4, &at));
    at.port = static_cast<std::uint16_t>(std::stoi(there));
    REQUIRE(vipl_datagram_open(&at, &fd) == 0);
    const Adapter adapter(4, false, ("udp:127.0.0.1:" + here + ",peer=127.0.0.1:" + there).c_str());
    const Host host(adapter);
    host.begin(FAKE_DMA_WRITE, kIova, 100);
    host.next(BUS_DMA_WRITE);
    host.begin(FAKE_TRANSMIT, 0, 64);
    const BusMessage read = host.next(BUS_DMA_READ);
    Bytes frame(100);
    size_t bytes = 0;
    CHECK(vipl_datagram_receive(fd, &at, frame.data(), frame.size(), &bytes) == EAGAIN);
    REQUIRE(host.give(read, {1}));
    CHECK(vipl_poll(&fd, 1, wait_ms(), nullptr) == 0);
    CHECK(vipl_datagram_receive(fd, &at, frame.data(), frame.size(), &bytes) == 0);
    CHECK(bytes == 64);
    vipl_fd_close(fd);
}

TEST_CASE("a READ is answered after the WRITEs before it, and not while the card waits for memory",
          "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    host.set(FAKE_SCRATCH, 5);
    const BusMessage m = host.asked();
    host.set(FAKE_SCRATCH, 6);
    host.set(FAKE_SCRATCH + 4, 7);
    const std::uint32_t id = host.ask(FAKE_SCRATCH, 8);
    REQUIRE(host.give(m, {1, 2, 3, 4}));
    CHECK(host.done(id).header.value == (UINT64_C(7) << 32 | 6));
    const BusMessage again = host.asked();
    const std::uint32_t result = host.ask(FAKE_RESULT);
    REQUIRE(host.give(again, {1, 2, 3, 4}));
    CHECK(host.done(result).header.value == 1); // at once it would have been 0: under way

    const BusMessage third = host.asked();
    REQUIRE(host.send(BusEnd::message(BUS_RESET, 1)));
    REQUIRE(host.give(third, {1, 2, 3, 4}));
    CHECK(host.done(1).header.status == 0);
    CHECK(host.get(FAKE_DONE) == 0);
}

TEST_CASE("what a host may not send ends its connection, and no other's", "[rnic_bus]")
{
    const Adapter adapter;
    Host witness(adapter);
    witness.set(FAKE_SCRATCH, 815);
    const auto m = [](unsigned kind) { return BusEnd::access(kind, 1, 0); };
    const auto with = [&](unsigned kind, const std::function<void(rnic_bus_message &)> &change) {
        rnic_bus_message wrong = m(kind);
        change(wrong);
        return wrong;
    };
    const std::vector<std::pair<rnic_bus_message, Bytes>> wrong = {
        {m(0), {}},
        {m(BUS_DONE), {}},
        {BusEnd::dma(BUS_DMA_READ, 0x1000, 4), {}},
        {BusEnd::dma(BUS_DMA_WRITE, 0x1000), {1}},
        {m(BUS_INTERRUPT), {}},
        {m(11), {}},
        {BusEnd::hello(), {}}, // for the second time
        {m(BUS_READ), {1}},
        {with(BUS_READ, [](rnic_bus_message &w) { w.bytes = 39; }), {}},
        {with(BUS_WRITE, [](rnic_bus_message &w) { w.bytes = UINT32_MAX; }), {}},
        {with(BUS_READ, [](rnic_bus_message &w) { w.function = 1; }), {}},
        {with(BUS_WRITE, [](rnic_bus_message &w) { w.function = 1; }), {}},
        {with(BUS_READ, [](rnic_bus_message &w) { w.width = 3; }), {}},
        {with(BUS_READ, [](rnic_bus_message &w) { w.address = 2; }), {}},
        {with(BUS_WRITE, [](rnic_bus_message &w) { w.space = 6; }), {}},
        {with(BUS_WRITE, [](rnic_bus_message &w) { w.status = 1; }), {}},
        {BusEnd::answer(BUS_DMA_DATA, 0), {}}, // to nothing
        {BusEnd::answer(BUS_DMA_DATA, 1), {1}},
    };
    for (const auto &w : wrong) {
        INFO(w.first.kind);
        Host host(adapter);
        REQUIRE(host.send(w.first, w.second));
        (void)host.send(m(BUS_READ));
        CHECK(host.ends());
    }
    for (const rnic_bus_message &first :
         {m(BUS_READ), m(BUS_WRITE), BusEnd::message(BUS_RESET), with(BUS_HELLO, [](rnic_bus_message &w) {
              w.value = 1;
          })}) { // before a HELLO, or a HELLO of something else
        const Host host(adapter, false);
        REQUIRE(host.send(first));
        CHECK(host.ends_next());
    }
    for (const Bytes &data : {Bytes{}, Bytes{1}}) { // a HELLO with what a host's has not
        const Host host(adapter, false);
        rnic_bus_message h = BusEnd::hello();
        h.status = data.empty() ? 1 : 0;
        REQUIRE(host.send(h, data));
        CHECK(host.ends_next());
    }
    CHECK(witness.get(FAKE_SCRATCH) == 815);
}

TEST_CASE("a wrong answer to the card ends the connection", "[rnic_bus]")
{
    const Adapter adapter;
    Host witness(adapter);
    const struct {
        int id;
        unsigned status;
        size_t bytes;
    } wrong[] = {{0, 0, 3}, {0, 0, 5}, {0, 0, 0}, {0, 1, 4}, {0, 2, 0}, {1, 0, 4}, {-1, 1, 0}, {65536, 0, 4}};
    for (const auto &w : wrong) {
        Host host(adapter);
        const BusMessage m = host.asked();
        const auto id = m.header.id + static_cast<std::uint32_t>(w.id);
        REQUIRE(host.send(BusEnd::answer(BUS_DMA_DATA, id, 0, w.status), Bytes(w.bytes)));
        CHECK(host.ends());
    }
    Host twice(adapter);
    const BusMessage m = twice.asked();
    REQUIRE(twice.send_bytes([&] {
        Bytes both = BusEnd::bytes_of(BusEnd::answer(BUS_DMA_DATA, m.header.id), {1, 2, 3, 4});
        both.insert(both.end(), both.begin(), both.end());
        return both;
    }()));
    CHECK(twice.ends());
    CHECK(is_alive(witness));
}

TEST_CASE("a host has one question outstanding, and 256 WRITEs", "[rnic_bus]")
{
    const Adapter adapter;
    for (const rnic_bus_message &second :
         {BusEnd::access(BUS_READ, 2, 0), BusEnd::access(BUS_WRITE, 0, FAKE_SCRATCH),
          BusEnd::message(BUS_RESET, 2)}) {
        Host host(adapter);
        host.asked(); // so that the first READ is not answered
        host.ask(FAKE_ID);
        REQUIRE(host.send(second));
        CHECK(host.ends());
    }
    Host host(adapter);
    for (int round = 0; round < 3; ++round) {
        for (std::uint32_t i = 1; i <= BUS_MAX_WRITES; ++i) {
            host.set(FAKE_SCRATCH, i);
        }
        CHECK(host.get(FAKE_SCRATCH) == BUS_MAX_WRITES);
    }
    const BusMessage m = host.asked(); // three WRITEs
    for (std::uint32_t i = 4; i <= BUS_MAX_WRITES; ++i) {
        host.set(FAKE_SCRATCH, i); // kept, for the card waits
    }
    REQUIRE(host.give(m, {1, 2, 3, 4}));
    CHECK(host.get(FAKE_SCRATCH) == BUS_MAX_WRITES);
    for (std::uint32_t i = 0; i <= BUS_MAX_WRITES; ++i) {
        (void)host.send(BusEnd::access(BUS_WRITE, 0, FAKE_SCRATCH));
    }
    CHECK(host.ends());
}

TEST_CASE("a host of another version is told this one", "[rnic_bus]")
{
    const Adapter adapter;
    for (const std::uint64_t version : {UINT64_C(0), UINT64_C(2), UINT64_C(1) << 32 | 1}) {
        const Host host(adapter, false);
        REQUIRE(host.send(BusEnd::hello(version)));
        const BusMessage m = host.next(BUS_HELLO);
        CHECK((m.header.value == 1 && m.header.status == 0));
        CHECK(host.ends_next());
    }
}

TEST_CASE("a host for which there is no function is told so", "[rnic_bus]")
{
    const Adapter adapter(1);
    Host first(adapter);
    {
        const Host second(adapter, false); // before it has said anything
        const BusMessage m = second.next(BUS_HELLO);
        CHECK((m.header.status == 1 && m.header.id == BUS_MAGIC && m.header.value == 1 && m.data.empty()));
        CHECK(second.ends_next());
    }
    REQUIRE(first.send(BusEnd::message(BUS_BYE)));
    CHECK(first.ends_next());
    Host third(adapter);
    CHECK(third.get(FAKE_ATTACHES) == 2);
}

TEST_CASE("a host may end while the card waits for its memory", "[rnic_bus]")
{
    const Adapter adapter(1);
    for (const bool is_polite : {true, false}) {
        Host host(adapter);
        host.asked();
        if (is_polite) {
            REQUIRE(host.send(BusEnd::message(BUS_BYE)));
            CHECK(host.ends_next());
        } else {
            host.hang_up();
            BusMessage m;
            do { // until the adapter has noticed
                const Host next(adapter, false);
                (void)next.send(BusEnd::hello());
                m = next.receive();
            } while (m.header.status != 0);
        }
    }
}

TEST_CASE("a host that does not answer delays the card once, for a second", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    const BusMessage m = host.asked();
    CHECK(host.result() == 2);
    host.begin(FAKE_DMA_READ, kIova, 4);
    CHECK(host.result() == 2); // without another message
    REQUIRE(host.give(m, {1, 2, 3, 4}));
    REQUIRE(host.give(host.asked(), {4, 3, 2, 1})); // it answers again: so is it asked
    CHECK(host.result() == 1);
    CHECK(host.get(FAKE_BUFFER) == 0x01020304);
    REQUIRE(host.give(m, {1, 2, 3, 4})); // once more
    CHECK(host.ends());
}

TEST_CASE("what a host does not read is kept, in order, while it is read from", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter), witness(adapter);
    constexpr std::uint32_t kCount = 2000; // more than the socket takes
    for (std::uint32_t i = 0; i < kCount; ++i) {
        host.set(FAKE_SCRATCH, i);
        REQUIRE(host.send(BusEnd::access(BUS_READ, i, FAKE_SCRATCH)));
        if (i % 100 == 0) {
            CHECK(is_alive(witness));
        }
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
        REQUIRE(host.done(i).header.value == i);
    }
    CHECK(is_alive(host));
}

TEST_CASE("a host that never reads has no room without end", "[rnic_bus]")
{
    const Adapter adapter;
    const Host host(adapter);
    Host witness(adapter);
    bool is_open = true;
    std::uint32_t sent = 0;
    for (; is_open && sent < 100000; ++sent) {
        is_open = host.send(BusEnd::access(BUS_READ, sent, FAKE_ID));
    }
    CHECK((!is_open && sent > 3000));
    CHECK(is_alive(witness));
}

TEST_CASE("the card's writes to a host that does not read fail, until it reads again", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter), witness(adapter);
    constexpr int kWhole = FAKE_BUFFER_BYTES / BUS_MAX_DMA * BUS_MAX_BYTES;
    int before = 0, there = 0;
    do {
        before = there;
        host.begin(FAKE_DMA_WRITE, kIova, FAKE_BUFFER_BYTES);
        while (ioctl(host.fd, FIONREAD, &there) == 0 && there == before) { // it is not under way
        }
        CHECK(is_alive(witness)); // it is over
        REQUIRE(ioctl(host.fd, FIONREAD, &there) == 0);
    } while (there == before + kWhole); // all of it had room
    const std::uint32_t id = host.ask(FAKE_RESULT);
    size_t bytes = 0;
    BusMessage m = host.receive();
    for (; !m.ended && m.header.kind == BUS_DMA_WRITE; m = host.receive()) {
        REQUIRE(m.header.address == kIova + bytes % FAKE_BUFFER_BYTES); // whole ones, in order
        bytes += m.data.size();
    }
    CHECK((m.header.kind == BUS_DONE && m.header.id == id));
    CHECK(m.header.value == 2);
    CHECK(bytes % FAKE_BUFFER_BYTES != 0);
    host.begin(FAKE_DMA_WRITE, kIova, 5);
    CHECK(host.next(BUS_DMA_WRITE).data.size() == 5);
    CHECK(host.result() == 1);
}

TEST_CASE("the card goes on at once when a host that was slow reads", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter);
    constexpr int kWhole = FAKE_BUFFER_BYTES / BUS_MAX_DMA * BUS_MAX_BYTES, kTimes = 10;
    const std::uint64_t before = vipl_now_ns();
    for (int i = 0; i < kTimes; ++i) {
        int there = 0;
        host.begin(FAKE_DMA_WRITE, kIova, FAKE_BUFFER_BYTES);
        while (ioctl(host.fd, FIONREAD, &there) == 0 && there < kWhole) { // the first one fits
        }
        host.begin(FAKE_DMA_WRITE, kIova, FAKE_BUFFER_BYTES);
        while (ioctl(host.fd, FIONREAD, &there) == 0 && there == kWhole) { // the second one does not
        }
        for (size_t bytes = 0; bytes < size_t{2} * FAKE_BUFFER_BYTES;) {
            bytes += host.next(BUS_DMA_WRITE).data.size();
        }
        CHECK(host.result() == 1);
    }
    // One that does not see that there is room again waits for a second each time.
    CHECK(vipl_now_ns() - before < UINT64_C(500000000) * kTimes);
}

TEST_CASE("a message may come byte by byte", "[rnic_bus]")
{
    const Adapter adapter;
    Host host(adapter), witness(adapter);
    const BusMessage m = host.asked();
    Bytes bytes = BusEnd::bytes_of(BusEnd::answer(BUS_DMA_DATA, m.header.id), {1, 2, 3, 4});
    const Bytes read = BusEnd::bytes_of(BusEnd::access(BUS_READ, 1, FAKE_BUFFER));
    bytes.insert(bytes.end(), read.begin(), read.end());
    for (const std::uint8_t byte : bytes) {
        REQUIRE(host.send_bytes({byte}));
    }
    CHECK(host.done(1).header.value == 0x04030201);
}
