// SPDX-License-Identifier: MIT
//
// The line is a socket pair. What a child has to complain of comes as text before the end of its
// stream; the single bytes of tell() are NUL, which no text has.
#include "forked.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects.hpp"

namespace vipl_test {

namespace {

void send_byte(int fd)
{
    const char none = 0;
    ssize_t sent;
    do {
        sent = send(fd, &none, 1, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
}

/** The next byte: -1 at the end of the stream; -2: it did not come in time. */
int next_byte(int fd, unsigned long long end)
{
    for (;;) {
        const unsigned long long now = now_ms();
        pollfd entry = {fd, POLLIN, 0};
        const int ready = poll(&entry, 1, now < end ? static_cast<int>(end - now) : 0);
        unsigned char byte = 0;
        if (ready > 0) {
            const ssize_t got = recv(fd, &byte, 1, 0);
            if (got > 0) {
                return byte;
            }
            if (got == 0 || errno != EINTR) {
                return -1;
            }
        } else if (ready == 0 && now >= end) {
            return -2;
        }
    }
}

[[noreturn]] void be_child(const Forked::Body &body, int fd, unsigned seconds)
{
    std::string complaint;
    alarm(seconds == 0 ? case_limit() : seconds); // its default action ends the process
    try {
        body(ParentLine(fd));
    } catch (const std::exception &error) {
        complaint = error.what();
    }
    send(fd, complaint.data(), complaint.size(), MSG_NOSIGNAL);
    _exit(complaint.empty() ? 0 : 1);
}

} // namespace

void ParentLine::tell() const
{
    send_byte(fd_);
}

void ParentLine::await() const
{
    if (next_byte(fd_, now_ms() + case_limit() * 1000ull) != 0) {
        _exit(1); // the parent has gone
    }
}

Forked::Forked(const Body &body, unsigned seconds)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        throw Failure(std::string("socketpair: ") + std::strerror(errno));
    }
    pid_ = fork();
    if (pid_ == 0) {
        close(fds[0]);
        be_child(body, fds[1], seconds);
    }
    close(fds[1]);
    line_ = fds[0];
    if (pid_ < 0) {
        close(line_);
        throw Failure(std::string("fork: ") + std::strerror(errno));
    }
}

Forked::~Forked()
{
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    close(line_);
}

void Forked::tell() const
{
    send_byte(line_);
}

void Forked::await() const
{
    const int byte = next_byte(line_, now_ms() + 2 * patience());
    if (byte == -2) {
        throw Failure("the forked child did not come to this point in time");
    }
    if (byte != 0) {
        std::string complaint(byte > 0 ? 1 : 0, static_cast<char>(byte));
        for (int next; byte > 0 && (next = next_byte(line_, now_ms() + patience())) > 0;) {
            complaint += static_cast<char>(next);
        }
        throw Failure("the forked child ended: " + complaint);
    }
}

int Forked::end()
{
    std::string complaint;
    int byte;
    while ((byte = next_byte(line_, now_ms() + case_limit() * 1000ull)) >= 0) {
        if (byte > 0) {
            complaint += static_cast<char>(byte);
        }
    }
    if (byte == -2) {
        throw Failure("the forked child hangs");
    }
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (!complaint.empty()) {
        throw Failure("[forked child] " + complaint);
    }
    return status;
}

void Forked::finish()
{
    finish_with_exit(0);
}

void Forked::finish_with_exit(int code)
{
    const int status = end();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
        throw Failure("the forked child " + show_end(status));
    }
}

void Forked::finish_with_signal(int number)
{
    const int status = end();
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number) {
        throw Failure("the forked child " + show_end(status));
    }
}

std::string show_end(int status)
{
    if (WIFSIGNALED(status)) {
        return std::string("was ended by signal ") + std::to_string(WTERMSIG(status)) + " (" +
               strsignal(WTERMSIG(status)) + ')';
    }
    return "exited with status " + std::to_string(WEXITSTATUS(status));
}

unsigned count_entries_of(const char *folder)
{
    unsigned count = 0;
    if (DIR *dir = opendir(folder)) {
        while (const dirent *entry = readdir(dir)) {
            count += entry->d_name[0] != '.' ? 1 : 0;
        }
        closedir(dir);
    }
    return count;
}

std::string lines_with(const char *path, const char *text)
{
    std::string found;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.find(text) != std::string::npos) {
            found += line + '\n';
        }
    }
    return found;
}

void exchange_within_this_process()
{
    const Nic nic;
    Memory memory(nic, 4096);
    const Vi left(nic), right(nic);
    const std::string name = unique_discriminator();
    NetAddress here = nic.address(name + "l"), there = nic.address(name + "r");
    const Work in = memory.transfer(memory.bytes(16));
    post_recv(right, in);
    REQUIRE_VIP(VipConnectPeerRequest(left, here, there, patience()));
    REQUIRE_VIP(VipConnectPeerRequest(right, there, here, patience()));
    REQUIRE_VIP(VipConnectPeerWait(left, nullptr));
    REQUIRE_VIP(VipConnectPeerWait(right, nullptr));
    post_send(left, memory.transfer(memory.text("to the other one")));
    EXPECT(received(right) == in.desc);
    EXPECT_EQ(std::string("to the other one"), in.buffer.text());
    sent(left);
}

} // namespace vipl_test
