// SPDX-License-Identifier: MIT
//
// Both ends of the socket. Requests come from the driver's side only; while one is carried out the
// card's side may send DMA requests and interrupts, which come before the reply.
#include "apart.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "devices/rnic/card/card.h"
#include "rnic/registers.h"
}

namespace unit {

namespace {

enum Kind : std::uint32_t {
    kRead,
    kWrite,
    kConfigRead,
    kConfigWrite,
    kAdvance,
    kReply,
    kDmaRead,
    kDmaWrite,
    kDmaPublish,
    kDmaReply,
    kInterrupt
};
constexpr std::uint32_t kMostData = 16 * 1024;
constexpr std::uint64_t kFirstIova = 0x100000000000; // no address of any process

} // namespace

/** A message of either direction; data follows for as many bytes as it says, if it has some. */
struct Apart::Message {
    std::uint32_t kind, fn, bar, bytes;
    std::uint64_t offset, value;
    std::uint8_t data[kMostData];

    static constexpr std::size_t kHeader = 32;
    std::size_t size() const
    {
        const bool has_data = kind == kDmaWrite || kind == kDmaPublish || kind == kDmaReply;
        return kHeader + (has_data ? bytes : 0);
    }
};

namespace {

template <class Message>
bool put(int line, const Message &message)
{
    return send(line, &message, message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

template <class Message>
bool take(int line, Message &message)
{
    ssize_t got;
    do {
        got = recv(line, &message, sizeof message, 0);
    } while (got < 0 && errno == EINTR);
    return got >= static_cast<ssize_t>(Message::kHeader);
}

// --- the card's side -----------------------------------------------------------------------------

/** The card and its callbacks; a callback that loses its driver ends the process. */
template <class Message>
class Side {
public:
    Side(int line, unsigned functions, std::uint8_t *const *doorbells) : line_(line)
    {
        rnic_card_config config{};
        config.functions = functions;
        config.qps = config.cqs = 64;
        config.stags = 256;
        config.pbl_entries = 64;
        config.flows = 64;
        config.frames = 1024;
        config.mtu = 1500;
        config.mac[0] = 2;
        config.seed = 1;
        const std::size_t bytes = (rnic_card_bytes(&config) + 63) / 64 * 64;
        void *const area = std::aligned_alloc(64, bytes);
        std::memset(area, 0, bytes);
        rnic_card_init(&card_, area, &config, &host(), this);
        for (unsigned i = 0; i < functions; ++i) {
            rnic_card_attach(&card_, i, doorbells[i], nullptr);
        }
    }

    [[noreturn]] void run()
    {
        Message request;
        while (take(line_, request)) {
            std::uint64_t value = 0;
            switch (request.kind) {
            case kRead:
                value = rnic_card_bar_read(&card_, request.fn, request.bar, request.offset, request.bytes);
                break;
            case kWrite:
                rnic_card_bar_write(&card_, request.fn, request.bar, request.offset, request.bytes,
                                    request.value);
                break;
            case kConfigRead:
                value = rnic_card_config_read(&card_, request.fn, static_cast<std::uint32_t>(request.offset),
                                              request.bytes);
                break;
            case kConfigWrite:
                rnic_card_config_write(&card_, request.fn, static_cast<std::uint32_t>(request.offset),
                                       request.bytes, static_cast<std::uint32_t>(request.value));
                break;
            default:
                rnic_card_advance(&card_, now());
            }
            post({kReply, request.fn, 0, 0, 0, value, {}});
        }
        _exit(0);
    }

private:
    static std::uint64_t now()
    {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u +
               static_cast<std::uint64_t>(time.tv_nsec);
    }

    void post(const Message &message)
    {
        if (!put(line_, message)) {
            _exit(0);
        }
    }

    /** In pieces, in the order of addresses. */
    bool dma(Kind kind, unsigned fn, std::uint64_t iova, void *out, const void *in, std::uint32_t bytes)
    {
        for (std::uint32_t at = 0; at < bytes || bytes == 0;) {
            const std::uint32_t part = bytes - at < kMostData ? bytes - at : kMostData;
            Message &message = scratch_;
            message.kind = kind;
            message.fn = fn;
            message.bytes = part;
            message.offset = iova + at;
            if (in != nullptr) {
                std::memcpy(message.data, static_cast<const std::uint8_t *>(in) + at, part);
            }
            post(message);
            if (!take(line_, message) || message.kind != kDmaReply) {
                _exit(0);
            }
            if (message.value == 0) {
                return false;
            }
            if (out != nullptr) {
                std::memcpy(static_cast<std::uint8_t *>(out) + at, message.data, part);
            }
            at += part;
            if (bytes == 0) {
                break;
            }
        }
        return true;
    }

    static Side &of(void *context) { return *static_cast<Side *>(context); }
    static const rnic_card_host &host()
    {
        static const rnic_card_host callbacks = {
            [](void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes) {
                return of(context).dma(kDmaRead, fn, iova, out, nullptr, bytes);
            },
            [](void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes) {
                return of(context).dma(kDmaWrite, fn, iova, nullptr, in, bytes);
            },
            [](void *context, unsigned fn, std::uint64_t iova, const std::uint8_t *word) {
                return of(context).dma(kDmaPublish, fn, iova, nullptr, word, 4);
            },
            [](void *context, unsigned fn, unsigned vector) {
                of(context).post({kInterrupt, fn, 0, 0, 0, vector, {}});
            },
            [](void *, const std::uint8_t *, std::uint32_t) {}, // nobody else is on the wire
            nullptr,
            nullptr,
            nullptr,
            nullptr,
            nullptr,
        };
        return callbacks;
    }

    int line_;
    rnic_card card_{};
    Message scratch_{};
};

} // namespace

// --- the driver's side ---------------------------------------------------------------------------

struct Apart::Function {
    rnic_pci pci{}; // first: the driver gives it back
    Apart *apart = nullptr;
    unsigned number = 0;
    std::map<std::uint64_t, Map> maps;
    std::uint64_t next_iova = kFirstIova;
    std::uint32_t fired = 0;
    Dma dma;

    static Function &of(rnic_pci *pci) { return *reinterpret_cast<Function *>(pci); }

    /** Where the card may have these bytes, or null. */
    std::uint8_t *reach(std::uint64_t iova, std::uint32_t bytes, unsigned access)
    {
        auto found = maps.upper_bound(iova);
        if (found == maps.begin()) {
            return nullptr;
        }
        --found;
        const std::uint64_t offset = iova - found->first;
        const Map &map = found->second;
        const bool fits = offset <= map.bytes && bytes <= map.bytes - offset && (map.access & access) != 0;
        return fits ? map.address + offset : nullptr;
    }
};

Apart::Apart(unsigned functions) : functions_(new Function[functions]), count_(functions)
{
    std::vector<std::uint8_t *> doorbells;
    int lines[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines) != 0) {
        throw std::runtime_error("socketpair");
    }
    for (unsigned i = 0; i < functions; ++i) {
        void *const bar2 =
            mmap(nullptr, RNIC_BAR2_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (bar2 == MAP_FAILED) {
            throw std::runtime_error("mmap");
        }
        doorbells.push_back(static_cast<std::uint8_t *>(bar2));
        functions_[i].pci = {&table(), doorbells[i], nullptr, 0, true, false, false, -1, "messages"};
        functions_[i].apart = this;
        functions_[i].number = i;
    }
    card_ = fork();
    if (card_ == 0) {
        close(lines[0]);
        static Side<Message> side(lines[1], functions, doorbells.data());
        side.run();
    }
    close(lines[1]);
    line_ = lines[0];
}

Apart::~Apart()
{
    close(line_);
    kill(card_, SIGKILL);
    waitpid(card_, nullptr, 0);
    for (unsigned i = 0; i < count_; ++i) {
        munmap(functions_[i].pci.doorbells, RNIC_BAR2_BYTES);
    }
}

rnic_pci *Apart::function(unsigned fn)
{
    return &functions_[fn].pci;
}

std::map<std::uint64_t, Apart::Map> &Apart::maps(unsigned fn)
{
    return functions_[fn].maps;
}

const Apart::Dma &Apart::dma(unsigned fn) const
{
    return functions_[fn].dma;
}

std::uint64_t Apart::call(const Message &message)
{
    Message answer;
    if (!put(line_, message)) {
        return ~std::uint64_t{0};
    }
    while (take(line_, answer)) {
        if (answer.kind == kReply) {
            return answer.value;
        }
        serve(answer);
    }
    return ~std::uint64_t{0}; // the card is gone
}

void Apart::give(std::uint32_t ok, const void *data, std::uint32_t bytes)
{
    Message reply;
    reply.kind = kDmaReply;
    reply.fn = reply.bar = 0;
    reply.offset = 0;
    reply.value = ok;
    reply.bytes = bytes;
    if (bytes > 0) {
        std::memcpy(reply.data, data, bytes);
    }
    put(line_, reply);
}

/** What the card does to the world. */
void Apart::serve(const Message &message)
{
    Function &function = functions_[message.fn];
    if (message.kind == kInterrupt) {
        function.fired |= 1u << message.value;
        return;
    }
    const bool reads = message.kind == kDmaRead;
    std::uint8_t *const at =
        function.reach(message.offset, message.bytes, reads ? RNIC_PCI_READ : RNIC_PCI_WRITE);
    if (at == nullptr) {
        ++function.dma.refused;
        return give(0, nullptr, 0);
    }
    ++function.dma.done;
    function.dma.bytes += message.bytes;
    if (reads) {
        return give(1, at, message.bytes);
    }
    std::memcpy(at, message.data, message.bytes);
    give(1, nullptr, 0);
}

std::uint64_t Apart::ask(rnic_pci *pci, const Message &message)
{
    return Function::of(pci).apart->call(message);
}

void Apart::progress()
{
    call({kAdvance, 0, 0, 0, 0, 0, {}});
}

namespace {

constexpr std::size_t kPage = 4096;

} // namespace

const rnic_pci_ops &Apart::table()
{
    static const rnic_pci_ops ops = {
        "apart",
        [](rnic_pci *) {},
        [](rnic_pci *) {},
        [](rnic_pci *pci, unsigned bar, std::uint32_t offset) {
            return static_cast<std::uint32_t>(
                ask(pci, {kRead, Function::of(pci).number, bar, 4, offset, 0, {}}));
        },
        [](rnic_pci *pci, unsigned bar, std::uint32_t offset, std::uint32_t value) {
            ask(pci, {kWrite, Function::of(pci).number, bar, 4, offset, value, {}});
        },
        [](rnic_pci *pci, std::uint32_t offset, unsigned bytes) {
            return static_cast<std::uint32_t>(
                ask(pci, {kConfigRead, Function::of(pci).number, 0, bytes, offset, 0, {}}));
        },
        [](rnic_pci *pci, std::uint32_t offset, unsigned bytes, std::uint32_t value) {
            ask(pci, {kConfigWrite, Function::of(pci).number, 0, bytes, offset, value, {}});
        },
        [](rnic_pci *pci) { // function-level reset: the driver may as well use CTRL
            ask(pci, {kWrite, Function::of(pci).number, 0, 4, RNIC_REG_CTRL, RNIC_CTRL_RESET, {}});
            return 0;
        },
        [](rnic_pci *pci, void *address, std::size_t bytes, unsigned access, std::uint64_t *iova) {
            Function &function = Function::of(pci);
            const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) % kPage;
            *iova = function.next_iova + offset;
            function.next_iova +=
                (offset + bytes + kPage - 1) / kPage * kPage + kPage; // never two beside each other
            function.maps[*iova] = {static_cast<std::uint8_t *>(address), bytes, access};
            return 0;
        },
        [](rnic_pci *pci, std::uint64_t iova, std::size_t) { Function::of(pci).maps.erase(iova); },
        [](rnic_pci *, const void *, std::size_t, std::uint64_t *, std::size_t, std::size_t *,
           std::size_t *) { return ENOSYS; },
        [](rnic_pci *pci, std::size_t bytes, rnic_pci_slab *out) {
            out->base = static_cast<std::uint8_t *>(std::aligned_alloc(kPage, bytes));
            out->bytes = bytes;
            return pci->ops->map(pci, out->base, bytes, RNIC_PCI_READ | RNIC_PCI_WRITE, &out->iova);
        },
        [](rnic_pci *pci, rnic_pci_slab *slab) {
            pci->ops->unmap(pci, slab->iova, slab->bytes);
            std::free(slab->base);
        },
        [](rnic_pci *, unsigned) { return -1; },
        [](rnic_pci *pci, unsigned vector) { Function::of(pci).fired &= ~(1u << vector); },
        [](rnic_pci *pci) { Function::of(pci).apart->progress(); },
        [](rnic_pci *, int *fd, int *ms) {
            *fd = -1;
            *ms = 0;
        },
        [](rnic_pci *) { return false; },
        nullptr, // it says nothing of why
    };
    return ops;
}

} // namespace unit
