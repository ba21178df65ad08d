#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the models: check.py offers | peers | cache | window | mistakes | long. Casts have no violations; planted mistakes are found."""
import sys

from cache import Cache
from explore import Violation, explore, walk
from offers import Offers
from peers import Peers
from window import Window

OFFERS = [(1, 1, 1, 2), (1, 2, 1, 1), (2, 1, 1, 1), (1, 2, 0, 1, 'some-first')]
PEERS = [(2, 2), (3, 0), (3, 1, 'aba'), (3, 1, 'aab')]
WALKS = [(3, 3, 3, 1), (2, 4, 2, 2), (4, 2, 2, 2)]
CACHE = [(1, 4), (2, 3)]
WINDOW = [(1, 10, 1), (2, 5, 1), (1, 3, 2), (1, 9, 1, 'early-bell'), (1, 9, 2, 'careful')]
LONG_WINDOW = [(2, 10, 2), (4, 10, 1)]
LONG_CACHE = [(2, 4), (3, 2)]
LONG_OFFERS = [(1, 2, 2, 2), (2, 1, 2, 2)]
LONG_PEERS = [(3, 1), (3, 2, 'aba'), (4, 0, 'aabb')]


def run(kind, cast, mistaken, how):
    """Whether it came out as it is to."""
    name = '%s%s' % (kind.__name__.lower(), cast)
    try:
        result = how(kind(*cast))
    except Violation as violation:
        print('%s: %s' % (name, str(violation).split('\n')[0] if mistaken else violation))
        return mistaken
    print('%s: %s%s' % (name, result, ', AND THE MISTAKE WAS NOT FOUND' if mistaken else ''))
    return not mistaken


def run_all(kind, casts, how, mistaken=False):
    return all([run(kind, cast, mistaken, how) for cast in casts])


def mistakes(kind, cast):
    return [cast + (mistake,) for mistake in kind.MISTAKES]


def main(lot):
    if lot == 'offers':
        return run_all(Offers, OFFERS, explore) and run_all(Offers, WALKS, lambda model: walk(model, 0.5))
    if lot == 'peers':
        return run_all(Peers, PEERS, explore)
    if lot == 'cache':
        return run_all(Cache, CACHE, explore) and run_all(Cache, mistakes(Cache, (2, 3)), explore, True)
    if lot == 'window':
        return run_all(Window, WINDOW, explore) and run_all(Window, mistakes(Window, (1, 9, 2)), explore, True)
    if lot == 'mistakes':
        return run_all(Offers, mistakes(Offers, (1, 2, 1, 1)), explore, True) and \
            run_all(Peers, mistakes(Peers, (3, 0, None)), explore, True)
    return run_all(Offers, LONG_OFFERS, explore) and run_all(Peers, LONG_PEERS, explore) and \
        run_all(Cache, LONG_CACHE, explore) and run_all(Window, LONG_WINDOW, explore) and \
        run_all(Offers, WALKS, lambda model: walk(model, 60))


if __name__ == '__main__':
    sys.exit(0 if main(sys.argv[1]) else 1)
