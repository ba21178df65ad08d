// SPDX-License-Identifier: MIT
// Two processes in C++: the child sends one message, the parent prints it.
#include <cstdio>
#include <cstring>
#include <iostream>

#include <sys/wait.h>
#include <unistd.h>

#include <vipl/vipl.hpp>

using namespace std::chrono_literals;

static void child()
{
    vipl::nic nic;                  // the default device; each process opens its own
    vipl::messages out(nic, 1, 64); // before the VI, which may still use it when it ends
    vipl::vi vi(nic);
    const int length =
        std::snprintf(static_cast<char *>(out.bytes(0).data), 64, "hello from process %d", getpid());
    vi.connect(nic.local("a client"), nic.local("hello in C++"), 5s);
    vi.post_send(vipl::work(out.descriptor(0)).local(out.region().part(sizeof(VIP_DESCRIPTOR), length + 1)),
                 out.region().handle());
    vi.wait_send(5s);
}

static void parent()
{
    vipl::nic nic;
    vipl::messages in(nic, 1, 64);
    auto request = nic.wait(nic.local("hello in C++"), 5s);
    if (!request) {
        throw std::runtime_error("no request came in time");
    }
    vipl::vi vi(nic, request->fitting());
    vi.post_receive(vipl::work(in.descriptor(0)).local(in.bytes(0)),
                    in.region().handle()); // before the peer can send
    request->accept(vi);
    if (const vipl::completion done = vi.wait_receive(5s); done && done.good()) {
        std::cout << static_cast<char *>(in.bytes(0).data) << ": " << done.length() << " bytes\n";
    }
}

int main()
{
    const pid_t pid = fork(); // before a device is opened: handles do not cross a fork
    try {
        pid == 0 ? child() : parent();
    } catch (const std::exception &error) { // its text says which call failed, and why
        std::cerr << error.what() << '\n';
        return 1;
    }
    int status = 0;
    return pid != 0 && (waitpid(pid, &status, 0) != pid || status != 0);
}
