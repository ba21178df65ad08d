// SPDX-License-Identifier: MIT
//
// A function whose driver does anything at all, beside two that do what the data sheet says:
// registers, rings, lists, doorbells, frames and failing DMA as the input has them. Whatever it
// does, the two exchange their messages.
#include "fuzz.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <vector>

extern "C" {
#include "devices/rnic/card/card.h"
#include "rnic/entry.h"
#include "rnic/registers.h"
}

namespace {

constexpr std::uint32_t kMemory = 1 << 16;
constexpr unsigned kFunctions = 3, kBad = 2, kQps = 8;
constexpr unsigned kMostCrossings = 20000; // of one advance

// Where things are in each function's memory. Everything from kPlay on is the messages'.
constexpr std::uint32_t kCommands = 0x1000, kAnswers = 0x1400, kEvents = 0x1800, kSends = 0x2800,
                        kReceives = 0x2C00, kCompletions = 0x3000, kPlay = 0x4000, kPlayBytes = 0x8000;
constexpr unsigned kLog2 = 4, kEventLog2 = 3;
constexpr std::uint32_t kDram = 8192, kDeviceBytes = kDram + 4096, kBar4Bytes = 16384;
constexpr std::uint8_t kMark = 0xA5; // in device memory of those that do as they should
constexpr std::uint8_t kMac[6] = {2, 0, 0, 0, 0, 1};

class Input {
public:
    Input(const std::uint8_t *data, std::size_t size) : at_(data), end_(data + size) {}
    bool more() const { return at_ != end_; }
    std::uint32_t number(unsigned bytes)
    {
        std::uint32_t value = 0;
        for (unsigned i = 0; i < bytes; ++i) {
            value = value << 8 | (more() ? *at_++ : 0u);
        }
        return value;
    }
    void fill(std::uint8_t *to, std::size_t count)
    {
        for (std::size_t i = 0; i < count && more(); ++i) {
            to[i] = *at_++;
        }
    }

private:
    const std::uint8_t *at_, *end_;
};

/** Memory that is zero again whenever it is asked for. The kernel does that faster than the
 * allocator under a checker. */
class Zeros {
public:
    std::uint8_t *get(std::size_t bytes)
    {
        if (at_ == nullptr) {
            void *const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            FUZZ_CHECK(at != MAP_FAILED);
            at_ = static_cast<std::uint8_t *>(at);
            bytes_ = bytes;
        }
        FUZZ_CHECK(bytes == bytes_ && madvise(at_, bytes, MADV_DONTNEED) == 0);
        return at_;
    }

private:
    std::uint8_t *at_ = nullptr;
    std::size_t bytes_ = 0;
};
Zeros all_bar2[kFunctions], all_bar4[kFunctions], whole_area;

/** A function as its driver sees it. */
struct Function {
    std::array<std::uint8_t, kMemory> memory{};
    std::uint8_t *bar2 = nullptr, *bar4 = nullptr;
    std::uint32_t commands = 0, completions = 0, sends = 0, receives = 0, cq = 0, qp = 0, tag = 0,
                  device_tag = 0;
};

class Scene {
public:
    explicit Scene(Input &input);
    void step();
    void exchange();

private:
    static bool read(void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes);
    static bool write(void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes);
    static bool publish(void *context, unsigned fn, std::uint64_t iova, const std::uint8_t word[4]);
    static void interrupt(void *context, unsigned fn, unsigned vector);
    static void transmit(void *context, const std::uint8_t *frame, std::uint32_t bytes);
    static void transaction(void *context, const rnic_transaction *transaction);

    void advance(std::uint64_t ns);
    void enable(unsigned fn);
    std::uint32_t execute(unsigned fn, const std::uint8_t *entry);
    void make_objects(unsigned fn);
    void connect(unsigned fn, unsigned peer, std::uint32_t qp, std::uint32_t peer_qp);
    void post(unsigned fn, const std::uint8_t *entry, bool receive);
    void post_message(unsigned fn, unsigned opcode, std::uint32_t at, std::uint32_t bytes);
    void expect(unsigned fn, unsigned opcode, std::uint32_t bytes);
    void store(unsigned fn, std::uint32_t offset, std::uint32_t value);
    void bad_command();
    std::uint32_t some_tag();
    void bad_work();
    void bad_window();
    void later_window();
    void copy_to_window(unsigned fn, unsigned opcode, std::uint32_t at, std::uint32_t bytes);
    void bad_frame();
    void bad_raw();
    void set_template(unsigned fn, unsigned page, std::uint32_t stag, std::uint64_t address);
    void store_single(unsigned fn, std::uint32_t offset, unsigned bytes, std::uint64_t value);
    void bad_single();
    void exchange_single(unsigned from, std::uint32_t at);

