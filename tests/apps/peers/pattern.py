# SPDX-License-Identifier: MIT
"""Bytes that both ends of a test can make, each on its own."""
import hashlib


def data(seed, size):
    """`size` bytes, the same for the same seed."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def digest(contents):
    return hashlib.sha256(contents).hexdigest()
