//! What a connection does about paths that swallow long packets without a word:
//! [`super::mtu_search`] says how long they may be.

use super::conn::Conn;
use super::context::{ConnCx, Pools};
use super::mtu_search::{MORE_TIMEOUTS, MtuSearch, Probe, TIMEOUTS, base, floor};
use crate::config::MtuProbing;
use crate::store::Env;
use clearway_base::Instant;

impl<E: Env> Conn<E> {
    /// Segments as short as the base leave from now on, until longer ones are known to arrive.
    pub(super) fn search_from_base(&mut self, p: &mut Pools<E>) {
        let (v6, path) = (self.key.remote.is_v6(), self.link_takes());
        self.note_rare(p, |t| t.search = Some(MtuSearch::from_base(v6, path)));
    }

    /// The longest packet that the way out takes, as far as it is known; else the one for which we
    /// announced our segment size.
    fn link_takes(&self) -> u16 {
        let headers = if self.key.remote.is_v6() { 60 } else { 40 };
        match self.route.mtu() {
            0 => self.our_mss.saturating_add(headers),
            mtu => mtu as u16,
        }
    }

    /// A retransmission timeout: full segments may be what does not arrive (RFC 4821 7.7, RFC 8899
    /// 4.3).
    pub(super) fn full_segments_vanish(&mut self, cx: &mut ConnCx<'_, '_, E>) {
        self.lost_probe(cx.pools);
        if self.recovery.tries >= TIMEOUTS && self.state.is_synchronized() {
            self.shorten(cx);
        }
    }

    #[cold]
    #[inline(never)]
    fn shorten(&mut self, cx: &mut ConnCx<'_, '_, E>) {
        let v6 = self.key.remote.is_v6();
        let is_longer_than = |packet: u16| self.mss > self.payload_of(packet.into());
        match self.recovery.tries {
            _ if cx.config.tcp.mtu_probing == MtuProbing::Never => {}
            TIMEOUTS if is_longer_than(base(v6)) && self.outstanding() > 0 => {
                cx.counters.tcp.mtu_black_holes += 1;
                self.search_from_base(cx.pools);
            }
            MORE_TIMEOUTS if is_longer_than(floor(v6)) => self.fall_to_floor(cx),
            _ => {}
        }
    }

    /// Not even what is as short as the base gets through. Where segments were no longer than that
    /// from the beginning, this is the first sign of a black hole.
    fn fall_to_floor(&mut self, cx: &mut ConnCx<'_, '_, E>) {
        let v6 = self.key.remote.is_v6();
        if self.rare.get(&cx.pools.rare_stats).is_none_or(|t| t.search.is_none()) {
            cx.counters.tcp.mtu_black_holes += 1;
            self.search_from_base(cx.pools);
        }
        if let Some(search) =
            self.rare.get_mut(&mut cx.pools.rare_stats).and_then(|t| t.search.as_mut())
        {
            search.fall_to_floor(v6);
        }
    }

    /// The longest packet that leaves, but for probes, where link and ICMP let `path_mtu`. What has
    /// arrived of the last probe is taken in.
    pub(super) fn path_carries(&mut self, p: &mut Pools<E>, path_mtu: u32) -> u32 {
        let is_open = self.recovery.is_open_without_dupacks();
        let Some(rare) = self.rare.get_mut(&mut p.rare_stats) else { return path_mtu };
        let Some(search) = &mut rare.search else { return path_mtu };
        if is_open {
            search.arrived(self.snd.una);
        }
        let limit = path_mtu.min(search.limit().into());
        if search.is_over(path_mtu.min(u16::MAX.into()) as u16) {
            rare.search = None;
        }
        limit
    }

    /// The length of a probe that is due.
    pub(super) fn next_probe(
        &mut self,
        p: &mut Pools<E>,
        now: Instant,
        path_mtu: u32,
    ) -> Option<u16> {
        let search = self.rare.get_mut(&mut p.rare_stats)?.search.as_mut()?;
        search.next(now, path_mtu.min(u16::MAX.into()) as u16)
    }

    /// A probe has left.
    pub(super) fn probe_left(&mut self, p: &mut Pools<E>, probe: Probe) {
        if let Some(search) = self.rare.get_mut(&mut p.rare_stats).and_then(|t| t.search.as_mut()) {
            search.sent(probe);
        }
    }

    /// Something is lost. True: it begins with a probe, which was too long for the path.
    pub(super) fn lost_probe(&mut self, p: &mut Pools<E>) -> bool {
        let una = self.snd.una;
        let search = self.rare.get_mut(&mut p.rare_stats).and_then(|t| t.search.as_mut());
        search.is_some_and(|search| search.lost(una))
    }
}
