//! Handshakes that strangers began (SYN-RECEIVED). A record is small, lives in a slab of its own and holds no buffers, so that a flood
//! of SYNs never touches established connections (RFC 4987).

use super::clock::stamp;
use super::records::{ACKED, Half, STAMPS, Seeds};
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment, Seq};

use super::Tcp;
use super::context::{Arrival, Cx};
use super::options::{self, Agreed};
use super::rcv::Rcv;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::store::Env;

/// Challenge ACKs that one handshake may cause (RFC 5961 7).
const CHALLENGES: u8 = 8;

/// A SYN-ACK.
pub(crate) struct SynAck<'a> {
    pub key: &'a FlowKey,
    pub iss: Seq,
    pub irs: Seq,
    /// The window that it offers, never scaled.
    pub window: u16,
    pub our_mss: u16,
    /// Our timestamp and the one that it echoes.
    pub stamps: Option<(u32, u32)>,
}

impl SynAck<'_> {
    /// The segment, with the options that both sides agreed on.
    pub(crate) fn segment(&self, agreed: &Agreed) -> Segment {
        Segment {
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            seq: self.iss,
            ack: self.irs + 1,
            flags: Flags::SYN | Flags::ACK,
            header_len: 0,
            wnd: self.window,
            urg: 0,
            opts: TcpOptions {
                mss: Some(self.our_mss),
                wscale: agreed.scaling.then_some(agreed.rcv_scale),
                ts: self.stamps,
                sack_permitted: agreed.sack,
                ..TcpOptions::NONE
            },
        }
    }
}

impl<E: Env> Tcp<E> {
    /// Plans the SYN-ACK of a half-open record.
    pub(super) fn answer_half(&self, cx: &mut Cx<'_>, half: &Half) {
        let Some(listener) = self.listeners.get(half.listener) else {
            return;
        };
        let agreed = half.agreed(cx.config);
        let max_segment = listener.options.max_segment;
        let link_mss = cx.link_mss(&half.key);
        let our_mss = options::ours(&cx.config.tcp, link_mss, max_segment).mss.unwrap_or(options::MIN_MSS);
        let stamps = agreed.ts.then(|| (stamp(cx.now, half.ts_offset), half.ts_recent));
        let Half { key, iss, irs, .. } = half;
        let syn_ack = SynAck { key, iss: *iss, irs: *irs, window: self.first_window, our_mss, stamps };
        cx.reply(key, syn_ack.segment(&agreed), (listener.options.tos, listener.options.ttl));
    }

    /// An ACK without a connection's state, for a half-open record that is challenged.
    fn challenge_half(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(half) = self.half.by_index(index) else { return };
        if half.challenges >= CHALLENGES {
            cx.counters.tcp.challenge_acks_limited += 1;
            return;
        }
        let ts = (half.agreed & STAMPS != 0).then(|| (stamp(cx.now, half.ts_offset), half.ts_recent));
        let seg = Segment {
            seq: half.iss + 1,
            ack: half.irs + 1,
            flags: Flags::ACK,
            wnd: self.first_window,
            opts: TcpOptions { ts, ..TcpOptions::NONE },
            ..Segment::default()
        };
        let key = half.key;
        cx.counters.tcp.challenge_acks += 1;
        cx.reply_plain(&key, seg);
        if let Some(half) = self.half.by_index_mut(index) {
            half.challenges += 1;
        }
    }

