// SPDX-License-Identifier: MIT
//
// Which names are this host's: its own as a whole or without its domain, and no other host's of the
// same first word.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "base/hostname.h"
}

namespace {

/** Which of the names a host of this name takes for its own. `hosts`: the resolver's file there. */
std::string own(const char *host, const std::string &hosts, const std::vector<const char *> &names)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        char path[] = "/tmp/vipl-unit-XXXXXX";
        close(mkstemp(path));
        std::ofstream(path) << hosts;
        const bool ready = unshare(CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWNET) == 0 &&
                           sethostname(host, std::strlen(host)) == 0 &&
                           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           mount(path, "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
        unlink(path);
        std::string found = ready ? "" : "n/a";
        for (const char *name : names) {
            found += ready && vipl_hostname_is_own(name) ? std::string(found.empty() ? "" : " ") + name : "";
        }
        _exit(write(ends[1], found.data(), found.size()) == static_cast<ssize_t>(found.size()) ? 0 : 1);
    }
    close(ends[1]);
    char text[1024];
    const ssize_t length = read(ends[0], text, sizeof text);
    close(ends[0]);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
    return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
}

void check_own(const char *host, const std::string &hosts, const std::vector<const char *> &names,
               const char *expected)
{
    const std::string found = own(host, hosts, names);
    CAPTURE(host);
    if (found == "n/a") {
        WARN("no name spaces: not tried");
        return;
    }
    CHECK(found == expected);
}

} // namespace

TEST_CASE("a host with a domain has its whole name and its short one", "[hostname]")
{
    check_own("node1.example.com", "127.0.0.1 localhost\n",
              {"node1.example.com", "node1", "NODE1.Example.COM", "Node1", "node1.example.com.", "localhost",
               "node1.other.invalid", "node1.example", "node1.example.com.invalid", "node1.", "node",
               "node12", "node11.example.com", "example.com", "", ".", ".example.com", "node1.example.comx"},
              "node1.example.com node1 NODE1.Example.COM Node1 node1.example.com. localhost");
}

TEST_CASE("a host with a short name has the whole one that the resolver knows", "[hostname]")
{
    check_own("node1", "127.0.0.1 localhost\n192.0.2.1 node1.example.com node1\n",
              {"node1", "node1.example.com", "node1.other.invalid", "node1.example", "node2.example.com"},
              "node1 node1.example.com");
    check_own("node1", "127.0.0.1 localhost\n", {"node1", "node1.example.com"}, "node1");
}
