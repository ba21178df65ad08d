#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requests that are offered to every listener, and claimed by one.

usage: offers.py [--walk SECONDS] REQUESTERS LISTENERS CRASHES WAITS [MISTAKE]

Each requester and each listener is a process of its own and begins at any time. A requester may give up once it sleeps. A
listener calls VipConnectWait() so often (blocking, until any time; or with timeout 0) and accepts, rejects or ignores what
it gets. So many processes are killed, at any step. MISTAKE plants one, to see that the check finds it:

  no-notice     new listeners do not tell those who have requests
  no-announce   a request that is available again is not announced
  early         the second offers are made before the pending socket has its name
  any-hang-up   a hang-up by any listener makes the request available again
  no-claim      a listener takes what it finds
  some-first    not a mistake: the first offers may leave listeners out
"""
import sys
from collections import namedtuple

from explore import Violation, explore, tell, walk

# step: start, offer (first offers), short (sleeps for 2 ms), name (its pending socket), again (second offers), sleep, over,
# dead. word: 'P' pending, ('T', n) taken over connection n, ('A', n) accepted, 'E' ended. `at` is the next listener to offer to.
Requester = namedtuple('Requester', 'step at word has_socket last_number result')
# step: start, bind, notify, wait, has (a request), accepted (and about to say so), idle, dead.
Listener = namedtuple('Listener', 'step at bound waits request')
# From requester r to listener w. to_r, to_w: packets under way. state, at the listener: new, queued, stale, held; or notice: it
# was made by the listener, to the pending socket.
Connection = namedtuple('Connection', 'r number w to_r to_w r_open w_open state')

LAST_NUMBER = 40


def put(items, index, item):
    return items[:index] + (item,) + items[index + 1:]


def tidy(connections):
    return tuple(sorted((c for c in connections if c.r_open or c.w_open), key=lambda c: (c.r, c.number, c.w, c.state)))


def hung_up_by_r(connections, r):
    return tuple(c._replace(to_r=(), r_open=False) if c.r == r else c for c in connections)


def hung_up_by_w(connections, w):
    return tuple(c._replace(to_w=(), w_open=False) if c.w == w else c for c in connections)


class Offers:
    MISTAKES = ('no-notice', 'no-announce', 'early', 'any-hang-up', 'no-claim')

    def __init__(self, requesters, listeners, crashes, waits, mistake=''):
        self.requesters, self.listeners, self.mistake = requesters, listeners, mistake
        self.initial = ((Requester('start', 0, 'P', False, 0, None),) * requesters,
                        (Listener('start', 0, False, waits, None),) * listeners, (), crashes)

    # --- the requester ---

    def offer(self, rs, ws, cs, r, w):
        """Connects and sends CONNECT_REQUEST, unless that listener has it already, or is not there."""
        known = any(c.r == r and c.w == w and c.r_open and c.w_open and c.state != 'notice' for c in cs)
        if not ws[w].bound or known:
            return rs, cs
        number = rs[r].last_number + 1
        if number > LAST_NUMBER:
            raise Violation('R%d has no number left' % r)
        cs += (Connection(r, number, w, (), ('REQUEST',), True, True, 'new'),)
        return put(rs, r, rs[r]._replace(last_number=number)), cs

    def announce(self, cs, r):
        if self.mistake == 'no-announce':
            return cs
        return tuple(c._replace(to_w=c.to_w if c.to_w[-1:] == ('REQUEST',) else c.to_w + ('REQUEST',))
                     if c.r == r and c.r_open and c.w_open and c.state != 'notice' else c for c in cs)

    def on_notice(self, state, r, i):
        rs, ws, cs, crashes = state
        w = cs[i].w
        rs, cs = self.offer(rs, ws, cs[:i] + cs[i + 1:], r, w)
        return 'R%d hears a notice of W%d' % (r, w), (rs, ws, tidy(cs), crashes)

    def on_reply(self, state, r, i):
        rs, ws, cs, crashes = state
        me, c = rs[r], cs[i]
        said = c.to_r[0]
        if me.word not in (('A', c.number), ('T', c.number)):
            raise Violation('R%d hears %s over %d, and its word is %s' % (r, said, c.number, me.word))
        me = me._replace(step='over', at=0, word='E', has_socket=False, result=said)
        return 'R%d hears %s' % (r, said), (put(rs, r, me), ws, tidy(hung_up_by_r(cs, r)), crashes)

    def on_hang_up(self, state, r, i):
        rs, ws, cs, crashes = state
        me, c = rs[r], cs[i]
        cs = cs[:i] + cs[i + 1:]
        wrongly = self.mistake == 'any-hang-up' and me.word != 'E'
        if me.word in (('T', c.number), ('A', c.number)) or wrongly:
            rs = put(rs, r, me._replace(word='P'))
            cs = self.announce(cs, r)
        rs, cs = self.offer(rs, ws, cs, r, c.w)
        return 'R%d sees W%d hang up' % (r, c.w), (rs, ws, tidy(cs), crashes)

    def heard_by_r(self, state, r):
        """What a sleeping requester does when something comes."""
        out = []
        for i, c in enumerate(state[2]):
            if c.r != r or not c.r_open:
                continue
            if c.state == 'notice':
                if state[0][r].step != 'short':
                    out.append(self.on_notice(state, r, i))
            elif c.to_r:
                out.append(self.on_reply(state, r, i))
            elif not c.w_open:
                out.append(self.on_hang_up(state, r, i))
        return out

    def offers(self, state, r):
        """The next offer of a round."""
        rs, ws, cs, crashes = state
        me = rs[r]
        step, at = (me.step, me.at + 1) if me.at + 1 < self.listeners else ('short' if me.step == 'offer' else 'sleep', 0)
        if self.mistake == 'early' and step == 'short':
            step = 'name'
        out = []
        if self.mistake == 'some-first' and me.step == 'offer':
            out.append(('R%d leaves W%d out' % (r, me.at), (put(rs, r, me._replace(step=step, at=at)), ws, cs, crashes)))
        rs, cs = self.offer(rs, ws, cs, r, me.at)
        rs = put(rs, r, rs[r]._replace(step=step, at=at))
        return out + [('R%d offers to W%d' % (r, me.at), (rs, ws, tidy(cs), crashes))]

    def requester_goes_on(self, state, r):
        rs, ws, cs, crashes = state
        me = rs[r]
        if me.step in ('offer', 'again'):
            return self.offers(state, r)
        if me.step == 'name':
            me = me._replace(step='sleep' if self.mistake == 'early' else 'again', at=0, has_socket=True)
            return [('R%d has a pending socket' % r, (put(rs, r, me), ws, cs, crashes))]
        out = self.heard_by_r(state, r) if me.step in ('short', 'sleep') else []
        if me.step == 'short' and me.word == 'P':
            me = me._replace(step='name', at=0)
            out.append(('R%d is not taken at once' % r, (put(rs, r, me), ws, cs, crashes)))
        return out

    # --- the listener ---

    def heard_by_w(self, state, w):
        rs, ws, cs, crashes = state
        out = []
        for i, c in enumerate(cs):
            if c.w != w or not c.w_open or c.state == 'notice':
                continue
            if c.to_w:
                seen = c._replace(to_w=c.to_w[1:], state='queued' if c.state in ('new', 'stale') else c.state)
                out.append(('W%d reads the request of R%d' % (w, c.r), (rs, ws, tidy(put(cs, i, seen)), crashes)))
            elif not c.r_open and c.state != 'held':
                out.append(('W%d sees R%d hang up' % (w, c.r), (rs, ws, tidy(cs[:i] + cs[i + 1:]), crashes)))
        return out

    def claims(self, state, w):
        """The word is in memory that the listener has mapped: it is there even if the requester is dead."""
        rs, ws, cs, crashes = state
        out = []
        for i, c in enumerate(cs):
            if c.w != w or not c.w_open or c.state != 'queued':
                continue
            if rs[c.r].word == 'P' or self.mistake == 'no-claim':
                taken = put(rs, c.r, rs[c.r]._replace(word=('T', c.number)))
                has = put(ws, w, ws[w]._replace(step='has', request=(c.r, c.number)))
                out.append(('W%d takes R%d' % (w, c.r), (taken, has, tidy(put(cs, i, c._replace(state='held'))), crashes)))
            else:
                out.append(('W%d finds R%d taken' % (w, c.r), (rs, ws, tidy(put(cs, i, c._replace(state='stale'))), crashes)))
        return out

    def says_accept(self, state, w):
        rs, ws, cs, crashes = state
        r, number = ws[w].request
        cs = tuple(c._replace(to_r=c.to_r + (('ACCEPT',) if c.r_open else ()), to_w=(), w_open=False)
                   if (c.r, c.number, c.w) == (r, number, w) else c for c in cs)
        return 'W%d says ACCEPT' % w, (rs, put(ws, w, ws[w]._replace(step='idle', request=None)), tidy(cs), crashes)

    def notifies(self, state, w):
        rs, ws, cs, crashes = state
        me = ws[w]
        if rs[me.at].has_socket and rs[me.at].step != 'dead':
            cs += (Connection(me.at, -w, w, (), (), True, True, 'notice'),)
        following = me._replace(at=me.at + 1) if me.at + 1 < self.requesters else me._replace(step='wait', at=0)
        return 'W%d notifies R%d' % (w, me.at), (rs, put(ws, w, following), tidy(cs), crashes)

    def listener_goes_on(self, state, w):
        rs, ws, cs, crashes = state
        me = ws[w]
        if me.step == 'bind':
            step = 'wait' if self.mistake == 'no-notice' else 'notify'
            return [('W%d has its name' % w, (rs, put(ws, w, me._replace(step=step, at=0, bound=True)), cs, crashes))]
        if me.step == 'notify':
            return [self.notifies(state, w)]
        if me.step == 'wait':
            return self.heard_by_w(state, w) + self.claims(state, w)
        return [self.says_accept(state, w)] if me.step == 'accepted' else []

    # --- what happens by itself, and what others do ---

    def progress(self, state):
        out = []
        for r in range(self.requesters):
            out += self.requester_goes_on(state, r)
        for w in range(self.listeners):
            out += self.listener_goes_on(state, w)
        return out

    def looks(self, state, w):
        """VipConnectWait() with timeout 0: reads everything that is there, then claims. Nothing else moves meanwhile."""
        for what in (self.heard_by_w, self.claims):
            for _ in range(50):
                following = what(state, w)
                if not following:
                    break
                state = following[0][1]
                if state[1][w].step == 'has':
                    return state
        return state

    def program_looks(self, state, w):
        rs, ws, cs, crashes = state
        waiting = [r for r in range(self.requesters)
                   if rs[r].step == 'sleep' and rs[r].word == 'P' and not self.heard_by_r(state, r)]
        me = ws[w]._replace(step='wait', waits=ws[w].waits - 1)
        rs, ws, cs, crashes = self.looks((rs, put(ws, w, me), cs, crashes), w)
        if ws[w].step != 'has':
            if waiting:
                raise Violation('VipConnectWait(0) of W%d does not find R%d' % (w, waiting[0]))
            ws = put(ws, w, ws[w]._replace(step='idle'))
        return 'W%d looks, with timeout 0' % w, (rs, ws, cs, crashes)

    def requester_meets(self, state, r):
        rs, ws, cs, crashes = state
        me = rs[r]
        out = []
        if me.step == 'start':
            out.append(('R%d begins' % r, (put(rs, r, me._replace(step='offer')), ws, cs, crashes)))
        unread = any(c.r == r and c.to_r for c in cs)
        if me.step in ('short', 'sleep') and not unread and (me.word == 'P' or me.word[0] == 'T'):
            over = me._replace(step='over', at=0, word='E', has_socket=False, result='time')
            out.append(('R%d gives up' % r, (put(rs, r, over), ws, tidy(hung_up_by_r(cs, r)), crashes)))
        if crashes and me.step not in ('start', 'over', 'dead'):
            dead = me._replace(step='dead', at=0, has_socket=False)
            out.append(('R%d is killed' % r, (put(rs, r, dead), ws, tidy(hung_up_by_r(cs, r)), crashes - 1)))
        return out

    def program_answers(self, state, w):
        rs, ws, cs, crashes = state
        me = ws[w]
        r, number = me.request
        mine = [c for c in cs if (c.r, c.number, c.w) == (r, number, w)]
        alive = any(c.r_open for c in mine)
        idle = put(ws, w, me._replace(step='idle', request=None))
        closed = tuple(c._replace(to_w=(), w_open=False) if c in mine else c for c in cs)
        said = tuple(c._replace(to_r=c.to_r + (('REJECT',) if c.r_open else ()), to_w=(), w_open=False) if c in mine else c
                     for c in cs)
        out = [('W%d rejects' % w, (rs, idle, tidy(said), crashes))]
        if alive and rs[r].word == ('T', number):
            accepted = put(rs, r, rs[r]._replace(word=('A', number)))
            out.append(('W%d accepts' % w, (accepted, put(ws, w, me._replace(step='accepted')), cs, crashes)))
        elif alive and rs[r].step in ('short', 'sleep') and self.mistake in ('', 'some-first'):
            raise Violation('W%d cannot accept R%d, which waits' % (w, r))
        else:
            out.append(('W%d accepts: VIP_TIMEOUT' % w, (rs, idle, tidy(closed), crashes)))
        return out

    def listener_meets(self, state, w):
        rs, ws, cs, crashes = state
        me = ws[w]
        out = []
        if me.step == 'start':
            begun = me._replace(step='bind', waits=me.waits - 1)
            out.append(('W%d begins' % w, (rs, put(ws, w, begun), cs, crashes)))
        if me.step == 'idle' and me.waits > 0:
            again = me._replace(step='wait', waits=me.waits - 1)
            out.append(('W%d waits again' % w, (rs, put(ws, w, again), cs, crashes)))
            out.append(self.program_looks(state, w))
        if me.step == 'wait':
            out.append(('W%d stops waiting' % w, (rs, put(ws, w, me._replace(step='idle')), cs, crashes)))
        if me.step == 'has':
            out += self.program_answers(state, w)
        if crashes and me.step not in ('start', 'dead'):
            dead = Listener('dead', 0, False, 0, None)
            out.append(('W%d is killed' % w, (rs, put(ws, w, dead), tidy(hung_up_by_w(cs, w)), crashes - 1)))
        return out

    def environment(self, state):
        out = []
        for r in range(self.requesters):
            out += self.requester_meets(state, r)
        for w in range(self.listeners):
            out += self.listener_meets(state, w)
        return out

    # --- what must be so ---

    def check(self, state):
        rs, ws, _, _ = state
        for r in range(self.requesters):
            having = [w for w in ws if w.step in ('has', 'accepted') and w.request[0] == r]
            if rs[r].step not in ('over', 'dead') and len(having) > 1:
                raise Violation('two programs have the request of R%d' % r)

    def check_quiet(self, state):
        rs, ws, cs, _ = state
        waiting = [w for w in range(self.listeners) if ws[w].step == 'wait']
        for r in range(self.requesters):
            if rs[r].step == 'sleep' and rs[r].word == 'P' and waiting:
                raise Violation('R%d is pending and W%d waits' % (r, waiting[0]))
            if rs[r].step in ('short', 'sleep') and rs[r].word != 'P':
                if not any(w.step == 'has' and w.request == (r, rs[r].word[1]) for w in ws):
                    raise Violation('no program has R%d, whose word is %s' % (r, rs[r].word))
        for c in cs:
            if ws[c.w].step == 'wait' and not c.r_open and c.state != 'notice':
                raise Violation('left behind at W%d: %s' % (c.w, c))
            if rs[c.r].step in ('over', 'dead') and c.r_open and c.state != 'notice':
                raise Violation('left behind by R%d: %s' % (c.r, c))


def main(arguments):
    seconds = None
    if arguments[:1] == ['--walk']:
        seconds, arguments = float(arguments[1]), arguments[2:]
    model = Offers(*map(int, arguments[:4]), *arguments[4:])
    return tell(lambda: explore(model) if seconds is None else walk(model, seconds))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
