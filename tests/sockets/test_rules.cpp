// SPDX-License-Identifier: MIT
//
// The rules for which connections are moved: what a file may say, which rule decides, and what
// becomes of a wrong file.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#define _Static_assert static_assert
#define _Thread_local thread_local
extern "C" {
#include "os/os.h"
#include "sockets/rules.h"
}

namespace {

struct Address {
    sockaddr_storage any = {};
    socklen_t length = 0;
    Address(const char *host, unsigned port)
    {
        auto *v4 = reinterpret_cast<sockaddr_in *>(&any);
        auto *v6 = reinterpret_cast<sockaddr_in6 *>(&any);
        if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
            v4->sin_family = AF_INET;
            v4->sin_port = htons(static_cast<uint16_t>(port));
            length = sizeof(*v4);
        } else {
            REQUIRE(inet_pton(AF_INET6, host, &v6->sin6_addr) == 1);
            v6->sin6_family = AF_INET6;
            v6->sin6_port = htons(static_cast<uint16_t>(port));
            length = sizeof(*v6);
        }
    }
    operator const sockaddr *() const { return reinterpret_cast<const sockaddr *>(&any); } // NOLINT
};

class Rules {
public:
    explicit Rules(std::string text) { rules_ = sock_rules_read(&text[0], &line, &why); }
    ~Rules() { vipl_free(rules_); }
    Rules(const Rules &) = delete;
    Rules &operator=(const Rules &) = delete;
    explicit operator bool() const { return rules_ != nullptr; }
    sock_rule_answer connect(const char *program, const char *host, unsigned port) const
    {
        const Address address(host, port);
        return sock_rules_answer(rules_, true, program, address, address.length);
    }
    sock_rule_answer listen(const char *program, const char *host, unsigned port) const
    {
        const Address address(host, port);
        return sock_rules_answer(rules_, false, program, address, address.length);
    }
    /** "-": none. */
    std::string device(bool connects, const char *program, const char *host, unsigned port) const
    {
        const Address address(host, port);
        const char *name = sock_rules_device_of(rules_, connects, program, address, address.length);
        return name == nullptr ? "-" : name;
    }
    unsigned line = 0;
    const char *why = nullptr;

private:
    sock_rules *rules_ = nullptr;
};

