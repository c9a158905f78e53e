//! What a connection tells its congestion control, and asks of it.

use clearway_base::Instant;

use super::cc::{Cc, Event};
use super::conn::Conn;
use super::context::Pools;
use crate::store::Env;

impl<E: Env> Conn<E> {
    /// Something happened that is no acknowledgement of new data. `p` and `now` are for algorithms whose state does not lie in the record.
    pub(super) fn on_congestion(&mut self, _p: &mut Pools<E>, _now: Instant, event: Event) {
        self.cc.on_event(event);
    }

    /// A loss or a timeout was none: congestion control goes on from how things stood `before` it.
    pub(super) fn undo_congestion(&mut self, _p: &mut Pools<E>, _now: Instant, before: &Cc) {
        self.cc.restore(before);
    }
}
