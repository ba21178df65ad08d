// SPDX-License-Identifier: MIT
//
// Turns role cases into Catch2 cases. A NotApplicable exception ends a case well and leaves its
// reason for the listener that counts those; any other exception is Catch2's to report.
#include "role_case.hpp"

#include <mutex>

namespace vipl_test {

namespace {

class FunctionInvoker : public Catch::ITestInvoker {
public:
    explicit FunctionInvoker(std::function<void()> body) : body_(std::move(body)) {}

    void invoke() const override
    {
        try {
            body_();
        } catch (const NotApplicable &reason) {
            note_not_applicable(reason.what());
        }
    }

private:
    std::function<void()> body_;
};

struct NotApplicableNote {
    std::mutex mutex;
    std::string reason;
};

NotApplicableNote &not_applicable_note()
{
    static NotApplicableNote note;
    return note;
}

const char *setting_tag(Setting setting)
{
    return setting == Setting::two_processes ? "[procs]" : "[inproc]";
}

} // namespace

// A case of Catch2's own that throws NotApplicable: the note decides, not the assertion Catch2
// counts.
CATCH_TRANSLATE_EXCEPTION(const NotApplicable &reason)
{
    note_not_applicable(reason.what());
    return std::string("not applicable: ") + reason.what();
}

void register_case(const std::string &name, const std::string &tags, Catch::SourceLineInfo where,
                   std::function<void()> body)
{
#if CATCH_VERSION_MAJOR >= 3
    auto invoker = Catch::Detail::make_unique<FunctionInvoker>(std::move(body));
#else
    auto *invoker = new FunctionInvoker(std::move(body));
#endif
    Catch::AutoReg(std::move(invoker), where, Catch::StringRef(), {name, tags});
}

void RoleCase::register_with(Role server, Role client) const
{
    for (const VIP_RELIABILITY_LEVEL level : levels) {
        for (const Setting setting : settings) {
            std::string full_name = name;
            if (levels.size() > 1) {
                full_name += std::string(", ") + level_name(level);
            }
            full_name += std::string(", ") + setting_name(setting);
            register_case(full_name, std::string(tags) + setting_tag(setting), where,
                          [setting, level, server, client, variable = environment] {
                              run_two(setting, level, server, client, variable);
                          });
        }
    }
}

void note_not_applicable(const std::string &reason)
{
    const std::lock_guard<std::mutex> lock(not_applicable_note().mutex);
    not_applicable_note().reason = reason;
}

std::string take_not_applicable()
{
    const std::lock_guard<std::mutex> lock(not_applicable_note().mutex);
    return std::exchange(not_applicable_note().reason, std::string());
}

} // namespace vipl_test
