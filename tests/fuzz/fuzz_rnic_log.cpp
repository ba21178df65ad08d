// SPDX-License-Identifier: MIT
//
// The transaction log of a card, as vipl-rnic-log reads it: bytes that are no log are damage at a
// place within them, and what is read is the same when it is written as a log and read again.
#include "fuzz.hpp"

#include <unistd.h>

extern "C" {
#include "adapter/log.h"
#include "rnic_log/coverage.h"
#include "rnic_log/explain.h"
#include "rnic_log/read.h"
}

namespace {

struct Followed {
    FILE *words = std::tmpfile();
    rings *followed = rings_new();
    coverage *covered = coverage_new();
    Followed() { FUZZ_CHECK(words != nullptr && followed != nullptr && covered != nullptr); }
    Followed(const Followed &) = delete;
    Followed &operator=(const Followed &) = delete;
    ~Followed()
    {
        coverage_print(covered, words);
        coverage_free(covered);
        rings_free(followed);
        std::fclose(words);
    }

    void add(const rnic_transaction &c)
    {
        ring_entry entry{};
        const ring_entry *known = rings_follow(followed, &c, &entry) ? &entry : nullptr;
        FUZZ_CHECK(known == nullptr || known->bytes == c.data);
        explain(words, &c, known);
        coverage_add(covered, &c, known);
    }
};

/** Reads a log to its end, and writes it to `copy`. Returns how many transactions it has. */
std::size_t read_all(FILE *file, rnic_log *copy)
{
    log_reader reader{};
    rnic_transaction c{};
    Followed followed;
    std::size_t count = 0;
    log_got got = LOG_GOT_END;
    FUZZ_CHECK(log_read_from(&reader, file) == 0);
    while ((got = log_read_next(&reader, &c)) == LOG_GOT_ONE) {
        followed.add(c);
        if (copy != nullptr) {
            rnic_log_write(copy, &c);
        }
        ++count;
    }
    FUZZ_CHECK((got == LOG_GOT_DAMAGE) == (reader.damage != nullptr));
    FUZZ_CHECK(copy != nullptr || got == LOG_GOT_END); // what the library's code writes is a log
    log_read_close(&reader);
    return count;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto exact = fuzz::exactly(data, size);
    for (const bool is_text : {false, true}) {
        FILE *file = size == 0 ? std::tmpfile() : fmemopen(exact.get(), size, "rb");
        FILE *written = std::tmpfile();
        FUZZ_CHECK(file != nullptr && written != nullptr);
        const int descriptor = dup(fileno(written));
        rnic_log copy{};
        rnic_log_to(&copy, written, is_text);
        const std::size_t count = read_all(file, &copy);
        FUZZ_CHECK(rnic_log_error(&copy) == 0);
        rnic_log_close(&copy);
        FILE *again = fdopen(descriptor, "rb");
        FUZZ_CHECK(again != nullptr);
        std::rewind(again);
        FUZZ_CHECK(read_all(again, nullptr) == count);
    }
    return 0;
}
