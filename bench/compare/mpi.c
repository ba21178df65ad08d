/* SPDX-License-Identifier: MIT */
/*
 * Open MPI beside the others: one-way latency (the median of half round trips) or bandwidth with 64
 * messages in flight, of one size. Prints one number: microseconds, or 10^6 bytes a second.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 64, WARM_UP = 200 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double latency(int rank, char *bytes, int size, int turns)
{
    double *times = malloc((size_t)turns * sizeof(*times));

    for (int i = -WARM_UP; i < turns; i++) {
        double start = MPI_Wtime();

        if (rank == 0) {
            MPI_Send(bytes, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(bytes, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(bytes, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
        if (i >= 0) {
            times[i] = (MPI_Wtime() - start) / 2 * 1e6;
        }
    }
    qsort(times, (size_t)turns, sizeof(*times), by_size);
    double median = times[turns / 2];
    free(times);
    return median;
}

static double bandwidth(int rank, char *bytes, int size, int turns)
{
    MPI_Request requests[IN_FLIGHT];
    double start = 0;

    for (int i = -2; i < turns; i++) {
        if (i == 0) {
            start = MPI_Wtime();
        }
        for (int m = 0; m < IN_FLIGHT; m++) {
            if (rank == 0) {
                MPI_Isend(bytes, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[m]);
            } else {
                MPI_Irecv(bytes, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[m]);
            }
        }
        MPI_Waitall(IN_FLIGHT, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) {
            MPI_Recv(bytes, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(bytes, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (double)turns * IN_FLIGHT * size / (MPI_Wtime() - start) / 1e6;
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int size = atoi(argv[2]);
    int turns = atoi(argv[3]);
    char *bytes = calloc(1, (size_t)size);
    double figure =
        strcmp(argv[1], "lat") == 0 ? latency(rank, bytes, size, turns) : bandwidth(rank, bytes, size, turns);
    if (rank == 0) {
        printf("%.4f\n", figure);
    }
    free(bytes);
    MPI_Finalize();
    return 0;
}
