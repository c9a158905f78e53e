//! What sessions have carried, told to the counts of their namespaces: when they end, and when
//! somebody asks. So nothing is counted a second time on a packet's path.

use clearway_base::Handle;
use clearway_proto::Carried;

use super::state::{Session, Sessions, What};
use crate::env::HostStack;
use crate::traffic::Known;

impl Sessions {
    /// Tells what the sessions in these slots have carried. See [`Sessions::slots`].
    pub fn count_carried(&mut self, stack: &HostStack, slots: std::ops::Range<u32>) {
        for slot in slots {
            if let Some(handle) = self.table.handle_at(slot) {
                self.tell_carried(stack, handle, false);
            }
        }
    }

    /// Tells what one has carried; `sends_rest`: it is about to end, and what its process wrote
    /// still leaves.
    pub(super) fn tell_carried(
        &mut self,
        stack: &HostStack,
        handle: Handle<Session>,
        sends_rest: bool,
    ) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let now = match &session.what {
            What::Conn(conn) => {
                let Some(mut carried) = stack.carried(*conn) else { return };
                carried.bytes_sent += if sends_rest { carried.unsent.into() } else { 0 };
                Known::of(carried, session.passed)
            }
            What::Datagrams(datagrams) => Known::of(Carried::default(), datagrams.bytes),
            What::Fresh | What::Listener(_) => return,
        };
        session.known.tell(now, &session.program.traffic);
    }
}
