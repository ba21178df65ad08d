// SPDX-License-Identifier: MIT
//
// Settings from the environment and the file, numbers that are none, the log's levels, device names
// and aliases, and the arithmetic of deadlines.
#include <catch2/catch.hpp>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#if __has_include(<sys/inotify.h>)
#include <sys/inotify.h>
#include <unistd.h>
#endif
#if __has_include(<sys/socket.h>) // POSIX
#include <sys/stat.h>
#endif

#include "internal.hpp"
#include "support/environment.hpp"
#include "support/stderr_of.hpp"
#include "support/system.hpp"

using vipl_test::set_environment;
using vipl_test::stderr_of;

namespace {

/** A configuration file for one test, which VIPL_CONFIG names; ends what the test set. */
class File {
public:
    explicit File(const std::string &text) : path_(vipl_test::make_file(text))
    {
        set_environment("VIPL_CONFIG", path_.c_str());
    }
    ~File()
    {
        std::remove(path_.c_str());
        for (const char *name :
             {"VIPL_CONFIG", "VIPL_UNIT", "VIPL_DEVICE", "VIPL_DEVICE_ALIASES", "VIPL_LINGER", "VIPL_LOG",
              "VIPL_STRICT", "VIPL_TCP_PORTS", "VIPL_PROGRESS", "VIPL_LINGERS", "VIPL_COFFEE"}) {
            set_environment(name, nullptr);
        }
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;

private:
    std::string path_;
};

/** Where temporary files are. */
std::string temporary_folder()
{
    return std::filesystem::temp_directory_path().string();
}

/** What opening a device does with the settings. */
void begin_and_end()
{
    vipl_config_begin();
    vipl_config_end();
}

std::string text_of(const char *name, bool expected = true)
{
    char text[64] = "untouched";
    REQUIRE(vipl_config_text(name, text, sizeof text) == expected);
    return text;
}

/** The name a device comes to, "-" and nothing else if there is none. */
std::string device(const char *name)
{
    char found[64];
    const char *rest = nullptr;
    const vipl_backend *backend = vipl_device_find(name, found, &rest);
    return backend == nullptr ? "-" : std::string(backend->name) + '|' + rest;
}

} // namespace

TEST_CASE("the environment comes before the file", "[config]")
{
    const File file("VIPL_UNIT = from file\n");
    REQUIRE(text_of("VIPL_UNIT") == "from file");
    set_environment("VIPL_UNIT", "from environment");
    REQUIRE(text_of("VIPL_UNIT") == "from environment");
    set_environment("VIPL_UNIT", "");
    if (std::getenv("VIPL_UNIT") != nullptr) { // set, to nothing
        REQUIRE(text_of("VIPL_UNIT").empty());
    }
    REQUIRE(text_of("VIPL_OTHER", false).empty());
}

TEST_CASE("the file's lines may have comments, blanks and nonsense", "[config]")
{
    const File file("# VIPL_UNIT = no\n\n===\nnonsense\n  VIPL_UNIT\t=  a b \t # c\r\nVIPL_UNIT = second\n"
                    "VIPL_EMPTY =\nVIPL_UNITS = other\nVIPL_LAST = end of file");
    REQUIRE(text_of("VIPL_UNIT") == "a b");
    REQUIRE(text_of("VIPL_EMPTY").empty());
    REQUIRE(text_of("VIPL_UNITS") == "other");
    REQUIRE(text_of("VIPL_LAST") == "end of file");
    REQUIRE(text_of("VIPL_UNI", false).empty());
}

TEST_CASE("values are cut to fit, and long lines harm nothing", "[config]")
{
    const File file("VIPL_LONG = " + std::string(5000, 'x') + "\nVIPL_UNIT = behind\n");
    REQUIRE(text_of("VIPL_UNIT") == "behind");
    REQUIRE(text_of("VIPL_LONG") == std::string(63, 'x'));
    char one[1] = {'!'};
    REQUIRE(vipl_config_text("VIPL_UNIT", one, 1));
    REQUIRE(one[0] == '\0');
}

TEST_CASE("a file that is not there sets nothing", "[config]")
{
    const File file("");
    set_environment("VIPL_CONFIG", "/nonexistent/vipl.conf");
    REQUIRE(text_of("VIPL_UNIT", false).empty());
    set_environment("VIPL_CONFIG", temporary_folder().c_str());
    REQUIRE(text_of("VIPL_UNIT", false).empty());
}

TEST_CASE("what is not a number in range is the default", "[config]")
{
    const File file("");
    for (const char *good : {"10", "0", "3600000", "0042"}) {
        set_environment("VIPL_LINGER", good);
        REQUIRE(vipl_config_number("VIPL_LINGER") == std::strtoul(good, nullptr, 10));
    }
    for (const char *bad : {"", "x", "10x", "-1", "3600001", "0x10", "99999999999999999999999", "1.5",
                            "-18446744073709551615", " -1", "10 ", "+1", "18446744073709551617"}) {
        set_environment("VIPL_LINGER", bad);
        REQUIRE(vipl_config_number("VIPL_LINGER") == 5000);
    }
    set_environment("VIPL_LINGER", nullptr);
    REQUIRE(vipl_config_number("VIPL_LINGER") == 5000);
}

TEST_CASE("a range has two numbers, in order", "[config]")
{
    const File file("");
    std::uint32_t first = 0, last = 0;
    for (const char *bad :
         {"", "-", "1", "1-", "-1", "2-1", "0-5", "1-65536", "1-2-3", "a-b", "1 - 2", "1-2 "}) {
        set_environment("VIPL_TCP_PORTS", bad);
        vipl_config_range("VIPL_TCP_PORTS", &first, &last);
        REQUIRE(first == 18514);
        REQUIRE(last == 18769);
    }
    for (const auto &[good, from, to] :
         {std::tuple{"1-65535", 1U, 65535U}, std::tuple{"7174-7174", 7174U, 7174U}}) {
        set_environment("VIPL_TCP_PORTS", good);
        vipl_config_range("VIPL_TCP_PORTS", &first, &last);
        REQUIRE(first == from);
        REQUIRE(last == to);
    }
}

TEST_CASE("one of several words, or the first of them", "[config]")
{
    const File file("");
    const std::pair<const char *, unsigned> words[] = {
        {"auto", 0},    {"inline", 1}, {"thread", 2},      {"", 0},
        {"threads", 0}, {"inlin", 0},  {"auto inline", 0}, {"Thread", 0}};
    for (const auto &[word, which] : words) {
        set_environment("VIPL_PROGRESS", word);
        REQUIRE(vipl_config_word("VIPL_PROGRESS") == which);
    }
    set_environment("VIPL_PROGRESS", nullptr);
    REQUIRE(vipl_config_word("VIPL_PROGRESS") == VIPL_PROGRESS_AUTO);
}

/* --- what is wrong is named --- */

namespace {

/** What opening a device says of the settings: lines, without what the log puts in front of
 * each. */
std::string complaints()
{
    std::string text = stderr_of(begin_and_end);
    for (std::size_t at; (at = text.find("vipl[")) != std::string::npos;) {
        text.erase(at, text.find("error: ", at) + 7 - at);
    }
    return text;
}

} // namespace

TEST_CASE("a value that is not allowed is named once, with what is allowed", "[config]")
{
    const File file("");
    set_environment("VIPL_LINGER", "soon");
    CHECK(complaints() == "VIPL_LINGER=soon is not a number from 0 to 3600000: the default is used\n");
    CHECK(complaints().empty());
    set_environment("VIPL_LINGER", "4000000");
    set_environment("VIPL_PROGRESS", "yes");
    set_environment("VIPL_STRICT", "cq, all");
    set_environment("VIPL_TCP_PORTS", "7000");
    const std::string all = complaints();
    CHECK(std::count(all.begin(), all.end(), '\n') == 4);
    for (const char *line :
         {"VIPL_LINGER=4000000 is not a number from 0 to 3600000: the default is used\n",
          "VIPL_PROGRESS=yes is not auto, inline or thread: the default is used\n",
          "VIPL_STRICT=cq, all is not a list of cq: the default is used\n",
          "VIPL_TCP_PORTS=7000 is not first-last, of numbers from 1 to 65535: the default is used\n"}) {
        CAPTURE(all, line);
        CHECK(all.find(line) != std::string::npos);
    }
    set_environment("VIPL_LINGER", "100");
    CHECK(complaints().empty());
}

TEST_CASE("aliases that are none are named, and good ones are not", "[config]")
{
    const File file("");
    for (const char *good :
         {"", "a=tcp", "a=tcp, b=loopback", "a=tcp:127.0.0.1,", "a=rnic:socket:/tmp/a=b", " a=tcp"}) {
        set_environment("VIPL_DEVICE_ALIASES", good);
        CHECK(complaints().empty());
    }
    for (const std::string bad :
         {"garbage", "=tcp", "a=", "a=tcp,garbage", "a=tcp,  =b", "a=,b=tcp", "a:tcp"}) {
        set_environment("VIPL_DEVICE_ALIASES", bad.c_str());
        CHECK(complaints() ==
              "VIPL_DEVICE_ALIASES=" + bad + " is not name=device,...: the default is used\n");
    }
}

TEST_CASE("only a regular file of a bounded size is read for settings", "[config]")
{
    const File file("VIPL_UNIT = from file\n");
    namespace fs = std::filesystem;
    const fs::path folder = fs::temp_directory_path() / ("vipl-" + vipl_test::unique_discriminator());
    REQUIRE(fs::create_directory(folder));
    const std::string large = (folder / "large").string();
    std::ofstream(large).close();
    fs::resize_file(large, VIPL_CONFIG_FILE_BYTES + 1);
    std::vector<std::pair<std::string, std::string>> all = {{folder.string(), "Is a directory"},
                                                            {large, "File too large"}};
#if !__has_include(<sys/socket.h>)
    all.emplace_back("NUL", "it is not a regular file");
#else
    const std::string pipe_path = (folder / "fifo").string();
    REQUIRE(mkfifo(pipe_path.c_str(), 0600) == 0);
    all.emplace_back(pipe_path, "it is not a regular file");
    all.emplace_back("/dev/zero", "it is not a regular file");
#endif
    for (const auto &[path, reason] : all) {
        set_environment("VIPL_CONFIG", path.c_str());
        REQUIRE(text_of("VIPL_UNIT", false).empty());
        CHECK(complaints() == "VIPL_CONFIG=" + path + " cannot be read: " + reason + "\n");
    }
    fs::remove_all(folder);
}

TEST_CASE("of a program with more rights than its user's, settings that name no file are the environment's",
          "[config]")
{
    const auto harmless = [](const char *name, const char *value) {
        return vipl_setting_names_no_file(vipl_setting_find(name), value);
    };
    for (const char *name :
         {"VIPL_CONFIG", "VIPL_TRACE", "VIPL_SERVER", "VIPL_RNICD", "VIPL_RNIC", "VIPL_RNIC_HOSTS"}) {
        CHECK_FALSE(harmless(name, "name"));
    }
    CHECK(harmless("VIPL_DEVICE", "tcp:192.0.2.1"));
    CHECK(harmless("VIPL_DEVICE_ALIASES", "a=tcp:::1,b=loopback"));
    CHECK(harmless("VIPL_LINGER", "1"));
    CHECK_FALSE(harmless("VIPL_DEVICE", "rnic:socket:here"));
    CHECK_FALSE(harmless("VIPL_DEVICE", "rnic:socket:/tmp/a"));
    CHECK_FALSE(harmless("VIPL_DEVICE_ALIASES", "a=tcp,b=rnic:socket:here"));
}

TEST_CASE("a name that is no setting is named, with the one that it is like", "[config]")
{
    const File file("");
    set_environment("VIPL_LINGERS", "1");
    CHECK(complaints() == "VIPL_LINGERS is no setting: is VIPL_LINGER meant?\n");
    set_environment("VIPL_LINGERS", nullptr);
    set_environment("VIPL_COFFEE", "1");
    CHECK(complaints() == "VIPL_COFFEE is no setting: docs/use/settings.md has them all\n");
    set_environment("VIPL_TEST_DEVICE", "1"); // of the tests
    CHECK(complaints().empty());
    set_environment("VIPL_TEST_DEVICE", nullptr);
}

TEST_CASE("of the file's lines those are named that say nothing", "[config]")
{
    const File file("# no\n\n \t\nVIPL_RESTART = 1 # yes\nVIPL_RESTRAT = 1\n= 5\nnonsense\nVIPL_SERVER = "
                    "/x\nVIPL_ATFORK = 2\n");
    std::string all = complaints();
    const std::string path = std::getenv("VIPL_CONFIG");
    for (std::size_t at; (at = all.find(path)) != std::string::npos;) {
        all.replace(at, path.size(), "F");
    }
    CHECK(all == "F:5: VIPL_RESTRAT is no setting: is VIPL_RESTART meant?\n"
                 "F:6: this is not NAME = value\n"
                 "F:7: this is not NAME = value\n"
                 "F:8: VIPL_SERVER is read from the environment only\n"
                 "F:9: VIPL_ATFORK=2 is not a number from 0 to 1: the default is used\n");
    CHECK(complaints().empty());
}

TEST_CASE("a file that was asked for and is not there is named", "[config]")
{
    const File file("");
    set_environment("VIPL_CONFIG", "/nonexistent/a");
    CHECK(complaints() == "VIPL_CONFIG=/nonexistent/a cannot be read: No such file or directory\n");
    set_environment("VIPL_CONFIG", temporary_folder().c_str());
    CHECK(complaints() == "VIPL_CONFIG=" + temporary_folder() + " cannot be read: Is a directory\n");
    set_environment("VIPL_CONFIG", nullptr);
    CHECK(complaints().empty());
}

TEST_CASE("each setting is found, and the default of each is allowed", "[config]")
{
    for (const char *name : {"VIPL_LINGER", "VIPL_TCP_PORTS", "VIPL_LOG", "VIPL_STRICT", "VIPL_DEVICE"}) {
        const vipl_setting *setting = vipl_setting_find(name);
        REQUIRE(setting != nullptr);
        CHECK(std::string(setting->name) == name);
        CHECK(vipl_setting_like(name) == setting);
    }
    CHECK(vipl_setting_find("VIPL_LINGE") == nullptr);
    CHECK(vipl_setting_like("VIPL_LINGE") == vipl_setting_find("VIPL_LINGER"));
    CHECK(vipl_setting_like("VIPL_TCP_PROTS") == vipl_setting_find("VIPL_TCP_PORTS"));
    CHECK(vipl_setting_like("VIPL_") == nullptr);
    CHECK(vipl_setting_like(std::string(5000, 'x').c_str()) == nullptr);
}

#if __has_include(<sys/inotify.h>)
namespace {

/** Counts how often a file is opened, in any process. */
class Opens {
public:
    explicit Opens(const char *path) : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC))
    {
        REQUIRE(fd_ >= 0);
        // The system joins equal events that follow each other, so each open is told apart by the
        // close behind it.
        REQUIRE(inotify_add_watch(fd_, path, IN_OPEN | IN_CLOSE) >= 0);
    }
    ~Opens() { close(fd_); }
    Opens(const Opens &) = delete;
    Opens &operator=(const Opens &) = delete;

