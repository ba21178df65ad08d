// SPDX-License-Identifier: MIT
//
// A setting that lasts as long as its object.
#ifndef VIPL_SUPPORT_SETTING_HPP
#define VIPL_SUPPORT_SETTING_HPP

#include <cstdlib>
#include <optional>
#include <string>

#include "support/system.hpp"

namespace vipl_test {

/** An environment variable that has this value while the object lives. */
class EnvironmentSetting {
public:
    EnvironmentSetting(const char *name, const std::string &value) : name_(name)
    {
        if (const char *before = std::getenv(name)) {
            before_ = before;
        }
        set_environment(name, value.c_str());
    }
    ~EnvironmentSetting() { set_environment(name_, before_ ? before_->c_str() : nullptr); }
    EnvironmentSetting(const EnvironmentSetting &) = delete;
    EnvironmentSetting &operator=(const EnvironmentSetting &) = delete;

private:
    const char *name_;
    std::optional<std::string> before_;
};

} // namespace vipl_test

#endif
