// SPDX-License-Identifier: MIT
//
// POSIX extensions: a signal that comes while the server has not yet begun the call that it is to
// end.
#include <future>

#include <vipl/posix.h>

#include "conformance/signals.hpp"
#include "family.hpp"
#include "stopped.hpp"

using namespace vipl_conformance;

TEST_CASE("a signal ends VipConnectWait on a shared object that the server has not begun yet",
          "[VipConnectWait][sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Handler handler(0);
    for (int round = 0; round < 20; ++round) {
        NetAddress local = nic.address(unique_discriminator());
        std::promise<std::string> known;
        VIP_RETURN rc = VIP_SUCCESS;
        Handler::calls = 0;
        auto stopped = std::make_unique<Stopped>(server());
        std::thread caller([&] {
            NetAddress from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE request = nullptr;
            known.set_value(this_task());
            rc = VipConnectWait(nic, local, patience(), from, &attributes, &request);
        });
        std::string problem;
        try {
            const std::string task = known.get_future().get();
            await_rest(task); // in the call, and not in what comes before the call
            pthread_kill(caller.native_handle(), SIGUSR1);
            while (Handler::calls == 0) {
                give_way();
            }
            await_state(task, 'S'); // it has told the server
        } catch (const Failure &failure) {
            problem = failure.what();
        }
        stopped.reset();
        caller.join();
        EXPECT_EQ("", problem);
        REQUIRE_RC(VIP_INTERRUPTED, rc);
    }
}