    Input &input_;
    rnic_card card_{};
    std::array<Function, kFunctions> fns_;
    std::uint64_t now_ = 1000;
    std::uint32_t failing_ = 0; ///< so many DMAs of the bad function fail
    /** What the bad driver stores to its windows when so many more transactions have been. */
    struct Later {
        std::uint32_t transactions = 0, at = 0, count = 0;
        std::array<std::uint8_t, 64> bytes{};
    };
    Later later_;
    unsigned transactions_ = 0;
    std::uint32_t messages_ = 0;
    std::array<std::uint32_t, kBad>
        singles_{}; ///< stores into the AOTF space, by those that do as they should
};

bool Scene::read(void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes)
{
    Scene &scene = *static_cast<Scene *>(context);
    const bool mapped = iova <= kMemory && bytes <= kMemory - iova;
    FUZZ_CHECK(fn < kFunctions && (fn == kBad || mapped));
    if (fn == kBad && scene.failing_ > 0) {
        --scene.failing_;
        return false;
    }
    if (mapped) {
        std::memcpy(out, &scene.fns_[fn].memory[iova], bytes);
    }
    return mapped;
}

bool Scene::write(void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes)
{
    Scene &scene = *static_cast<Scene *>(context);
    const bool mapped = iova <= kMemory && bytes <= kMemory - iova;
    FUZZ_CHECK(fn < kFunctions && (fn == kBad || (mapped && iova >= kAnswers)));
    if (fn == kBad && scene.failing_ > 0) {
        --scene.failing_;
        return false;
    }
    if (mapped) {
        std::memcpy(&scene.fns_[fn].memory[iova], in, bytes);
    }
    return mapped;
}

bool Scene::publish(void *context, unsigned fn, std::uint64_t iova, const std::uint8_t word[4])
{
    FUZZ_CHECK(iova % 4 == 0);
    return write(context, fn, iova, word, 4);
}

void Scene::interrupt(void *context, unsigned fn, unsigned vector)
{
    Scene &scene = *static_cast<Scene *>(context);
    FUZZ_CHECK(fn < kFunctions && vector < RNIC_VECTORS);
    FUZZ_CHECK((rnic_card_config_read(&scene.card_, fn, 4, 2) & 4) != 0);
}

void Scene::transmit(void *, const std::uint8_t *frame, std::uint32_t bytes)
{
    const bool is_efe = frame[12] == 0x88 && frame[13] == 0xB5; // else it is of a raw queue pair
    FUZZ_CHECK(bytes >= (is_efe ? 66u : 14u) && bytes <= 14 + 4 + 576);
    FUZZ_CHECK(std::memcmp(frame, kMac, 6) != 0); // else it was for this card
}

void Scene::transaction(void *context, const rnic_transaction *)
{
    Scene &scene = *static_cast<Scene *>(context);
    ++scene.transactions_;
    Later &later = scene.later_;
    if (later.transactions > 0 && --later.transactions == 0) {
        std::memcpy(scene.fns_[kBad].bar2 + RNIC_DB_WINDOWS + later.at, later.bytes.data(), later.count);
    }
}

void Scene::advance(std::uint64_t ns)
{
    now_ += ns;
    for (unsigned i = 0; i < 64; ++i) {
        transactions_ = 0;
        rnic_card_advance(&card_, now_);
        FUZZ_CHECK(transactions_ < kMostCrossings);
        if (rnic_card_deadline(&card_) > now_) {
            break;
        }
    }
}

void Scene::store(unsigned fn, std::uint32_t offset, std::uint32_t value)
{
    rnic_put32(&fns_[fn].bar2[offset], value, false);
}

void Scene::enable(unsigned fn)
{
    const std::pair<std::uint32_t, std::uint32_t> registers[] = {
        {RNIC_REG_COMMAND_BASE_LO, kCommands}, {RNIC_REG_COMMAND_LOG2, kLog2},
        {RNIC_REG_ANSWER_BASE_LO, kAnswers},   {RNIC_REG_EVENT_BASE_LO, kEvents},
        {RNIC_REG_EVENT_LOG2, kEventLog2},     {RNIC_REG_CTRL, RNIC_CTRL_ENABLE}};
    Function &f = fns_[fn];
    f.commands = f.completions = f.sends = f.receives = 0;
    std::fill(f.memory.begin() + kAnswers, f.memory.begin() + kSends, std::uint8_t(0));
    std::fill(f.memory.begin() + kCompletions, f.memory.begin() + kPlay, std::uint8_t(0));
    rnic_card_config_write(&card_, fn, 4, 2, 6);
    rnic_card_config_write(&card_, fn, 0x42, 2, 0x8000);
    for (const auto &[offset, value] : registers) {
        rnic_card_bar_write(&card_, fn, 0, offset, 4, value);
    }
    advance(1000);
}

/** Posts a command; its answer's INFO, if the driver behaves well enough for one. */
std::uint32_t Scene::execute(unsigned fn, const std::uint8_t *entry)
{
    Function &f = fns_[fn];
    const std::uint32_t place = f.commands & ((1u << kLog2) - 1);
    std::memcpy(&f.memory[kCommands + 64 * place], entry, 64);
    store(fn, RNIC_DB_COMMAND_PRODUCER, ++f.commands);
    advance(1000);
    const std::uint8_t *const answer = &f.memory[kAnswers + 32 * place];
    FUZZ_CHECK(fn == kBad || (rnic_get32(answer + RNIC_CQE_OWNER, false) == f.commands &&
                              rnic_get16(answer + RNIC_CQE_STATUS, false) == RNIC_STATUS_OK));
    return rnic_get32(answer + RNIC_CQE_INFO, false);
}

/** A completion queue, a queue pair with its rings, and memory. */
void Scene::make_objects(unsigned fn)
{
    Function &f = fns_[fn];
    std::uint8_t cq[64] = {RNIC_COMMAND_CREATE_CQ};
    cq[RNIC_CMD_CQ_LOG2] = 6;
    cq[RNIC_CMD_CQ_VECTOR] = 1;
    rnic_put64(cq + RNIC_CMD_CQ_BASE, kCompletions, false);
    f.cq = execute(fn, cq);
    std::uint8_t qp[64] = {RNIC_COMMAND_CREATE_QP};
    qp[RNIC_CMD_QP_LEVEL] = RNIC_LEVEL_RECEPTION;
    qp[RNIC_CMD_QP_RIGHTS] = 3;
    rnic_put32(qp + RNIC_CMD_QP_DOMAIN, 1, false);
    rnic_put32(qp + RNIC_CMD_QP_SEND_CQ, f.cq, false);
    rnic_put32(qp + RNIC_CMD_QP_RECV_CQ, f.cq, false);
    f.qp = execute(fn, qp);
    std::uint8_t window[64] = {RNIC_COMMAND_ASSIGN_WINDOW};
    rnic_put32(window + RNIC_CMD_OBJECT, f.qp, false);
    const std::uint32_t number = execute(fn, window);
    FUZZ_CHECK(fn == kBad || number == 0);
    for (unsigned queue = 0; queue < 2; ++queue) {
        std::uint8_t ring[64] = {RNIC_COMMAND_SET_RING};
        ring[RNIC_CMD_OBJECT_KIND] = static_cast<std::uint8_t>(queue);
        ring[RNIC_CMD_RING_LOG2] = kLog2;
        rnic_put32(ring + RNIC_CMD_OBJECT, f.qp, false);
        rnic_put64(ring + RNIC_CMD_RING_BASE, queue == 0 ? kSends : kReceives, false);
        execute(fn, ring);
    }
    std::uint8_t mr[64] = {RNIC_COMMAND_REGISTER};
    mr[RNIC_CMD_MR_RIGHTS] = 3;
    rnic_put32(mr + RNIC_CMD_MR_DOMAIN, 1, false);
    rnic_put64(mr + RNIC_CMD_MR_VIRTUAL, kPlay, false);
    rnic_put64(mr + RNIC_CMD_MR_LENGTH, kPlayBytes, false);
    rnic_put64(mr + RNIC_CMD_MR_IOVA, kPlay, false);
    f.tag = execute(fn, mr);
    mr[RNIC_CMD_MR_RIGHTS] = 3 | RNIC_RIGHT_DEVICE; // all of it
    rnic_put64(mr + RNIC_CMD_MR_LENGTH, kDeviceBytes, false);
    rnic_put64(mr + RNIC_CMD_MR_IOVA, 0, false);
    f.device_tag = execute(fn, mr);
}

void Scene::connect(unsigned fn, unsigned peer, std::uint32_t qp, std::uint32_t peer_qp)
{
    std::uint8_t modify[64] = {RNIC_COMMAND_MODIFY_QP};
    modify[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_CONNECTED;
    modify[RNIC_CMD_QP_IRD] = modify[RNIC_CMD_QP_ORD] = 4;
    std::memcpy(modify + RNIC_CMD_QP_PEER_MAC, kMac, 6);
    rnic_put32(modify + RNIC_CMD_OBJECT, qp, false);
    rnic_put16(modify + RNIC_CMD_QP_PEER_FUNCTION, static_cast<std::uint16_t>(peer), false);
    rnic_put32(modify + RNIC_CMD_QP_PEER_QP, peer_qp, false);
    execute(fn, modify);
}

void Scene::post(unsigned fn, const std::uint8_t *entry, bool receive)
{
    Function &f = fns_[fn];
    std::uint32_t &index = receive ? f.receives : f.sends;
    const std::uint32_t place = (receive ? kReceives : kSends) + 64 * (index & ((1u << kLog2) - 1));
    std::memcpy(&f.memory[place], entry, 64);
    store(fn, RNIC_DB_QP + 64 * f.qp + (receive ? 4 : 0), ++index);
    f.bar2[RNIC_DB_QP_HINTS + f.qp / 64] = 1;
}

Scene::Scene(Input &input) : input_(input)
{
    static const rnic_card_host host = {read,        write,   publish, interrupt, transmit,
                                        transaction, nullptr, nullptr, nullptr,   nullptr};
    rnic_card_config config{};
    config.functions = kFunctions;
    config.qps = config.cqs = config.stags = kQps;
    config.pbl_entries = 32;
    config.flows = 16;
    config.frames = 128;
    config.mtu = 576;
    config.dram_bytes = kDram;
    config.sram_bytes = kDeviceBytes - kDram;
    std::memcpy(config.mac, kMac, 6);
    config.seed = 1;
    config.raw[0] = 1u << kBad;
    rnic_card_init(&card_, whole_area.get(rnic_card_bytes(&config)), &config, &host, this);
    for (unsigned fn = 0; fn < kFunctions; ++fn) {
        fns_[fn].bar2 = all_bar2[fn].get(RNIC_BAR2_BYTES);
        fns_[fn].bar4 = all_bar4[fn].get(kBar4Bytes);
        FUZZ_CHECK(rnic_card_bar4_bytes(&config) == kBar4Bytes);
        rnic_card_attach(&card_, fn, fns_[fn].bar2, fns_[fn].bar4);
        fns_[fn].bar4[0] = fns_[fn].bar4[kDram - 1] = fns_[fn].bar4[kDeviceBytes - 1] = kMark;
        enable(fn);
        make_objects(fn);
    }
    connect(0, 1, fns_[0].qp, fns_[1].qp);
    connect(1, 0, fns_[1].qp, fns_[0].qp);
    connect(kBad, kBad, fns_[kBad].qp, fns_[kBad].qp); // with itself
    for (unsigned fn = 0; fn < kFunctions; ++fn) {
        set_template(fn, 0, fns_[fn == kBad ? kBad : 1 - fn].tag, kPlay);
    }
    exchange();
}

/** A message between the two that do as they should. */
void Scene::post_message(unsigned fn, unsigned opcode, std::uint32_t at, std::uint32_t bytes)
{
    std::uint8_t entry[64] = {static_cast<std::uint8_t>(opcode)};
    rnic_put16(entry + RNIC_WQE_SEGMENTS, 1, false);
    rnic_put32(entry + RNIC_WQE_LENGTH, bytes, false);
    rnic_put64(entry + RNIC_WQE_REMOTE_ADDRESS, at, false);
    rnic_put32(entry + RNIC_WQE_REMOTE_STAG, fns_[1 - fn].tag, false);
    rnic_put64(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_ADDRESS, at, false);
    rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_LENGTH, bytes, false);
    rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_STAG, fns_[fn].tag, false);
    post(fn, entry, opcode == RNIC_WORK_RECEIVE);
}