    /** The opens since the last call. */
    unsigned count() const
    {
        unsigned opens = 0;
        inotify_event event; // without a name, since a file is watched and not a folder
        while (read(fd_, &event, sizeof event) == static_cast<ssize_t>(sizeof event)) {
            opens += (event.mask & IN_OPEN) != 0 ? 1 : 0;
        }
        return opens;
    }

private:
    int fd_;
};

/** Opens loopback and closes it again; returns what its VIPL_LINGER was. */
std::uint32_t linger_of_an_opening()
{
    VIP_NIC_HANDLE handle;
    REQUIRE(VipOpenNic("loopback", &handle) == VIP_SUCCESS);
    vipl_nic *nic = vipl_nic_get(handle);
    REQUIRE(nic != nullptr);
    const std::uint32_t linger = nic->linger_ms;
    vipl_nic_put(nic);
    REQUIRE(VipCloseNic(handle) == VIP_SUCCESS);
    return linger;
}

} // namespace

TEST_CASE("an opening reads the file once, and the next opening reads it again", "[config]")
{
    const File file("VIPL_LINGER = 100\n");
    const std::string path = std::getenv("VIPL_CONFIG");
    const Opens opens(path.c_str());
    CHECK(linger_of_an_opening() == 100);
    CHECK(opens.count() == 1);

    FILE *changed = std::fopen(path.c_str(), "w");
    REQUIRE(changed != nullptr);
    std::fputs("VIPL_LINGER = 200\n", changed);
    std::fclose(changed);
    CHECK(opens.count() == 1); // this test's own
    CHECK(linger_of_an_opening() == 200);
    CHECK(opens.count() == 1);

    VIP_ULONG devices = 0;
    VipxListDevices(nullptr, &devices);
    CHECK(opens.count() == 1);
    CHECK(vipl_config_number("VIPL_LINGER") == 200); // outside an opening each call reads the file
    CHECK(opens.count() == 1);
    VIP_NIC_HANDLE none;
    REQUIRE(VipOpenNic("nosuch", &none) == VIP_ERROR_RESOURCE); // nothing is kept of an opening that fails
    CHECK(opens.count() == 1);
    set_environment("VIPL_CONFIG", "/nonexistent/vipl.conf");
    CHECK(vipl_config_number("VIPL_LINGER") == 5000);
}
#endif

