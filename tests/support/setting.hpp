// SPDX-License-Identifier: MIT
//
// A setting that lasts as long as its object.
#ifndef VIPL_SUPPORT_SETTING_HPP
#define VIPL_SUPPORT_SETTING_HPP

#include <cstdlib>
#include <optional>
#include <string>

namespace vipl_test {

/** An environment variable that has this value while the object lives. */
class EnvironmentSetting {
public:
    EnvironmentSetting(const char *name, const std::string &value) : name_(name)
    {
        if (const char *before = std::getenv(name)) {
            before_ = before;
        }
        setenv(name, value.c_str(), 1);
    }
    ~EnvironmentSetting()
    {
        if (before_) {
            setenv(name_, before_->c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    EnvironmentSetting(const EnvironmentSetting &) = delete;
    EnvironmentSetting &operator=(const EnvironmentSetting &) = delete;

private:
    const char *name_;
    std::optional<std::string> before_;
};

} // namespace vipl_test

#endif