/** What a program with these rules does; what it says is in *log. */
std::string decisions(const char *rules, std::string *log)
{
    int said[2], decided[2];
    REQUIRE(pipe(said) == 0);
    REQUIRE(pipe(decided) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(said[1], STDERR_FILENO);
        if (rules != nullptr) {
            setenv("VIPL_SOCKETS_RULES", rules, 1);
        } else {
            unsetenv("VIPL_SOCKETS_RULES");
        }
        unsetenv("VIPL_LOG");
        const Address here("127.0.0.1", 80), here6("::1", 80), mapped("::ffff:127.3.2.1", 80),
            there("192.0.2.1", 80);
        std::string text;
        for (const Address *each : {&here, &here6, &mapped, &there}) {
            text += sock_rules_connect(*each, each->length) != SOCK_RULE_TCP ? 'v' : 't';
        }
        text += sock_rules_allow_listen(here, here.length) ? 'v' : 't';
        text += sock_rules_allow_listen(here, 2) ? 'v' : 't';
        _exit(write(decided[1], text.data(), text.size()) < 0);
    }
    close(said[1]);
    close(decided[1]);
    std::string all[2];
    for (int i = 0; i < 2; i++) {
        char bytes[512];
        const int fd = i == 0 ? decided[0] : said[0];
        for (ssize_t n; (n = read(fd, bytes, sizeof(bytes))) > 0;) {
            all[i].append(bytes, static_cast<size_t>(n));
        }
        close(fd);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    *log = all[1];
    return all[0];
}

class File {
public:
    explicit File(const std::string &text)
    {
        const int fd = mkstemp(path);
        REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
        close(fd);
    }
    ~File() { unlink(path); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    char path[32] = "/tmp/vipl-rules-XXXXXX";
};

} // namespace

TEST_CASE("the first rule that matches decides")
{
    const Rules rules("tcp connect * *:5432 # not the data base\n"
                      "\n"
                      "   # and no more\n"
                      "vipl connect redis-* 10.0.0.0/8:6379-6380\n"
                      "tcp\tconnect\tredis-cli\t10.1.0.0/16:6379\n"
                      "vipl listen nginx *:80\n"
                      "tcp listen * *:*");
    REQUIRE(rules);
    CHECK(rules.connect("redis-cli", "10.1.2.3", 5432) == SOCK_RULE_TCP);
    CHECK(rules.connect("redis-cli", "10.1.2.3", 6379) == SOCK_RULE_VIPL);
    CHECK(rules.connect("redis-cli", "10.1.2.3", 6380) == SOCK_RULE_VIPL);
    CHECK(rules.connect("redis-cli", "10.1.2.3", 6381) == SOCK_RULE_NONE);
    CHECK(rules.connect("redis-cli", "10.1.2.3", 6378) == SOCK_RULE_NONE);
    CHECK(rules.connect("rediscli", "10.1.2.3", 6379) == SOCK_RULE_NONE);
    CHECK(rules.connect("redis-cli", "11.1.2.3", 6379) == SOCK_RULE_NONE);
    CHECK(rules.connect("nginx", "127.0.0.1", 80) == SOCK_RULE_NONE);
    CHECK(rules.listen("nginx", "0.0.0.0", 80) == SOCK_RULE_VIPL);
    CHECK(rules.listen("nginx", "::", 80) == SOCK_RULE_VIPL);
    CHECK(rules.listen("nginx", "0.0.0.0", 81) == SOCK_RULE_TCP);
}

TEST_CASE("addresses match to the bit, in both families")
{
    const Rules rules("vipl connect * 10.129.0.0/9:1\n"
                      "vipl connect * 10.0.0.0/0:2\n"
                      "vipl connect * 192.0.2.7:3\n"
                      "vipl connect * [2001:db8::]/33:4\n"
                      "vipl connect * [::1]:5\n"
                      "vipl connect * *:6\n");
    REQUIRE(rules);
    CHECK(rules.connect("p", "10.128.0.0", 1) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "10.255.255.255", 1) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "10.127.255.255", 1) == SOCK_RULE_NONE);
    CHECK(rules.connect("p", "203.0.113.9", 2) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "2001:db8::1", 2) == SOCK_RULE_NONE);
    CHECK(rules.connect("p", "192.0.2.7", 3) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "::ffff:192.0.2.7", 3) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "192.0.2.6", 3) == SOCK_RULE_NONE);
    CHECK(rules.connect("p", "2001:db8:7fff::1", 4) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "2001:db8:8000::1", 4) == SOCK_RULE_NONE);
    CHECK(rules.connect("p", "::1", 5) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "0.0.0.1", 5) == SOCK_RULE_NONE);
    CHECK(rules.connect("p", "2001:db8::1", 6) == SOCK_RULE_VIPL);
    CHECK(rules.connect("p", "10.0.0.1", 6) == SOCK_RULE_VIPL);
}

TEST_CASE("the device for other hosts is that of the first rule that matches")
{
    const Rules rules("tcp connect * *:22\n"
                      "vipl connect redis* 10.0.0.0/8:* device tcp:eth0 # a network of its own\n"
                      "vipl connect * 10.1.0.0/16:* device rnic\n"
                      "vipl connect * 192.0.2.7:*\n"
                      "vipl listen nginx *:80 device tcp\n"
                      "vipl listen nginx *:81 device 0123456789012345678901234567890");
    REQUIRE(rules);
    CHECK(rules.device(true, "redis-cli", "10.1.2.3", 6379) == "tcp:eth0");
    CHECK(rules.device(true, "psql", "10.1.2.3", 5432) == "rnic");
    CHECK(rules.device(true, "psql", "::ffff:10.1.2.3", 5432) == "rnic");
    CHECK(rules.device(true, "psql", "10.2.2.3", 5432) == "-");
    CHECK(rules.device(true, "psql", "192.0.2.7", 5432).empty()); // the process's own
    CHECK(rules.device(true, "redis-cli", "10.1.2.3", 22) == "-");
    CHECK(rules.device(false, "nginx", "0.0.0.0", 80) == "tcp");
    CHECK(rules.device(false, "nginx", "0.0.0.0", 81) == "0123456789012345678901234567890");
    CHECK(rules.device(true, "nginx", "192.0.2.8", 80) == "-");
    CHECK(rules.connect("psql", "10.1.2.3", 5432) == SOCK_RULE_VIPL);
}

