//! Cut-through: two programs of this host that both asked for it pass their bytes from FIFO to
//! FIFO, and the stack carries none of them.
//!
//! The connection itself stays TCP's: addresses, routes, rules, the backlog, FIN, RST and
//! keepalives are as for every other. Only when both ends are seen to be ours (a *cut-through
//! pair*) the worker begins to take what one side writes and puts it into the other side's receive
//! FIFO, once what the stack has sent before is acknowledged. Whatever goes wrong, a direction can
//! go back to the stack between any two bytes.

use clearway_base::{Duration, Handle, Instant};
use clearway_proto::ConnId;
use clearway_shm::layout::event;

use super::hold::When;
use super::state::{CutThrough, Ending, Session, Sessions, What};
use crate::env::HostStack;
use crate::store::{Liar, pass};

/// Bytes that one direction passes before others get their turn.
const QUANTUM: u32 = 1 << 20;

/// How often a reader that makes room meanwhile is looked at in one turn: it could go on for ever,
/// byte by byte.
const LOOKS: u32 = 8;

/// How long what was written to a session that nobody has any more waits to be taken, without any
/// progress. As long as the stack waits for a peer that does not close.
const TIME_LIMIT: Duration = Duration::from_secs(60);

impl Sessions {
    /// A connection is made. When its program asked for cut-through and the other end is here, and
    /// asked as well, they are joined.
    pub(super) fn offer(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) =
            self.table.get(handle).filter(|s| s.program.cut_through && !s.asks_stamps)
        else {
            return;
        };
        let What::Conn(conn) = session.what else { return };
        let (Some(local), Some(remote)) = (stack.local(conn), stack.remote(conn)) else { return };
        let offers = self.offers.get(&(remote, local));
        // Addresses may be the same in several tables, so the numbers of the connection decide.
        let is_peer = |other: &&Handle<Session>| {
            self.conn(**other)
                .is_some_and(|theirs| **other != handle && stack.are_joined(conn, theirs))
        };
        if let Some(peer) = offers.and_then(|offers| offers.iter().find(is_peer).copied()) {
            self.take_offer_back(peer);
            self.join(stack, handle, peer);
            self.join(stack, peer, handle);
            self.pass_on(stack, handle);
            self.pass_on(stack, peer);
        } else {
            self.offers.entry((local, remote)).or_default().push(handle);
            if let Some(session) = self.table.get_mut(handle) {
                session.offered = Some((local, remote));
            }
        }
    }

    fn take_offer_back(&mut self, handle: Handle<Session>) {
        let Some(ends) = self.table.get_mut(handle).and_then(|session| session.offered.take())
        else {
            return;
        };
        if let Some(offers) = self.offers.get_mut(&ends) {
            offers.retain(|offer| *offer != handle);
            if offers.is_empty() {
                self.offers.remove(&ends);
            }
        }
    }

    fn join(&mut self, stack: &HostStack, handle: Handle<Session>, peer: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Conn(conn) = session.what else { return };
        session.cut_through = Some(CutThrough { peer, ending: Ending::Open });
        if let (Some((_, tx)), Some(info)) = (stack.queues(conn), stack.info(conn)) {
            tx.go_direct(info.unacked);
        }
    }

    fn conn(&self, handle: Handle<Session>) -> Option<ConnId> {
        match self.table.get(handle)?.what {
            What::Conn(conn) => Some(conn),
            _ => None,
        }
    }

    /// Whether the stack has nothing more to do with what the session's process writes.
    pub(super) fn is_direct(&self, stack: &HostStack, handle: Handle<Session>) -> bool {
        let conn = self
            .table
            .get(handle)
            .filter(|s| s.cut_through.is_some())
            .and_then(|_| self.conn(handle));
        conn.and_then(|conn| stack.queues(conn)).is_some_and(|(_, tx)| tx.is_direct())
    }

    /// The other end of a cut-through pair.
    pub(super) fn peer_of(&self, handle: Handle<Session>) -> Option<Handle<Session>> {
        Some(self.table.get(handle)?.cut_through?.peer)
    }

    /// Passes on what the session's process has written.
    pub(super) fn pass_on(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(CutThrough { peer, ending }) =
            self.table.get(handle).and_then(|session| session.cut_through)
        else {
            return;
        };
        if !self.is_direct(stack, handle) {
            return;
        }
        let Some(conn) = self.conn(handle) else { return };
        let Some(peer_conn) = self.conn(peer) else { return self.part(stack, handle) };
        let is_left = self
            .table
            .get(peer)
            .is_some_and(|peer| peer.cut_through.is_some_and(|j| j.ending == Ending::Closed));
        let (Some((_, tx)), Some((rx, _))) = (stack.queues(conn), stack.queues(peer_conn)) else {
            return self.part(stack, handle);
        };
        if is_left && tx.written().is_ok_and(|written| written > 0) {
            // Nobody will ever read it: the writer is told so, as by the stack.
            return self.end(stack, peer, true);
        }
        let (mut moved, mut writer_waits, mut looks) = (0, false, 0);
        let left = loop {
            match pass(tx, rx, QUANTUM - moved) {
                Ok(passed) => {
                    moved += passed.bytes;
                    writer_waits |= passed.writer_waits;
                    if passed.left == 0 || moved == QUANTUM {
                        break passed.left;
                    }
                    rx.ask_room();
                    looks += 1;
                    // The reader may have made room before it was asked to tell.
                    if rx.limit_and_room().1 == 0 || looks == LOOKS {
                        break passed.left;
                    }
                }
                Err(liar) => {
                    let whose = if liar == Liar::Writer { handle } else { peer };
                    return self.cut_owner(whose);
                }
            }
        };
        let when = (moved > 0).then(|| (rx.kick(), When::for_bytes(rx.fill(), rx.granted())));
        self.report.passed += u64::from(moved);
        self.count_passed(handle, peer, moved);
        match when {
            Some((true, when)) => self.tell_when(peer, event::READABLE, when),
            // It was told, and sleeps perhaps because its notifier is held: the writer may wait for
            // it by now, and no longer than that anything gathers.
            Some((false, When::Now)) => self.flush(peer),
            _ => {}
        }
        if writer_waits {
            self.tell(handle, event::WRITABLE);
        }
        if left > 0 {
            if moved == QUANTUM || looks == LOOKS {
                self.unpassed.push(handle);
            }
            // Who waits for a reader has new hope.
            if ending == Ending::Closed && moved > 0 {
                self.leavers.fresh.push(handle);
            }
            return;
        }
        match ending {
            Ending::Open => {}
            Ending::Shut => {
                self.set_ending(handle, Ending::Open);
                // A connection that failed has nothing left to end.
                let _ = stack.shutdown(conn);
            }
            Ending::Closed => self.end(stack, handle, false),
        }
    }

    fn count_passed(&mut self, from: Handle<Session>, to: Handle<Session>, bytes: u32) {
        if let Some(writer) = self.table.get_mut(from) {
            writer.passed.1 += u64::from(bytes);
        }
        if let Some(reader) = self.table.get_mut(to) {
            reader.passed.0 += u64::from(bytes);
        }
    }

    fn cut_owner(&mut self, handle: Handle<Session>) {
        if let Some(program) =
            self.table.get(handle).map(|session| std::sync::Arc::clone(&session.program))
        {
            self.cut_off(&program, "an impossible position in a FIFO");
        }
    }

    fn set_ending(&mut self, handle: Handle<Session>, ending: Ending) {
        if let Some(cut_through) =
            self.table.get_mut(handle).and_then(|session| session.cut_through.as_mut())
        {
            cut_through.ending = ending;
        }
    }

    /// The stack carries what the session's process writes again: the other end is not there any
    /// more, or there is something that only the stack can carry.
    fn part(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let Some(cut_through) = session.cut_through.take() else { return };
        let What::Conn(conn) = session.what else { return };
        if let Some((_, tx)) = stack.queues(conn) {
            tx.go_back();
        }
        let _ = match cut_through.ending {
            Ending::Open => stack.wrote(conn),
            Ending::Shut => stack.shutdown(conn),
            Ending::Closed => return self.end(stack, handle, false),
        };
    }

    /// What either side writes goes by the stack again, as long as there are two.
    pub(super) fn part_both(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        self.take_offer_back(handle);
        let Some(peer) = self.peer_of(handle) else { return };
        self.part(stack, handle);
        if self.peer_of(peer) == Some(handle) {
            self.part(stack, peer);
        }
    }

    /// The connection failed, or has ended: nothing more is passed to it or from it.
    pub(super) fn unjoin(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        self.take_offer_back(handle);
        let Some(cut_through) =
            self.table.get_mut(handle).and_then(|session| session.cut_through.take())
        else {
            return;
        };
        if let Some((_, tx)) = self.conn(handle).and_then(|conn| stack.queues(conn)) {
            tx.go_back();
        }
        if self.peer_of(cut_through.peer) == Some(handle) {
            self.part(stack, cut_through.peer);
        }
        if cut_through.ending == Ending::Closed {
            self.end(stack, handle, true);
        }
    }

    /// The last of the next `ahead` bytes that the process writes is urgent. True: its reader
    /// knows.
    pub(super) fn passes_urgent(
        &mut self,
        stack: &HostStack,
        handle: Handle<Session>,
        ahead: u32,
    ) -> bool {
        if !self.is_direct(stack, handle) {
            return false;
        }
        let Some(peer) = self.peer_of(handle) else { return false };
        let (Some(conn), Some(peer_conn)) = (self.conn(handle), self.conn(peer)) else {
            return false;
        };
        let (Some((_, tx)), Some((rx, _))) = (stack.queues(conn), stack.queues(peer_conn)) else {
            return false;
        };
        // A FIFO that holds something impossible is found when its bytes are passed on.
        let Ok(written) = tx.written() else { return false };
        rx.mark_urgent(written.saturating_add(ahead));
        self.tell(peer, event::STATE);
        true
    }

    /// The process writes no more. True: its last bytes are passed on first, and then the stack is
    /// told.
    pub(super) fn shuts_later(&mut self, stack: &mut HostStack, handle: Handle<Session>) -> bool {
        let Some(cut_through) = self.table.get(handle).and_then(|session| session.cut_through)
        else {
            return false;
        };
        if cut_through.ending == Ending::Closed {
            // It was said before the session was closed, and read afterwards; the close does it
            // all.
            return true;
        }
        let Some((_, tx)) = self.conn(handle).and_then(|conn| stack.queues(conn)) else {
            return false;
        };
        if !tx.is_direct() {
            // What the stack has sent is on its way still; the rest goes the same way.
            tx.go_back();
            return false;
        }
        tx.freeze();
        self.set_ending(handle, Ending::Shut);
        self.pass_on(stack, handle);
        true
    }

    /// Nobody has the session any more. True: its last bytes are passed on first, and then it ends.
    pub(super) fn ends_later(&mut self, stack: &mut HostStack, handle: Handle<Session>) -> bool {
        let Some(session) = self.table.get(handle) else { return false };
        let (Some(cut_through), What::Conn(conn)) = (session.cut_through, &session.what) else {
            return false;
        };
        let conn = *conn;
        // Bytes that nobody reads any more make a reset, whatever else there is (RFC 2525 2.17),
        // and so does SO_LINGER with no time.
        if cut_through.ending == Ending::Closed
            || session.options.linger == Some(0)
            || stack.queues(conn).is_some_and(|(rx, _)| rx.declined() > 0)
        {
            return false;
        }
        let Some((_, tx)) = stack.queues(conn) else { return false };
        if !tx.is_direct() {
            tx.go_back();
            return false;
        }
        tx.freeze();
        self.pass_on(stack, handle);
        // Passing may have found that the other side is gone.
        if self.peer_of(handle).is_none() || !tx_has_more(stack, conn) {
            return false;
        }
        if let Some((rx, _)) = stack.queues(conn) {
            rx.abandon();
        }
        self.set_ending(handle, Ending::Closed);
        if let Some(session) = self.table.get_mut(handle) {
            session.subscribers.clear();
        }
        self.leavers.fresh.push(handle);
        true
    }

    /// The session is about to go.
    pub(super) fn forget_cut_through(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        self.take_offer_back(handle);
        if let Some(until) = self.table.get_mut(handle).and_then(|session| session.leaves_at.take())
        {
            self.leavers.by_time.remove(&(until, handle.to_bits()));
        }
        if let Some((_, tx)) = self.conn(handle).and_then(|conn| stack.queues(conn)) {
            // What is left, if it may still go, is the stack's.
            tx.go_back();
        }
    }

    /// Directions that had more than a turn's worth, those whose bytes on the way were
    /// acknowledged, and those that wait in vain.
    pub(super) fn pass_all(&mut self, now: Instant, stack: &mut HostStack) -> bool {
        let mut any = false;
        for handle in std::mem::take(&mut self.unpassed) {
            any = true;
            self.pass_on(stack, handle);
        }
        while let Some(token) = stack.stores().1.next_drained() {
            if let Some(handle) = Handle::from_bits(token) {
                self.pass_on(stack, handle);
            }
        }
        self.end_late(now, stack);
        any
    }

    fn end_late(&mut self, now: Instant, stack: &mut HostStack) {
        for handle in std::mem::take(&mut self.leavers.fresh) {
            // It may have ended since.
            let Some(session) = self.table.get_mut(handle) else { continue };
            let until = now + TIME_LIMIT;
            if let Some(before) = session.leaves_at.replace(until) {
                self.leavers.by_time.remove(&(before, handle.to_bits()));
            }
            self.leavers.by_time.insert((until, handle.to_bits()));
        }
        while self.leavers.by_time.first().is_some_and(|(until, _)| *until <= now) {
            if let Some(handle) =
                self.leavers.by_time.pop_first().and_then(|(_, bits)| Handle::from_bits(bits))
            {
                self.end(stack, handle, true);
            }
        }
    }

    /// When the first of those that wait for their reader has waited long enough.
    pub(super) fn passing_deadline(&self) -> Instant {
        self.leavers.by_time.first().map_or(Instant::NEVER, |(until, _)| *until)
    }
}

fn tx_has_more(stack: &HostStack, conn: ConnId) -> bool {
    stack.queues(conn).is_some_and(|(_, tx)| tx.written().is_ok_and(|written| written > 0))
}
