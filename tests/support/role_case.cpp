// SPDX-License-Identifier: MIT
//
// Turns role cases into Catch2 cases. A Skipped exception ends a case well and leaves its reason
// for the listener that counts skips; any other exception is Catch2's to report.
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
        } catch (const Skipped &reason) {
            note_skip(reason.what());
        }
    }

private:
    std::function<void()> body_;
};

struct SkipNote {
    std::mutex mutex;
    std::string reason;
};

SkipNote &skip_note()
{
    static SkipNote note;
    return note;
}

const char *setting_tag(Setting setting)
{
    return setting == Setting::two_processes ? "[procs]" : "[inproc]";
}

} // namespace

// A case of Catch2's own that throws Skipped: the note decides, not the assertion Catch2 counts.
CATCH_TRANSLATE_EXCEPTION(Skipped &reason)
{
    note_skip(reason.what());
    return std::string("skipped: ") + reason.what();
}

void register_case(const std::string &name, const std::string &tags, Catch::SourceLineInfo where,
                   std::function<void()> body)
{
    Catch::AutoReg(new FunctionInvoker(std::move(body)), where, Catch::StringRef(), {name, tags});
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

void note_skip(const std::string &reason)
{
    const std::lock_guard<std::mutex> lock(skip_note().mutex);
    skip_note().reason = reason;
}

std::string take_skip_reason()
{
    const std::lock_guard<std::mutex> lock(skip_note().mutex);
    return std::exchange(skip_note().reason, std::string());
}

} // namespace vipl_test
