// SPDX-License-Identifier: MIT
//
// The driver's end of the bus protocol (docs/rnic/socket.md), at cards that do what a script says:
// as they may, and as they may not.
#include "bus_end.hpp"

#include <atomic>
#include <functional>

extern "C" {
#include "bus/host.h"
}

using namespace adapter_test;

namespace {

Bytes bars(std::uint64_t bar0 = RNIC_BAR0_BYTES, std::uint64_t bar2 = RNIC_BAR2_BYTES)
{
    Bytes out;
    for (const std::uint64_t bytes :
         {bar0, std::uint64_t{0}, bar2, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}}) {
        put(out, bytes, 8);
    }
    return out;
}

using Script = std::function<void(BusEnd &)>;

/** A card in a thread of its own: it says HELLO, does what its script says, reads to the end. */
class Card {
public:
    explicit Card(Script script, bool greets = true)
        : path(folder_.path + "/s"), script_(std::move(script)), greets_(greets)
    {
        REQUIRE(vipl_unix_listen(path.c_str(), &listener_, &lock_) == 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~Card()
    {
        end();
        vipl_unix_unlisten(path.c_str(), listener_, lock_);
    }
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;
    /** The driver has closed the connection: waits until the card has seen that. */
    void end()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    std::vector<BusMessage> rest; ///< what the script has not received; after end()

private:
    void serve()
    {
        int fd = -1;
        if (vipl_poll(&listener_, 1, wait_ms(), nullptr) != 0 || vipl_local_accept(listener_, &fd) != 0) {
            return;
        }
        BusEnd card(fd);
        if (greets_) {
            (void)card.receive();
            (void)card.send(BusEnd::hello(), bars());
        }
        script_(card);
        for (BusMessage m = card.receive(); card.fd >= 0 && !m.ended; m = card.receive()) {
            rest.push_back(m);
        }
    }

    Folder folder_;
    int listener_ = -1, lock_ = -1;
    std::thread thread_;

public:
    std::string path;

private:
    Script script_;
    bool greets_;
};

int open_at(const Card &card, rnic_pci **pci)
{
    return rnic_pci_bus_open(("bus:" + card.path).c_str(), pci);
}

class Pci {
public:
    explicit Pci(const Card &card) { REQUIRE(open_at(card, &pci) == 0); }
    ~Pci() { close(); }
    Pci(const Pci &) = delete;
    Pci &operator=(const Pci &) = delete;
    void close()
    {
        if (pci != nullptr) {
            pci->ops->close(pci);
        }
        pci = nullptr;
    }
    std::uint32_t get(std::uint32_t offset = 0) const { return pci->ops->read(pci, 0, offset); }
    bool is_gone() const
    {
        const std::uint64_t deadline = vipl_now_ns() + static_cast<std::uint64_t>(wait_ms()) * 1000000;
        while (!pci->ops->is_gone(pci) && vipl_now_ns() < deadline) {
            vipl_test::give_way();
        }
        return pci->ops->is_gone(pci);
    }
    std::string because() const
    {
        const char *why = pci->ops->gone_because(pci);
        return why == nullptr ? "" : why;
    }
    std::uint64_t map(void *memory, size_t bytes, unsigned access = RNIC_PCI_READ | RNIC_PCI_WRITE) const
    {
        std::uint64_t iova = 0;
        REQUIRE(pci->ops->map(pci, memory, bytes, access, &iova) == 0);
        return iova;
    }

    rnic_pci *pci = nullptr;
};

/** Answers a READ. */
void done(const BusEnd &card, const BusMessage &m, std::uint64_t value = 0, unsigned status = 0)
{
    (void)card.send(BusEnd::answer(BUS_DONE, m.header.id, value, status));
}

/** What the card was told by a WRITE: where the memory is that it shall access. */
struct Told {
    std::uint64_t address;
    BusMessage question; // the READ behind it
};
Told told(const BusEnd &card)
{
    std::uint64_t address = 0;
    BusMessage m = card.receive();
    for (; !m.ended && m.header.kind == BUS_WRITE; m = card.receive()) {
        address |= m.header.value << (m.header.address * 8);
    }
    return {address, m};
}
void tell(const Pci &p, std::uint64_t address)
{
    p.pci->ops->write(p.pci, 0, 0, static_cast<std::uint32_t>(address));
    p.pci->ops->write(p.pci, 0, 4, static_cast<std::uint32_t>(address >> 32));
}

/** What the card gets for a DMA_READ. */
BusMessage read_memory(const BusEnd &card, std::uint64_t address, std::uint64_t bytes)
{
    (void)card.send(BusEnd::dma(BUS_DMA_READ, address, bytes, 7));
    return card.receive();
}

std::string gone_after(const Script &script)
{
    Card card([&](BusEnd &end) {
        (void)end.receive();
        script(end);
    });
    const Pci p(card);
    CHECK(p.get() == UINT32_MAX);
    CHECK(p.is_gone());
    CHECK(p.pci->ops->config_read(p.pci, 0, 4) == UINT32_MAX);
    CHECK(p.pci->ops->reset(p.pci) == ENODEV);
    p.pci->ops->write(p.pci, 0, 0, 1);
    return p.because();
}

/** A host without a driver, whose patience is short. */
class Impatient {
public:
    explicit Impatient(const Script &script, bool greets = true)
    {
        int fds[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        const int little = 1;
        REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
        thread_ = std::thread([this, script, greets, fd = fds[1]] {
            const BusEnd card(fd);
            BusEnd end(dup(fd));
            if (greets) {
                (void)end.receive();
                (void)end.send(BusEnd::hello(), bars());
            }
            script(end);
            while (!is_over) {
                vipl_test::give_way();
            }
        });
        static const rnic_bus_host_ops ops = {
            [](void *, std::uint64_t, void *out, std::uint32_t bytes) {
                std::memset(out, 1, bytes);
                return true;
            },
            [](void *, std::uint64_t, const void *, std::uint32_t) -> const char * { return nullptr; },
            [](void *, std::uint64_t) { return true; },
            [](void *context) { static_cast<Impatient *>(context)->behind++; }};
        error = rnic_bus_host_open(&host, fds[0], 50, &ops, this);
    }
    ~Impatient()
    {
        is_over = true;
        rnic_bus_host_close(&host);
        thread_.join();
    }
    Impatient(const Impatient &) = delete;
    Impatient &operator=(const Impatient &) = delete;
    std::string why() const { return host.why == nullptr ? "" : host.why; }

    std::atomic<bool> is_over{false};
    rnic_bus_host host{};
    unsigned behind = 0; ///< how often it was told that something is kept
    int error = 0;

private:
    std::thread thread_;
};

} // namespace

TEST_CASE("a driver sends what the protocol says, and BYE last", "[rnic_bus]")
{
    Card card(
        [](BusEnd &end) {
            const BusMessage hello = end.receive();
            const bool is_right = hello.header.kind == BUS_HELLO && hello.header.id == BUS_MAGIC &&
                                  hello.header.value == 1 && hello.header.status == 0 && hello.data.empty();
            (void)end.send(is_right ? BusEnd::hello() : BusEnd::message(BUS_BYE), bars());
            done(end, end.receive(), 0xFFFFFFFF00001234); // the width's bytes count
            done(end, end.receive(), 0, 1);
        },
        false);
    Pci p(card);
    rnic_pci *pci = p.pci;
    CHECK(pci->ops->config_read(pci, 0x34, 1) == 0x34);
    CHECK(pci->ops->config_read(pci, 0x36, 2) == 0xFFFF); // refused
    pci->ops->write(pci, 2, 0x40, 0x11223344);
    pci->ops->config_write(pci, 6, 2, 0x55667788);
    p.close();
    card.end();
    REQUIRE(card.rest.size() == 3);
    const rnic_bus_message &first = card.rest[0].header, &second = card.rest[1].header;
    CHECK((first.kind == BUS_WRITE && first.function == 0 && first.width == 4 && first.space == 2));
    CHECK((first.address == 0x40 && first.value == 0x11223344 && card.rest[0].data.empty()));
    CHECK((second.kind == BUS_WRITE && second.width == 2 && second.space == 7 && second.address == 6));
    CHECK((second.value & 0xFFFF) == 0x7788);
    CHECK(card.rest[2].header.kind == BUS_BYE);
}

TEST_CASE("a reset is one question, and then all vectors are open", "[rnic_bus]")
{
    std::atomic<unsigned> resets{0}, opened{0};
    std::atomic<bool> refuses{false};
    Card card([&](BusEnd &end) {
        for (BusMessage m = end.receive(); !m.ended && m.header.kind != BUS_BYE; m = end.receive()) {
            if (m.header.kind == BUS_WRITE) {
                const std::uint64_t at = m.header.address - RNIC_MSIX_TABLE;
                opened +=
                    m.header.space == 0 && at % 16 == 12 && at / 16 < RNIC_VECTORS && m.header.value == 0;
                continue;
            }
            resets += m.header.kind == BUS_RESET;
            done(end, m, 0, refuses && m.header.kind == BUS_RESET ? 1 : 0);
        }
    });
    const Pci p(card);
    CHECK(p.pci->ops->reset(p.pci) == 0);
    CHECK(p.get() == 0); // behind the writes
    CHECK((resets == 1 && opened == RNIC_VECTORS));
    refuses = true;
    CHECK(p.pci->ops->reset(p.pci) == EIO);
    CHECK_FALSE(p.pci->ops->is_gone(p.pci));
}

TEST_CASE("a driver asks a card that has executed 256 writes before it makes more", "[rnic_bus]")
{
    std::atomic<unsigned> most{0}, all{0};
    Card card([&](BusEnd &end) {
        unsigned writes = 0;
        for (BusMessage m = end.receive(); !m.ended && m.header.kind != BUS_BYE; m = end.receive()) {
            writes = m.header.kind == BUS_WRITE ? writes + 1 : 0;
            all += m.header.kind == BUS_WRITE ? 1 : 0;
            most = std::max<unsigned>(most, writes);
            if (m.header.kind == BUS_READ) {
                done(end, m);
            }
        }
    });
    const Pci p(card);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        p.pci->ops->write(p.pci, 0, 0, i);
    }
    CHECK(p.get() == 0);
    CHECK((most == 256 && all == 1000));
}

TEST_CASE("what answers the HELLO is a card of this kind, or there is none", "[rnic_bus]")
{
    const auto opens = [](const rnic_bus_message &hello, const Bytes &data) {
        const Card card(
            [&](BusEnd &end) {
                (void)end.receive();
                (void)end.send(hello, data);
            },
            false);
        rnic_pci *pci = nullptr;
        const int error = open_at(card, &pci);
        CHECK(pci == nullptr);
        return error;
    };
    rnic_bus_message refusal = BusEnd::hello();
    refusal.status = 1;
    CHECK(opens(refusal, {}) == EBUSY);
    CHECK(opens(BusEnd::hello(2), bars()) == EPROTO);
    CHECK(opens(BusEnd::hello(), {}) == EPROTO);
    CHECK(opens(BusEnd::hello(), bars(RNIC_BAR0_BYTES - 1)) == EPROTO);
    CHECK(opens(BusEnd::hello(), bars(RNIC_BAR0_BYTES, 4096)) == EPROTO);
    CHECK(opens(BusEnd::message(BUS_HELLO, BUS_MAGIC + 1), bars()) == ECONNRESET);
    CHECK(opens(BusEnd::message(BUS_BYE), {}) == ECONNRESET);
    for (const rnic_bus_message &m : {BusEnd::message(BUS_INTERRUPT), BusEnd::dma(BUS_DMA_READ, 0x1000, 4),
                                      BusEnd::answer(BUS_DONE, BUS_MAGIC)}) { // before its HELLO
        const Card card(
            [&](BusEnd &end) {
                (void)end.send(m);
                (void)end.send(BusEnd::hello(), bars());
            },
            false);
        rnic_pci *pci = nullptr;
        CHECK(open_at(card, &pci) == ECONNRESET);
        if (pci != nullptr) {
            pci->ops->close(pci);
        }
    }
    const Card closes([](BusEnd &end) { end.hang_up(); }, false);
    rnic_pci *pci = nullptr;
    CHECK(open_at(closes, &pci) == ECONNRESET);
    CHECK(pci == nullptr);
}

TEST_CASE("a card that has said that it has no function need not have heard the host", "[rnic_bus]")
{
    const Card card(
        [](BusEnd &end) {
            rnic_bus_message refusal = BusEnd::hello();
            refusal.status = 1;
            (void)end.send(refusal);
            end.hang_up();
        },
        false);
    rnic_pci *pci = nullptr;
    CHECK(open_at(card, &pci) == EBUSY);
}

TEST_CASE("names of other buses are none of this one", "[rnic_bus]")
{
    rnic_pci *pci = nullptr;
    for (const char *name : {"", "inproc", "socket:/x", "bus", "pci:0000:00:05.0"}) {
        CHECK(rnic_pci_bus_open(name, &pci) == ENODEV);
    }
    CHECK(rnic_pci_bus_open("bus:/nowhere/at/all", &pci) == ENOENT);
    CHECK(pci == nullptr);
}

TEST_CASE("what a card may not send ends its connection, and the driver says why", "[rnic_bus]")
{
    const auto sends = [](rnic_bus_message m, const Bytes &data = {}) {
        return gone_after([=](const BusEnd &end) { (void)end.send(m, data); });
    };
    const auto with = [](rnic_bus_message m, std::uint32_t bytes) {
        m.bytes = bytes;
        return m;
    };
    rnic_bus_message other = BusEnd::answer(BUS_DONE, 1);
    const std::string kind = "a message of a kind that this end does not send";
    for (const unsigned k : {0u, 2u, 3u, 4u, 7u, 11u}) {
        CHECK(sends(BusEnd::access(k, 1, 0)) == kind);
    }
    const std::string length = "a message has a length that its kind does not have";
    CHECK(sends(with(other, 39)) == length);
    CHECK(sends(other, {1}) == length);
    CHECK(sends(with(BusEnd::dma(BUS_DMA_WRITE, 0x1000), UINT32_MAX)) == length);
    CHECK(sends(BusEnd::answer(BUS_DONE, 1, 0, 2)) == "a message has a status that does not exist");
    const std::string dma = "a DMA is empty, too long, or runs over the end of the addresses";
    CHECK(sends(BusEnd::dma(BUS_DMA_READ, 0x1000, 0)) == dma);
    CHECK(sends(BusEnd::dma(BUS_DMA_READ, 0x1000, 4097)) == dma);
    CHECK(sends(BusEnd::dma(BUS_DMA_READ, UINT64_MAX, 2)) == dma);
    CHECK(sends(BusEnd::dma(BUS_DMA_WRITE, 0x1000)) == dma);
    other.id = BUS_MAGIC; // of the HELLO
    const std::string unasked = "the card answers what was not asked";
    CHECK(sends(other) == unasked);
    CHECK(sends(BusEnd::hello(), bars()) == unasked);
    rnic_bus_message function = BusEnd::message(BUS_INTERRUPT);
    function.function = 1;
    CHECK(sends(function) == "the card speaks of a function that this host does not have");
    rnic_bus_message vector = BusEnd::message(BUS_INTERRUPT);
    vector.value = RNIC_VECTORS;
    CHECK(sends(vector) == "the card fires a vector that does not exist");
    vector.value = UINT64_C(1) << 32;
    CHECK(sends(vector) == "the card fires a vector that does not exist");
    CHECK(sends(BusEnd::dma(BUS_DMA_WRITE, 0x1000), {1}) ==
          "the card writes to memory that it was not given");
    CHECK(sends(BusEnd::message(BUS_BYE)).empty());
    CHECK(gone_after([](BusEnd &end) { end.hang_up(); }).empty());
    CHECK(gone_after([](BusEnd &end) { // in the middle of a message
              (void)end.send_bytes(Bytes(BUS_HEADER_BYTES / 2, 0));
              end.hang_up();
          })
              .empty());
}

TEST_CASE("an answer that comes twice, or for the question before, ends the connection", "[rnic_bus]")
{
    for (const bool is_at_once : {true, false}) {
        Card card([&](BusEnd &end) {
            const BusMessage m = end.receive();
            done(end, m, 5);
            if (!is_at_once) {
                (void)end.receive();
            }
            done(end, m, 6);
        });
        const Pci p(card);
        CHECK(p.get() == 5);
        if (!is_at_once) {
            CHECK(p.get() == UINT32_MAX);
        }
        CHECK(p.is_gone());
        CHECK(p.because() == "the card answers what was not asked");
    }
}

TEST_CASE("a card needs memory before it can answer, and gets it", "[rnic_bus]")
{
    std::vector<std::uint8_t> memory(5000);
    for (size_t i = 0; i < memory.size(); ++i) {
        memory[i] = static_cast<std::uint8_t>(i * 3);
    }
    Card card([](BusEnd &end) {
        const Told t = told(end);
        const BusMessage m = read_memory(end, t.address + 100, 4096);
        (void)end.send(BusEnd::dma(BUS_DMA_WRITE, t.address), m.data);
        done(end, t.question, m.data.size());
    });
    const Pci p(card);
    tell(p, p.map(memory.data(), memory.size()));
    CHECK(p.get() == 4096);
    CHECK(
        (memory[0] == static_cast<std::uint8_t>(300) && memory[4095] == static_cast<std::uint8_t>(4195 * 3)));
    CHECK(memory[4096] == static_cast<std::uint8_t>(4096 * 3));
}

TEST_CASE("memory that is not the card's is refused to it, byte by byte", "[rnic_bus]")
{
    std::atomic<unsigned> statuses{0};
    std::vector<std::uint8_t> memory(1000, 7);
    std::uint64_t whole = 0, unmapped = 0, written = 0;
    Card card([&](BusEnd &end) {
        const BusMessage question = end.receive();
        const struct {
            std::uint64_t address, bytes;
        } all[] = {{whole, 1000}, {whole, 1001}, {whole - 1, 2}, {whole + 999, 2}, {whole + 1000, 1},
                   {unmapped, 1}, {written, 1},  {0, 1},         {UINT64_MAX, 1}};
        for (const auto &a : all) {
            const BusMessage m = read_memory(end, a.address, a.bytes);
            const bool is_right = m.header.kind == BUS_DMA_DATA && m.header.id == 7 &&
                                  m.data == Bytes(m.header.status == 0 ? a.bytes : 0, 7);
            statuses = statuses << 1 | (is_right ? m.header.status : 0);
        }
        done(end, question, 1);
    });
    const Pci p(card);
    whole = p.map(memory.data(), memory.size(), RNIC_PCI_READ);
    unmapped = p.map(memory.data(), memory.size());
    p.pci->ops->unmap(p.pci, unmapped, memory.size());
    written = p.map(memory.data(), memory.size(), RNIC_PCI_WRITE);
    CHECK(p.get() == 1);
    CHECK(statuses == 0xFF); // all but the first
}

TEST_CASE("a card that writes to what it may only read, or what is unmapped, is gone", "[rnic_bus]")
{
    for (const bool is_unmapped : {false, true}) {
        std::vector<std::uint8_t> memory(1000, 7);
        Card card([](BusEnd &end) {
            const Told t = told(end);
            (void)end.send(BusEnd::dma(BUS_DMA_WRITE, t.address), {1, 2, 3});
            done(end, t.question);
        });
        const Pci p(card);
        const std::uint64_t iova =
            p.map(memory.data(), memory.size(), is_unmapped ? RNIC_PCI_WRITE : RNIC_PCI_READ);
        if (is_unmapped) {
            p.pci->ops->unmap(p.pci, iova, memory.size());
        }
        tell(p, iova);
        CHECK(p.get() == UINT32_MAX);
        CHECK(p.because() == "the card writes to memory that it was not given");
        CHECK(memory == Bytes(1000, 7));
    }
}

TEST_CASE("memory that the program has taken away crashes nothing", "[rnic_bus]")
{
    Card card([](BusEnd &end) {
        const Told t = told(end);
        const BusMessage m = read_memory(end, t.address, 8);
        done(end, t.question, m.header.status);
        const Told again = told(end);
        (void)end.send(BusEnd::dma(BUS_DMA_WRITE, t.address), Bytes(8));
        done(end, again.question);
    });
    const Pci p(card);
    void *memory = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    tell(p, p.map(memory, 65536));
    REQUIRE(mprotect(memory, 65536, PROT_NONE) == 0); // its addresses stay this test's
    CHECK(p.get() == 1);
    CHECK(p.get() == UINT32_MAX);
    CHECK(p.because() == "the card writes to registered memory that the program has unmapped");
    CHECK(munmap(memory, 65536) == 0);
}

TEST_CASE("a card has 32 reads of memory outstanding, and a driver that writes meanwhile", "[rnic_bus]")
{
    std::vector<std::uint8_t> memory(4096, 9);
    Card card([](BusEnd &end) {
        const Told t = told(end);
        for (std::uint32_t i = 0; i < BUS_MAX_DMA_READS; ++i) {
            (void)end.send(BusEnd::dma(BUS_DMA_READ, t.address, 4096, i));
        }
        bool is_right = true;
        for (std::uint32_t i = 0; i < BUS_MAX_DMA_READS; ++i) {
            const BusMessage m = end.receive();
            is_right =
                is_right && m.header.kind == BUS_DMA_DATA && m.header.id == i && m.data == Bytes(4096, 9);
        }
        done(end, t.question, is_right ? 1 : 2);
    });
    const Pci p(card);
    tell(p, p.map(memory.data(), memory.size()));
    CHECK(p.get() == 1);
}

TEST_CASE("a card that asks for ever and reads nothing is gone", "[rnic_bus]")
{
    std::vector<std::uint8_t> memory(4096);
    CHECK(gone_after([](BusEnd &end) {
              for (std::uint32_t i = 0; i < 1000; ++i) { // it is refused all of it, which is answered, too
                  for (std::uint32_t k = 0; k < 100; ++k) {
                      (void)end.send(BusEnd::dma(BUS_DMA_READ, 0x1000, 4096, k));
                  }
              }
          }) == "the card does not read what it has asked for");
}

TEST_CASE("a card that writes more than a socket holds is read from, whatever the driver does", "[rnic_bus]")
{
    std::vector<std::uint8_t> memory(4096);
    Card card([](BusEnd &end) {
        const Told t = told(end);
        done(end, t.question);
        for (std::uint32_t i = 0; i < 2000; ++i) { // 8 MiB, while nothing is read here
            (void)end.send(BusEnd::dma(BUS_DMA_WRITE, t.address), Bytes(4096, static_cast<std::uint8_t>(i)));
        }
        done(end, told(end).question, 5);
    });
    const Pci p(card);
    tell(p, p.map(memory.data(), memory.size()));
    CHECK(p.get() == 0);
    for (std::uint32_t i = 0; i < 256; ++i) {
        p.pci->ops->write(p.pci, 0, 0, i);
    }
    CHECK(p.get() == 5);
    CHECK(memory == Bytes(4096, static_cast<std::uint8_t>(1999)));
}

TEST_CASE("a card's writes and interrupts reach a driver that calls nothing", "[rnic_bus]")
{
    Card card([](BusEnd &end) {
        const Told t = told(end);
        done(end, t.question);
        (void)end.send(BusEnd::dma(BUS_DMA_WRITE, t.address), {1, 2, 3, 4});
        rnic_bus_message m = BusEnd::message(BUS_INTERRUPT);
        m.value = 3;
        (void)end.send(m);
    });
    const Pci p(card);
    rnic_pci_slab slab{};
    REQUIRE(p.pci->ops->slab(p.pci, RNIC_PCI_SLAB_BYTES, &slab) == 0);
    tell(p, slab.iova + 8);
    CHECK(p.get() == 0);
    const int fd = p.pci->ops->interrupt_fd(p.pci, 3);
    REQUIRE(vipl_poll(&fd, 1, wait_ms(), nullptr) == 0);
    CHECK(Bytes(slab.base + 8, slab.base + 13) == Bytes{1, 2, 3, 4, 0}); // before the interrupt
    p.pci->ops->free_slab(p.pci, &slab);
}

TEST_CASE("a card that dies wakes who waits for its end", "[rnic_bus]")
{
    Card card([](BusEnd &end) {
        (void)end.receive();
        end.hang_up();
    });
    const Pci p(card);
    vipl_pollset end{};
    REQUIRE(vipl_pollset_open(&end) == 0);
    REQUIRE(vipl_pollset_add_end(&end, p.pci->end_fd, nullptr) == 0);
    CHECK(vipl_poll(&end.fd, 1, 0, nullptr) == ETIMEDOUT);
    p.pci->ops->write(p.pci, 0, 0, 1);
    CHECK(vipl_poll(&end.fd, 1, wait_ms(), nullptr) == 0);
    vipl_pollset_close(&end);
    CHECK(p.is_gone());
    CHECK(p.because().empty());
}

TEST_CASE("threads that read are answered each its own, while the card reads memory", "[rnic_bus]")
{
    std::vector<std::uint8_t> memory(64, 1);
    Card card([](BusEnd &end) {
        const Told t = told(end);
        done(end, t.question);
        for (BusMessage m = end.receive(); !m.ended && m.header.kind != BUS_BYE; m = end.receive()) {
            if (m.header.kind == BUS_READ) {
                const BusMessage data = read_memory(end, t.address, 64);
                done(end, m, m.header.address + data.header.status);
            }
        }
    });
    const Pci p(card);
    tell(p, p.map(memory.data(), memory.size()));
    CHECK(p.get() == 0);
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint32_t i = 0; i < 100; ++i) {
                wrong += p.get(16 * i + 4 * t) == 16 * i + 4 * t ? 0 : 1;
                p.pci->ops->progress(p.pci);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("a card that is silent for too long is gone", "[rnic_bus]")
{
    {
        const Impatient silent([](BusEnd &) {}, false);
        CHECK(silent.error == ENODEV); // no HELLO
        CHECK(silent.why() == "the card does not answer");
    }
    Impatient silent([](BusEnd &) {});
    REQUIRE(silent.error == 0);
    std::uint64_t value = 0;
    CHECK(rnic_bus_host_read(&silent.host, 0, 0, 4, &value) == ENODEV);
    CHECK(silent.why() == "the card does not answer");
    CHECK(rnic_bus_host_is_gone(&silent.host));
}

TEST_CASE("a card that does everything but answer is gone, too", "[rnic_bus]")
{
    std::atomic<bool> is_over{false};
    {
        Impatient busy([&](BusEnd &end) {
            const rnic_bus_message m = BusEnd::message(BUS_INTERRUPT);
            while (!is_over && end.send(m)) {
            }
        });
        REQUIRE(busy.error == 0);
        std::uint64_t value = 0;
        CHECK(rnic_bus_host_read(&busy.host, 0, 0, 4, &value) == ENODEV);
        CHECK(busy.why() == "the card does not answer");
        is_over = true;
    }
}

TEST_CASE("who leaves something for the card behind says so", "[rnic_bus]")
{
    std::atomic<bool> is_read{false}, is_whole{false};
    Impatient slow([&](BusEnd &end) {
        const BusMessage question = end.receive();
        for (std::uint32_t i = 0; i < 20; ++i) {
            (void)end.send(BusEnd::dma(BUS_DMA_READ, 0x1000, 4096, i));
        }
        done(end, question);
        while (!is_read) {
            vipl_test::give_way();
        }
        bool is_right = true;
        for (std::uint32_t i = 0; i < 20; ++i) {
            const BusMessage m = end.receive();
            is_right = is_right && m.header.id == i && m.data == Bytes(4096, 1);
        }
        is_whole = is_right;
    });
    REQUIRE(slow.error == 0);
    std::uint64_t value = 1;
    CHECK((rnic_bus_host_read(&slow.host, 0, 0, 4, &value) == 0 && value == 0));
    CHECK(slow.behind == 1);
    CHECK_FALSE(rnic_bus_host_serve(&slow.host));
    rnic_bus_host_progress(&slow.host);
    CHECK(slow.behind == 2);
    is_read = true;
    while (!rnic_bus_host_serve(&slow.host) || !is_whole) { // CTest's time limit ends this
    }
    CHECK_FALSE(rnic_bus_host_is_gone(&slow.host));
}

TEST_CASE("a host that leaves waits until the card has ended, and serves the card meanwhile", "[rnic_bus]")
{
    std::atomic<bool> is_served{false};
    Impatient ends([&](BusEnd &end) {
        const BusMessage bye = end.receive();
        const BusMessage data = read_memory(end, 0x1000, 8);
        is_served = bye.header.kind == BUS_BYE && data.data == Bytes(8, 1);
        (void)shutdown(end.fd, SHUT_RDWR);
    });
    REQUIRE(ends.error == 0);
    rnic_bus_host_leave(&ends.host);
    CHECK(is_served);
    CHECK(ends.why().empty());
    Impatient stays([](BusEnd &) {});
    REQUIRE(stays.error == 0);
    rnic_bus_host_leave(&stays.host);
    CHECK(stays.why() == "the card does not answer");
    rnic_bus_host_leave(&stays.host); // it is gone, so that there is nothing to wait for
}

TEST_CASE("a card that does not read is gone when it is needed", "[rnic_bus]")
{
    Impatient deaf([](BusEnd &end) {
        for (std::uint32_t i = 0; i < 20; ++i) {
            (void)end.send(BusEnd::dma(BUS_DMA_READ, 0x1000, 4096, i));
        }
    });
    REQUIRE(deaf.error == 0);
    while (rnic_bus_host_serve(&deaf.host)) { // until an answer is kept
    }
    CHECK_FALSE(rnic_bus_host_is_gone(&deaf.host));
    rnic_bus_host_write(&deaf.host, 0, 0, 4, 1);
    CHECK(rnic_bus_host_is_gone(&deaf.host));
    CHECK(deaf.why() == "the card does not read");
}

TEST_CASE("whatever the system refuses, there is a card behind the bus or an error", "[rnic_bus]")
{
    const Adapter adapter;
    for (std::uint32_t n = 1;; ++n) {
        rnic_pci *pci = nullptr;
        vipl_test_hooks.alloc_countdown = n;
        const int error = rnic_pci_bus_open(("bus:" + adapter.bus).c_str(), &pci);
        const bool happened = vipl_test_hooks.alloc_countdown == 0;
        vipl_test_hooks.alloc_countdown = 0;
        REQUIRE((error == 0) == (pci != nullptr));
        if (pci != nullptr) {
            pci->ops->close(pci);
        }
        if (!happened) {
            break;
        }
    }
}
