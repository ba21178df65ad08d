// SPDX-License-Identifier: MIT
//
// Registers cases with Catch2: two-role cases once per setting and level, and made-up cases.
//
//     TWO_ROLE_CASE("a send lands in the oldest receive", "[VipPostSend][early]") = {
//         [](Peer &peer) { ... the server ... },
//         [](Peer &peer) { ... the client ... },
//     };
//
// becomes "..., in one process" [inproc] and "..., between processes" [procs]. Variations of it:
// TWO_ROLE_CASE_EACH_LEVEL adds the three reliability levels, TWO_ROLE_CASE_RELIABLE the two
// reliable ones (else it is Reliable Delivery, or what TWO_ROLE_CASE_AT says),
// TWO_ROLE_CASE_ONE_NIC also plays both roles on one NIC handle, TWO_PROCESS_CASE needs a child
// process (which may be made to end), TWO_PROCESS_CASE_WITH also sets one environment variable in
// it.
#ifndef VIPL_TESTS_ROLE_CASE_HPP
#define VIPL_TESTS_ROLE_CASE_HPP

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "roles.hpp"

namespace vipl_test {

/** Register one case that runs a function. */
void register_case(const std::string &name, const std::string &tags, Catch::SourceLineInfo where,
                   std::function<void()> body);

/** Name, tags and variations of a two-role case. */
struct RoleCase {
    const char *name;
    const char *tags;
    Catch::SourceLineInfo where;
    std::vector<Setting> settings;
    std::vector<VIP_RELIABILITY_LEVEL> levels; // if more than one, each is in its case's name
    const char *environment;                   // NAME=VALUE for the child, or ""

    void register_with(Role server, Role client) const;
};

/** The roles of a case: registers it. */
template <const RoleCase &about>
struct Roles {
    Roles(Role server, Role client) { about.register_with(server, client); }
};

/** Why the running case does not apply; empty if it does. Reading it forgets it. */
std::string take_not_applicable();
void note_not_applicable(const std::string &reason);

inline std::vector<Setting> both_settings()
{
    return {Setting::one_process, Setting::two_processes};
}
inline std::vector<Setting> two_processes_only()
{
    return {Setting::two_processes};
}
inline std::vector<Setting> all_settings()
{
    return {Setting::one_process, Setting::one_nic, Setting::two_processes};
}

inline constexpr VIP_RELIABILITY_LEVEL kLevels[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                                    VIP_SERVICE_RELIABLE_RECEPTION};

inline std::vector<VIP_RELIABILITY_LEVEL> all_levels()
{
    return {std::begin(kLevels), std::end(kLevels)};
}
inline std::vector<VIP_RELIABILITY_LEVEL> reliable_levels()
{
    return {kLevels[1], kLevels[2]};
}
inline std::vector<VIP_RELIABILITY_LEVEL> one_level(VIP_RELIABILITY_LEVEL level)
{
    return {level};
}

} // namespace vipl_test

#define VIPL_TEST_ROLES(name, tags, settings, levels) VIPL_TEST_ROLES_ENV(name, tags, settings, levels, "")

#define VIPL_TEST_ROLES_ENV(name, tags, settings, levels, environment) \
    VIPL_TEST_ROLES_AS(INTERNAL_CATCH_UNIQUE_NAME(vipl_role_case), name, tags, settings, levels, environment)

#define VIPL_TEST_ROLES_AS(variable, name, tags, settings, levels, environment) \
    static const ::vipl_test::RoleCase variable{name,     tags,   CATCH_INTERNAL_LINEINFO, \
                                                settings, levels, environment}; \
    [[maybe_unused]] static const ::vipl_test::Roles<variable> INTERNAL_CATCH_UNIQUE_NAME(vipl_roles)

#define VIPL_TEST_DELIVERY ::vipl_test::one_level(VIP_SERVICE_RELIABLE_DELIVERY)

#define TWO_ROLE_CASE(name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), VIPL_TEST_DELIVERY)
#define TWO_ROLE_CASE_AT(level, name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), ::vipl_test::one_level(level))
#define TWO_ROLE_CASE_EACH_LEVEL(name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), ::vipl_test::all_levels())
#define TWO_ROLE_CASE_RELIABLE(name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::both_settings(), ::vipl_test::reliable_levels())
#define TWO_ROLE_CASE_ONE_NIC(name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::all_settings(), VIPL_TEST_DELIVERY)
#define TWO_PROCESS_CASE(name, tags) \
    VIPL_TEST_ROLES(name, tags, ::vipl_test::two_processes_only(), VIPL_TEST_DELIVERY)
#define TWO_PROCESS_CASE_WITH(environment, name, tags) \
    VIPL_TEST_ROLES_ENV(name, tags, ::vipl_test::two_processes_only(), VIPL_TEST_DELIVERY, environment)

#endif
