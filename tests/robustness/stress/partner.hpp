// SPDX-License-Identifier: MIT
//
// The other side of a case: a thread of this process or a child, with a line to it. A device whose
// model is in the calling process knows no other.
#ifndef VIPL_STRESS_PARTNER_HPP
#define VIPL_STRESS_PARTNER_HPP

#include <memory>

#include "stress.hpp"

namespace stress {

enum class Where { thread, process };

class Partner {
public:
    Partner(Where where, Role role, const Scene &scene)
    {
        if (where == Where::process) {
            child_ = std::make_unique<Child>(role, scene);
            return;
        }
        EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds_) == 0);
        line_ = Line(fds_[0]);
        crew_.add([this, role, scene] {
            Line line(fds_[1]);
            try {
                role(scene, line);
            } catch (...) {
                shutdown(fds_[1], SHUT_RDWR);
                throw;
            }
        });
    }
    ~Partner()
    {
        if (child_ == nullptr) {
            shutdown(fds_[0], SHUT_RDWR);
            try {
                crew_.join();
            } catch (const std::exception &error) { // this side has failed as well
                std::cerr << "[partner] " << error.what() << std::endl;
            }
            close(fds_[0]);
            close(fds_[1]);
        }
    }
    Partner(const Partner &) = delete;
    Partner &operator=(const Partner &) = delete;

    Line &line() { return child_ != nullptr ? child_->line : line_; }

    /** Wait for its end, which must be a good one. */
    void finish()
    {
        if (child_ != nullptr) {
            child_->finish();
        } else {
            crew_.join();
        }
    }

private:
    std::unique_ptr<Child> child_;
    int fds_[2] = {-1, -1};
    Line line_;
    Crew crew_;
};

} // namespace stress

#endif