TEST_CASE("a list has its words, whole", "[config]")
{
    const File file("");
    set_environment("VIPL_UNIT", "cq, order,,last");
    for (const char *word : {"cq", "order", "last"}) {
        REQUIRE(vipl_config_has_word("VIPL_UNIT", word));
    }
    for (const char *word : {"c", "cqs", "ord", "", "cq, order"}) {
        REQUIRE_FALSE(vipl_config_has_word("VIPL_UNIT", word));
    }
}

TEST_CASE("the log says what its level lets through", "[log]")
{
    const File file("");
    const std::pair<const char *, int> levels[] = {{"off", 0},   {"error", 1},    {"info", 2}, {"debug", 3},
                                                   {nullptr, 1}, {"nonsense", 1}, {"", 1}};
    for (const auto &[name, lines] : levels) {
        set_environment("VIPL_LOG", name);
        stderr_of(begin_and_end);
        const std::string log = stderr_of([] {
            vipl_log(VIPL_LOG_ERROR, "first %d", 1);
            vipl_log(VIPL_LOG_INFO, "second");
            vipl_log(VIPL_LOG_DEBUG, "third");
        });
        REQUIRE(std::count(log.begin(), log.end(), '\n') == lines);
        REQUIRE((log.find("error: first 1\n") != std::string::npos) == (lines > 0));
        REQUIRE((log.find("debug: third\n") != std::string::npos) == (lines > 2));
    }
    vipl_log_set_level(VIPL_LOG_ERROR, false);
}