TEST_CASE("a wrong line is named, with what is wrong")
{
    struct {
        const char *rule, *why;
    } const wrong[] = {
        {"both connect * *:1", "the first word is not vipl or tcp"},
        {"vipl conect * *:1", "the second word is not connect or listen"},
        {"vipl connect *", "a rule is: vipl|tcp connect|listen"},
        {"vipl connect * *:1 device", "a rule is: vipl|tcp connect|listen"},
        {"vipl connect * *:1 device tcp more", "a rule is: vipl|tcp connect|listen"},
        {"vipl connect * *:1 over tcp", "the word behind ADDRESS:PORT is not device"},
        {"tcp connect * *:1 device tcp", "a rule that says tcp has no device"},
        {"vipl connect * *:1 device loopback", "the device loopback reaches no other host"},
        {"vipl connect * *:1 device 01234567890123456789012345678901", "the device's name is too long"},
        {"vipl connect * *", "the last word is not ADDRESS:PORT"},
        {"vipl connect * *:65536", "the port is not"},
        {"vipl connect * *:", "the port is not"},
        {"vipl connect * *:-1", "the port is not"},
        {"vipl connect * *:9-8", "the port is not"},
        {"vipl connect * *:1-2-3", "the port is not"},
        {"vipl connect * *:1x", "the port is not"},
        {"vipl connect * */8:1", "the address is not"},
        {"vipl connect * 10.0.0:1", "the address is not"},
        {"vipl connect * 10.0.0.0/33:1", "the address is not"},
        {"vipl connect * 10.0.0.0/:1", "the address is not"},
        {"vipl connect * ::1:1", "the address is not"},
        {"vipl connect * [::1:1", "the address is not"},
        {"vipl connect * [::]/129:1", "the address is not"},
        {"vipl connect * host:1", "the address is not"},
        {"vipl connect 0123456789012345678901234567890123456789012345678901234567890123 *:1", "too long"},
    };
    for (const auto &each : wrong) {
        INFO(each.rule);
        const Rules rules(std::string("# a comment\n\ntcp connect * *:*\n") + each.rule +
                          "\nvipl listen * *:*\n");
        CHECK_FALSE(rules);
        CHECK(rules.line == 4);
        CHECK(std::string(rules.why == nullptr ? "" : rules.why).find(each.why) != std::string::npos);
    }
}

TEST_CASE("without rules, connections of this host are moved")
{
    std::string log;
    CHECK(decisions(nullptr, &log) == "vvvtvt");
    CHECK(decisions("", &log) == "vvvtvt");
    CHECK(log.empty());
}

TEST_CASE("the rules of the file count, and what they do not name is as without them")
{
    std::string log;
    const File file("vipl connect * 192.0.2.0/24:*\ntcp connect * 127.0.0.0/16:*\ntcp listen * *:80\n");
    CHECK(decisions(file.path, &log) == "tvvvtt");
    CHECK(log.empty());
    const File other("tcp connect another-program *:*\n");
    CHECK(decisions(other.path, &log) == "vvvtvt");
}

TEST_CASE("with a wrong file everything is TCP, and the line is logged once")
{
    std::string log;
    const File file("vipl connect * *:*\nvipl listen * *:http\n");
    CHECK(decisions(file.path, &log) == "tttttt");
    const std::string named = std::string("error: ") + file.path + ":2: the port is not";
    CHECK(log.find(named) != std::string::npos);
    CHECK(log.find(named, log.find(named) + 1) == std::string::npos);

    CHECK(decisions("/nowhere/rules", &log) == "tttttt");
    CHECK(log.find("/nowhere/rules") != std::string::npos);
    CHECK(log.find("No such file") != std::string::npos);
}
