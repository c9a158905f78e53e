//! What holds once a handshake is done, whoever began it.

use clearway_base::Instant;

use super::cc::Window;
use super::clock::Ms;
use super::conn::Conn;
use super::context::ConnCx;
use super::deadlines::Timer;
use super::marks::Marks;
use super::options;
use super::rcv::{PUSHED, QUICK, QUICK_ACKS};
use super::sizes::Sizes;
use crate::config::MtuProbing;
use crate::store::Env;

impl<E: Env> Conn<E> {
    /// Takes over what both ends agreed on in their SYNs.
    pub(crate) fn apply(&mut self, agreed: &options::Agreed, ts_recent: u32, now: Instant) {
        self.marks.put(Marks::TS, agreed.ts);
        self.marks.put(Marks::SACK, agreed.sack);
        self.snd.scales = agreed.scaling;
        self.snd.shift = agreed.snd_scale;
        self.rcv.shift = agreed.rcv_scale;
        // The SYN has told the first window: a duplicate ACK that is the first of all ACKs says it again.
        self.rcv.field = (self.rcv.wnd() >> agreed.rcv_scale).min(u16::MAX.into()) as u16;
        self.rcv.step = Sizes::first_step(self.settings.receive_buffer, agreed.scaling);
        self.rcv_ahead.look = self.irs + 1;
        self.peer_mss = agreed.mss;
        self.mss = agreed.payload_mss();
        self.ts_recent = ts_recent;
        self.heard = Ms::of(now);
    }
}

/// Segments to begin with when our SYN was repeated. RFC 5681 3.1: one after a lost SYN. With a
/// timeout of one second (RFC 6298) a SYN that is repeated once may only be late, so for us as for
/// Linux it takes two.
#[cold]
fn first_window<E: Env>(c: &Conn<E>, cx: &ConnCx<'_, '_, E>) -> u8 {
    let rare = c.rare.get(&cx.pools.rare_stats);
    let is_lossy = rare.is_none_or(|t| t.syns_retransmitted > 1);
    if is_lossy { 1 } else { cx.config.tcp.initial_window }
}

/// Our SYN is acknowledged: sending begins.
pub(crate) fn established<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    let again = c.rtt.syn_repeated;
    if again {
        // RFC 6298 5.7.
        c.rtt.on_syn_timed_out();
    } else if c.marks.has(Marks::TIMING) {
        c.rtt.on_sample(c.times.timed.ago(cx.now), 1, c.mss);
    }
    c.marks.clear(Marks::TIMING.with(Marks::SYN_DUE));
    c.rtt.reset_backoff();
    c.snd.una = c.iss + 1;
    c.snd_ahead.small = c.snd.una;
    c.begin_recovery(cx.pools);
    let segments = if again { first_window(c, cx) } else { cx.config.tcp.initial_window };
    c.cc = Window::new(c.mss, segments);
    if cx.config.tcp.mtu_probing == MtuProbing::Always {
        c.search_from_base(cx.pools);
    }
    if c.settings.goes_by_rates() || !c.rare.is_none() {
        let refused = c.choose_congestion(cx.pools, cx.stack.now, c.settings.congestion());
        cx.counters.tcp.paced_refused += u64::from(refused);
    }
    c.rcv.quick = (QUICK_ACKS * QUICK) | PUSHED;
    c.cancel(Timer::Retransmit);
    c.progress(cx.now, false);
    if let Some(rare) = c.rare.get_mut(&mut cx.pools.rare_stats) {
        rare.cold.soft_error = None;
    }
    if let Some(keepalive) = c.settings.keepalive() {
        c.arm(Timer::Keepalive, cx.now + keepalive.idle);
    }
    if c.has_unsent(&cx.pools.tx) {
        c.wants_turn();
    }
}
