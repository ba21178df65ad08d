# SPDX-License-Identifier: MIT
"""A program of mpi4py for p3_hits.py, checked by itself: a Fourier transform in two dimensions by rows, then a power iteration with its halo.
Most arrays are new ones, as numpy's expressions make them."""
import sys

import numpy as np
from mpi4py import MPI

SIZE, ROUNDS, CELLS, HALO = 512, 10, 200000, 50000


def transform(world, mine):
    ranks = world.size
    rows = np.fft.fft(mine, axis=1)
    send = np.ascontiguousarray(np.concatenate(np.split(rows, ranks, axis=1), axis=0))
    received = np.empty_like(send)
    world.Alltoall(send, received)
    return np.fft.fft(np.concatenate(np.split(received, ranks, axis=0), axis=0).reshape(SIZE, SIZE // ranks), axis=0)


def main():
    world = MPI.COMM_WORLD
    rank, ranks = world.rank, world.size
    random = np.random.default_rng(1)
    whole = random.standard_normal((SIZE, SIZE)) + 1j * random.standard_normal((SIZE, SIZE))
    part = slice(rank * SIZE // ranks, (rank + 1) * SIZE // ranks)
    for _ in range(ROUNDS):
        seen = transform(world, whole[part].copy())
    good = np.abs(seen - np.fft.fft2(whole)[:, part]).max() < 1e-8
    x = np.full(CELLS, rank + 1.0)
    for _ in range(2 * ROUNDS):
        y = x * 2
        total = np.empty_like(y)
        world.Allreduce(y, total)
        x = total / (2 * ranks)
        halo = np.empty(HALO)
        world.Sendrecv(x[:HALO].copy(), (rank + 1) % ranks, 0, halo, (rank - 1) % ranks, 0)
    good = good and np.array_equal(halo, x[:HALO]) and np.allclose(x, (ranks + 1) / 2)
    print("rank %d: %s" % (rank, "right" if good else "WRONG"))
    sys.exit(not good)


main()