/** The copy of a message in its slot. After it the memory has other bytes, and only the copy can
 * arrive. */
void Scene::copy_to_window(unsigned fn, unsigned opcode, std::uint32_t at, std::uint32_t bytes)
{
    Function &f = fns_[fn];
    const std::uint32_t behind = f.sends + 1;
    std::uint8_t *const slot =
        f.bar2 + RNIC_DB_WINDOWS + f.sends % RNIC_WINDOW_SLOTS * std::size_t{RNIC_WINDOW_SLOT_BYTES};
    rnic_put32(slot + RNIC_WINDOW_BEGIN, behind, false);
    rnic_put32(slot + RNIC_WINDOW_END, behind, false);
    rnic_put16(slot + RNIC_WINDOW_LENGTH, static_cast<std::uint16_t>(bytes), false);
    slot[RNIC_WINDOW_OPCODE] = static_cast<std::uint8_t>(opcode);
    rnic_put64(slot + RNIC_WINDOW_REMOTE_ADDRESS, at, false);
    rnic_put32(slot + RNIC_WINDOW_REMOTE_STAG, fns_[1 - fn].tag, false);
    rnic_put64(slot + RNIC_WINDOW_LOCAL_ADDRESS, at, false);
    rnic_put32(slot + RNIC_WINDOW_LOCAL_STAG, f.tag, false);
    std::memcpy(slot + RNIC_WINDOW_HEADER, &f.memory[at], bytes);
    std::fill_n(f.memory.begin() + at, bytes, std::uint8_t{0});
}

