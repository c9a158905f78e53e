//! Handshakes that strangers began (SYN-RECEIVED). A record is small, lives in a slab of its own
//! and holds no buffers, so that a flood of SYNs never touches established connections (RFC 4987).

use super::clock::stamp;
use super::records::{ACKED, STAMPS, Seeds, SynRcvd};
use clearway_wire::tcp::{FastOpenCookie, TcpOptions};
use clearway_wire::{Flags, Segment, Seq};

use super::Tcp;
use super::context::{Arrival, Cx};
use super::ecn::TOS_BITS;
use super::options::{self, Agreed};
use super::rcv::Rcv;
use super::state::State;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::store::Env;
use crate::trace::Trace;

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
    /// How often it was sent before.
    pub repeated: u8,
    /// A Fast Open cookie for the peer.
    pub cookie: Option<FastOpenCookie>,
}

impl SynAck<'_> {
    /// The segment, with the options that both sides agreed on.
    pub(crate) fn segment(&self, agreed: &Agreed) -> Segment {
        Segment {
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            seq: self.iss,
            ack: self.irs + 1,
            flags: Flags::SYN | Flags::ACK | agreed.ecn.syn_ack_flags(self.repeated),
            header_len: 0,
            wnd: self.window,
            urg: 0,
            opts: TcpOptions {
                mss: Some(self.our_mss),
                wscale: agreed.scaling.then_some(agreed.rcv_scale),
                ts: self.stamps,
                sack_permitted: agreed.sack,
                // There is no room for both; the counters come with later segments too.
                acc_ecn: agreed.ecn.syn_ack_option(self.repeated).filter(|_| self.cookie.is_none()),
                fast_open: self.cookie,
                ..TcpOptions::NONE
            },
        }
    }
}

impl<E: Env> Tcp<E> {
    /// Plans the SYN-ACK of a half-open record, to say what was `agreed` on, over a link that takes
    /// segments of `link_mss`.
    pub(super) fn answer_syn_rcvd(
        &self,
        cx: &mut Cx<'_>,
        syn_rcvd: &SynRcvd,
        (agreed, link_mss): (&Agreed, u16),
        cookie: Option<FastOpenCookie>,
    ) {
        let Some(listener) = self.listeners.get(syn_rcvd.listener) else {
            return;
        };
        let max_segment = listener.options.max_segment;
        let our_mss =
            options::ours(&cx.config.tcp, link_mss, max_segment).mss.unwrap_or(options::MIN_MSS);
        let stamps = agreed.ts.then(|| (stamp(cx.now, syn_rcvd.ts_offset), syn_rcvd.ts_recent));
        let SynRcvd { key, iss, irs, tries, .. } = syn_rcvd;
        let syn_ack = SynAck {
            key,
            iss: *iss,
            irs: *irs,
            window: self.first_window,
            our_mss,
            stamps,
            repeated: *tries,
            cookie,
        };
        cx.reply(
            key,
            syn_ack.segment(agreed),
            (listener.options.tos & !TOS_BITS, listener.options.ttl),
        );
    }

    /// Plans it once more.
    #[cold]
    fn repeat_syn_ack(&self, cx: &mut Cx<'_>, syn_rcvd: &SynRcvd) {
        let link_mss = cx.link_mss(&syn_rcvd.key);
        self.answer_syn_rcvd(cx, syn_rcvd, (&syn_rcvd.agreed(cx.config), link_mss), None);
    }

