/* SPDX-License-Identifier: MIT */
/*
 * An end in each of two processes, which take turns: a process does nothing before the other has
 * said what is to be done, or that it is done. So neither polls in vain, and the number of polls is
 * the same each time.
 */
#include "counts.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool_os.h"
#include "tool_text.h"

/* What the first process tells the second to do, which answers DONE, or NOT_YET where it must be
 * asked again. */
enum {
    RECEIVE =
        'r',      /* take what has come; done when that is all in flight, for which it posts receives again */
    LOOK = 'l',   /* poll once, with nothing to take */
    RETURN = 't', /* a write has come: write back */
    CONNECT = 'c', /* wait for a request and accept it */
    LEAVE = 'x',   /* disconnect */
    SLEEP = 's',   /* answer NOT_YET, and then sleep for a message */
    COUNT = '1',   /* what follows is counted, */
    REST = '0',    /* or is not */
    END = 'q',
    DONE = 'd',
    NOT_YET = 'n',
};

/* ---- the first process ----------------------------------------------------------------------- */

static bool say(struct counts_end *end, char word)
{
    if (!counts_say(end->plan->line, &word, 1)) {
        tool_complain("the other process has gone");
        return false;
    }
    return true;
}

static bool hear(struct counts_end *end, char *answer)
{
    if (!counts_hear(end->plan->line, answer, 1)) {
        tool_complain("the other process has gone");
        return false;
    }
    return true;
}

static bool turn(struct counts_end *end, char word, bool *done)
{
    char answer = NOT_YET;

    if (!say(end, word) || !hear(end, &answer)) {
        return false;
    }
    *done = answer == DONE;
    return true;
}

/* Both processes begin or end a counted part; some operations begin this process's themselves. */
static bool mark(struct counts_end *end, bool counted)
{
    bool done;

    counts_mark(false); /* the turn itself is in neither */
    if (!turn(end, counted ? COUNT : REST, &done)) {
        return false;
    }
    end->counted = counted;
    if (end->plan->op != COUNTS_POST && end->plan->op != COUNTS_CONNECT && end->plan->op != COUNTS_WAKE) {
        counts_mark(counted);
    }
    return true;
}

/* Takes the sends that are complete. */
static bool reap_sends(struct counts_end *end, uint32_t *reaped)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc = VIP_SUCCESS;

    while (*reaped < end->plan->in_flight && (rc = VipSendDone(end->vi, &desc)) == VIP_SUCCESS) {
        ++*reaped;
    }
    return rc == VIP_NOT_DONE || counts_right("VipSendDone", rc);
}

static bool post_sends(struct counts_end *end)
{
    for (uint32_t i = 0; i < end->plan->in_flight; i++) {
        if (!counts_right("VipPostSend", VipPostSend(end->vi, &end->memory.sends[i], end->memory.handle))) {
            return false;
        }
    }
    return true;
}

/* Turns until all sends are reaped and the other process has received them, if it is to. */
static bool finish_sends(struct counts_end *end, uint32_t reaped, bool received)
{
    for (unsigned turns = 0; turns < COUNTS_MAX_POLLS && !(received && reaped == end->plan->in_flight);
         turns++) {
        bool looked;

        if (!turn(end, received ? LOOK : RECEIVE, received ? &looked : &received) ||
            !reap_sends(end, &reaped)) {
            return false;
        }
    }
    return reaped == end->plan->in_flight;
}

/* Of many in flight, some may be complete only when the program asks. */
static bool send_message(struct counts_end *end)
{
    uint32_t reaped = 0;

    return post_sends(end) && (end->plan->in_flight == 1 || reap_sends(end, &reaped)) &&
           finish_sends(end, reaped, false);
}

static bool rdma(struct counts_end *end)
{
    uint32_t reaped = 0;

    return post_sends(end) && reap_sends(end, &reaped) && finish_sends(end, reaped, true);
}

static bool look(struct counts_end *end)
{
    VIP_DESCRIPTOR *desc;

    return VipRecvDone(end->vi, &desc) == VIP_NOT_DONE;
}

/* Only the posts are counted, because the time of the rest depends on other processes. */
static bool post_alone(struct counts_end *end)
{
    counts_mark(end->counted);
    if (!post_sends(end)) {
        return false;
    }
    counts_mark(false);
    return finish_sends(end, 0, false);
}

