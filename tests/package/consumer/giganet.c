/* SPDX-License-Identifier: MIT */
/* A program written for Giganet 1.0: Control, Data[] of VIP_DATA_SEGMENT, and a cast for the remote
 * memory of RDMA. */
#include "old_pair.h"

static void fill_control(VIP_DESCRIPTOR *d, VIP_UINT16 op, VIP_UINT16 segments, VIP_UINT32 length)
{
    d->Control.Control = op;
    d->Control.SegCount = segments;
    d->Control.Length = length;
    d->Control.Reserved = 0;
    d->Control.Status = 0;
}

/* Three pieces into two: more segments than the structure declares. */
static void send_and_receive(void)
{
    VIP_DESCRIPTOR *in = descriptor_at(0), *out = descriptor_at(1), *done;
    int i;

    fill_control(in, VIP_CONTROL_OP_SENDRECV, 2, 64);
    for (i = 0; i < 2; i++) {
        in->Data[i].Data.Address = buffer + 1024 + i * 32;
        in->Data[i].Handle = memory;
        in->Data[i].Length = 32;
    }
    check(VipPostRecv(vi[1], in, memory) == VIP_SUCCESS, "VipPostRecv");

    memcpy(buffer, "one two three", 14);
    fill_control(out, VIP_CONTROL_OP_SENDRECV, 3, 14);
    out->Data[0].Data.Address = buffer;
    out->Data[0].Handle = memory;
    out->Data[0].Length = 4;
    out->Data[1].Data.Address = buffer + 4;
    out->Data[1].Handle = memory;
    out->Data[1].Length = 4;
    out->Data[2].Data.Address = buffer + 8;
    out->Data[2].Handle = memory;
    out->Data[2].Length = 6;
    check(VipPostSend(vi[0], out, memory) == VIP_SUCCESS, "VipPostSend");
    check(VipSendWait(vi[0], PATIENCE, &done) == VIP_SUCCESS && done == out, "VipSendWait");
    check(VipRecvWait(vi[1], PATIENCE, &done) == VIP_SUCCESS && done == in, "VipRecvWait");
    check(done->Control.Length == 14, "the length of the message");
    check((done->Control.Status & VIP_STATUS_ERROR_MASK) == 0, "the status of the message");
    check(strcmp((char *)done->Data[0].Data.Address, "one two three") == 0, "the message");
}

static void rdma(VIP_UINT16 op, char *far, char *local, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = descriptor_at(2), *done;
    VIP_ADDRESS_SEGMENT *remote = (VIP_ADDRESS_SEGMENT *)&d->Data[0];

    fill_control(d, op, 2, length);
    remote->Data.Address = far;
    remote->Handle = memory;
    ((VIP_ADDRESS_SEGMENT *)&d->Data[0])->Reserved = 0;
    d->Data[1].Data.Address = local;
    d->Data[1].Handle = memory;
    d->Data[1].Length = length;
    check(VipPostSend(vi[0], d, memory) == VIP_SUCCESS, "VipPostSend");
    check(VipSendWait(vi[0], PATIENCE, &done) == VIP_SUCCESS && done == d, "VipSendWait of RDMA");
    check(done->Control.Length == length, "the length of RDMA");
}

int main(void)
{
    open_pair("/dev/clanvi0");
    send_and_receive();

    memcpy(buffer, "written", 8);
    rdma(VIP_CONTROL_OP_RDMAWRITE, buffer + 2048, buffer, 8);
    rdma(VIP_CONTROL_OP_RDMAREAD, buffer + 2048, buffer + 3072, 8); /* and it is there before it is read */
    check(strcmp(buffer + 3072, "written") == 0, "what was written and read");

    close_pair();
    printf("a program for Giganet is served\n");
    return 0;
}
