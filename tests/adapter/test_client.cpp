// SPDX-License-Identifier: MIT
//
// The driver's access to the card over vfio-user and over the bus protocol (pci.h), at a real
// adapter with the card of fake_card.h. What both ways have in common is tested with both.
#include "raw_client.hpp"

#include <atomic>
#include <set>

#include <sys/wait.h>

#include "base/little.h"

using namespace adapter_test;

namespace {

enum class Way { vfio_user, bus };

int open_at(const Adapter &adapter, Way way, rnic_pci **pci)
{
    return way == Way::bus ? rnic_pci_bus_open(("bus:" + adapter.bus).c_str(), pci)
                           : rnic_pci_vfio_user_open(("socket:" + adapter.socket).c_str(), pci);
}

/** A test case with this is run for each way. */
Way each_way()
{
    const Way way = GENERATE(Way::vfio_user, Way::bus);
    UNSCOPED_INFO((way == Way::bus ? "over the bus protocol" : "over vfio-user"));
    return way;
}

class Pci {
public:
    explicit Pci(const Adapter &adapter, Way way = Way::vfio_user)
    {
        REQUIRE(open_at(adapter, way, &pci) == 0);
    }
    ~Pci()
    {
        if (pci != nullptr) {
            pci->ops->close(pci);
        }
    }
    Pci(const Pci &) = delete;
    Pci &operator=(const Pci &) = delete;

    std::uint32_t get(std::uint32_t offset) const { return pci->ops->read(pci, 0, offset); }
    void set(std::uint32_t offset, std::uint32_t value) const { pci->ops->write(pci, 0, offset, value); }
    bool run(unsigned command, std::uint64_t iova, std::uint32_t bytes) const
    {
        set(FAKE_IOVA, static_cast<std::uint32_t>(iova));
        set(FAKE_IOVA + 4, static_cast<std::uint32_t>(iova >> 32));
        set(FAKE_BYTES, bytes);
        set(FAKE_COMMAND, command);
        std::uint32_t result;
        while ((result = get(FAKE_RESULT)) == 0) {
        }
        return result == 1;
    }

