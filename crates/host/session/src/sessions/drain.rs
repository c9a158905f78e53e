//! What an operator asks of sessions past their programs: how many connections are left while the
//! host is drained, and that one ends.

use clearway_base::Handle;
use clearway_proto::{Holder, State};
use clearway_shm::attach_socket::SessionId;

use super::state::{Sessions, What};
use crate::env::HostStack;

/// Connections from other machines that are not over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Programs have them.
    pub open: u64,
    /// They wait to be accepted, or their handshakes are in progress.
    pub waiting: u64,
    /// Programs have closed them, and what they wrote is on its way.
    pub closing: u64,
}

impl Left {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.open + self.waiting + self.closing
    }
}

impl std::ops::Add for Left {
    type Output = Left;

    fn add(self, other: Left) -> Left {
        Left {
            open: self.open + other.open,
            waiting: self.waiting + other.waiting,
            closing: self.closing + other.closing,
        }
    }
}

impl Sessions {
    /// The connections that peers began, without those whose both ends are in this host. Of those
    /// that have no owner any more nobody knows who began them, so all are counted; they end by
    /// themselves.
    pub fn left(&self, stack: &HostStack) -> Left {
        let half_open = u64::from(stack.population().half_open);
        let mut left = Left { waiting: half_open, ..Left::default() };
        for conn in stack.connections() {
            if conn.state == State::Closed || stack.is_inside(&conn) {
                continue;
            }
            match conn.holder {
                Holder::Listener(_) => left.waiting += 1,
                Holder::Nobody => left.closing += 1,
                Holder::Owner(token) => {
                    let session = Handle::from_bits(token).and_then(|at| self.table.get(at));
                    match session {
                        Some(session) if !session.is_incoming => {}
                        Some(session) if session.parent.is_some() => left.waiting += 1,
                        Some(session) if session.subscribers.is_empty() => left.closing += 1,
                        _ => left.open += 1,
                    }
                }
            }
        }
        left
    }

    /// Resets a connection, whatever its program does with it; the program is told ECONNABORTED, as
    /// on Linux. `generation` tells the session that is meant from those that had its slot before or
    /// have it since. None: there is no such session. False: it is no connection, or is over.
    pub fn kill(
        &mut self,
        stack: &mut HostStack,
        slot: u32,
        generation: Option<u32>,
    ) -> Option<bool> {
        let handle = self.table.handle_at(slot)?;
        if generation.is_some_and(|generation| generation != handle.generation().get()) {
            return None;
        }
        match self.table.get(handle)?.what {
            What::Conn(conn) => Some(stack.kill(conn)),
            _ => Some(false),
        }
    }
}

/// What tells a session from others that had its slot before.
pub fn generation_of(id: SessionId) -> u32 {
    id as u32
}