TEST_CASE("a log line is cut, and still ends", "[log]")
{
    vipl_log_set_level(VIPL_LOG_ERROR, false);
    const std::string log = stderr_of([] { vipl_log(VIPL_LOG_ERROR, "%s", std::string(3000, 'y').c_str()); });
    REQUIRE(log.size() < 600);
    REQUIRE(log.back() == '\n');
    REQUIRE(std::count(log.begin(), log.end(), '\n') == 1);
    const std::string system = stderr_of([] { vipl_log_os(VIPL_LOG_ERROR, "opening it", 2); });
    REQUIRE(system.find("opening it: No such file or directory (2)\n") != std::string::npos);
}

TEST_CASE("with a handler of the program, standard error has what is asked for, and nothing by default",
          "[log]")
{
    const File file("");
    static unsigned heard;
    heard = 0;
    REQUIRE(VipxSetLogHandler(
                VIPX_LOG_ERROR, [](VIP_PVOID, VIPX_LOG_LEVEL, const char *) { ++heard; }, nullptr) ==
            VIP_SUCCESS);
    const auto say = [] {
        begin_and_end();
        vipl_log(VIPL_LOG_ERROR, "first");
        vipl_log(VIPL_LOG_REASON, "second");
    };
    set_environment("VIPL_LOG", nullptr);
    CHECK(stderr_of(say).empty());
    CHECK(heard == 1);
    set_environment("VIPL_LOG", "reason");
    const std::string log = stderr_of(say);
    CHECK(std::count(log.begin(), log.end(), '\n') == 2);
    CHECK(heard == 2);
    set_environment("VIPL_LOG", nullptr);
    REQUIRE(VipxSetLogHandler(VIPX_LOG_OFF, nullptr, nullptr) == VIP_SUCCESS);
    CHECK(stderr_of(say).find("error: first") != std::string::npos);
    CHECK(heard == 2);
}