    rnic_pci *pci = nullptr;
};

/** An adapter that is a process of its own. */
class Server {
public:
    Server() : socket(folder_.path + "/s")
    {
        pid_ = fork();
        if (pid_ == 0) {
            execl(fake_rnicd, fake_rnicd, "--functions=4", "--socket", socket.c_str(), nullptr);
            _exit(127);
        }
        int fd = -1;
        while (vipl_unix_connect(socket.c_str(), &fd) != 0) {
            vipl_test::give_way(); // CTest's time limit ends this
        }
        vipl_fd_close(fd);
    }
    ~Server()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

private:
    Folder folder_;
    pid_t pid_;

public:
    std::string socket;
};

/** A server that says yes to everything, and does nothing. */
class LyingServer {
public:
    LyingServer() : path(folder_.path + "/s")
    {
        REQUIRE(vipl_unix_listen(path.c_str(), &listener_, &lock_) == 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~LyingServer()
    {
        end();
        vipl_unix_unlisten(path.c_str(), listener_, lock_);
    }
    LyingServer(const LyingServer &) = delete;
    LyingServer &operator=(const LyingServer &) = delete;
    void end()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    std::atomic<bool> talks_nonsense{false};
    bool saw_end = false;
    std::vector<vfu_dma_map> maps;

private:
    void serve()
    {
        int fd = -1;
        vipl_framer channel;
        vfu_message m;
        if (vipl_poll(&listener_, 1, wait_ms(), nullptr) != 0 || vipl_local_accept(listener_, &fd) != 0 ||
            vfu_channel_open(&channel, fd) != 0) {
            return;
        }
        int error = 0;
        while (error == 0) {
            error = vfu_channel_receive(&channel, &m);
            if (error == EAGAIN) {
                error = vipl_poll(&channel.fd, 1, wait_ms(), nullptr);
            } else if (error == 0) {
                reply(channel, m);
                vipl_framer_next(&channel);
            }
        }
        saw_end = error == EPIPE;
        vipl_framer_close(&channel);
    }
    void reply(vipl_framer &channel, const vfu_message &m)
    {
        std::uint8_t bytes[VFU_HEADER_BYTES + 512] = {};
        size_t length = VFU_HEADER_BYTES + m.bytes;
        vfu_dma_map map;
        if (m.header.command == VFU_DMA_MAP && vfu_dma_map_read(m.payload, m.bytes, &map)) {
            maps.push_back(map);
            length = VFU_HEADER_BYTES;
        } else if (m.header.command == VFU_REGION_READ) {
            length += 4;
        }
        std::memcpy(bytes + VFU_HEADER_BYTES, m.payload, m.bytes); // also of VERSION: the same capabilities
        const vfu_header header = {static_cast<std::uint16_t>(m.header.id + (talks_nonsense ? 1 : 0)),
                                   m.header.command, static_cast<std::uint32_t>(length), VFU_REPLY, 0};
        vfu_header_write(bytes, &header);
        if ((m.header.flags & VFU_NO_REPLY) == 0) {
            (void)vipl_framer_send(&channel, bytes, length, nullptr, 0, nullptr, 0);
        }
    }

    Folder folder_;
    int listener_ = -1, lock_ = -1;
    std::thread thread_;

public:
    std::string path;
};

/** Whether the card writes memory while no thread of this program's calls anything. */
bool writes_by_thread(rnic_pci *pci)
{
    std::vector<std::uint8_t> memory(200000, 5);
    std::uint64_t iova = 0;
    REQUIRE(pci->ops->map(pci, memory.data(), memory.size(), RNIC_PCI_READ | RNIC_PCI_WRITE, &iova) == 0);
    const auto set = [&](std::uint32_t offset, std::uint32_t value) {
        pci->ops->write(pci, 0, offset, value);
    };
    set(FAKE_IOVA, static_cast<std::uint32_t>(iova));
    set(FAKE_IOVA + 4, static_cast<std::uint32_t>(iova >> 32));
    set(FAKE_BYTES, FAKE_BUFFER_BYTES); // two messages
    set(FAKE_COMMAND, FAKE_DMA_WRITE);
#if !defined(__SANITIZE_THREAD__) // which takes the kernel's copy for no store that a program may spin on
    while (__atomic_load_n(&memory[FAKE_BUFFER_BYTES - 1], __ATOMIC_ACQUIRE) !=
           0) { // CTest's time limit ends this
    }
#endif
    while (pci->ops->read(pci, 0, FAKE_RESULT) == 0) {
    }
    return memory[FAKE_BUFFER_BYTES] == 5;
}

} // namespace

TEST_CASE("a driver reads and writes registers and configuration space of its function", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, each_way());
    CHECK(p.get(FAKE_ID) == RNIC_ID_VALUE);
    p.set(FAKE_SCRATCH, 0x12345678);
    CHECK(p.get(FAKE_SCRATCH) == 0x12345678);
    rnic_pci *pci = p.pci;
    CHECK(pci->ops->config_read(pci, 0, 2) == RNIC_PCI_VENDOR);
    CHECK(pci->ops->config_read(pci, 0, 4) == (RNIC_PCI_DEVICE << 16 | RNIC_PCI_VENDOR));
    pci->ops->config_write(pci, 4, 2, 6);
    CHECK(pci->ops->config_read(pci, 4, 1) == 6);
    CHECK(pci->linear);
    CHECK_FALSE(pci->ops->is_gone(pci));
    CHECK(pci->ops->reset(pci) == 0);
    CHECK(p.get(FAKE_SCRATCH) == 0);
    CHECK(p.get(FAKE_ATTACHES) == 2);
}

TEST_CASE("a driver's doorbells are mapped, and seen by the card", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter);
    std::uint8_t *doorbells = p.pci->doorbells;
    REQUIRE(doorbells != nullptr);
    vipl_put_little(doorbells + RNIC_DB_QP, 4711, 4);
    __atomic_store_n(doorbells + RNIC_DB_QP_HINTS, 1, __ATOMIC_RELEASE);
    p.set(RNIC_REG_WAKE, 1);
    while (p.get(FAKE_DOORBELL) != 4711) {
    }
    p.pci->ops->write(p.pci, 2, RNIC_DB_QP, 815);
    while (p.get(FAKE_DOORBELL) != 815) {
    }
    CHECK(vipl_get_little(doorbells + RNIC_DB_QP, 4) == 815);
}