void Scene::expect(unsigned fn, unsigned opcode, std::uint32_t bytes)
{
    Function &f = fns_[fn];
    const std::uint8_t *const entry = &f.memory[kCompletions + 32 * (f.completions & 63)];
    FUZZ_CHECK(rnic_get32(entry + RNIC_CQE_OWNER, false) == f.completions + 1);
    FUZZ_CHECK(entry[RNIC_CQE_OPCODE] == opcode);
    FUZZ_CHECK(rnic_get16(entry + RNIC_CQE_STATUS, false) == RNIC_STATUS_OK);
    FUZZ_CHECK(rnic_get32(entry + RNIC_CQE_LENGTH, false) == bytes);
    store(fn, RNIC_DB_CQ + 64 * f.cq, ++f.completions);
}

void Scene::exchange()
{
    for (unsigned fn = 0; fn < kBad; ++fn) { // nobody else reaches it
        const std::uint8_t *const bar4 = fns_[fn].bar4;
        FUZZ_CHECK(bar4[0] == kMark && bar4[kDram - 1] == kMark && bar4[kDeviceBytes - 1] == kMark);
    }
    const unsigned from = messages_ % 2, opcode = RNIC_WORK_SEND + messages_ % 3;
    const bool windowed = messages_ / 3 % 2 == 1 && opcode != RNIC_WORK_READ;
    const std::uint32_t bytes = windowed ? 1 + messages_ % RNIC_WINDOW_PAYLOAD : 700 + messages_ % 700,
                        at = kPlay + 8 * (messages_ % 100);
    Function &sender = fns_[from], &receiver = fns_[1 - from];
    ++messages_;
    for (std::uint32_t i = 0; i < bytes; ++i) {
        (opcode == RNIC_WORK_READ ? receiver : sender).memory[at + i] =
            static_cast<std::uint8_t>(i * messages_ + 1);
    }
    if (opcode == RNIC_WORK_SEND) {
        post_message(1 - from, RNIC_WORK_RECEIVE, at, bytes);
    }
    const std::vector<std::uint8_t> sent((opcode == RNIC_WORK_READ ? receiver : sender).memory.begin() + at,
                                         (opcode == RNIC_WORK_READ ? receiver : sender).memory.begin() + at +
                                             bytes);
    if (windowed) {
        copy_to_window(from, opcode, at, bytes);
    }
    post_message(from, opcode, at, bytes);
    for (unsigned i = 0; i < 20; ++i) {
        advance(1000000);
    }
    expect(from, opcode, bytes);
    if (opcode == RNIC_WORK_SEND) {
        expect(1 - from, RNIC_WORK_RECEIVE, bytes);
    }
    FUZZ_CHECK(std::equal(sent.begin(), sent.end(),
                          (opcode == RNIC_WORK_READ ? sender : receiver).memory.begin() + at));
    exchange_single(from, 8 * (messages_ % 100));
    for (unsigned fn = 0; fn < kBad; ++fn) {
        FUZZ_CHECK(rnic_card_bar_read(&card_, fn, 0, RNIC_REG_ERROR_COUNT, 4) == 0);
        FUZZ_CHECK(rnic_card_bar_read(&card_, fn, 0, RNIC_REG_STATUS, 4) == 11);
    }
}