    /// An ACK without a connection's state, for a half-open record that is challenged.
    fn challenge_syn_rcvd(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(syn_rcvd) = self.syn_rcvd.by_index(index) else { return };
        if syn_rcvd.challenges >= CHALLENGES {
            cx.counters.tcp.challenge_acks_limited += 1;
            return;
        }
        let ts = (syn_rcvd.agreed & STAMPS != 0)
            .then(|| (stamp(cx.now, syn_rcvd.ts_offset), syn_rcvd.ts_recent));
        let seg = Segment {
            seq: syn_rcvd.iss + 1,
            ack: syn_rcvd.irs + 1,
            flags: Flags::ACK,
            wnd: self.first_window,
            opts: TcpOptions { ts, ..TcpOptions::NONE },
            ..Segment::default()
        };
        let key = syn_rcvd.key;
        cx.counters.tcp.challenge_acks += 1;
        cx.reply_plain(&key, seg);
        if let Some(syn_rcvd) = self.syn_rcvd.by_index_mut(index) {
            syn_rcvd.challenges += 1;
        }
    }

    /// A segment for a handshake that a stranger began (RFC 9293 3.10.7.4, the SYN-RECEIVED parts).
    pub(super) fn on_syn_rcvd(
        &mut self,
        cx: &mut Cx<'_>,
        index: u32,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let (key, seg, len) = (arrival.key, arrival.seg, arrival.len());
        let Some(syn_rcvd) = self.syn_rcvd.by_index(index) else {
            return Err(Drop::TcpPortClosed);
        };
        let control = seg.flags.intersection(Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN);
        if control == Flags::SYN && seg.seq == syn_rcvd.irs {
            // The same SYN again: our answer was lost.
            cx.counters.tcp.syn_acks_repeated += 1;
            self.repeat_syn_ack(cx, syn_rcvd);
            // A handshake that was given up with this answer on its way would end with a reset.
            let soon = cx.now + cx.config.tcp.rto_initial;
            let is_last = syn_rcvd.tries >= cx.config.tcp.syn_ack_retries;
            if is_last && self.syn_rcvd_wheel.deadline(index).is_some_and(|due| due < soon) {
                self.syn_rcvd_wheel.arm(index, soon);
            }
            return Ok(());
        }
        let stamps = syn_rcvd.agreed & STAMPS != 0;
        if stamps && !seg.flags.rst() {
            let Some((val, _)) = seg.opts.ts else { return Err(Drop::TcpTimestampMissing) };
            if (val.wrapping_sub(syn_rcvd.ts_recent) as i32) < 0 {
                self.challenge_syn_rcvd(cx, index);
                return Err(Drop::TcpOldTimestamp);
            }
        }
        let nxt = syn_rcvd.irs + 1;
        let rcv = Rcv { nxt, edge: nxt + u32::from(self.first_window), ..Rcv::default() };
        if !rcv.is_acceptable(seg.seq, seg.seq_len(len as usize)) {
            if seg.flags.rst() {
                return Err(Drop::TcpResetOutOfWindow);
            }
            self.challenge_syn_rcvd(cx, index);
            return Err(Drop::TcpOutOfWindow);
        }
        if seg.flags.rst() {
            if seg.seq != nxt {
                self.challenge_syn_rcvd(cx, index);
                return Err(Drop::TcpResetNotExact);
            }
            cx.counters.tcp.attempt_fails += 1;
            self.forget_syn_rcvd(index);
            return Err(Drop::TcpReset);
        }
        if seg.flags.syn() {
            self.challenge_syn_rcvd(cx, index);
            return Err(Drop::TcpSynInWindow);
        }
        if !seg.flags.ack() {
            return Err(Drop::TcpNoAck);
        }
        if seg.ack != syn_rcvd.iss + 1 {
            // One copy of the SYN may have been answered with a cookie and a later one been
            // remembered: the peer goes by the first answer.
            if self.is_cookie(cx.now, key, seg) {
                let listener = syn_rcvd.listener;
                self.forget_syn_rcvd(index);
                return self.on_cookie(cx, listener, arrival);
            }
            // As long as cookies may be under way, no reset: an honest peer whose first segment was
            // lost sends its second, which carries no cookie, and then repeats the first.
            if self.cookies_until < cx.now {
                cx.reset_for(key, seg, len);
            }
            return Err(Drop::TcpBadAck);
        }
        let defer = self.listeners.get(syn_rcvd.listener).map_or(0, |listener| listener.defer);
        if syn_rcvd.tries < defer && len == 0 && !seg.flags.fin() {
            if let Some(syn_rcvd) = self.syn_rcvd.by_index_mut(index) {
                syn_rcvd.agreed |= ACKED;
            }
            return Err(Drop::TcpDeferred);
        }
        // An answer that was waited for by us measures nothing.
        let is_prompt = syn_rcvd.tries == 0 && syn_rcvd.agreed & ACKED == 0;
        let seeds = Seeds {
            key: *key,
            hash: arrival.found.hash,
            listener: syn_rcvd.listener,
            irs: syn_rcvd.irs,
            iss: syn_rcvd.iss,
            agreed: syn_rcvd.agreed(cx.config),
            ts_recent: syn_rcvd.ts_recent,
            round_trip: is_prompt.then(|| syn_rcvd.age(cx.now)),
            ts_offset: syn_rcvd.ts_offset,
            tries: if syn_rcvd.agreed & ACKED != 0 { 0 } else { syn_rcvd.tries },
            syn_rcvd: Some(index),
        };
        let open = self.make_open(cx, &seeds, seg)?;
        let (from, to) = (State::SynReceived.name(), State::Established.name());
        E::trace(Trace::StateChange { ends: seeds.key.traced(), from, to });
        self.deliver(cx, open, arrival)
    }