TEST_CASE("a driver's doorbells that are not mapped are messages", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, Way::bus);
    CHECK(p.pci->doorbells == nullptr);
    p.pci->ops->write(p.pci, 2, RNIC_DB_QP, 815);
    while (p.get(FAKE_DOORBELL) != 815) {
    }
}

TEST_CASE("a driver's slabs are there for the card, and gone when they are given back", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, each_way());
    rnic_pci_slab slab{};
    REQUIRE(p.pci->ops->slab(p.pci, RNIC_PCI_SLAB_BYTES, &slab) == 0);
    CHECK(slab.bytes == RNIC_PCI_SLAB_BYTES);
    CHECK(slab.iova % RNIC_PCI_SLAB_BYTES ==
          reinterpret_cast<std::uintptr_t>(slab.base) % RNIC_PCI_SLAB_BYTES);
    CHECK(slab.base[slab.bytes - 1] == 0);
    std::memcpy(slab.base + slab.bytes - 8, "whatever", 8);
    REQUIRE(p.run(FAKE_DMA_READ, slab.iova + slab.bytes - 8, 8));
    REQUIRE(p.run(FAKE_DMA_WRITE, slab.iova + 100, 8));
    CHECK(std::memcmp(slab.base + 100, "whatever", 8) == 0);
    const std::uint64_t iova = slab.iova;
    p.pci->ops->free_slab(p.pci, &slab);
    CHECK_FALSE(p.run(FAKE_DMA_READ, iova, 8));
}

TEST_CASE("a driver's memory is the card's by any name, until it is unmapped, and no further than mapped",
          "[client]")
{
    const Way way = each_way();
    const bool refuses = way == Way::vfio_user; // else such a write, which is posted, ends the connection
    const Adapter adapter;
    const Pci p(adapter, way);
    std::vector<std::uint8_t> memory(100000);
    for (size_t i = 0; i < memory.size(); ++i) {
        memory[i] = static_cast<std::uint8_t>(i * 13);
    }
    std::uint64_t whole = 0, again = 0, part = 0;
    const auto map = [&](size_t offset, size_t bytes, unsigned access, std::uint64_t *iova) {
        REQUIRE(p.pci->ops->map(p.pci, memory.data() + offset, bytes, access, iova) == 0);
        CHECK(*iova % 65536 == (reinterpret_cast<std::uintptr_t>(memory.data()) + offset) % 65536);
    };
    map(0, 100000, RNIC_PCI_READ | RNIC_PCI_WRITE, &whole);
    map(0, 100000, RNIC_PCI_READ, &again);
    map(777, 1000, RNIC_PCI_WRITE, &part);
    CHECK((whole != again && again != part));
    CHECK_FALSE(p.run(FAKE_DMA_READ, part, 4));
    CHECK_FALSE(p.run(FAKE_DMA_READ, again + 99999, 2));
    CHECK_FALSE(p.run(FAKE_DMA_READ, again - 1, 1));
    REQUIRE(p.run(FAKE_DMA_READ, again + 777, 1000));
    CHECK_FALSE((refuses && p.run(FAKE_DMA_WRITE, again, 4)));
    CHECK_FALSE((refuses && p.run(FAKE_DMA_WRITE, part + 999, 2)));
    CHECK_FALSE((refuses && p.run(FAKE_DMA_WRITE, part - 1, 1)));
    std::fill(memory.begin(), memory.end(), std::uint8_t{0});
    REQUIRE(p.run(FAKE_DMA_WRITE, part, 1000));
    CHECK((memory[776] == 0 && memory[777] == static_cast<std::uint8_t>(777 * 13) && memory[1777] == 0));
    CHECK(memory[1776] == static_cast<std::uint8_t>(1776 * 13));
    p.pci->ops->unmap(p.pci, part, 1000);
    p.pci->ops->unmap(p.pci, again, 100000);
    CHECK_FALSE(p.run(FAKE_DMA_READ, again, 4));
    CHECK_FALSE((refuses && p.run(FAKE_DMA_WRITE, part, 4)));
    CHECK(p.run(FAKE_DMA_WRITE, whole + 777, 4));
}

