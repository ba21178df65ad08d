// SPDX-License-Identifier: MIT
//
// The tools' command lines: the first byte chooses the tool, the others are its arguments, a NUL
// between them. Nothing is started, opened or set.
#include "fuzz.hpp"

#include <string>

#include "conformance/options.hpp"

extern "C" {
#include "command_line.h"
}

namespace {

constexpr std::size_t kMost = 64; // arguments

/** What main() is given: the program's name, the arguments, NULL. */
class Arguments {
public:
    Arguments(const std::uint8_t *data, std::size_t size)
    {
        words_.emplace_back("tool");
        std::string word;
        for (std::size_t i = 0; i < size && words_.size() < kMost; ++i) {
            if (data[i] != 0) {
                word += static_cast<char>(data[i]);
            }
            if (data[i] == 0 || i + 1 == size) {
                words_.push_back(word);
                word.clear();
            }
        }
        for (std::string &each : words_) {
            copies_.push_back(
                fuzz::exactly(reinterpret_cast<const std::uint8_t *>(each.c_str()), each.size() + 1));
            pointers_.push_back(reinterpret_cast<char *>(copies_.back().get()));
        }
        pointers_.push_back(nullptr);
    }
    int argc() const { return static_cast<int>(pointers_.size()) - 1; }
    char **argv() { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<std::unique_ptr<std::uint8_t[]>> copies_;
    std::vector<char *> pointers_; // which getopt_long() puts into another order
};

const char *conformance(int argc, char **argv)
{
    vipl_conformance::Options o;
    const int code = vipl_conformance::parse(argc, argv, o);
    if (code != -1) {
        return code == 0 || code == 2 ? nullptr : "an unknown exit code of vipl-conformance";
    }
    if (o.level < 0 || o.level >= vipl_conformance::kLevels || o.for_catch.empty()) {
        return "a level that there is not";
    }
    return o.mode == "inproc" || o.mode == "procs" || o.mode == "both" ? nullptr : "a mode that there is not";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size < 1) {
        return 0;
    }
    Arguments arguments(data + 1, size - 1);
    const char *wrong = nullptr;
    switch (data[0] % 4) {
    case 0:
        wrong = fuzz_perf_options(arguments.argc(), arguments.argv());
        break;
    case 1:
        wrong = fuzz_ping_options(arguments.argc(), arguments.argv());
        break;
    case 2:
        wrong = fuzz_info_options(arguments.argc(), arguments.argv());
        break;
    default:
        wrong = conformance(arguments.argc(), arguments.argv());
        break;
    }
    if (wrong != nullptr) {
        std::fprintf(stderr, "%s\n", wrong);
    }
    FUZZ_CHECK(wrong == nullptr);
    return 0;
}