    /// A segment for a handshake that a stranger began (RFC 9293 3.10.7.4, the SYN-RECEIVED parts).
    pub(super) fn on_half(&mut self, cx: &mut Cx<'_>, index: u32, arrival: Arrival<'_, E::Buf>) -> Result<(), Drop> {
        let (key, seg, len) = (arrival.key, arrival.seg, arrival.len());
        let Some(half) = self.half.by_index(index) else {
            return Err(Drop::TcpPortClosed);
        };
        let control = seg.flags.intersection(Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN);
        if control == Flags::SYN && seg.seq == half.irs {
            // The same SYN again: our answer was lost.
            cx.counters.tcp.syn_acks_repeated += 1;
            self.answer_half(cx, half);
            return Ok(());
        }
        let stamps = half.agreed & STAMPS != 0;
        if stamps && !seg.flags.rst() {
            let Some((val, _)) = seg.opts.ts else { return Err(Drop::TcpTimestampMissing) };
            if (val.wrapping_sub(half.ts_recent) as i32) < 0 {
                self.challenge_half(cx, index);
                return Err(Drop::TcpOldTimestamp);
            }
        }
        let nxt = half.irs + 1;
        let rcv = Rcv { nxt, edge: nxt + u32::from(self.first_window), ..Rcv::default() };
        if !rcv.is_acceptable(seg.seq, seg.seq_len(len as usize)) {
            if seg.flags.rst() {
                return Err(Drop::TcpResetOutOfWindow);
            }
            self.challenge_half(cx, index);
            return Err(Drop::TcpOutOfWindow);
        }
        if seg.flags.rst() {
            if seg.seq != nxt {
                self.challenge_half(cx, index);
                return Err(Drop::TcpResetNotExact);
            }
            cx.counters.tcp.attempt_fails += 1;
            self.forget_half(index);
            return Err(Drop::TcpReset);
        }
        if seg.flags.syn() {
            self.challenge_half(cx, index);
            return Err(Drop::TcpSynInWindow);
        }
        if !seg.flags.ack() {
            return Err(Drop::TcpNoAck);
        }
        if seg.ack != half.iss + 1 {
            // One copy of the SYN may have been answered with a cookie and a later one been remembered: the peer goes by the first answer.
            if self.is_cookie(cx.now, key, seg) {
                let listener = half.listener;
                self.forget_half(index);
                return self.on_cookie(cx, listener, arrival);
            }
            // As long as cookies may be under way, no reset: an honest peer whose first segment was lost sends its second, which carries
            // no cookie, and then repeats the first.
            if self.cookies_until < cx.now {
                cx.reset_for(key, seg, len);
            }
            return Err(Drop::TcpBadAck);
        }
        let defer = self.listeners.get(half.listener).map_or(0, |listener| listener.defer);
        if half.tries < defer && len == 0 && !seg.flags.fin() {
            if let Some(half) = self.half.by_index_mut(index) {
                half.agreed |= ACKED;
            }
            return Err(Drop::TcpDeferred);
        }
        // An answer that was waited for by us measures nothing.
        let is_prompt = half.tries == 0 && half.agreed & ACKED == 0;
        let seeds = Seeds {
            key: *key,
            hash: arrival.found.hash,
            listener: half.listener,
            irs: half.irs,
            iss: half.iss,
            agreed: half.agreed(cx.config),
            ts_recent: half.ts_recent,
            round_trip: is_prompt.then(|| half.age(cx.now)),
            ts_offset: half.ts_offset,
            tries: if half.agreed & ACKED != 0 { 0 } else { half.tries },
            half: Some(index),
        };
        let open = self.make_open(cx, &seeds, seg)?;
        self.deliver(cx, open, arrival)
    }

    /// The record of a handshake goes, and its flow with it.
    pub(super) fn forget_half(&mut self, index: u32) {
        if let Some(half) = self.take_half(index) {
            let hash = self.flows.hash(&half.key);
            self.flows.remove(hash, FlowRef::new(LifePhase::Half, index), half.key.local_port);
        }
    }

    /// The record goes; the caller sees to the flow.
    pub(super) fn take_half(&mut self, index: u32) -> Option<Half> {
        self.half_wheel.disarm(index);
        let half = self.half.remove(self.half.handle_at(index)?)?;
        if let Some(listener) = self.listeners.get_mut(half.listener) {
            listener.half -= 1;
        }
        Some(half)
    }

    /// No answer to a SYN-ACK: again, or enough (RFC 9293 3.8.3, MUST-23).
    pub(super) fn on_half_timeout(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(half) = self.half.by_index_mut(index) else { return };
        let defer = self.listeners.get(half.listener).map(|listener| listener.defer);
        // A peer that has acknowledged our SYN is given the time that the listener waits for data.
        let waits = half.agreed & ACKED != 0 && defer.is_some_and(|defer| half.tries < defer);
        if half.tries >= cx.config.tcp.syn_ack_retries && !waits || defer.is_none() {
            cx.counters.tcp.half_open_timeouts += 1;
            self.forget_half(index);
            return;
        }
        // As Linux does, the SYN-ACK is only said again at the end of that time: whatever comes then completes the handshake.
        let is_silent = waits && half.tries.saturating_add(1) < defer.unwrap_or(0);
        half.tries += 1;
        let wait = cx.config.tcp.rto_initial.times(1 << half.tries.min(16)).min(cx.config.tcp.rto_max);
        self.half_wheel.arm(index, cx.now + wait);
        if is_silent {
            return;
        }
        cx.counters.tcp.syn_acks_repeated += 1;
        if let Some(half) = self.half.by_index(index) {
            self.answer_half(cx, half);
        }
    }
}