/** A command with fields of the input's, small numbers where it wants small ones. */
void Scene::bad_command()
{
    std::uint8_t entry[64] = {static_cast<std::uint8_t>(input_.number(1) % 18)};
    rnic_put16(entry + RNIC_CMD_OBJECT_KIND, static_cast<std::uint16_t>(input_.number(1) % 3), false);
    const std::uint32_t object = input_.number(1);
    rnic_put32(entry + RNIC_CMD_OBJECT, object < 200 ? object % 10 : fns_[kBad].tag, false);
    input_.fill(entry + 12, input_.number(1) % 53);
    execute(kBad, entry);
}

void Scene::set_template(unsigned fn, unsigned page, std::uint32_t stag, std::uint64_t address)
{
    std::uint8_t entry[64] = {RNIC_COMMAND_SET_TEMPLATE};
    rnic_put32(entry + RNIC_CMD_OBJECT, fns_[fn].qp, false);
    rnic_put16(entry + RNIC_CMD_TEMPLATE_PAGE, static_cast<std::uint16_t>(page), false);
    rnic_put32(entry + RNIC_CMD_TEMPLATE_REMOTE_STAG, stag, false);
    rnic_put64(entry + RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, address, false);
    execute(fn, entry);
}

/** A store into the AOTF space. */
void Scene::store_single(unsigned fn, std::uint32_t offset, unsigned bytes, std::uint64_t value)
{
    rnic_card_bar_write(&card_, fn, 0, RNIC_REG_AOTF + std::uint64_t{offset}, bytes, value);
}

