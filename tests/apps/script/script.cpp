// SPDX-License-Identifier: MIT
// A random script of socket calls, on two pairs of TCP sockets of this process: one that the
// preload library leaves to the kernel, by a rule for its port, and one that it may move. Each call
// must have the same outcome on both.
//
//     vipl-socket-script --mode MODE [--steps N] [--seed N] [--plain-port N]
//
// MODE is blocking, nonblocking, level or edge. What may differ is stated where it is left out:
// Model::kMostUnread, dead_send(), fill(), wait_for_edges(), try_close(), try_blocked(),
// try_shutdown(). Bytes that are received are compared with those that were sent.
#include "choose.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <poll.h>
#include <unistd.h>

namespace {

struct Options {
    Mode mode = Mode::blocking;
    unsigned long steps = 10000;
    unsigned long seed = 1;
    int plain_port = 0;
};

constexpr std::size_t kShown = 25; // steps before what went wrong

class Script {
public:
    explicit Script(const Options &options)
        : options_(options), choose_(options.mode, options.seed), plain_(listen_at(options.plain_port)),
          other_(listen_at(0))
    {
    }

    void run()
    {
        while (done_ < options_.steps) {
            connection();
        }
    }

    void show() const
    {
        for (const std::string &line : log_) {
            printf("  %s\n", line.c_str());
        }
    }

    unsigned long done() const { return done_; }
    unsigned long connections() const { return connections_; }

private:
    // One connection of each kind, until an end is gone and the other has had its time, or its
    // steps are over.
    void connection()
    {
        Model model;
        model.mode = options_.mode;
        bool nonblocking = options_.mode != Mode::blocking;
        model.ends[0].nonblocking = model.ends[1].nonblocking = nonblocking;
        log_.assign(1, "a new connection");
        connections_++;
        Pair kernel("the kernel's pair", plain_, nonblocking), moved("the moved pair", other_, nonblocking);
        if (nonblocking ||
            !choose_.is_one_in(3)) { // else the first calls are made before it is known whether it is moved
            kernel.warm_up();
            moved.warm_up();
            model.has_sent[0] = model.has_sent[1] = true;
        }
        std::size_t left = 20 + choose_.below(200), alone = 15;
        while (left-- > 0 && done_ < options_.steps && (model.ends[0].open || model.ends[1].open)) {
            if ((!model.ends[0].open || !model.ends[1].open) && alone-- == 0) {
                break;
            }
            if (!step(model, kernel, moved)) {
                break;
            }
        }
    }

    // Whether the connection is of use afterwards.
    bool step(Model &model, Pair &kernel, Pair &moved)
    {
        Step step = choose_.next(model);
        note(step.text());
        Outcome expected = perform(step, kernel, model);
        Outcome outcome = perform(step, moved, model);
        done_++;
        note("    " + expected.text());
        if (!(outcome == expected)) {
            throw Wrong{step.text() + ": the kernel's pair: " + expected.text() +
                        ", the moved pair: " + outcome.text()};
        }
        if (step.kind == Kind::DeadSend) {
            return false;
        }
        Chooser::apply(step, expected, model);
        kernel.settle(model);
        moved.settle(model);
        compare_states(model, kernel, moved);
        return true;
    }

    static void compare_states(const Model &model, const Pair &kernel, const Pair &moved)
    {
        int compared = model.is_made() ? -1 : ~POLLOUT;
        for (int end : {0, 1}) {
            if (model.ends[end].open && ((kernel.state(end) ^ moved.state(end)) & compared) != 0) {
                throw Wrong{"poll() of end " + std::to_string(end) + " afterwards: the kernel's pair " +
                            std::to_string(kernel.state(end)) + ", the moved pair " +
                            std::to_string(moved.state(end))};
            }
        }
    }

    void note(const std::string &line)
    {
        log_.push_back(line);
        if (log_.size() > 2 * kShown) {
            log_.erase(log_.begin());
        }
    }

    Options options_;
    Chooser choose_;
    int plain_, other_;
    unsigned long done_ = 0, connections_ = 0;
    std::vector<std::string> log_;
};

bool read_mode(const char *word, Mode *mode)
{
    static const char *const names[] = {"blocking", "nonblocking", "level", "edge"};
    for (int i = 0; i < 4; i++) {
        if (std::strcmp(word, names[i]) == 0) {
            *mode = static_cast<Mode>(i);
            return true;
        }
    }
    return false;
}

bool read_options(int count, char **words, Options *options)
{
    for (int i = 1; i + 1 < count; i += 2) {
        std::string name = words[i];
        if (name == "--mode") {
            if (!read_mode(words[i + 1], &options->mode)) {
                return false;
            }
        } else if (name == "--steps") {
            options->steps = std::strtoul(words[i + 1], nullptr, 10);
        } else if (name == "--seed") {
            options->seed = std::strtoul(words[i + 1], nullptr, 10);
        } else if (name == "--plain-port") {
            options->plain_port = std::atoi(words[i + 1]);
        } else {
            return false;
        }
    }
    return count > 2 && count % 2 == 1;
}

} // namespace

int main(int count, char **words)
{
    Options options;
    if (!read_options(count, words, &options)) {
        fprintf(stderr, "usage: vipl-socket-script --mode blocking|nonblocking|level|edge [--steps N] "
                        "[--seed N] [--plain-port N]\n");
        return 2;
    }
    count_sigpipe();
    Script script(options);
    try {
        script.run();
    } catch (const Wrong &wrong) {
        script.show();
        printf("FAILED: seed %lu, step %lu: %s\n", options.seed, script.done(), wrong.what.c_str());
        fflush(stdout);
        _exit(1); // a thread may wait for ever
    }
    printf("%lu steps on %lu connections of each kind have the same outcome, seed %lu\n", script.done(),
           script.connections(), options.seed);
    return 0;
}
