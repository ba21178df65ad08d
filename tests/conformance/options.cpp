// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>

#include <vipl/version.h>

namespace vipl_conformance {

namespace {

const char kUsage[] =
    "Usage: vipl-conformance [options] [Catch2 options and case filters]\n"
    "Checks a VIPL device against the contract of the Virtual Interface Provider Library 1.0.\n"
    "\n"
    "  --device NAME      the device to test (default: VIPL_TEST_DEVICE, or loopback)\n"
    "  --level LEVEL      early, functional, full or posix (beyond VIPL 1.0); each includes the ones\n"
    "                     before (default: full)\n"
    "  --mode MODE        inproc: no case between processes; procs: two-sided cases between\n"
    "                     processes only; both (default)\n"
    "  --peer-device NAME the device of the other process, where it has another\n"
    "  --peer-netns FILE  the network namespace of the other process (/run/netns/NAME; Linux)\n"
    "  --memory WHERE     own (default); device: buffers and descriptors are in memory of the device\n"
    "  --shuffle SEED     run the cases in an order that the seed decides: a number, or random\n"
    "  --left-out FILE    do not run the cases of its lines \"cases [TAG] | REASON\"; they are reported\n"
    "  --list             list the selected cases with their tags and stop\n"
    "  --junit FILE       also write the results as JUnit XML\n"
    "  --tap              print the results as TAP version 13\n"
    "  -h, --help         this text\n"
    "  --version          print the version\n"
    "\n"
    "A filter is a case name with *, or tags: vipl-conformance '[VipCQWait]'\n"
    "VIPL_TEST_TIMEOUT_SCALE=N multiplies every patience, for emulators and sanitizers; in "
    "VIPL_TEST_ANSWER_MS\n"
    "a network answers surely (default 60; one that loses packets needs several seconds).\n"
    "Exit status: 0 all selected cases passed, 1 some failed or none ran, 2 usage.\n";

int wrong(const std::string &message)
{
    std::cerr << "vipl-conformance: " << message << "\nTry 'vipl-conformance --help'.\n";
    return 2;
}

/** Those that need a value, and where it goes. */
struct Valued {
    const char *name;
    bool (*take)(Options &options, const char *value);
};

bool take_level(Options &options, const char *value)
{
    for (int i = 0; i < kLevels; ++i) {
        if (std::strcmp(value, kLevelTags[i]) == 0) {
            options.level = i;
            return true;
        }
    }
    return false;
}

bool take_mode(Options &options, const char *value)
{
    options.mode = value;
    return options.mode == "inproc" || options.mode == "procs" || options.mode == "both";
}

/** A seed for Catch2, as digits. */
bool take_seed(Options &options, const char *value)
{
    if (std::strcmp(value, "random") == 0) {
        options.shuffle = std::to_string(std::random_device{}());
        return true;
    }
    char *end = nullptr;
    errno = 0;
    const unsigned long number = std::strtoul(value, &end, 10);
    options.shuffle = std::to_string(number);
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && errno == 0 && number <= 0xffffffff;
}

/** Lines "cases [TAG] | REASON" of a file; others are not for this program. False: there is no such
 * file, or no such line in it. */
bool take_left_out(Options &options, const char *value)
{
    std::ifstream file(value);
    for (std::string line; std::getline(file, line);) {
        const size_t tag = line.find('['), end = line.find(']'), bar = line.find('|');
        if (line.compare(0, 6, "cases ") == 0 && tag < end && end < bar && bar != std::string::npos) {
            options.left_out[line.substr(tag + 1, end - tag - 1)] =
                line.substr(line.find_first_not_of(" |", bar));
        }
    }
    return !options.left_out.empty();
}

template <const char *const &Name>
bool take_setting(Options &options, const char *value)
{
    options.settings.emplace_back(Name, value);
    return true;
}

const char *const kDevice = "VIPL_TEST_DEVICE";
const char *const kPeerDevice = "VIPL_TEST_PEER_DEVICE";
const char *const kPeerNetns = "VIPL_TEST_PEER_NETNS";
const char *const kMemory = "VIPL_TEST_MEMORY";

bool take_memory(Options &options, const char *value)
{
    const std::string where = value;
    return (where == "own" || where == "device") && take_setting<kMemory>(options, value);
}

const Valued kValued[] = {
    {"--device", take_setting<kDevice>},
    {"--peer-device", take_setting<kPeerDevice>},
    {"--peer-netns", take_setting<kPeerNetns>},
    {"--level", take_level},
    {"--memory", take_memory},
    {"--mode", take_mode},
    {"--shuffle", take_seed},
    {"--left-out", take_left_out},
    {"--junit",
     [](Options &options, const char *value) {
         options.junit = value;
         return true;
     }},
};

/** The option that argv[i] is, as "--name VALUE" or "--name=VALUE", or NULL. */
const Valued *valued(const char *word)
{
    for (const Valued &option : kValued) {
        const size_t length = std::strlen(option.name);
        if (std::strncmp(word, option.name, length) == 0 && (word[length] == '=' || word[length] == '\0')) {
            return &option;
        }
    }
    return nullptr;
}

} // namespace

int parse(int argc, char **argv, Options &options)
{
    options.for_catch.push_back(argv[0]);
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (const Valued *option = valued(argv[i])) {
            const char *value = std::strchr(argv[i], '=');
            if (value == nullptr && i + 1 == argc) {
                return wrong(word + " needs a value");
            }
            value = value != nullptr ? value + 1 : argv[++i];
            if (!option->take(options, value)) {
                return wrong(std::string(option->name) + ": \"" + value + "\" is none of its values");
            }
        } else if (word == "--tap") {
            options.tap = true;
        } else if (word == "--list") {
            options.list = true;
        } else if (word == "-h" || word == "--help") {
            std::cout << kUsage;
            return 0;
        } else if (word == "--version") {
            std::cout << "vipl-conformance " << VIPL_VERSION_STRING << '\n';
            return 0;
        } else {
            options.for_catch.push_back(argv[i]);
        }
    }
    return -1;
}

} // namespace vipl_conformance