/** One of the two stores to the other's memory: its bytes are there, and it is over. */
void Scene::exchange_single(unsigned from, std::uint32_t at)
{
    const unsigned bytes = 1u << messages_ % 4;
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) {
        value |= std::uint64_t{(messages_ * 7 + i) & 0xFF} << 8 * i;
    }
    store_single(from, at, bytes, value);
    for (unsigned i = 0; i < 4; ++i) {
        advance(1000000);
    }
    for (unsigned i = 0; i < bytes; ++i) {
        FUZZ_CHECK(fns_[1 - from].memory[kPlay + at + i] == static_cast<std::uint8_t>(value >> 8 * i));
    }
    FUZZ_CHECK(rnic_get32(fns_[from].bar2 + RNIC_DB_AOTF_DONE, false) == ++singles_[from]);
}

/** Stores into the AOTF space, more than there is room for perhaps, and templates. */
void Scene::bad_single()
{
    const std::uint32_t how = input_.number(1);
    if (how % 4 == 0) {
        const std::uint32_t stag = some_tag();
        set_template(kBad, how / 4, stag, kPlay + input_.number(2) * std::uint64_t{4});
    }
    const std::uint32_t offset = input_.number(3), bytes = input_.number(1) % 10;
    const std::uint32_t count = 1 + input_.number(1) % 80;
    for (std::uint32_t i = 0; i < count; ++i) {
        store_single(kBad, (how % 2 != 0 ? offset : offset % 64) & 0xFFFFF, bytes, i);
    }
    const std::uint32_t waiting = input_.number(1);
    if (waiting % 2 != 0) {
        advance(waiting);
    }
}

/** A tag of main memory, of device memory, or of nothing. */
std::uint32_t Scene::some_tag()
{
    const Function &f = fns_[kBad];
    const std::uint32_t which = input_.number(1);
    return which >= 200 ? f.tag ^ 1 : which >= 128 ? f.device_tag : f.tag;
}

void Scene::bad_work()
{
    std::uint8_t entry[64] = {};
    const bool receive = input_.number(1) % 2 != 0;
    entry[RNIC_WQE_OPCODE] = static_cast<std::uint8_t>(input_.number(1));
    entry[RNIC_WQE_FLAGS] = static_cast<std::uint8_t>(input_.number(1));
    const std::uint32_t segments = input_.number(1), length = input_.number(2);
    rnic_put16(entry + RNIC_WQE_SEGMENTS, static_cast<std::uint16_t>(segments), false);
    rnic_put32(entry + RNIC_WQE_LENGTH, length, false);
    rnic_put64(entry + RNIC_WQE_REMOTE_ADDRESS, kPlay + input_.number(1), false);
    rnic_put32(entry + RNIC_WQE_REMOTE_STAG, some_tag(), false);
    rnic_put64(entry + RNIC_WQE_SEGMENT0, kPlay + input_.number(2), false);
    rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_LENGTH, length, false);
    rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_STAG, some_tag(), false);
    input_.fill(entry + RNIC_WQE_SEGMENT1, input_.number(1) % 17);
    post(kBad, entry, receive);
}