static volatile unsigned char *last_byte(unsigned char *at, uint32_t size)
{
    return at + size - 1;
}

/* A write there, and one back, which a program sees in its memory: it polls while it looks. */
static bool ping_pong(struct counts_end *end)
{
    unsigned char number = (unsigned char)(*last_byte(end->memory.out, end->plan->size) + 1);
    uint32_t reaped = 0;
    bool written = false;

    *last_byte(end->memory.out, end->plan->size) = number;
    if (!post_sends(end)) {
        return false;
    }
    for (unsigned turns = 0; turns < COUNTS_MAX_POLLS && !written; turns++) {
        if (!turn(end, RETURN, &written) || !look(end)) {
            return false;
        }
    }
    for (unsigned polls = 0; polls < COUNTS_MAX_POLLS; polls++) {
        if (*last_byte(end->memory.in, end->plan->size) == number && reaped == 1) {
            return true;
        }
        if (!reap_sends(end, &reaped)) {
            return false;
        }
    }
    return false;
}

/* The other process sleeps: it waits for a request. Otherwise who comes first would be by
 * chance. */
static bool await_sleeper(uint32_t process)
{
    uint64_t end = tool_now_ns() + (uint64_t)COUNTS_TIMEOUT_MS * 1000000;
    char path[32];
    char state = 'R';

    snprintf(path, sizeof(path), "/proc/%u/stat", process);
    while (state != 'S' && tool_now_ns() < end) {
        FILE *file = fopen(path, "r");

        if (file == NULL || fscanf(file, "%*u (%*[^)]) %c", &state) != 1) {
            state = 'S'; /* where this cannot be seen */
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return state == 'S';
}

static bool connect_and_leave(struct counts_end *end)
{
    bool done;
    char answer;

    if (!say(end, CONNECT) || !await_sleeper(end->remote.process)) {
        return false;
    }
    counts_mark(end->counted);
    return counts_connect(end) && hear(end, &answer) && answer == DONE &&
           counts_right("VipDisconnect", VipDisconnect(end->vi)) && turn(end, LEAVE, &done);
}

/* Only the post is counted, which wakes the other process. */
static bool wake(struct counts_end *end)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    VIP_DESCRIPTOR *desc;
    bool done;
    char answer;

    if (!turn(end, SLEEP, &done) || done || !await_sleeper(end->remote.process)) {
        return false;
    }
    counts_mark(end->counted);
    if (!post_sends(end)) {
        return false;
    }
    counts_mark(false);
    return hear(end, &answer) && answer == DONE &&
           counts_right("VipCQDone", VipCQDone(end->cq, &vi, &is_receive)) &&
           counts_right("VipSendDone", VipSendDone(end->vi, &desc));
}

static bool (*const operation[])(struct counts_end *end) = {
    [COUNTS_SEND] = send_message,
    [COUNTS_WRITE] = rdma,
    [COUNTS_READ] = rdma,
    [COUNTS_POLL] = look,
    [COUNTS_PING_PONG] = ping_pong,
    [COUNTS_POST] = post_alone,
    [COUNTS_CONNECT] = connect_and_leave,
    [COUNTS_WAKE] = wake,
};

static bool run_part(struct counts_end *end, bool counted)
{
    if (!mark(end, counted)) {
        return false;
    }
    for (uint32_t i = 0; i < end->plan->messages; i++) {
        if (!operation[end->plan->op](end)) {
            tool_complain("message %u failed", i);
            return false;
        }
    }
    return mark(end, false);
}

/* Each end tells the other where its memory is. */
static bool exchange_memory(struct counts_end *end)
{
    struct counts_remote here;

    memset(&here, 0, sizeof(here));
    here.in = (uint64_t)(uintptr_t)end->memory.in;
    here.out = (uint64_t)(uintptr_t)end->memory.out;
    here.handle = end->memory.handle;
    here.process = (uint32_t)getpid();
    return counts_say(end->plan->line, &here, sizeof(here)) &&
           counts_hear(end->plan->line, &end->remote, sizeof(end->remote));
}

/* Sleeps after the other process has slept: what each of the two passes the other before its first
 * sleep has come then. */
static bool sleep_in_turn(struct counts_end *end)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    char word = DONE;

    return say(end, word) && hear(end, &word) && VipCQWait(end->cq, 1, &vi, &is_receive) == VIP_TIMEOUT;
}

