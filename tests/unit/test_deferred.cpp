// SPDX-License-Identifier: MIT
//
// Deferred work has its turn in the order in which it was found, however much more is found
// meanwhile.
#include <catch2/catch.hpp>

#include <vector>

#include "internal.hpp"

extern "C" {
#include "base/deferred.h"
}

namespace {

std::vector<int> ran;

struct Work {
    vipl_deferred base{nullptr, run};
    int number = 0;
    Work *finds = nullptr; ///< while it runs
    static void run(vipl_deferred *work)
    {
        Work &self = *reinterpret_cast<Work *>(work);
        ran.push_back(self.number);
        if (self.finds != nullptr) {
            vipl_defer(&self.finds->base);
        }
    }
};

} // namespace

TEST_CASE("deferred work runs in the order in which it was found", "[deferred]")
{
    ran.clear();
    Work works[5];
    for (int i = 0; i < 5; ++i) {
        works[i].number = i;
    }
    works[0].finds = &works[3];
    works[3].finds = &works[4];
    for (int i = 0; i < 3; ++i) {
        vipl_defer(&works[i].base);
    }
    vipl_deferred_run();
    CHECK(ran == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(vipl_deferred_first == nullptr);
    works[4].finds = nullptr;
    vipl_defer(&works[4].base); // after an empty list, and after one that a child left
    vipl_deferred_first = nullptr;
    vipl_defer(&works[2].base);
    vipl_deferred_run();
    CHECK(ran.back() == 2);
    CHECK(ran.size() == 6);
}
