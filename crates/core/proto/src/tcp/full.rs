//! What becomes of a new connection when all places for connections are taken, or nearly so:
//! THREATS 16.

use super::marks::Marks;
use super::records::Seeds;
use clearway_base::{Duration, Instant};
use clearway_pkt::BURST;
use clearway_wire::{Addr, Segment};

use super::Tcp;
use super::context::Cx;
use crate::config::{Admission, WhenFull};
use crate::counters::Drop;
use crate::flow::FlowKey;
use crate::net::route::masked;
use crate::store::Env;

/// Connections that are looked at for a new one. All of them would take too long, and a source that
/// holds a good part of the table shows in so many.
const SAMPLE: usize = 32;

/// Who was heard since then is not idle.
const IDLE: Duration = Duration::from_secs(1);

/// A connection of the sample: its place, its source, and for how long nothing came of it; zero for
/// one that may not go.
type Sampled = (u32, Addr, Duration);

impl<E: Env> Tcp<E> {
    /// A stranger's SYN while the stack is drained, or while no place is free and nobody will make
    /// room: it is refused at once, or dropped.
    pub(super) fn refuse_syn(
        &self,
        cx: &mut Cx<'_>,
        key: &FlowKey,
        seg: &Segment,
    ) -> Result<(), Drop> {
        if cx.config.tcp.admission != Admission::Open {
            self.keep_out(cx, key, seg)?;
        }
        if !self.open.is_full() || !self.orphans.is_empty() {
            return Ok(());
        }
        match cx.config.tcp.when_full {
            // A SYN alone may be forged: only a finished handshake takes somebody's place.
            WhenFull::MakeRoom => return Ok(()),
            WhenFull::Reset => cx.reset_for(key, seg, 0),
            WhenFull::Drop => {}
        }
        Err(Drop::TcpConnectionsFull)
    }

    /// New connections shall go to another machine. One whose both ends are here has no other.
    #[cold]
    fn keep_out(&self, cx: &mut Cx<'_>, key: &FlowKey, seg: &Segment) -> Result<(), Drop> {
        if cx.ip.stays_inside(key.table, &key.local, &key.remote) {
            return Ok(());
        }
        if cx.config.tcp.admission == Admission::Reset {
            cx.reset_for(key, seg, 0);
        }
        Err(Drop::TcpDraining)
    }

    /// A stranger's handshake is complete, and there is no place for it: the stranger is told,
    /// since it believes to be connected.
    #[cold]
    pub(super) fn refuse_open(&mut self, cx: &mut Cx<'_>, seeds: &Seeds, seg: &Segment) -> Drop {
        self.make_room(cx);
        if let Some(index) = seeds.syn_rcvd {
            self.forget_syn_rcvd(index);
        }
        cx.reset_for(&seeds.key, seg, 0);
        Drop::TcpConnectionsFull
    }

    /// A connection was made. Places for a burst of new ones are kept free, because who makes room
    /// does so only when its owner has let go.
    #[inline]
    pub(super) fn keep_room(&mut self, cx: &mut Cx<'_>) {
        let spare = (BURST as u32).min(self.open.capacity() / 16);
        if self.open.capacity() - self.open.len() < spare {
            self.make_room(cx);
        }
    }

    /// The connection that has been without owner longest makes room, or the idlest of the busiest
    /// source, when that is wanted.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        if cx.config.tcp.when_full != WhenFull::MakeRoom {
            return;
        }
        if let Some(oldest) = self.orphans.front() {
            return self.evict_orphan(cx, oldest);
        }
        if let Some(index) = self.idlest_of_busiest(cx.now) {
            cx.counters.tcp.idle_evicted += 1;
            self.end_for_others(cx, index);
        }
    }

    /// Of a random sample, the connection that has been idle longest of the source that has most in
    /// it; among equals, the idlest.
    fn idlest_of_busiest(&mut self, now: Instant) -> Option<u32> {
        let places = self.open.entries().len() as u64;
        let mut sample: [Option<Sampled>; SAMPLE] = [None; SAMPLE];
        for place in &mut sample {
            let index = self.pools.rng.below(places.max(1)) as u32;
            let Some(c) = self.open.by_index(index).filter(|c| c.state.is_synchronized()) else {
                continue;
            };
            let source =
                if c.key.remote.is_v4() { c.key.remote } else { masked(c.key.remote, 64).addr };
            let idle = c.heard.ago(now).min(c.times.sent.ago(now));
            let may_go = idle >= IDLE && !c.marks.any(Marks::DETACHED.with(Marks::RST_DUE));
            *place = Some((index, source, if may_go { idle } else { Duration::ZERO }));
        }
        let of_source =
            |source: &Addr| sample.iter().flatten().filter(|other| other.1 == *source).count();
        let candidates = sample.iter().flatten().filter(|candidate| candidate.2 > Duration::ZERO);
        candidates
            .max_by_key(|candidate| (of_source(&candidate.1), candidate.2))
            .map(|candidate| candidate.0)
    }
}