/** Stores of the input's to a slot, the indices at its ends among them or right: the entry that is
 * posted next, or one of the eight before, may find itself there. */
void Scene::bad_window()
{
    Function &f = fns_[kBad];
    const std::uint32_t which = input_.number(1), at = input_.number(2) % RNIC_WINDOW_SLOT_BYTES;
    const std::uint32_t behind = f.sends + 1 - which % 9;
    std::uint8_t *const window = f.bar2 + RNIC_DB_WINDOWS + which / 64 * std::size_t{RNIC_WINDOW_BYTES};
    std::uint8_t *const slot =
        window + (behind - 1) % RNIC_WINDOW_SLOTS * std::size_t{RNIC_WINDOW_SLOT_BYTES};
    input_.fill(slot + at, std::min<std::uint32_t>(input_.number(1), RNIC_WINDOW_SLOT_BYTES - at));
    if (input_.number(1) % 4 != 0) {
        rnic_put32(slot + RNIC_WINDOW_BEGIN, behind, false);
        rnic_put32(slot + RNIC_WINDOW_END, behind, false);
        rnic_put32(slot + RNIC_WINDOW_LOCAL_STAG, some_tag(), false);
        rnic_put32(slot + RNIC_WINDOW_REMOTE_STAG, some_tag(), false);
    }
}

/** Stores to a window while the card works, also between its copies of a header and a payload. */
void Scene::later_window()
{
    later_.transactions = 1 + input_.number(1);
    later_.at = input_.number(2) % (2 * RNIC_WINDOW_BYTES);
    later_.count = input_.number(1) % (later_.bytes.size() + 1);
    input_.fill(later_.bytes.data(), later_.count);
}

void Scene::bad_frame()
{
    std::uint8_t frame[720] = {};
    std::memcpy(frame, kMac, 6);
    frame[6] = 2;
    frame[12] = 0x88;
    frame[13] = 0xB5;
    const std::uint32_t bytes = input_.number(2) % 700, at = input_.number(1) % 15;
    input_.fill(frame + at, bytes);
    rnic_card_receive(&card_, frame, bytes);
}

/** A raw queue pair, its states, its entries, and frames that come to it. */
void Scene::bad_raw()
{
    Function &f = fns_[kBad];
    const std::uint32_t what = input_.number(1) % 4;
    std::uint8_t entry[64] = {};
    if (what == 0) { // posts are its own from now on
        entry[0] = RNIC_COMMAND_CREATE_QP;
        entry[RNIC_CMD_QP_LEVEL] = RNIC_LEVEL_RAW;
        entry[RNIC_CMD_QP_RIGHTS] = static_cast<std::uint8_t>(input_.number(1) % 4);
        rnic_put32(entry + RNIC_CMD_QP_DOMAIN, 1, false);
        rnic_put32(entry + RNIC_CMD_QP_SEND_CQ, f.cq, false);
        rnic_put32(entry + RNIC_CMD_QP_RECV_CQ, f.cq, false);
        f.qp = execute(kBad, entry) % kQps; // what the bad function reads may be anything
        f.sends = f.receives = 0;
        for (unsigned queue = 0; queue < 2; ++queue) {
            std::uint8_t ring[64] = {RNIC_COMMAND_SET_RING};
            ring[RNIC_CMD_OBJECT_KIND] = static_cast<std::uint8_t>(queue);
            ring[RNIC_CMD_RING_LOG2] = kLog2;
            rnic_put32(ring + RNIC_CMD_OBJECT, f.qp, false);
            rnic_put64(ring + RNIC_CMD_RING_BASE, queue == 0 ? kSends : kReceives, false);
            execute(kBad, ring);
        }
    }
    if (what <= 1) {
        std::uint8_t state[64] = {RNIC_COMMAND_MODIFY_QP};
        state[RNIC_CMD_QP_STATE] =
            static_cast<std::uint8_t>(what == 0 ? unsigned{RNIC_QP_STATE_CONNECTED} : input_.number(1) % 6);
        rnic_put32(state + RNIC_CMD_OBJECT, f.qp, false);
        execute(kBad, state);
    } else if (what == 2) {
        const bool receive = input_.number(1) % 2 != 0;
        const std::uint32_t length = input_.number(2) % 700;
        entry[RNIC_WQE_OPCODE] = receive ? RNIC_WORK_RECEIVE : RNIC_WORK_SEND;
        rnic_put16(entry + RNIC_WQE_SEGMENTS, 1, false);
        rnic_put32(entry + RNIC_WQE_LENGTH, length, false);
        rnic_put64(entry + RNIC_WQE_REMOTE_ADDRESS, input_.number(2) * std::uint64_t{1000}, false);
        rnic_put64(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_ADDRESS, kPlay + input_.number(1), false);
        rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_LENGTH, length, false);
        rnic_put32(entry + RNIC_WQE_SEGMENT0 + RNIC_SEG_STAG, f.tag, false);
        post(kBad, entry, receive);
    } else {
        std::uint8_t frame[720] = {};
        const std::uint32_t bytes = input_.number(2) % 700;
        std::memcpy(frame, kMac, 6);
        frame[12] = 8;
        input_.fill(frame + input_.number(1) % 15, bytes);
        rnic_card_receive(&card_, frame, bytes);
    }
}

