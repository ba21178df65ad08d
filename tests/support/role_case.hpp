// SPDX-License-Identifier: MIT
//
// Registers cases with Catch2: two-role cases once per setting and level, and made-up cases.
//
//     TWO_ROLE_CASE("a send lands in the oldest receive", "[VipPostSend][early]")
//     {
//         [](Peer &peer) { ... the server ... },
//         [](Peer &peer) { ... the client ... }
//     };
//
// becomes "..., in one process" [inproc] and "..., between processes" [procs]. Variations of it:
// TWO_ROLE_CASE_EACH_LEVEL adds the three reliability levels, TWO_ROLE_CASE_ONE_NIC also plays both
// roles on one NIC handle, TWO_PROCESS_CASE needs a child process (which may be made to end).
#ifndef VIPL_TESTS_ROLE_CASE_HPP
#define VIPL_TESTS_ROLE_CASE_HPP

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "roles.hpp"

namespace vipl_test {

struct Roles {
    Role server;
    Role client;
};

/** Register one case that runs a function. */
void register_case(const std::string &name, const std::string &tags, Catch::SourceLineInfo where,
                   std::function<void()> body);

/** Name, tags and variations of a two-role case; adding the roles registers it. */
struct RoleCase {
    const char *name;
    const char *tags;
    Catch::SourceLineInfo where;
    std::vector<Setting> settings;
    bool each_level;

    bool operator+(Roles roles) const;
};

/** Why the running case was skipped; empty if it was not. Reading it forgets it. */
std::string take_skip_reason();
void note_skip(const std::string &reason);

inline std::vector<Setting> both_settings() { return {Setting::one_process, Setting::two_processes}; }

inline constexpr VIP_RELIABILITY_LEVEL kLevels[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                                    VIP_SERVICE_RELIABLE_RECEPTION};

} // namespace vipl_test

#define VIPL_TEST_ROLES(name, tags, settings, each_level)                          \
    [[maybe_unused]] static const bool INTERNAL_CATCH_UNIQUE_NAME(vipl_role_case) = \
        ::vipl_test::RoleCase{name, tags, CATCH_INTERNAL_LINEINFO, settings, each_level} + ::vipl_test::Roles

#define TWO_ROLE_CASE(name, tags) VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), false)
#define TWO_ROLE_CASE_EACH_LEVEL(name, tags) VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), true)
#define TWO_ROLE_CASE_ONE_NIC(name, tags)                                                       \
    VIPL_TEST_ROLES(name, tags,                                                                 \
                    (std::vector<::vipl_test::Setting>{::vipl_test::Setting::one_process,       \
                                                       ::vipl_test::Setting::one_nic,           \
                                                       ::vipl_test::Setting::two_processes}),   \
                    false)
#define TWO_PROCESS_CASE(name, tags) \
    VIPL_TEST_ROLES(name, tags, (std::vector<::vipl_test::Setting>{::vipl_test::Setting::two_processes}), false)

#endif
