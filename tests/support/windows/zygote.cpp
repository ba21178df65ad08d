// SPDX-License-Identifier: MIT
//
// A child is this program again. It reads its order from its standard input: where the role is in
// the program's image, the scene, and two sockets. A job ends the children with the suite.
#include "support/zygote.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "support/windows/ended.hpp"
#include "support/windows/line.hpp"

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/system.hpp"

namespace vipl_test {

namespace {

constexpr char kChildArgument[] = "--child-of-the-suite";

/** What a child reads. */
struct Letter {
    std::uintptr_t role; // from the beginning of the image
    char scene[sizeof(ChildOrder::scene)];
    WSAPROTOCOL_INFOW sockets[2];
};

std::uintptr_t image()
{
    return reinterpret_cast<std::uintptr_t>(GetModuleHandleA(nullptr));
}

std::map<pid_t, HANDLE> &children()
{
    static std::map<pid_t, HANDLE> all;
    return all;
}

/** Its processes end when the last handle is closed, at the end of this process. */
HANDLE job()
{
    static const HANDLE made = [] {
        const HANDLE job = CreateJobObjectW(nullptr, nullptr);
        JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
        return job;
    }();
    return made;
}

DWORD WINAPI end_late_child(void *)
{
    Sleep((case_limit() + 5) * 1000);
    kill_this_process();
}

int open_socket_of(WSAPROTOCOL_INFOW &info)
{
    return static_cast<int>(WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &info, 0,
                                       WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT));
}

/** Starts this program as a child that reads from that pipe. */
PROCESS_INFORMATION start_child(HANDLE input)
{
    char program[MAX_PATH];
    GetModuleFileNameA(nullptr, program, sizeof program);
    std::string command = std::string("\"") + program + "\" " + kChildArgument;
    STARTUPINFOA how{};
    how.cb = sizeof how;
    how.dwFlags = STARTF_USESTDHANDLES;
    how.hStdInput = input;
    how.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    how.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    PROCESS_INFORMATION made{};
    if (!CreateProcessA(program, command.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &how, &made)) {
        throw Failure("cannot start a child process: error " + std::to_string(GetLastError()));
    }
    CloseHandle(made.hThread);
    AssignProcessToJobObject(job(), made.hProcess);
    return made;
}

} // namespace

void zygote_start(ChildMain child_main)
{
    if (std::strstr(GetCommandLineA(), kChildArgument) == nullptr) {
        return;
    }
    CloseHandle(CreateThread(nullptr, 0, end_late_child, nullptr, 0, nullptr));
    Letter letter;
    DWORD got = 0;
    if (!ReadFile(GetStdHandle(STD_INPUT_HANDLE), &letter, sizeof letter, &got, nullptr) ||
        got != sizeof letter) {
        std::exit(2);
    }
    start_sockets();
    ChildOrder order{};
    order.role = reinterpret_cast<void (*)()>(image() + letter.role);
    std::memcpy(order.scene, letter.scene, sizeof order.scene);
    const int line = open_socket_of(letter.sockets[0]), report = open_socket_of(letter.sockets[1]);
    std::exit(child_main(order, line, report));
}

pid_t zygote_spawn(const ChildOrder &order, int line, int report)
{
    HANDLE input, output;
    if (!CreatePipe(&input, &output, nullptr, sizeof(Letter))) {
        throw Failure("cannot make a pipe");
    }
    SetHandleInformation(input, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    const PROCESS_INFORMATION child = start_child(input);
    CloseHandle(input);
    Letter letter{};
    letter.role = reinterpret_cast<std::uintptr_t>(order.role) - image();
    std::memcpy(letter.scene, order.scene, sizeof letter.scene);
    DWORD put = 0;
    const bool told =
        WSADuplicateSocketW(static_cast<SOCKET>(line), child.dwProcessId, &letter.sockets[0]) == 0 &&
        WSADuplicateSocketW(static_cast<SOCKET>(report), child.dwProcessId, &letter.sockets[1]) == 0 &&
        WriteFile(output, &letter, sizeof letter, &put, nullptr) && put == sizeof letter;
    CloseHandle(output);
    if (!told) {
        TerminateProcess(child.hProcess, kCodeOfKilled);
        CloseHandle(child.hProcess);
        throw Failure("cannot tell a child process its order");
    }
    const auto pid = static_cast<pid_t>(child.dwProcessId);
    children()[pid] = child.hProcess;
    return pid;
}

int zygote_wait(pid_t child)
{
    const HANDLE process = children()[child];
    children().erase(child);
    DWORD code = 0;
    WaitForSingleObject(process, INFINITE);
    GetExitCodeProcess(process, &code);
    CloseHandle(process);
    return static_cast<int>(code);
}

void zygote_kill(pid_t child)
{
    TerminateProcess(children()[child], kCodeOfKilled);
}

bool ended_so(int status, int code)
{
    return status == (code == kKilled ? static_cast<int>(kCodeOfKilled) : code);
}

std::string describe_end(int status)
{
    return status == static_cast<int>(kCodeOfKilled) ? "was killed"
                                                     : "exited with status " + std::to_string(status);
}

} // namespace vipl_test
