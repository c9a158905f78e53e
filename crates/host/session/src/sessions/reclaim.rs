//! Memory that FIFOs do not need goes back to the system, and who holds much and moves little while
//! memory is short has to go.
//!
//! Once a second each session is looked at, so many of them in one turn. A FIFO through which
//! nothing went since the last look gives back what lies outside of its bytes; when memory is short
//! every FIFO does. A connection that then holds bytes for its peer, sent and not acknowledged or
//! behind a hole, and moves too few of them in several rounds, is ended (RFC 9293 3.8.6.1 leaves
//! that to who has the resources). A worker whose sessions are all empty looks at none.

use clearway_base::{Handle, Instant};
use clearway_proto::store::lending::moves_enough;
use clearway_shm::layout::event;

use super::state::{Session, Sessions, What};
use crate::env::HostStack;

/// Places that are looked at in one turn.
const PER_TURN: u32 = 512;

/// Rounds in which a connection moves too little before it is ended.
pub(super) const TIME_LIMIT: u8 = 3;

impl Sessions {
    /// A part of a round, when it is time for one. True: there is more to do.
    pub(super) fn reclaim(&mut self, now: Instant, stack: &mut HostStack) -> bool {
        self.reclaim.begin(now);
        let Some((mut at, mut seen)) = self.reclaim.at else { return false };
        let end = at.saturating_add(PER_TURN).min(self.table.capacity());
        while at < end && seen < self.table.len() {
            if let Some(handle) = self.table.handle_at(at) {
                seen += 1;
                self.tend(stack, handle);
            }
            at += 1;
        }
        self.reclaim.at = Some((at, seen));
        if seen >= self.table.len() || at >= self.table.capacity() {
            self.reclaim.end();
            self.context.check_memory();
            return false;
        }
        true
    }

    fn tend(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let is_short = session.program.quota.memory().is_short();
        let (has_room, may_go_on) = match &mut session.what {
            What::Conn(conn) => {
                let Some((rx, tx)) = stack.queues(*conn) else { return };
                let (got, sent) = (rx.progress(), tx.progress());
                if is_short || got.moved == 0 {
                    rx.give_back(is_short);
                }
                let has_room = (is_short || sent.moved == 0)
                    && tx.charged() > 0
                    && tx.give_back_unused(is_short);
                let (held, moved) =
                    (got.held + sent.held, u64::from(got.moved) + u64::from(sent.moved));
                let is_stuck =
                    is_short && held > 0 && !moves_enough(held, moved, self.reclaim.interval);
                session.stuck = if is_stuck { session.stuck.saturating_add(1) } else { 0 };
                if session.stuck >= TIME_LIMIT {
                    let conn = *conn;
                    stack.end_for_shortage(conn);
                    return;
                }
                (has_room, rx.charged() + tx.charged() > 0)
            }
            What::Datagrams(datagrams) => {
                let moved = datagrams.has_moved();
                datagrams.charge_queues(stack);
                let has_room = !moved && datagrams.charged() > 0 && datagrams.give_back();
                (has_room, datagrams.charged() > 0)
            }
            What::Fresh | What::Listener(_) => (false, false),
        };
        self.reclaim.goes_on |= may_go_on;
        if has_room {
            self.tell(handle, event::WRITABLE);
        }
    }
}
