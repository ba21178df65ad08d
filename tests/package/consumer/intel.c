/* SPDX-License-Identifier: MIT */
/* A program written for Intel's or M-VIA's library: CS, and DS[] of Local and Remote. */
#include "old_pair.h"

static void fill_control(VIP_DESCRIPTOR *d, VIP_UINT16 op, VIP_UINT16 segments)
{
    VIP_CONTROL_SEGMENT *cs = &d->CS;
    cs->Next.Descriptor = NULL;
    cs->Control = op;
    cs->SegCount = segments;
    cs->Length = 0;
    cs->Reserved = 0;
    cs->Status = 0;
}

static void fill_local(VIP_DESCRIPTOR *d, int i, char *bytes, VIP_UINT32 length)
{
    VIP_DESCRIPTOR_SEGMENT *segments = d->DS; /* there may be more of them than the structure declares */
    segments[i].Local.Data.Address = bytes;
    segments[i].Local.Handle = memory;
    segments[i].Local.Length = length;
    d->CS.Length = d->CS.Length + length;
}

static void send_and_receive(void)
{
    VIP_DESCRIPTOR *in = descriptor_at(0), *out = descriptor_at(1), *done;
    int i;

    fill_control(in, VIP_CONTROL_OP_SENDRECV, 1);
    fill_local(in, 0, buffer + 1024, 64);
    check(VipPostRecv(vi[1], in, memory) == VIP_SUCCESS, "VipPostRecv");

    memcpy(buffer, "one two three", 14);
    fill_control(out, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE, 3);
    out->CS.ImmediateData = 77;
    for (i = 0; i < 3; i++) {
        fill_local(out, i, buffer + i * 4, i == 2 ? 6 : 4);
    }
    check(VipPostSend(vi[0], out, memory) == VIP_SUCCESS, "VipPostSend");
    check(VipSendWait(vi[0], PATIENCE, &done) == VIP_SUCCESS && done == out, "VipSendWait");
    check(VipRecvWait(vi[1], PATIENCE, &done) == VIP_SUCCESS && done == in, "VipRecvWait");
    check(done->CS.Length == 14 && done->CS.ImmediateData == 77, "the length and the immediate data");
    check(strcmp((char *)done->DS[0].Local.Data.Address, "one two three") == 0, "the message");
}

static void rdma(VIP_UINT16 op, char *far, char *local, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = descriptor_at(2), *done;

    fill_control(d, op, 2);
    d->DS[0].Remote.Data.Address = far;
    d->DS[0].Remote.Handle = memory;
    d->DS[0].Remote.Reserved = 0;
    d->DS[1].Local.Data.Address = local;
    d->DS[1].Local.Handle = memory;
    d->CS.Length = d->DS[1].Local.Length = length;
    check(VipPostSend(vi[0], d, memory) == VIP_SUCCESS, "VipPostSend");
    check(VipSendWait(vi[0], PATIENCE, &done) == VIP_SUCCESS && done == d, "VipSendWait of RDMA");
    check((done->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK)) == VIP_STATUS_DONE,
          "the status of RDMA");
}

/* Descriptors are kept by value, copied and compared. */
static void copies(void)
{
    VIP_DESCRIPTOR kept, again[2];
    memset(&kept, 0, sizeof(kept));
    kept = *descriptor_at(2);
    again[0] = again[1] = kept;
    again[1].CS = kept.CS;
    again[1].DS[1] = again[0].DS[1];
    check(memcmp(&again[1], descriptor_at(2), sizeof(VIP_DESCRIPTOR)) == 0, "a copy of a descriptor");
}

int main(void)
{
    open_pair("/dev/via_lo");
    send_and_receive();

    memcpy(buffer, "written", 8);
    rdma(VIP_CONTROL_OP_RDMAWRITE, buffer + 2048, buffer, 8);
    rdma(VIP_CONTROL_OP_RDMAREAD, buffer + 2048, buffer + 3072, 8);
    check(strcmp(buffer + 3072, "written") == 0, "what was written and read");
    copies();

    close_pair();
    printf("a program for Intel or M-VIA is served\n");
    return 0;
}
