/* SPDX-License-Identifier: MIT */
/* A program that spins on Status, as fast ones of the time did, while another thread sends. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "old_pair.h"

#define ROUNDS 5 /* the two threads may have to share one CPU with others */

static volatile int round_begun, round_over; /* plain flags of the time: the thread looks again and again */

static void fill(VIP_DESCRIPTOR *d, char *bytes, VIP_UINT32 length)
{
    d->CS.Control = VIP_CONTROL_OP_SENDRECV;
    d->CS.SegCount = 1;
    d->CS.Reserved = 0;
    d->CS.Status = 0;
    d->DS[0].Local.Data.Address = bytes;
    d->DS[0].Local.Handle = memory;
    d->CS.Length = d->DS[0].Local.Length = length;
}

/* Sends once the other thread spins, and lets bytes move until that has seen them. */
static void *send_rounds(void *unused)
{
    VIP_DESCRIPTOR *out = descriptor_at(1), *done;
    int i;
    for (i = 1; i <= ROUNDS; i++) {
        while (round_begun != i) {
            sched_yield();
        }
        sprintf(buffer, "round %d", i);
        fill(out, buffer, 32);
        check(VipPostSend(vi[0], out, memory) == VIP_SUCCESS, "VipPostSend");
        check(VipSendWait(vi[0], PATIENCE, &done) == VIP_SUCCESS, "VipSendWait");
        while (round_over != i) {
            VipRecvDone(vi[0], &done);
        }
    }
    return unused;
}

int main(void)
{
    VIP_DESCRIPTOR *in = descriptor_at(0), *done;
    pthread_t sender;
    char expected[32];
    int i;

    alarm(50); /* a program that misses Status spins for ever */
    open_pair("VINIC");
    in = descriptor_at(0);
    check(pthread_create(&sender, NULL, send_rounds, NULL) == 0, "a thread");
    for (i = 1; i <= ROUNDS; i++) {
        fill(in, buffer + 1024, 64);
        check(VipPostRecv(vi[1], in, memory) == VIP_SUCCESS, "VipPostRecv");
        check(!(in->CS.Status & VIP_STATUS_DONE), "Status before the message");
        round_begun = i;
        while (!(in->CS.Status & VIP_STATUS_DONE)) {
        }
        round_over = i;
        check(VipRecvDone(vi[1], &done) == VIP_SUCCESS && done == in, "VipRecvDone");
        sprintf(expected, "round %d", i);
        check(in->CS.Length == 32 && strcmp(buffer + 1024, expected) == 0, "the message");
    }
    check(pthread_join(sender, NULL) == 0, "the thread's end");
    close_pair();
    printf("a program that polls is served\n");
    return 0;
}