TEST_CASE("whatever the system refuses, a driver has its function or an error", "[client]")
{
    const Server server;
    bool was_answered = false;
    for (std::uint32_t n = 1;; ++n) {
        rnic_pci *pci = nullptr;
        vipl_test_hooks.resource_countdown = n;
        const int error = rnic_pci_vfio_user_open(("socket:" + server.socket).c_str(), &pci);
        const bool happened = vipl_test_hooks.resource_countdown == 0;
        vipl_test_hooks.resource_countdown = 0;
        REQUIRE((error == 0) == (pci != nullptr));
        if (pci == nullptr) {
            CHECK(happened);
            continue;
        }
        // The one call that may fail is that for the descriptor of the program's memory: then a
        // thread answers the card.
        was_answered = was_answered || (happened && writes_by_thread(pci));
        pci->ops->close(pci);
        if (!happened) {
            break;
        }
    }
    CHECK(was_answered);
}

TEST_CASE("an adapter that has not proven that it sees the program's memory is not sent there", "[client]")
{
    LyingServer server;
    std::vector<std::uint8_t> memory(1000);
    rnic_pci *pci = nullptr;
    REQUIRE(rnic_pci_vfio_user_open(("socket:" + server.path).c_str(), &pci) == 0);
    std::uint64_t iova = 0;
    REQUIRE(pci->ops->map(pci, memory.data(), memory.size(), RNIC_PCI_READ, &iova) == 0);
    pci->ops->close(pci);
    server.end();
    REQUIRE(server.maps.size() == 2);
    CHECK(server.maps[0].flags == (VFU_DMA_READABLE | VFU_DMA_WRITEABLE | VFU_DMA_MEMORY_FILE));
    CHECK((server.maps[1].flags == VFU_DMA_READABLE && server.maps[1].offset == 0 &&
           server.maps[1].bytes == 1000));
}

TEST_CASE("an adapter that talks nonsense is hung up on at once", "[client]")
{
    LyingServer server;
    rnic_pci *pci = nullptr;
    REQUIRE(rnic_pci_vfio_user_open(("socket:" + server.path).c_str(), &pci) == 0);
    server.talks_nonsense = true;
    CHECK(pci->ops->read(pci, 0, 0) == UINT32_MAX);
    CHECK(pci->ops->is_gone(pci));
    server.end(); // which its stream's end makes it do, though the function is still open here
    CHECK(server.saw_end);
    pci->ops->close(pci);
}

TEST_CASE("an interrupt makes its vector's descriptor readable, until it is cleared", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, each_way());
    rnic_pci *pci = p.pci;
    std::set<int> fds;
    for (unsigned vector = 0; vector < RNIC_VECTORS; ++vector) {
        const int fd = pci->ops->interrupt_fd(pci, vector);
        REQUIRE(fd >= 0);
        fds.insert(fd);
        CHECK(p.run(FAKE_INTERRUPT, 0, vector));
        CHECK(vipl_poll(&fd, 1, wait_ms(), nullptr) == 0);
        pci->ops->interrupt_clear(pci, vector);
        CHECK(vipl_poll(&fd, 1, 0, nullptr) == ETIMEDOUT);
    }
    CHECK(fds.size() == RNIC_VECTORS);
    CHECK(pci->ops->interrupt_fd(pci, RNIC_VECTORS) == -1);
}

TEST_CASE("a driver's function has MSI-X on, which a reset turns off", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, each_way());
    rnic_pci *pci = p.pci;
    CHECK(pci->ops->reset(pci) == 0);
    std::uint32_t at = pci->ops->config_read(pci, 0x34, 1);
    while (at != 0 && pci->ops->config_read(pci, at, 1) != 0x11) {
        at = pci->ops->config_read(pci, at + 1, 1);
    }
    REQUIRE(at != 0);
    CHECK((pci->ops->config_read(pci, at + 2, 2) & 0xC000) == 0x8000); // on, and not all vectors masked
}

