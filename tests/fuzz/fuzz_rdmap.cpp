// SPDX-License-Identifier: MIT
//
// One ULPDU: its DDP header and its operation's payload, read, written and read again.
#include "fuzz.hpp"

extern "C" {
#include "iwarp/rdmap.h"
}

namespace {

bool invalidates(unsigned op)
{
    return op == VIPL_RDMAP_SEND_INVALIDATE || op == VIPL_RDMAP_SEND_SE_INVALIDATE;
}

/** Written again it is the same, but for reserved bits, which are zero. */
void check_header(const std::uint8_t *ulpdu, const vipl_ddp &ddp)
{
    std::uint8_t expected[VIPL_DDP_UNTAGGED_BYTES], again[VIPL_DDP_UNTAGGED_BYTES];
    std::memcpy(expected, ulpdu, ddp.header_bytes);
    expected[0] &= 0xC3;
    expected[1] &= 0xCF;
    if (!ddp.tagged && !invalidates(ddp.op)) {
        std::memset(expected + 2, 0, 4);
    }
    FUZZ_CHECK(vipl_ddp_write(again, &ddp) == ddp.header_bytes);
    FUZZ_CHECK(std::memcmp(again, expected, ddp.header_bytes) == 0);
}

void check_terminate(const std::uint8_t *payload, std::size_t length)
{
    vipl_rdmap_terminate t{}, seen{};
    if (!vipl_rdmap_terminate_read(payload, length, &t)) {
        return;
    }
    std::uint8_t first[VIPL_RDMAP_MAX_TERMINATE_BYTES], second[VIPL_RDMAP_MAX_TERMINATE_BYTES];
    const std::size_t bytes = vipl_rdmap_terminate_write(first, &t);
    FUZZ_CHECK(bytes <= sizeof first && bytes <= length);
    FUZZ_CHECK(vipl_rdmap_terminate_read(fuzz::exactly(first, bytes).get(), bytes, &seen));
    FUZZ_CHECK(seen.reason == t.reason && seen.with_ddp == t.with_ddp && seen.with_read == t.with_read);
    FUZZ_CHECK(vipl_rdmap_terminate_write(second, &seen) == bytes && std::memcmp(first, second, bytes) == 0);
    FUZZ_CHECK(!vipl_rdmap_terminate_read(fuzz::exactly(first, bytes - 1).get(), bytes - 1, &seen));
}

void check_read_request(const std::uint8_t *payload)
{
    vipl_rdmap_read read{};
    std::uint8_t again[VIPL_RDMAP_READ_REQUEST_BYTES];
    vipl_rdmap_read_read(payload, &read);
    vipl_rdmap_read_write(again, &read);
    FUZZ_CHECK(std::memcmp(again, payload, sizeof again) == 0);
}

void check_immediate(const std::uint8_t *payload)
{
    std::uint8_t again[VIPL_RDMAP_IMMEDIATE_BYTES];
    vipl_rdmap_immediate_write(again, vipl_rdmap_immediate_read(payload));
    FUZZ_CHECK(std::memcmp(again + 4, payload + 4, 4) == 0);
}

void check_payload(unsigned op, const std::uint8_t *payload, std::size_t length)
{
    switch (op) {
    case VIPL_RDMAP_READ_REQUEST:
        if (length >= VIPL_RDMAP_READ_REQUEST_BYTES) {
            check_read_request(payload);
        }
        break;
    case VIPL_RDMAP_TERMINATE:
        check_terminate(payload, length);
        break;
    case VIPL_RDMAP_IMMEDIATE:
    case VIPL_RDMAP_IMMEDIATE_SE:
        if (length >= VIPL_RDMAP_IMMEDIATE_BYTES) {
            check_immediate(payload);
        }
        break;
    default:
        break;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto ulpdu = fuzz::exactly(data, size);
    vipl_ddp ddp{};
    const vipl_ddp_fault fault = vipl_ddp_read(ulpdu.get(), size, &ddp);
    if (fault == VIPL_DDP_FAULT_SHORT) {
        FUZZ_CHECK(size < VIPL_DDP_UNTAGGED_BYTES);
        return 0;
    }
    FUZZ_CHECK(ddp.header_bytes <= size);
    if (fault != VIPL_DDP_FAULT_VERSION && fault != VIPL_DDP_FAULT_RDMAP_VERSION) {
        check_header(ulpdu.get(), ddp);
    }
    if (fault == VIPL_DDP_OK) {
        check_payload(ddp.op, ulpdu.get() + ddp.header_bytes, size - ddp.header_bytes);
    }
    return 0;
}
