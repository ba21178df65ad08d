// SPDX-License-Identifier: MIT
#include "devices/host.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

extern "C" {
#include "iwarp/crc32c.h"
}

namespace card {

namespace {

/** Zeroed memory that takes none until it is touched. The first bytes are the length of all. */
void *reserve(std::size_t bytes)
{
    const std::size_t all = bytes + 64;
    void *at = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(at != MAP_FAILED);
    madvise(at, all, MADV_NOHUGEPAGE); // so that a touch is a small page's
    *static_cast<std::size_t *>(at) = all;
    return static_cast<std::uint8_t *>(at) + 64;
}

} // namespace

void Host::Free::operator()(void *area) const
{
    std::uint8_t *const at = static_cast<std::uint8_t *>(area) - 64;
    munmap(at, *reinterpret_cast<std::size_t *>(at));
}

rnic_card_config small_config()
{
    rnic_card_config config{};
    config.functions = 4;
    config.qps = 256;
    config.cqs = 256;
    config.stags = 256;
    config.pbl_entries = 1024;
    config.flows = 64;
    config.frames = 1024;
    config.mtu = 1500;
    const std::uint8_t mac[6] = {0x02, 0, 0, 0, 0, 0x01};
    std::memcpy(config.mac, mac, sizeof mac);
    config.seed = 1;
    config.dram_bytes = 65536;
    config.sram_bytes = 4096;
    return config;
}

Host::Host(const rnic_card_config &config)
{
    static const rnic_card_host callbacks = {read,        write,   publish, interrupt, transmit,
                                             transaction, nullptr, nullptr, nullptr,   nullptr};
    area_.reset(reserve(rnic_card_bytes(&config)));
    rnic_card_init(&card, area_.get(), &config, &callbacks, this);
    for (unsigned fn = 0; fn < config.functions; ++fn) {
        bar2_[fn].reset(reserve(RNIC_BAR2_BYTES));
        bar4_[fn].reset(reserve(std::max<std::uint64_t>(rnic_card_bar4_bytes(&config), 64)));
        rnic_card_attach(&card, fn, bar2(fn), bar4(fn));
        memory_[fn].resize(kMemory);
    }
}

void Host::join(Host &a, Host &b)
{
    a.peer = &b;
    b.peer = &a;
}

void Host::run(unsigned most)
{
    for (unsigned i = 0; i < most; ++i) {
        rnic_card_advance(&card, now);
        if (peer != nullptr) {
            for (; !wire.empty(); wire.pop_front()) {
                rnic_card_receive(&peer->card, wire.front().data(),
                                  static_cast<std::uint32_t>(wire.front().size()));
            }
            peer->now = now;
            rnic_card_advance(&peer->card, now);
            for (; !peer->wire.empty(); peer->wire.pop_front()) {
                rnic_card_receive(&card, peer->wire.front().data(),
                                  static_cast<std::uint32_t>(peer->wire.front().size()));
            }
        }
        const bool more =
            rnic_card_deadline(&card) <= now || (peer != nullptr && rnic_card_deadline(&peer->card) <= now);
        if (!more) {
            return;
        }
    }
}

void Host::run_for(std::uint64_t ns)
{
    const std::uint64_t end = now + ns;
    for (unsigned i = 0; i < 1000000; ++i) {
        run();
        std::uint64_t due = rnic_card_deadline(&card);
        if (peer != nullptr && rnic_card_deadline(&peer->card) < due) {
            due = rnic_card_deadline(&peer->card);
        }
        if (due > end) {
            break;
        }
        now = due > now ? due : now;
    }
    now = end;
    run();
}

std::uint32_t Host::reg(unsigned fn, std::uint32_t offset)
{
    return static_cast<std::uint32_t>(rnic_card_bar_read(&card, fn, 0, offset, 4));
}

void Host::set_reg(unsigned fn, std::uint32_t offset, std::uint32_t value)
{
    rnic_card_bar_write(&card, fn, 0, offset, 4, value);
}

Bytes &Host::memory(unsigned fn)
{
    return memory_[fn];
}

std::uint8_t *Host::bar2(unsigned fn)
{
    return static_cast<std::uint8_t *>(bar2_[fn].get());
}

std::uint8_t *Host::bar4(unsigned fn)
{
    return static_cast<std::uint8_t *>(bar4_[fn].get());
}

bool Host::reaches(unsigned fn, std::uint64_t iova, std::uint32_t bytes, bool writes)
{
    const Bytes &all = memory_[fn];
    const bool mapped = iova <= all.size() && bytes <= all.size() - iova;
    return mapped && (!allows || allows(fn, iova, bytes, writes));
}

bool Host::read(void *context, unsigned fn, std::uint64_t iova, void *out, std::uint32_t bytes)
{
    Host &host = *static_cast<Host *>(context);
    if (!host.reaches(fn, iova, bytes, false)) {
        return false;
    }
    std::memcpy(out, host.memory_[fn].data() + iova, bytes);
    if (host.moved) {
        host.moved(fn, iova, bytes, false);
    }
    return true;
}

bool Host::write(void *context, unsigned fn, std::uint64_t iova, const void *in, std::uint32_t bytes)
{
    Host &host = *static_cast<Host *>(context);
    if (!host.reaches(fn, iova, bytes, true)) {
        return false;
    }
    std::memcpy(host.memory_[fn].data() + iova, in, bytes);
    if (host.moved) {
        host.moved(fn, iova, bytes, true);
    }
    return true;
}

bool Host::publish(void *context, unsigned fn, std::uint64_t iova, const std::uint8_t word[4])
{
    Host &host = *static_cast<Host *>(context);
    if (!host.reaches(fn, iova, 4, true)) {
        return false;
    }
    std::uint32_t value; // a store by itself, behind all others: the driver may be another thread
    std::memcpy(&value, word, 4);
    __atomic_store_n(reinterpret_cast<std::uint32_t *>(host.memory_[fn].data() + iova), value,
                     __ATOMIC_RELEASE);
    if (host.moved) {
        host.moved(fn, iova, 4, true);
    }
    return true;
}

void Host::interrupt(void *context, unsigned fn, unsigned vector)
{
    static_cast<Host *>(context)->interrupts[fn][vector]++;
}

void Host::transmit(void *context, const std::uint8_t *frame, std::uint32_t bytes)
{
    Host &host = *static_cast<Host *>(context);
    host.wire.emplace_back(frame, frame + bytes);
    if (host.record) {
        host.left.push_back(host.now);
    }
}

void Host::transaction(void *context, const rnic_transaction *transaction)
{
    Host &host = *static_cast<Host *>(context);
    std::uint8_t fields[40];
    rnic_put64(fields, transaction->time, true);
    rnic_put32(fields + 8, static_cast<std::uint32_t>(transaction->kind), true);
    rnic_put32(fields + 12, transaction->fn, true);
    rnic_put64(fields + 16, transaction->address, true);
    rnic_put64(fields + 24, transaction->value, true);
    rnic_put32(fields + 32, transaction->bytes, true);
    rnic_put32(fields + 36, transaction->failed, true);
    host.crc = vipl_crc32c(host.crc, fields, sizeof fields);
    if (transaction->data != nullptr) {
        host.crc = vipl_crc32c(host.crc, transaction->data, transaction->bytes);
    }
    if (host.record) {
        Crossing kept{};
        static_cast<rnic_transaction &>(kept) = *transaction;
        const std::uint8_t *const data = static_cast<const std::uint8_t *>(transaction->data);
        if (data != nullptr) {
            kept.bytes_moved.assign(data, data + transaction->bytes);
        }
        kept.data = nullptr;
        host.transactions.push_back(kept);
    }
}

// --- the driver ----------------------------------------------------------------------------------

Driver::Driver(Host &the_host, unsigned the_fn, bool is_big) : host(the_host), fn(the_fn), big(is_big)
{
    commands = {allocate(RNIC_COMMAND_BYTES << kCommandLog2), kCommandLog2, 0};
    answers = {allocate(RNIC_COMPLETION_BYTES << kCommandLog2), kCommandLog2, 0};
    events = {allocate(RNIC_EVENT_BYTES << kEventLog2), kEventLog2, 0};
}

void Driver::enable(std::uint32_t ctrl)
{
    rnic_card_config_write(&host.card, fn, 4, 2, 6);
    rnic_card_config_write(&host.card, fn, 0x42, 2, 0x8000);
    for (unsigned vector = 0; vector < RNIC_VECTORS; ++vector) {
        host.set_reg(fn, RNIC_MSIX_TABLE + 16 * vector + 12, 0);
    }
    const std::pair<std::uint32_t, std::uint64_t> bases[] = {{RNIC_REG_COMMAND_BASE_LO, commands.base},
                                                             {RNIC_REG_ANSWER_BASE_LO, answers.base},
                                                             {RNIC_REG_EVENT_BASE_LO, events.base}};
    for (const auto &[offset, base] : bases) {
        host.set_reg(fn, offset, static_cast<std::uint32_t>(base));
        host.set_reg(fn, offset + 4, static_cast<std::uint32_t>(base >> 32));
    }
    host.set_reg(fn, RNIC_REG_COMMAND_LOG2, kCommandLog2);
    host.set_reg(fn, RNIC_REG_EVENT_LOG2, kEventLog2);
    host.set_reg(fn, RNIC_REG_CTRL,
                 RNIC_CTRL_ENABLE | ctrl | (big ? static_cast<std::uint32_t>(RNIC_CTRL_BYTE_ORDER) : 0u));
    host.run();
}

std::uint64_t Driver::allocate(std::uint64_t bytes, std::uint64_t alignment)
{
    next_ = (next_ + alignment - 1) / alignment * alignment;
    const std::uint64_t at = next_;
    next_ += bytes;
    REQUIRE(next_ <= Host::kMemory);
    return at;
}

std::uint8_t *Driver::at(std::uint64_t iova)
{
    return host.memory(fn).data() + iova;
}

void Driver::store(std::uint32_t offset, std::uint32_t value)
{
    rnic_put32(host.bar2(fn) + offset, value, big);
}

std::uint32_t Driver::load(std::uint32_t offset)
{
    return rnic_get32(host.bar2(fn) + offset, big);
}

void Driver::hint(std::uint32_t hints, std::uint32_t object)
{
    host.bar2(fn)[hints + object / RNIC_GROUP] = 1;
}

Bytes Driver::command(unsigned opcode, std::uint32_t object) const
{
    Bytes entry(RNIC_COMMAND_BYTES);
    rnic_put16(&entry[RNIC_CMD_OPCODE], static_cast<std::uint16_t>(opcode), big);
    rnic_put32(&entry[RNIC_CMD_COOKIE], 0xC0000000u + commands.index, big);
    rnic_put32(&entry[RNIC_CMD_OBJECT], object, big);
    return entry;
}

void Driver::post_command(const Bytes &entry)
{
    const std::uint32_t place = commands.index & ((1u << commands.log2) - 1);
    std::memcpy(at(commands.base + place * RNIC_COMMAND_BYTES), entry.data(), RNIC_COMMAND_BYTES);
    ++commands.index;
    store(RNIC_DB_COMMAND_PRODUCER, commands.index);
}

namespace {

Completion read_completion(const std::uint8_t *from, bool big)
{
    Completion c;
    c.qp = rnic_get32(from + RNIC_CQE_QP, big);
    c.cookie = rnic_get32(from + RNIC_CQE_COOKIE, big);
    c.length = rnic_get32(from + RNIC_CQE_LENGTH, big);
    c.immediate = rnic_get32(from + RNIC_CQE_IMMEDIATE, big);
    c.opcode = from[RNIC_CQE_OPCODE];
    c.flags = from[RNIC_CQE_FLAGS];
    c.status = rnic_get16(from + RNIC_CQE_STATUS, big);
    c.info = rnic_get32(from + RNIC_CQE_INFO, big);
    const std::uint64_t high = rnic_get32(from + RNIC_CQE_TIME_HIGH, big);
    c.time = (c.flags & RNIC_CQE_FLAG_TIME) != 0 ? high << 32 | c.immediate : 0;
    return c;
}

} // namespace

bool Driver::answered(Completion *out)
{
    const std::uint32_t place = answers.index & ((1u << answers.log2) - 1);
    const std::uint8_t *const entry = at(answers.base + place * RNIC_COMPLETION_BYTES);
    if (rnic_get32(entry + RNIC_CQE_OWNER, big) != answers.index + 1) {
        return false;
    }
    ++answers.index;
    *out = read_completion(entry, big);
    return true;
}

Completion Driver::execute(const Bytes &entry)
{
    Completion answer;
    post_command(entry);
    host.run();
    bool there = answered(&answer);
    for (unsigned i = 0; i < 100 && !there; ++i) { // where time is simulated
        host.run_for(10000);
        there = answered(&answer);
    }
    REQUIRE(there);
    CHECK(answer.cookie == rnic_get32(&entry[RNIC_CMD_COOKIE], big));
    return answer;
}

Completion Driver::simple(unsigned opcode, std::uint32_t object)
{
    return execute(command(opcode, object));
}

Completion Driver::try_create_cq(unsigned log2, unsigned vector, std::uint64_t base)
{
    Bytes entry = command(RNIC_COMMAND_CREATE_CQ);
    rnic_put16(&entry[RNIC_CMD_CQ_LOG2], static_cast<std::uint16_t>(log2), big);
    rnic_put16(&entry[RNIC_CMD_CQ_VECTOR], static_cast<std::uint16_t>(vector), big);
    rnic_put64(&entry[RNIC_CMD_CQ_BASE], base, big);
    return execute(entry);
}

std::uint32_t Driver::create_cq(unsigned log2, unsigned vector)
{
    const std::uint64_t base = allocate(RNIC_COMPLETION_BYTES << log2);
    const Completion answer = try_create_cq(log2, vector, base);
    REQUIRE(answer.status == RNIC_STATUS_OK);
    cqs[answer.info] = {base, log2, 0};
    return answer.info;
}

Completion Driver::try_create_qp(unsigned level, std::uint32_t send_cq, std::uint32_t recv_cq,
                                 unsigned rights, unsigned realm, std::uint32_t domain)
{
    Bytes entry = command(RNIC_COMMAND_CREATE_QP);
    rnic_put16(&entry[RNIC_CMD_QP_REALM], static_cast<std::uint16_t>(realm), big);
    entry[RNIC_CMD_QP_LEVEL] = static_cast<std::uint8_t>(level);
    entry[RNIC_CMD_QP_RIGHTS] = static_cast<std::uint8_t>(rights);
    rnic_put32(&entry[RNIC_CMD_QP_DOMAIN], domain, big);
    rnic_put32(&entry[RNIC_CMD_QP_SEND_CQ], send_cq, big);
    rnic_put32(&entry[RNIC_CMD_QP_RECV_CQ], recv_cq, big);
    return execute(entry);
}

std::uint32_t Driver::create_qp(unsigned level, std::uint32_t send_cq, std::uint32_t recv_cq, unsigned rights,
                                unsigned realm, std::uint32_t domain)
{
    const Completion answer = try_create_qp(level, send_cq, recv_cq, rights, realm, domain);
    REQUIRE(answer.status == RNIC_STATUS_OK);
    REQUIRE(set_ring(answer.info, 0, kRingLog2).status == RNIC_STATUS_OK);
    REQUIRE(set_ring(answer.info, 1, kRingLog2).status == RNIC_STATUS_OK);
    return answer.info;
}

Completion Driver::set_ring(std::uint32_t qp, unsigned queue, unsigned log2)
{
    Ring &ring = queue == 0 ? qps[qp].sq : qps[qp].rq;
    Ring larger = {allocate(RNIC_WORK_BYTES << log2), log2, ring.index};
    for (std::uint32_t i = 0; ring.log2 != 0 && i < 1u << ring.log2; ++i) {
        const std::uint32_t index = ring.index - (1u << ring.log2) + i;
        std::memcpy(at(larger.base + (index & ((1u << log2) - 1)) * RNIC_WORK_BYTES),
                    at(ring.base + (index & ((1u << ring.log2) - 1)) * RNIC_WORK_BYTES), RNIC_WORK_BYTES);
    }
    Bytes entry = command(RNIC_COMMAND_SET_RING, qp);
    rnic_put16(&entry[RNIC_CMD_OBJECT_KIND], static_cast<std::uint16_t>(queue), big);
    rnic_put16(&entry[RNIC_CMD_RING_LOG2], static_cast<std::uint16_t>(log2), big);
    rnic_put64(&entry[RNIC_CMD_RING_BASE], larger.base, big);
    ring = larger;
    return execute(entry);
}

Completion Driver::modify(std::uint32_t qp, const Modify &what)
{
    Bytes entry = command(RNIC_COMMAND_MODIFY_QP, qp);
    entry[RNIC_CMD_QP_STATE] = static_cast<std::uint8_t>(what.state);
    entry[RNIC_CMD_QP_CHANGE] = static_cast<std::uint8_t>(what.change);
    entry[RNIC_CMD_QP_LEVEL] = static_cast<std::uint8_t>(what.level);
    entry[RNIC_CMD_QP_RIGHTS] = static_cast<std::uint8_t>(what.rights);
    rnic_put32(&entry[RNIC_CMD_QP_DOMAIN], what.domain, big);
    entry[RNIC_CMD_QP_IRD] = static_cast<std::uint8_t>(what.ird);
    entry[RNIC_CMD_QP_ORD] = static_cast<std::uint8_t>(what.ord);
    std::memcpy(&entry[RNIC_CMD_QP_PEER_MAC], what.mac.data(), 6);
    rnic_put16(&entry[RNIC_CMD_QP_PEER_FUNCTION], static_cast<std::uint16_t>(what.peer_fn), big);
    rnic_put32(&entry[RNIC_CMD_QP_PEER_QP], what.peer_qp, big);
    rnic_put32(&entry[RNIC_CMD_QP_MAX_MESSAGE], what.max_message, big);
    return execute(entry);
}

Completion Driver::register_linear(std::uint64_t address, std::uint64_t length, std::uint64_t iova,
                                   unsigned rights, unsigned realm, std::uint32_t domain)
{
    Bytes entry = command(RNIC_COMMAND_REGISTER);
    rnic_put16(&entry[RNIC_CMD_MR_REALM], static_cast<std::uint16_t>(realm), big);
    entry[RNIC_CMD_MR_RIGHTS] = static_cast<std::uint8_t>(rights);
    rnic_put32(&entry[RNIC_CMD_MR_DOMAIN], domain, big);
    rnic_put64(&entry[RNIC_CMD_MR_VIRTUAL], address, big);
    rnic_put64(&entry[RNIC_CMD_MR_LENGTH], length, big);
    rnic_put64(&entry[RNIC_CMD_MR_IOVA], iova, big);
    return execute(entry);
}

std::uint32_t Driver::memory(std::uint64_t bytes, std::uint64_t *address, unsigned rights, unsigned realm,
                             std::uint32_t domain)
{
    *address = allocate(bytes);
    const Completion answer = register_linear(*address, bytes, *address, rights, realm, domain);
    REQUIRE(answer.status == RNIC_STATUS_OK);
    return answer.info;
}

Completion Driver::listen(const std::string &discriminator, std::uint32_t object, bool begin)
{
    const std::uint64_t text = allocate(discriminator.size() + 1);
    std::memcpy(at(text), discriminator.data(), discriminator.size());
    Bytes entry = command(begin ? RNIC_COMMAND_LISTEN : RNIC_COMMAND_UNLISTEN, object);
    rnic_put16(&entry[RNIC_CMD_LISTEN_LENGTH], static_cast<std::uint16_t>(discriminator.size()), big);
    rnic_put64(&entry[RNIC_CMD_LISTEN_ADDRESS], text, big);
    return execute(entry);
}

Completion Driver::send_control(const Bytes &message, const std::uint8_t mac[6], unsigned to)
{
    const std::uint64_t place = allocate(message.size());
    std::memcpy(at(place), message.data(), message.size());
    Bytes entry = command(RNIC_COMMAND_SEND_CONTROL);
    rnic_put16(&entry[RNIC_CMD_CONTROL_LENGTH], static_cast<std::uint16_t>(message.size()), big);
    rnic_put64(&entry[RNIC_CMD_CONTROL_ADDRESS], place, big);
    std::memcpy(&entry[RNIC_CMD_CONTROL_PEER_MAC], mac, 6);
    rnic_put16(&entry[RNIC_CMD_CONTROL_PEER_FUNCTION], static_cast<std::uint16_t>(to), big);
    return execute(entry);
}

void Driver::post(std::uint32_t qp, const Work &work, bool rings)
{
    Ring &queue = work.opcode == RNIC_WORK_RECEIVE ? qps[qp].rq : qps[qp].sq;
    std::uint8_t *const entry = at(queue.base + (queue.index & ((1u << queue.log2) - 1)) * RNIC_WORK_BYTES);
    const bool list = work.segments.size() > RNIC_INLINE_SEGMENTS;
    std::uint64_t place = static_cast<std::uint64_t>(entry - at(0)) + RNIC_WQE_SEGMENT0;
    std::uint32_t length = 0;
    std::memset(entry, 0, RNIC_WORK_BYTES);
    if (list) {
        const std::uint64_t segments = allocate(work.segments.size() * RNIC_SEGMENT_BYTES);
        rnic_put64(entry + RNIC_WQE_SEGMENT0, segments, big);
        place = segments;
    }
    for (const Segment &segment : work.segments) {
        rnic_put64(at(place) + RNIC_SEG_ADDRESS, segment.address, big);
        rnic_put32(at(place) + RNIC_SEG_LENGTH, segment.length, big);
        rnic_put32(at(place) + RNIC_SEG_STAG, segment.stag, big);
        place += RNIC_SEGMENT_BYTES;
        length += segment.length;
    }
    entry[RNIC_WQE_OPCODE] = static_cast<std::uint8_t>(work.opcode);
    entry[RNIC_WQE_FLAGS] =
        static_cast<std::uint8_t>(work.flags | (list ? static_cast<unsigned>(RNIC_WORK_FLAG_LIST) : 0u));
    rnic_put16(entry + RNIC_WQE_SEGMENTS, static_cast<std::uint16_t>(work.segments.size()), big);
    rnic_put32(entry + RNIC_WQE_COOKIE, work.cookie, big);
    rnic_put32(entry + RNIC_WQE_IMMEDIATE, work.immediate, big);
    rnic_put32(entry + RNIC_WQE_LENGTH, length, big);
    rnic_put64(entry + RNIC_WQE_REMOTE_ADDRESS, work.remote_address, big);
    rnic_put32(entry + RNIC_WQE_REMOTE_STAG, work.remote_stag, big);
    ++queue.index;
    if (rings) {
        ring(qp);
    }
}

void Driver::ring(std::uint32_t qp)
{
    store(RNIC_DB_QP + 64 * qp + RNIC_QPDB_SQ, qps[qp].sq.index);
    store(RNIC_DB_QP + 64 * qp + RNIC_QPDB_RQ, qps[qp].rq.index);
    hint(RNIC_DB_QP_HINTS, qp);
}

bool Driver::poll(std::uint32_t cq, Completion *out)
{
    Ring &ring = cqs[cq];
    const std::uint8_t *const entry =
        at(ring.base + (ring.index & ((1u << ring.log2) - 1)) * RNIC_COMPLETION_BYTES);
    if (rnic_get32(entry + RNIC_CQE_OWNER, big) != ring.index + 1) {
        return false;
    }
    *out = read_completion(entry, big);
    ++ring.index;
    store(RNIC_DB_CQ + 64 * cq + RNIC_CQDB_CONSUMER, ring.index);
    return true;
}

std::vector<Completion> Driver::drain(std::uint32_t cq)
{
    std::vector<Completion> all;
    for (Completion one; poll(cq, &one);) {
        all.push_back(one);
    }
    return all;
}

void Driver::arm(std::uint32_t cq)
{
    store(RNIC_DB_CQ + 64 * cq + RNIC_CQDB_ARM, ++arms[cq]);
    hint(RNIC_DB_CQ_HINTS, cq);
}

bool Driver::event(Event *out)
{
    const std::uint8_t *const entry =
        at(events.base + (events.index & ((1u << events.log2) - 1)) * RNIC_EVENT_BYTES);
    if (rnic_get32(entry + RNIC_EVT_OWNER, big) != events.index + 1) {
        return false;
    }
    out->kind = rnic_get16(entry + RNIC_EVT_KIND, big);
    out->code = rnic_get16(entry + RNIC_EVT_CODE, big);
    out->object = rnic_get32(entry + RNIC_EVT_OBJECT, big);
    out->missed = rnic_get32(entry + RNIC_EVT_MISSED, big);
    out->mac.assign(entry + RNIC_EVT_PEER_MAC, entry + RNIC_EVT_PEER_MAC + 6);
    out->peer_fn = rnic_get16(entry + RNIC_EVT_PEER_FUNCTION, big);
    const std::uint32_t length = rnic_get32(entry + RNIC_EVT_LENGTH, big);
    out->message.assign(entry + RNIC_EVT_MESSAGE, entry + RNIC_EVT_MESSAGE + (length < 464 ? length : 464));
    ++events.index;
    store(RNIC_DB_EVENT_CONSUMER, events.index);
    return true;
}

// --- two of them ---------------------------------------------------------------------------------

Modify towards(Driver &peer, std::uint32_t peer_qp, unsigned state)
{
    Modify what;
    const std::uint32_t lo = peer.host.reg(peer.fn, RNIC_REG_MAC_LO);
    const std::uint32_t hi = peer.host.reg(peer.fn, RNIC_REG_MAC_HI);
    for (unsigned i = 0; i < 6; ++i) {
        what.mac[i] = static_cast<std::uint8_t>(i < 4 ? lo >> 8 * i : hi >> 8 * (i - 4));
    }
    what.state = state;
    what.peer_fn = peer.fn;
    what.peer_qp = peer_qp;
    return what;
}

Pair::Pair(Driver &the_a, Driver &the_b, unsigned level, unsigned rights)
    : a(the_a), b(the_b), cq_a(a.create_cq()), cq_b(b.create_cq()),
      qp_a(a.create_qp(level, cq_a, cq_a, rights)), qp_b(b.create_qp(level, cq_b, cq_b, rights))
{
}

void Pair::connect()
{
    REQUIRE(b.modify(qp_b, towards(a, qp_a, RNIC_QP_STATE_RECEIVE)).status == RNIC_STATUS_OK);
    REQUIRE(a.modify(qp_a, towards(b, qp_b)).status == RNIC_STATUS_OK);
    REQUIRE(b.modify(qp_b, towards(a, qp_a)).status == RNIC_STATUS_OK);
}

} // namespace card
