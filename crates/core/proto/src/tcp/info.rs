//! What a connection tells of itself.

use super::marks::Marks;
use clearway_base::{Duration, Instant};

use super::api::{Carried, EcnInfo, RunningTimer, TimerKind};
use super::conn::Conn;
use super::deadlines::Timer;
use super::ecn::EcnState;
use super::rare_stats::EarlySyn;
use super::recovery;
use super::sack::DUP_THRESH;
use super::state::State;
use super::{Phase, Tcp, TcpInfo};
use crate::config::Config;
use crate::ids::ConnId;
use crate::store::{Env, RxStore};

impl<E: Env> Tcp<E> {
    /// Whether what `to` expects next is among what `from` has sent and not heard of, or right
    /// behind it.
    pub(crate) fn expects(&self, from: ConnId, to: ConnId) -> bool {
        let (Some(from), Some(to)) = (self.owned(from), self.owned(to)) else { return false };
        to.rcv.nxt.since(from.snd.una) <= from.outstanding()
    }

    pub(crate) fn info(&self, config: &Config, id: ConnId) -> Option<TcpInfo> {
        let (c, p, now) = (self.owned(id)?, &self.pools, self.now);
        let board = c.board(p);
        let scaled = |shift| c.snd.scales.then_some(shift);
        let mss = u32::from(c.mss);
        let (rare, recovery) = (c.suffered(p), c.recovery(p));
        let (rwnd_limited, sndbuf_limited) = c.limited_times(now, p);
        let is_open = c.state != State::SynSent;
        let unread = p.rx.unread(&c.rx);
        let probing = c.marks.any(Marks::PERSIST.with(Marks::PROBING));
        Some(TcpInfo {
            state: c.state,
            rtt: c.rtt.srtt().unwrap_or_default(),
            rttvar: c.rtt.rttvar(),
            min_rtt: c.rtt.min().unwrap_or_default(),
            rto: c.rtt.rto(&config.tcp),
            ato: config.tcp.delayed_ack,
            backoff: c.rtt.backoff(),
            cwnd: c.cc.cwnd(),
            ssthresh: c.cc.ssthresh(),
            snd_mss: c.mss,
            rcv_mss: c.rcv_mss,
            advertised_mss: c.our_mss,
            path_mtu: c.route.mtu(),
            snd_wnd: c.snd.wnd,
            rcv_wnd: if is_open { c.rcv.wnd() } else { 0 },
            rcv_space: p.rx.room(&c.rx, p.sizes.window(c.rcv.step)).saturating_add(unread),
            snd_wscale: scaled(c.snd.shift),
            rcv_wscale: scaled(c.rcv.shift),
            syn_data: rare.fast_open == EarlySyn::Taken,
            timestamps: c.marks.has(Marks::TS),
            sack: c.marks.has(Marks::SACK),
            unacked: c.outstanding(),
            sacked: board.map_or(0, |b| b.bytes()),
            lost: recovery.lost_bytes(c.snd.una, c.snd.nxt, mss, c.known(p)),
            retransmitted: recovery.again_bytes(c.snd.una, c.snd.nxt, c.known(p)),
            unsent: c.unsent(&p.tx),
            unread,
            retransmits: if probing { 0 } else { u32::from(c.recovery.tries) },
            probes: if probing { c.recovery.tries } else { 0 },
            total_retransmits: rare.segs_retransmitted + rare.syns_retransmitted,
            bytes_sent: c.bytes_sent_once(rare.cold.una_wraps) + rare.bytes_retransmitted,
            bytes_retransmitted: rare.bytes_retransmitted,
            bytes_acked: c.bytes_acked(rare.cold.una_wraps),
            bytes_received: if is_open { c.bytes_received() } else { 0 },
            segs_in: c.segs_in,
            segs_out: c.segs_out,
            data_segs_in: c.data_segs_in,
            data_segs_out: c.data_segs_out,
            delivered: delivered(c, rare.segs_retransmitted, board.map_or(0, |b| b.bytes())),
            delivery_rate: c.rate.bytes_per_second(),
            delivery_rate_app_limited: c.rate.is_app_limited(),
            busy: Duration::from_millis(u64::from(c.busy_ms)) + waiting(c, now),
            rwnd_limited,
            sndbuf_limited,
            reordering: u32::from(DUP_THRESH),
            reord_seen: rare.reord_seen,
            dsack_dups: rare.dsack_dups,
            rcv_ooo_segs: rare.ooo_segs,
            last_data_sent: c.times.sent.ago(now),
            last_data_received: c.data_heard.ago(now),
            last_ack_received: c.heard.ago(now),
            ecn: c.ecn(p).map_or(EcnInfo::default(), EcnState::info),
            congestion: c.settings.congestion(),
            pacing_rate: c.pacing_rate(p),
            max_pacing_rate: rare.seldom.max_pacing_rate(),
            bbr: c.bbr_info(p),
            phase: match c.recovery.phase() {
                recovery::Phase::Open if c.recovery.dupacks() > 0 || board.is_some() => {
                    Phase::Disorder
                }
                recovery::Phase::Open | recovery::Phase::Probing => Phase::Open,
                recovery::Phase::Fast => Phase::Recovery,
                recovery::Phase::Timeout => Phase::Loss,
            },
        })
    }
}

impl<E: Env> Tcp<E> {
    /// What a connection has carried; None when the handle names nothing.
    pub(crate) fn carried(&self, id: ConnId) -> Option<Carried> {
        let (c, p) = (self.owned(id)?, &self.pools);
        Some(Carried {
            bytes_received: if c.state == State::SynSent { 0 } else { c.bytes_received() },
            bytes_sent: c.bytes_sent_once(c.suffered(p).cold.una_wraps),
            unsent: c.unsent(&p.tx),
            segs_in: c.segs_in,
            segs_out: c.segs_out,
        })
    }

    /// The timer that waits for the peer; None when none does, or the handle names nothing.
    pub(crate) fn running_timer(&self, id: ConnId) -> Option<RunningTimer> {
        let (c, now) = (self.owned(id)?, self.now);
        let probing = c.marks.has(Marks::PROBING);
        let of = |kind, at: Instant, tries| Some(RunningTimer { kind, left: at.since(now), tries });
        let sending = c.deadline(Timer::Retransmit, now);
        if sending != Instant::NEVER {
            let kind = match c.sending_timer() {
                Timer::Persist => TimerKind::Persist,
                _ => TimerKind::Retransmit,
            };
            return of(kind, sending, c.recovery.tries);
        }
        let keepalive = c.settings.keepalive()?;
        let armed = c.deadline(Timer::Keepalive, now);
        if armed == Instant::NEVER {
            return None;
        }
        // The deadline is moved when it is reached, and not with each segment that comes.
        let due = if probing { armed } else { now + (keepalive.idle - c.heard.ago(now)) };
        of(TimerKind::Keepalive, due, if probing { c.recovery.tries } else { 0 })
    }
}

/// How long something has been waiting for the peer since it last took something.
fn waiting<E: Env>(c: &Conn<E>, now: Instant) -> Duration {
    if c.marks.has(Marks::STUCK) { c.times.stuck_since.ago(now) } else { Duration::ZERO }
}

/// Segments that the peer has, our SYN counted: every one that left and is neither a repetition nor
/// still on its way.
fn delivered<E: Env>(c: &Conn<E>, again: u32, sacked: u32) -> u32 {
    if !c.state.is_synchronized() {
        return 0;
    }
    let waiting = c.outstanding().saturating_sub(sacked).div_ceil(u32::from(c.mss).max(1));
    (c.data_segs_out + 1).saturating_sub(again).saturating_sub(waiting)
}
