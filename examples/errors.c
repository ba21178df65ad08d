/* SPDX-License-Identifier: MIT */
/*
 * The three ways in which a program learns of an error, each made to happen here:
 *
 *   1. a function returns a code, and has changed nothing;
 *   2. a descriptor is complete with an error, which its Status names;
 *   3. something happens that belongs to no call: the error handler is called, on a thread of the
 *      library's.
 *
 * On a VI with a reliable level the second and the third end the connection: VipDisconnect(),
 * then connect again. VIPL_LOG=reason prints why, where the code does not say it all. The client
 * is the peer that makes the mistakes.
 */
#include <vipl/posix.h>

#include "ends.h"
#include "example.h"

enum { SHORT = 8, LONG = 64 };

static struct {
    VIP_DESCRIPTOR work;
    char bytes[LONG];
} shared __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union example_address here;
static int pipe_of_handler[2]; /* the handler writes here the errors that it gets */

/* 3. Called on a thread of the library's, so it only passes the error on. */
static void VI_CALL on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    int code = (int)error->ErrorCode;

    (void)context;
    if (error->ViHandle == vi && write(pipe_of_handler[1], &code, sizeof(code)) != sizeof(code)) {
        perror("pipe");
    }
}

static void open_device(void)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("handler", VipErrorCallback(nic, NULL, on_error));
    example_must("register", VipRegisterMem(nic, &shared, sizeof(shared), NULL, &memory));
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    example_local_address(nic, "errors", &here);
}

static void connect_to_server(void)
{
    VIP_VI_ATTRIBUTES theirs;

    example_must("connect", VipConnectRequest(vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
}

static void wait_for_client(void)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    example_must("wait", VipConnectWait(nic, &here.net, EXAMPLE_TIMEOUT, &remote.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, vi));
}

/* The client: sends more than the server has room for; connects again, and ends without
 * VipDisconnect(). */
static void client(void)
{
    VIP_DESCRIPTOR *done;

    connect_to_server();
    example_describe(&shared.work, shared.bytes, LONG, memory);
    example_must("send", VipPostSend(vi, &shared.work, memory));
    (void)VipSendWait(vi, EXAMPLE_TIMEOUT, &done); /* the sender may get an error, too */
    example_must("disconnect", VipDisconnect(vi));
    connect_to_server();
    _Exit(0);
}

/* 1. The code says what; VipxExplainError() has a sentence. Expect the code that is given. */
static int returned(const char *what, VIP_RETURN rc, VIP_RETURN expected)
{
    printf("1. %s: %s: %s\n", what, VipxStrError(rc), VipxExplainError(rc));
    return rc != expected;
}

/* 2. VIP_DESCRIPTOR_ERROR comes with the descriptor, whose Status has a bit for each cause. */
static int completed(void)
{
    VIP_DESCRIPTOR *done;
    char text[128];
    VIP_RETURN rc = VipRecvWait(vi, EXAMPLE_TIMEOUT, &done);

    if (rc != VIP_DESCRIPTOR_ERROR) {
        fprintf(stderr, "receive: %s\n", VipxStrError(rc));
        return 1;
    }
    VipxStrStatus(done->CS.Status, text, sizeof(text));
    printf("2. a receive of %d bytes, for a message of %d: %s\n", SHORT, LONG, text);
    return (done->CS.Status & VIP_STATUS_LENGTH_ERROR) == 0;
}

/* 3. The error that the handler got. */
static int reported(void)
{
    int code = -1;

    if (read(pipe_of_handler[0], &code, sizeof(code)) != sizeof(code)) {
        perror("pipe");
    }
    printf("3. the error handler: %s\n",
           code == VIP_ERROR_CONN_LOST ? "VIP_ERROR_CONN_LOST" : "another error");
    return code != VIP_ERROR_CONN_LOST;
}

static int server(void)
{
    VIP_NIC_HANDLE none;
    int failed =
        returned("open a device that is not there", VipOpenNic("no_such_device", &none), VIP_ERROR_RESOURCE);

    example_describe(&shared.work, shared.bytes, SHORT, memory);
    example_must("receive", VipPostRecv(vi, &shared.work, memory));
    wait_for_client();
    failed += returned("destroy a VI that is connected", VipDestroyVi(vi), VIP_INVALID_STATE);
    failed += completed();
    example_must("disconnect", VipDisconnect(vi)); /* it can be connected again */
    wait_for_client();
    failed += reported();
    example_must("disconnect", VipDisconnect(vi));
    return failed;
}

int main(int argc, char **argv)
{
    enum end end = ends_begin(argc, argv);
    int failed;

    if (system_pipe(pipe_of_handler) != 0) {
        perror("pipe");
        return 1;
    }
    open_device();
    if (end == CLIENT) {
        client();
    }
    failed = server();
    example_must("close", VipCloseNic(nic));
    return failed || system_client_failed();
}
