// SPDX-License-Identifier: MIT
#include "simulated_card.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <catch2/catch.hpp>

extern "C" {
#include "rnic/registers.h"
}

namespace dm_test {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kStart = 5000000000; // of the card, when the host's clock is at 0

void *zeroed(std::size_t bytes)
{
    void *const at = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    REQUIRE(at != nullptr);
    std::memset(at, 0, bytes);
    return at;
}

} // namespace

/** One function; an address on the bus is the address in this process. */
struct SimulatedCard::Function {
    rnic_pci pci{}; // first
    SimulatedCard *card = nullptr;
    unsigned number = 0;
    void *bar4 = nullptr;
    std::map<std::uint64_t, std::size_t> maps;

    static Function &of(rnic_pci *pci) { return *reinterpret_cast<Function *>(pci); }
    static Function &of(void *context, unsigned fn)
    {
        return *static_cast<SimulatedCard *>(context)->functions_.at(fn);
    }
    bool has(std::uint64_t iova, std::uint32_t bytes) const
    {
        const auto next = maps.upper_bound(iova);
        return next != maps.begin() && iova + bytes <= std::prev(next)->first + std::prev(next)->second;
    }

    // what the card does on the bus
    static bool dma_read(void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes)
    {
        const bool good = of(context, fn).has(iova, bytes);
        if (good) {
            std::memcpy(out, reinterpret_cast<const void *>(iova), bytes);
        }
        return good;
    }
    static bool dma_write(void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes)
    {
        const bool good = of(context, fn).has(iova, bytes);
        if (good) {
            std::memcpy(reinterpret_cast<void *>(iova), in, bytes);
        }
        return good;
    }
    static bool dma_publish(void *context, unsigned fn, std::uint64_t iova, const std::uint8_t word[4])
    {
        return dma_write(context, fn, iova, word, 4);
    }
    static void interrupt(void *, unsigned, unsigned) {}
    static void transmit(void *context, const std::uint8_t *frame, std::uint32_t bytes)
    {
        auto *card = static_cast<SimulatedCard *>(context);
        if (card->on_frame) {
            card->on_frame(frame, bytes, rnic_card_now(&card->card_));
        }
    }