    /// The record of a handshake goes, and its flow with it.
    pub(super) fn forget_syn_rcvd(&mut self, index: u32) {
        if let Some(syn_rcvd) = self.take_syn_rcvd(index) {
            let hash = self.flows.hash(&syn_rcvd.key);
            self.flows.remove(
                hash,
                FlowRef::new(LifePhase::SynRcvd, index),
                syn_rcvd.key.local_port,
            );
        }
    }

    /// The record goes; the caller sees to the flow.
    pub(super) fn take_syn_rcvd(&mut self, index: u32) -> Option<SynRcvd> {
        self.syn_rcvd_wheel.disarm(index);
        let syn_rcvd = self.syn_rcvd.remove(self.syn_rcvd.handle_at(index)?)?;
        if let Some(listener) = self.listeners.get_mut(syn_rcvd.listener) {
            listener.syn_rcvd -= 1;
        }
        Some(syn_rcvd)
    }

    /// No answer to a SYN-ACK: again, or enough (RFC 9293 3.8.3, MUST-23).
    pub(super) fn on_syn_rcvd_timeout(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(syn_rcvd) = self.syn_rcvd.by_index_mut(index) else { return };
        let defer = self.listeners.get(syn_rcvd.listener).map(|listener| listener.defer);
        // A peer that has acknowledged our SYN is given the time that the listener waits for data.
        let waits =
            syn_rcvd.agreed & ACKED != 0 && defer.is_some_and(|defer| syn_rcvd.tries < defer);
        if syn_rcvd.tries >= cx.config.tcp.syn_ack_retries && !waits || defer.is_none() {
            cx.counters.tcp.half_open_timeouts += 1;
            self.forget_syn_rcvd(index);
            return;
        }
        // As Linux does, the SYN-ACK is only said again at the end of that time: whatever comes
        // then completes the handshake.
        let is_silent = waits && syn_rcvd.tries.saturating_add(1) < defer.unwrap_or(0);
        syn_rcvd.tries += 1;
        let wait =
            cx.config.tcp.rto_initial.times(1 << syn_rcvd.tries.min(16)).min(cx.config.tcp.rto_max);
        self.syn_rcvd_wheel.arm(index, cx.now + wait);
        if is_silent {
            return;
        }
        cx.counters.tcp.syn_acks_repeated += 1;
        if let Some(syn_rcvd) = self.syn_rcvd.by_index(index) {
            self.repeat_syn_ack(cx, syn_rcvd);
        }
    }
}
