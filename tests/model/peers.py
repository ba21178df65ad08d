#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Symmetric requests, which find and answer each other.

usage: peers.py PEERS [CRASHES] [SIDES, as aab] [MISTAKE]

Each peer is a process with one request, whose id is the peer's number. Without SIDES all ask for the pair of addresses that
they have themselves, the hardest case. A peer has its name first, then it sends its request to the first name of the other
side that is there, and to the others after a while.
A peer that hears of a smaller request may answer it: its own word goes from P to B (no other can answer it), the other's from P
to ('T', n) to ('A', n), then it says ACCEPT. A peer that hears of a greater one sends its own there, if it has not. A word
that is P again is announced. MISTAKE: no-back, no-announce, no-busy (its own word stays P), stays-busy.
"""
import sys
from collections import namedtuple

from explore import Violation, explore, tell

# step: start, bind, offer (to the name `at`), found (it sleeps, and has asked one name), again (as offer), sleep, busy,
# claimed, accepted (and about to say so), over, dead.
# word: P, B, ('T', q), ('A', q) by the answering peer q, E. `at` is also whom it answers, `other` whom it is connected to.
Peer = namedtuple('Peer', 'step at word bound result other')
ASLEEP = ('sleep', 'found')
# The request of `asker`, before `asked`. to_asked, to_asker: packets under way. seen, by `asked`: nothing, available, stale.
Connection = namedtuple('Connection', 'asker asked to_asked to_asker asker_open asked_open seen')


def put(items, index, item):
    return items[:index] + (item,) + items[index + 1:]


def tidy(connections):
    return tuple(sorted((c for c in connections if c.asker_open or c.asked_open), key=str))


def hung_up(connections, p):
    out = []
    for c in connections:
        if c.asker == p:
            c = c._replace(to_asker=(), asker_open=False)
        elif c.asked == p:
            c = c._replace(to_asked=(), asked_open=False)
        out.append(c)
    return tuple(out)


class Peers:
    MISTAKES = ('no-back', 'no-announce', 'no-busy', 'stays-busy')

    def __init__(self, peers, crashes=0, sides=None, mistake=''):
        self.peers, self.sides, self.mistake = peers, sides, mistake
        self.initial = ((Peer('start', 0, 'P', False, None, None),) * peers, (), crashes)

    def fits(self, p, q):
        return p != q and (self.sides is None or self.sides[p] != self.sides[q])

    def ask(self, ps, cs, p, q):
        """p's request to q's name, if q has one and has not got it."""
        known = any(c.asker == p and c.asked == q and c.asker_open and c.asked_open for c in cs)
        if self.fits(p, q) and ps[q].bound and not known:
            cs += (Connection(p, q, ('REQUEST',), (), True, True, 'nothing'),)
        return cs

    def announce(self, cs, p):
        if self.mistake == 'no-announce':
            return cs
        return tuple(c._replace(to_asked=('REQUEST',)) if c.asker == p and c.asker_open and c.asked_open else c for c in cs)

    # --- what comes to a peer that sleeps ---

    def as_asker(self, state, p, i):
        ps, cs, crashes = state
        me, c = ps[p], cs[i]
        if c.to_asker:
            if me.word != ('A', c.asked):
                raise Violation('%d hears ACCEPT of %d, and its word is %s' % (p, c.asked, me.word))
            over = me._replace(step='over', at=0, word='E', bound=False, result='connected', other=c.asked)
            return [('%d hears ACCEPT of %d' % (p, c.asked), (put(ps, p, over), tidy(hung_up(cs, p)), crashes))]
        if c.asked_open:
            return []
        cs = cs[:i] + cs[i + 1:]
        if me.word in (('T', c.asked), ('A', c.asked)):
            ps = put(ps, p, me._replace(word='P'))
            cs = self.announce(cs, p)
        cs = self.ask(ps, cs, p, c.asked)
        return [('%d sees %d hang up' % (p, c.asked), (ps, tidy(cs), crashes))]

    def as_asked(self, state, p, i):
        ps, cs, crashes = state
        me, c = ps[p], cs[i]
        if c.to_asked:
            cs = put(cs, i, c._replace(to_asked=(), seen='available'))
            if c.asker > p and self.mistake != 'no-back':
                cs = self.ask(ps, cs, p, c.asker)
            return [('%d reads the request of %d' % (p, c.asker), (ps, tidy(cs), crashes))]
        if not c.asker_open:
            return [('%d sees %d hang up' % (p, c.asker), (ps, tidy(cs[:i] + cs[i + 1:]), crashes))]
        if c.asker < p and c.seen == 'available' and me.word == 'P':
            busy = me._replace(step='busy', at=c.asker, word='P' if self.mistake == 'no-busy' else 'B')
            return [('%d is busy with %d' % (p, c.asker), (put(ps, p, busy), cs, crashes))]
        return []

    # --- a peer that answers ---

    def not_any_more(self, state, p, why):
        ps, cs, crashes = state
        me = ps[p]
        cs = tuple(c._replace(seen='stale') if c.asked == p and c.asker == me.at else c for c in cs)
        word = me.word if self.mistake in ('no-busy', 'stays-busy') else 'P'
        if self.mistake != 'no-busy':
            cs = self.announce(cs, p)
        free = me._replace(step='found', at=0, word=word)
        return ('%d %s %d' % (p, why, me.at), (put(ps, p, free), tidy(cs), crashes))

    def answers(self, state, p):
        ps, cs, crashes = state
        me = ps[p]
        theirs = ps[me.at]
        if me.step == 'busy':
            if theirs.word != 'P' or theirs.step == 'dead':
                return self.not_any_more(state, p, 'finds another with')
            ps = put(put(ps, me.at, theirs._replace(word=('T', p))), p, me._replace(step='claimed'))
            return '%d claims %d' % (p, me.at), (ps, cs, crashes)
        if me.step == 'claimed':
            if theirs.word != ('T', p) or theirs.step == 'dead':
                return self.not_any_more(state, p, 'has lost')
            ps = put(put(ps, me.at, theirs._replace(word=('A', p))), p, me._replace(step='accepted'))
            return '%d accepts %d' % (p, me.at), (ps, cs, crashes)
        cs = tuple(c._replace(to_asker=('ACCEPT',)) if c.asked == p and c.asker == me.at and c.asker_open else c for c in cs)
        over = me._replace(step='over', at=0, word='E', bound=False, result='connected', other=me.at)
        return '%d says ACCEPT to %d' % (p, me.at), (put(ps, p, over), tidy(hung_up(cs, p)), crashes)

    # --- what happens by itself, and what others do ---

    def goes_on(self, state, p):
        ps, cs, crashes = state
        me = ps[p]
        if me.step == 'bind':
            return [('%d has its name' % p, (put(ps, p, me._replace(step='offer', at=0, bound=True)), cs, crashes))]
        if me.step in ('offer', 'again'):
            before = cs
            cs = self.ask(ps, cs, p, me.at)
            following = me._replace(at=me.at + 1) if me.at + 1 < self.peers else me._replace(step='sleep', at=0)
            if me.step == 'offer' and cs != before:
                following = me._replace(step='found', at=0)
            return [('%d asks %d' % (p, me.at), (put(ps, p, following), tidy(cs), crashes))]
        if me.step in ('busy', 'claimed', 'accepted'):
            return [self.answers(state, p)]
        out = []
        if me.step == 'found' and me.word == 'P':
            out.append(('%d has waited' % p, (put(ps, p, me._replace(step='again', at=0)), cs, crashes)))
        for i, c in enumerate(cs):
            if me.step in ASLEEP and c.asker == p and c.asker_open:
                out += self.as_asker(state, p, i)
            if me.step in ASLEEP and c.asked == p and c.asked_open:
                out += self.as_asked(state, p, i)
        return out

    def progress(self, state):
        return [each for p in range(self.peers) for each in self.goes_on(state, p)]

    def environment(self, state):
        ps, cs, crashes = state
        out = []
        for p in range(self.peers):
            me = ps[p]
            if me.step == 'start':
                out.append(('%d begins' % p, (put(ps, p, me._replace(step='bind')), cs, crashes)))
            unread = any(c.asker == p and c.to_asker for c in cs)
            if me.step in ASLEEP and not unread and (me.word == 'P' or me.word[0] == 'T'):
                over = me._replace(step='over', word='E', bound=False, result='time')
                out.append(('%d gives up' % p, (put(ps, p, over), tidy(hung_up(cs, p)), crashes)))
            if crashes and me.step not in ('start', 'over', 'dead'):
                dead = Peer('dead', 0, me.word, False, None, None)
                out.append(('%d is killed' % p, (put(ps, p, dead), tidy(hung_up(cs, p)), crashes - 1)))
        return out

    # --- what must be so ---

    def check(self, state):
        ps = state[0]
        for p in range(self.peers):
            if ps[p].result != 'connected':
                continue
            other = ps[ps[p].other]
            if other.step == 'over' and (other.result != 'connected' or other.other != p):
                raise Violation('%d is connected to %d, which is not' % (p, ps[p].other))
            if sum(1 for each in ps if each.result == 'connected' and each.other == ps[p].other) > 1:
                raise Violation('two are connected to %d' % ps[p].other)

    def check_quiet(self, state):
        ps, cs, _ = state
        sleeping = [p for p in range(self.peers) if ps[p].step in ASLEEP]
        for p in sleeping:
            if ps[p].word != 'P':
                raise Violation('%d is %s for good' % (p, ps[p].word))
            for q in sleeping:
                if self.fits(p, q) and ps[q].word == 'P':
                    raise Violation('%d and %d ask for each other and do not meet' % (p, q))
        for c in cs:
            if (ps[c.asked].step in ASLEEP and c.asked_open and not c.asker_open) or \
                    (ps[c.asker].step in ('over', 'dead') and c.asker_open):
                raise Violation('left behind: %s' % (c,))


def main(arguments):
    crashes = int(arguments[1]) if len(arguments) > 1 else 0
    sides = arguments[2] if len(arguments) > 2 and arguments[2] != '-' else None
    return tell(lambda: explore(Peers(int(arguments[0]), crashes, sides, *arguments[3:])))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
