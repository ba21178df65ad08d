#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Explores a model: all its states, or random walks through them.

A model has an `initial` state and four methods. progress(state) and environment(state) return what can happen next, as
(what, state) pairs: by itself, and because of programs, time and crashes. check(state) and check_quiet(state), the latter where
nothing happens by itself any more, raise Violation if the state is wrong.
"""
import random
import time


class Violation(Exception):
    """The model reaches a state that it must not reach; or what happens by itself does not come to an end."""


def path(parents, state):
    steps = []
    while parents[state] is not None:
        state, what = parents[state]
        steps.append(what)
    return '\n    '.join(reversed(steps))


def circle(moves):
    """Whether what happens by itself can go on for ever."""
    done = {}
    for start in moves:
        if start in done:
            continue
        stack = [(start, iter(moves[start]))]
        done[start] = False
        while stack:
            state, rest = stack[-1]
            for following in rest:
                if done.get(following) is False:
                    return True
                if following not in done and following in moves:
                    done[following] = False
                    stack.append((following, iter(moves[following])))
                    break
            else:
                done[state] = True
                stack.pop()
    return False


def explore(model):
    """All states. Returns what was found, or raises Violation."""
    begun = time.time()
    parents = {model.initial: None}
    todo = [model.initial]
    moves = {}
    quiet = 0
    while todo:
        state = todo.pop()
        try:
            model.check(state)
            by_itself = model.progress(state)
            others = model.environment(state)
            if not by_itself:
                quiet += 1
                model.check_quiet(state)
        except Violation as violation:
            raise Violation('%s\n    %s' % (violation, path(parents, state))) from None
        moves[hash(state)] = [hash(following) for _, following in by_itself]
        for what, following in by_itself + others:
            if following not in parents:
                parents[following] = (state, what)
                todo.append(following)
    if circle(moves):
        raise Violation('what happens by itself does not come to an end')
    return '%d states, %d of them quiet, %.0f s' % (len(parents), quiet, time.time() - begun)


def walk(model, seconds, seed=1):
    """Random walks for so long, with crashes in most of them."""
    end = time.time() + seconds
    chance = random.Random(seed)
    walks = steps = 0
    while time.time() < end:
        state, trail = model.initial, []
        crashes = chance.random() < .7
        walks += 1
        while True:
            try:
                model.check(state)
                by_itself = model.progress(state)
                others = model.environment(state)
                if not by_itself:
                    model.check_quiet(state)
            except Violation as violation:
                raise Violation('%s\n    %s' % (violation, '\n    '.join(trail))) from None
            if not crashes:
                others = [each for each in others if 'is killed' not in each[0]]
            if not by_itself and not others:
                break
            often = by_itself and (not others or chance.random() < .8)
            what, state = chance.choice(by_itself if often else others)
            trail.append(what)
            steps += 1
    return '%d walks, %d steps' % (walks, steps)


def tell(run):
    """Prints what a run comes to. Returns the exit status."""
    try:
        print('ok:', run())
    except Violation as violation:
        print('VIOLATION:', violation)
        return 1
    return 0