void Scene::step()
{
    Function &bad = fns_[kBad];
    const std::uint32_t what = input_.number(1) % 19;
    if (what == 0) {
        const std::uint32_t offset = input_.number(2);
        rnic_card_bar_write(&card_, kBad, 0, offset, 4, input_.number(4));
    } else if (what == 1) {
        const std::uint32_t offset = input_.number(1), bytes = input_.number(1) % 5;
        rnic_card_config_write(&card_, kBad, offset, bytes, input_.number(4));
    } else if (what == 2) {
        const std::uint32_t at = input_.number(2);
        input_.fill(&bad.memory[at], std::min(input_.number(1), kMemory - at));
    } else if (what == 3) {
        store(kBad, RNIC_DB_QP + 4 * (input_.number(1)), input_.number(2));
        bad.bar2[RNIC_DB_QP_HINTS] = 1;
    } else if (what == 4) {
        store(kBad, RNIC_DB_CQ + 4 * (input_.number(1)), input_.number(2));
        bad.bar2[RNIC_DB_CQ_HINTS] = 1;
    } else if (what == 5) {
        const std::uint32_t offset = input_.number(3), bytes = input_.number(1) % 10;
        rnic_card_bar_write(&card_, kBad, 2, offset, bytes, input_.number(4));
    } else if (what == 6) {
        advance(input_.number(2) * 1000ull);
    } else if (what == 7) {
        failing_ = input_.number(1);
    } else if (what == 8) {
        bad_work();
    } else if (what == 9) {
        bad_frame();
    } else if (what == 10) {
        failing_ = 0;
        rnic_card_bar_write(&card_, kBad, 0, RNIC_REG_CTRL, 4, RNIC_CTRL_RESET);
        enable(kBad);
        make_objects(kBad);
    } else if (what == 11) {
        if (rnic_card_sleep(&card_)) {
            FUZZ_CHECK(rnic_card_deadline(&card_) > now_);
            rnic_card_wake(&card_);
        }
    } else if (what == 12) {
        const std::uint32_t bar = input_.number(1), offset = input_.number(4);
        rnic_card_bar_read(&card_, kBad, bar, offset, input_.number(1) % 9);
        if (bar % 8 == 4) { // around the ends of device memory
            const std::uint32_t at = offset % 0x5000, bytes = input_.number(1) % 10;
            rnic_card_bar_write(&card_, kBad, 4, at, bytes, offset);
            rnic_card_bar_read(&card_, kBad, 4, at, bytes);
            rnic_card_bar_write(&card_, kBad, 4, UINT64_MAX - bytes, bytes, offset);
        }
        rnic_card_config_read(&card_, kBad, offset, 4);
    } else if (what == 14) { // a store to the mapping, behind device memory, too
        const std::uint32_t at = input_.number(2) % kBar4Bytes;
        input_.fill(bad.bar4 + at, std::min(input_.number(1), kBar4Bytes - at));
    } else if (what == 15) {
        bad_window();
    } else if (what == 16) {
        later_window();
    } else if (what == 17) {
        bad_raw();
    } else if (what == 18) {
        bad_single();
    } else {
        bad_command();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    Input input(data, size);
    Scene scene(input);
    for (unsigned steps = 0; input.more() && steps < 200; ++steps) {
        scene.step();
        if (steps % 16 == 15) {
            scene.exchange();
        }
    }
    scene.exchange();
    return 0;
}