TEST_CASE("threads of one driver use its function at the same time", "[client]")
{
    const Adapter adapter;
    const Pci p(adapter, each_way());
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::vector<std::uint8_t> memory(5000);
            for (std::uint32_t i = 0; i < 300; ++i) {
                std::uint64_t iova = 0;
                wrong +=
                    p.pci->ops->map(p.pci, memory.data(), memory.size(), RNIC_PCI_READ, &iova) == 0 ? 0 : 1;
                p.set(FAKE_SCRATCH + 4 * t, i);
                wrong += p.get(FAKE_SCRATCH + 4 * t) == i ? 0 : 1;
                p.pci->ops->progress(p.pci);
                p.pci->ops->unmap(p.pci, iova, memory.size());
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("an adapter that ends leaves drivers with a card that is gone, at once", "[client]")
{
    const Way way = each_way();
    auto adapter = std::make_unique<Adapter>();
    const Pci p(*adapter, way);
    rnic_pci *pci = p.pci;
    int fd = -1, ms = 0;
    pci->ops->wait_hint(pci, &fd, &ms);
    CHECK((fd == -1 && ms == -1)); // it has nothing to do by itself
    CHECK(pci->tells_end);
    vipl_pollset end{};
    REQUIRE(vipl_pollset_open(&end) == 0);
    REQUIRE(vipl_pollset_add_end(&end, pci->end_fd, nullptr) == 0);
    CHECK(vipl_poll(&end.fd, 1, 0, nullptr) == ETIMEDOUT);
    rnic_pci_slab slab{};
    REQUIRE(pci->ops->slab(pci, RNIC_PCI_SLAB_BYTES, &slab) == 0);
    adapter.reset();
    CHECK(vipl_poll(&end.fd, 1, wait_ms(), nullptr) == 0); // a sleeper wakes
    vipl_pollset_close(&end);
    const std::uint64_t before = vipl_now_ns();
    CHECK(p.get(FAKE_ID) == UINT32_MAX);
    CHECK(pci->ops->is_gone(pci));
    CHECK(pci->ops->config_read(pci, 0, 4) == UINT32_MAX);
    p.set(FAKE_SCRATCH, 1);
    if (pci->doorbells != nullptr) {
        pci->doorbells[RNIC_DB_QP] = 1; // harmless
    }
    CHECK(pci->ops->reset(pci) == ENODEV);
    std::uint64_t iova = 0; // of which the adapter is told, or not
    CHECK(pci->ops->map(pci, &slab, sizeof slab, RNIC_PCI_READ, &iova) == (way == Way::bus ? 0 : ENODEV));
    pci->ops->progress(pci);
    pci->ops->free_slab(pci, &slab);
    CHECK(vipl_now_ns() - before < 500000000);
}

TEST_CASE("a driver that spins notices the adapter's end by its progress", "[client]")
{
    const Way way = each_way();
    auto adapter = std::make_unique<Adapter>();
    const Pci p(*adapter, way);
    adapter.reset();
    for (const auto end = vipl_now_ns() + 100000000; vipl_now_ns() < end;) {
        p.pci->ops->progress(p.pci);
    }
    CHECK(p.pci->ops->is_gone(p.pci));
}

TEST_CASE("names of other buses are none of vfio-user's", "[client]")
{
    rnic_pci *pci = nullptr;
    for (const char *name : {"inproc", "pci:0000:00:05.0", "sock:/x", "x"}) {
        CHECK(rnic_pci_vfio_user_open(name, &pci) == ENODEV);
    }
    CHECK(rnic_pci_vfio_user_open("socket:/nowhere/at/all", &pci) == ENOENT);
    CHECK(pci == nullptr);
}

TEST_CASE("a driver for which there is no function is told so", "[client]")
{
    const Way way = each_way();
    const Adapter adapter(1);
    const Pci first(adapter, way);
    rnic_pci *pci = nullptr;
    for (int i = 0; i < 50; ++i) {
        const int error = open_at(adapter, way, &pci);
        REQUIRE((error == EBUSY || (error == ECONNRESET && way == Way::vfio_user)));
    }
    CHECK(first.get(FAKE_ID) == RNIC_ID_VALUE);
}