static bool prepare(const struct counts_plan *plan, struct counts_end *end)
{
    struct counts_end other; /* keeps what two NIC handles share while the first disconnects */
    bool connects = plan->op == COUNTS_CONNECT;
    bool receives =
        plan->second && (plan->op == COUNTS_SEND || plan->op == COUNTS_POST || plan->op == COUNTS_WAKE);

    if (!counts_end_create(plan, NULL, end) || !exchange_memory(end) ||
        (receives && !counts_post_receives(end)) ||
        (connects ? !counts_end_create(plan, end->nic, &other) || !counts_connect(&other)
                  : !counts_connect(end))) {
        return false;
    }
    if (plan->op == COUNTS_WAKE && !sleep_in_turn(end)) {
        return false;
    }
    counts_write_sends(end);
    if (!connects && !plan->shareable) {
        counts_stop_clock();
    }
    return true;
}

bool counts_run_first(const struct counts_plan *plan)
{
    struct counts_end end;

    if (!prepare(plan, &end)) {
        return false;
    }
    for (uint32_t part = 0; part <= plan->parts; part++) { /* the first is for what happens once */
        if (!run_part(&end, part > 0)) {
            return false;
        }
    }
    return say(&end, END);
}

/* ---- the second process ---------------------------------------------------------------------- */

/* How many of those in flight it has. */
static bool receive(struct counts_end *end, uint32_t *received, char *answer)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc = VIP_SUCCESS;

    while (*received < end->plan->in_flight && (rc = VipRecvDone(end->vi, &desc)) == VIP_SUCCESS) {
        ++*received;
    }
    if (*received < end->plan->in_flight) {
        *answer = NOT_YET;
        return rc == VIP_NOT_DONE || counts_right("VipRecvDone", rc);
    }
    *received = 0;
    for (uint32_t i = 0; i < end->plan->in_flight; i++) {
        if (!counts_right("VipPostRecv",
                          VipPostRecv(end->vi, &end->memory.receives[i], end->memory.handle))) {
            return false;
        }
    }
    return true;
}

/* Its last write is complete when the next one of the other process has come. */
static bool write_back(struct counts_end *end, uint32_t *open, char *answer)
{
    uint32_t size = end->plan->size;
    unsigned char number = (unsigned char)(*last_byte(end->memory.out, size) + 1);
    uint32_t reaped = 0;

    if (!look(end) || (*open > 0 && !reap_sends(end, &reaped))) {
        return false;
    }
    *open -= reaped;
    if (*open > 0 || *last_byte(end->memory.in, size) != number) {
        *answer = NOT_YET;
        return true;
    }
    *last_byte(end->memory.out, size) = number;
    *open = 1;
    return post_sends(end);
}

/* Sleeps for a message, and for the line, which is quiet until that has come. */
static bool sleep_for_message(struct counts_end *end)
{
    struct pollfd line = {.fd = end->plan->line, .events = POLLIN};
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    VIP_DESCRIPTOR *desc;

    return say(end, NOT_YET) &&
           counts_right("VipxCQWaitFds",
                        VipxCQWaitFds(end->cq, &line, 1, COUNTS_TIMEOUT_MS, NULL, &vi, &is_receive)) &&
           counts_right("VipRecvDone", VipRecvDone(end->vi, &desc)) &&
           counts_right("VipPostRecv", VipPostRecv(end->vi, end->memory.receives, end->memory.handle));
}

static bool serve(struct counts_end *end, char word, uint32_t *open, char *answer)
{
    *answer = DONE;
    switch (word) {
    case RECEIVE:
        return receive(end, open, answer);
    case LOOK:
        return look(end);
    case RETURN:
        return write_back(end, open, answer);
    case CONNECT:
        return counts_connect(end);
    case SLEEP:
        return sleep_for_message(end);
    case LEAVE:
        return counts_right("VipDisconnect", VipDisconnect(end->vi));
    case COUNT:
    case REST:
        counts_mark(word == COUNT);
        return true;
    default:
        return false;
    }
}

bool counts_run_second(const struct counts_plan *plan)
{
    struct counts_end end;
    uint32_t open = 0; /* receives of a message so far, or a write that is under way */
    char word;
    char answer;

    if (!prepare(plan, &end)) {
        return false;
    }
    while (hear(&end, &word)) {
        if (word == END) {
            return true;
        }
        if (!serve(&end, word, &open, &answer) || !say(&end, answer)) {
            return false;
        }
    }
    return false;
}