    // what the driver does
    static void close(rnic_pci *pci)
    {
        Function &f = of(pci);
        rnic_card_detach(&f.card->card_, f.number);
        f.card->run(f.card->time_at(f.card->now));
        std::free(f.pci.doorbells);
        std::free(f.bar4);
        f.pci.doorbells = nullptr;
        f.bar4 = nullptr;
    }
    static std::uint32_t read(rnic_pci *pci, unsigned bar, std::uint32_t offset)
    {
        Function &f = of(pci);
        return f.card->is_gone
                   ? UINT32_MAX
                   : static_cast<std::uint32_t>(rnic_card_bar_read(&f.card->card_, f.number, bar, offset, 4));
    }
    static void write(rnic_pci *pci, unsigned bar, std::uint32_t offset, std::uint32_t value)
    {
        Function &f = of(pci);
        if (!f.card->is_gone) {
            rnic_card_bar_write(&f.card->card_, f.number, bar, offset, 4, value);
            f.card->run(f.card->time_at(f.card->now));
        }
    }
    static std::uint32_t config_read(rnic_pci *pci, std::uint32_t offset, unsigned bytes)
    {
        return rnic_card_config_read(&of(pci).card->card_, of(pci).number, offset, bytes);
    }
    static void config_write(rnic_pci *pci, std::uint32_t offset, unsigned bytes, std::uint32_t value)
    {
        rnic_card_config_write(&of(pci).card->card_, of(pci).number, offset, bytes, value);
    }
    static int reset(rnic_pci *pci)
    {
        write(pci, 0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
        return of(pci).card->is_gone ? ENODEV : 0;
    }
    static int map(rnic_pci *pci, void *address, std::size_t bytes, unsigned, std::uint64_t *iova)
    {
        *iova = reinterpret_cast<std::uintptr_t>(address);
        of(pci).maps[*iova] = bytes;
        return 0;
    }
    static void unmap(rnic_pci *pci, std::uint64_t iova, std::size_t) { of(pci).maps.erase(iova); }
    static int slab(rnic_pci *pci, std::size_t bytes, rnic_pci_slab *out)
    {
        out->base = static_cast<std::uint8_t *>(zeroed(bytes));
        out->bytes = bytes;
        return map(pci, out->base, bytes, 0, &out->iova);
    }
    static void free_slab(rnic_pci *pci, rnic_pci_slab *slab)
    {
        unmap(pci, slab->iova, slab->bytes);
        std::free(slab->base);
    }
    static int interrupt_fd(rnic_pci *, unsigned) { return -1; }
    static void interrupt_clear(rnic_pci *, unsigned) {}
    static void progress(rnic_pci *pci)
    {
        SimulatedCard *card = of(pci).card;
        if (!card->is_gone) {
            card->run(card->time_at(card->now));
        }
    }
    static void wait_hint(rnic_pci *, int *fd, int *ms) { *fd = *ms = -1; }
    static bool gone(rnic_pci *pci) { return of(pci).card->is_gone; }
};

SimulatedCard::SimulatedCard(std::int64_t parts_per_million, std::uint64_t raw, std::uint32_t dram_bytes)
    : parts_per_million_(parts_per_million)
{
    static const rnic_card_host callbacks = [] {
        rnic_card_host all{};
        all.dma_read = Function::dma_read;
        all.dma_write = Function::dma_write;
        all.dma_publish = Function::dma_publish;
        all.interrupt = Function::interrupt;
        all.transmit = Function::transmit;
        return all;
    }();
    config_.functions = 3;
    config_.qps = 16;
    config_.cqs = 16;
    config_.stags = 64;
    config_.pbl_entries = 64;
    config_.flows = 16;
    config_.frames = 256;
    config_.mtu = 1500;
    config_.dram_bytes = dram_bytes;
    config_.raw[0] = raw;
    std::copy(std::begin(mac), std::end(mac), config_.mac);
    area_ = zeroed(rnic_card_bytes(&config_));
    rnic_card_init(&card_, area_, &config_, &callbacks, this);
    run(time_at(now));
}

SimulatedCard::~SimulatedCard()
{
    std::free(area_);
}

vipl_rnic *SimulatedCard::open()
{
    static const rnic_pci_ops ops = [] {
        rnic_pci_ops all{};
        all.name = "inproc";
        all.close = Function::close;
        all.read = Function::read;
        all.write = Function::write;
        all.config_read = Function::config_read;
        all.config_write = Function::config_write;
        all.reset = Function::reset;
        all.map = Function::map;
        all.unmap = Function::unmap;
        all.slab = Function::slab;
        all.free_slab = Function::free_slab;
        all.interrupt_fd = Function::interrupt_fd;
        all.interrupt_clear = Function::interrupt_clear;
        all.progress = Function::progress;
        all.wait_hint = Function::wait_hint;
        all.is_gone = Function::gone;
        return all;
    }();
    functions_.push_back(std::make_unique<Function>());
    Function &f = *functions_.back();
    const std::size_t bar4_bytes = rnic_card_bar4_bytes(&config_);
    f.card = this;
    f.number = static_cast<unsigned>(functions_.size() - 1);
    f.pci.ops = &ops;
    f.pci.doorbells = static_cast<std::uint8_t *>(zeroed(RNIC_BAR2_BYTES));
    f.pci.linear = true;
    f.pci.tells_end = true;
    f.pci.end_fd = -1;
    f.pci.dma = "copies in this process";
    if (bar4_bytes > 0) {
        f.bar4 = zeroed(bar4_bytes);
        f.pci.device = static_cast<std::uint8_t *>(f.bar4);
        f.pci.device_bytes = bar4_bytes;
    }
    rnic_card_attach(&card_, f.number, f.pci.doorbells, f.pci.device);
    vipl_rnic *rnic = nullptr;
    REQUIRE(vipl_rnic_start(&f.pci, &rnic) == 0);
    return rnic;
}

void SimulatedCard::arrive(const std::vector<std::uint8_t> &frame)
{
    rnic_card_receive(&card_, frame.data(), static_cast<std::uint32_t>(frame.size()));
    run(time_at(now));
}

void SimulatedCard::impair(const char *text)
{
    char why[128] = "";
    INFO(why);
    REQUIRE(rnic_card_impair(&card_, text, why, sizeof why));
}

std::uint64_t SimulatedCard::time_at(std::uint64_t at) const
{
    constexpr std::int64_t million = 1000000;
    const auto time = static_cast<std::int64_t>(at);
    const std::int64_t drift =
        time / million * parts_per_million_ + time % million * parts_per_million_ / million;
    return kStart + static_cast<std::uint64_t>(time + drift);
}

void SimulatedCard::run(std::uint64_t time)
{
    rnic_card_wake(&card_);
    do {
        rnic_card_advance(&card_, time);
    } while (!rnic_card_sleep(&card_));
}

std::uint64_t SimulatedCard::read(void *self)
{
    auto *card = static_cast<SimulatedCard *>(self);
    wait_until(self, card->now + card->step);
    return card->now;
}

/** The card does what it has to do at the times at which it has to. */
void SimulatedCard::wait_until(void *self, std::uint64_t time)
{
    auto *card = static_cast<SimulatedCard *>(self);
    const std::uint64_t end = card->time_at(std::max(time, card->now));
    for (std::uint64_t next = rnic_card_deadline(&card->card_); !card->is_gone && next < end;
         next = rnic_card_deadline(&card->card_)) {
        card->run(std::max(next, card->time_at(card->now)));
    }
    card->now = std::max(time, card->now);
}

} // namespace dm_test
