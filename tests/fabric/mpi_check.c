/* SPDX-License-Identifier: MIT */
/* A program of MPI whose every byte is compared: a ring of messages of many sizes, many messages
 * of the same memory, messages that come before they are asked for, all to all, sums, and memory
 * that others write. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;
static long wrong;

static unsigned char byte_of(int from, int to, size_t at)
{
    return (unsigned char)(at * 7 + at / 256 + (size_t)from * 31 + (size_t)to * 13);
}

static void fill(unsigned char *bytes, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = byte_of(from, to, i);
    }
}

static void compare(const unsigned char *bytes, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++) {
        wrong += bytes[i] != byte_of(from, to, i);
    }
}

/* Memory is allocated for each message: what was registered before is not what is there now. */
static void ring(size_t count)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(count), *in = calloc(1, count);
    fill(out, count, rank, next);
    MPI_Sendrecv(out, (int)count, MPI_BYTE, next, 1, in, (int)count, MPI_BYTE, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    compare(in, count, before, rank);
    free(out);
    free(in);
}

/* The same memory for many long messages: it is registered once. */
static void reused(void)
{
    enum { MESSAGES = 50, BYTES = 1 << 20 };
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    for (int i = 0; i < MESSAGES; i++) {
        fill(out, BYTES, rank + i, next);
        MPI_Sendrecv(out, BYTES, MPI_BYTE, next, 1, in, BYTES, MPI_BYTE, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        compare(in, BYTES, before + i, rank);
    }
    free(out);
    free(in);
}

/* Many messages before the receiver asks for the first one, and it asks for the last one first. */
static void unexpected(void)
{
    enum { MESSAGES = 500, BYTES = 1000 };
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(BYTES), in[BYTES];
    MPI_Request *requests = malloc(MESSAGES * sizeof(MPI_Request));
    fill(out, BYTES, rank, next);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Isend(out, BYTES - i, MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = MESSAGES - 1; i >= 0; i--) {
        MPI_Status status;
        int count = 0;
        MPI_Recv(in, BYTES, MPI_BYTE, before, i, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        wrong += count != BYTES - i;
        compare(in, (size_t)count, before, rank);
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(out);
}

static void all_to_all(size_t count)
{
    unsigned char *out = malloc(count * (size_t)ranks), *in = calloc((size_t)ranks, count);
    for (int i = 0; i < ranks; i++) {
        fill(out + (size_t)i * count, count, rank, i);
    }
    MPI_Alltoall(out, (int)count, MPI_BYTE, in, (int)count, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        compare(in + (size_t)i * count, count, i, rank);
    }
    free(out);
    free(in);
}

static void sums(void)
{
    long one = rank + 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != (long)ranks * (ranks + 1) / 2;
}

static void put(size_t count)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(count), *in = NULL;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)count, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &window);
    fill(out, count, rank, next);
    MPI_Win_fence(0, window);
    MPI_Put(out, (int)count, MPI_BYTE, next, 0, (int)count, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    compare(in, count, before, rank);
    MPI_Win_free(&window);
    free(out);
}

int main(int argc, char **argv)
{
    long all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t count = 1; count <= (size_t)1 << 24; count *= 4) {
        ring(count);
    }
    reused();
    unexpected();
    all_to_all(100);
    all_to_all(100000);
    sums();
    put(200000);
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks, %ld bytes WRONG\n", ranks, all);
    }
    MPI_Finalize();
    return all != 0;
}