TEST_CASE("device names, spellings of old programs, and aliases", "[device]")
{
    const File file("");
    for (const char *name : {static_cast<const char *>(nullptr), "", "VINIC", "VINIC0", "nic0", "/dev/via_lo",
                             "/etc/via_lo", "/dev/clanvi0", "loopback"}) {
        REQUIRE(device(name) == "loopback|");
    }
    REQUIRE(device("loopback:x") == "loopback|x");
    for (const char *name : {"VINIC1", "loopbac", "loopbackk", "Loopback", ":", ":loopback", "nosuch"}) {
        REQUIRE(device(name) == "-");
    }
    REQUIRE(device(std::string(63, 'x').c_str()) == "-");
    REQUIRE(device(std::string(5000, 'x').c_str()) == "-");
    set_environment("VIPL_DEVICE_ALIASES",
                    "VINIC1=loopback, VINIC0=nosuch,broken,a=b=c,long=" /* cut, harmless */
                    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    REQUIRE(device("VINIC1") == "loopback|");
    REQUIRE(device("VINIC0") == "-");
    REQUIRE(device("VINIC") == "loopback|");
    REQUIRE(device("broken") == "-");
    REQUIRE(device("long") == "-");
    set_environment("VIPL_DEVICE", "loopback:y");
    REQUIRE(device("VINIC") == "loopback|y");
    REQUIRE(device("") == "loopback|y");
    set_environment("VIPL_DEVICE", "");
    REQUIRE(device("") == "loopback|");
}

TEST_CASE("the log names the device that is not there, whatever asked for it", "[device]")
{
    const File file("");
    set_environment("VIPL_DEVICE", "nosuch:z");
    set_environment("VIPL_LOG", "info");
    for (const char *asked : {static_cast<const char *>(nullptr), "VINIC", "nosuch:z"}) {
        const std::string log = stderr_of([asked] {
            VIP_NIC_HANDLE nic;
            REQUIRE(VipOpenNic(asked, &nic) == VIP_ERROR_RESOURCE);
        });
        CHECK(log.find("no device \"nosuch:z\"\n") != std::string::npos);
    }
    set_environment("VIPL_LOG", nullptr);
}

TEST_CASE("deadlines do not overflow, and both infinities never end", "[wait]")
{
    REQUIRE(vipl_deadline(VIP_INFINITE) == VIPL_NO_DEADLINE);
    REQUIRE(vipl_deadline(0xFFFFFFFFu) == VIPL_NO_DEADLINE);
    for (const VIP_ULONG ms : {VIP_ULONG{0}, VIP_ULONG{1}, VIP_ULONG{1000}, VIP_ULONG{0xFFFFFFFEu}}) {
        const std::uint64_t before = vipl_now_ns();
        const std::uint64_t deadline = vipl_deadline(ms);
        const std::uint64_t after = vipl_now_ns();
        REQUIRE(deadline >= before + std::uint64_t{ms} * 1000000);
        REQUIRE(deadline <= after + std::uint64_t{ms} * 1000000);
    }
    if (sizeof(VIP_ULONG) == 8) {
        REQUIRE(vipl_deadline(ULONG_MAX - 1) == VIPL_NO_DEADLINE);
        REQUIRE(vipl_deadline(ULONG_MAX / 1000000) == VIPL_NO_DEADLINE);
        REQUIRE(vipl_deadline(ULONG_MAX / 1000000 / 2) > vipl_now_ns());
    }
}
