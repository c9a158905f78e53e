//! What the owner of connections says to TCP and hears from it.

use clearway_base::Duration;
use clearway_wire::Endpoint;

use super::state::State;
use crate::config::{Congestion, ConnOptions};
use crate::ids::Table;

/// What to listen on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ListenSpec {
    /// The routing table whose interfaces it listens on.
    pub table: Table,
    /// Address and port. An unspecified address stands for every address of its family; `::` stands
    /// for IPv4 too unless `v6_only`. Port 0 asks for any free ephemeral port;
    /// [`crate::Stack::listener_local`] tells which.
    pub local: Endpoint,
    /// `::` takes IPv6 only.
    pub v6_only: bool,
    /// Handshakes in progress, and again finished handshakes that wait to be accepted, at most (at
    /// least 1).
    pub backlog: u32,
    /// The owner's word, given back in [`crate::Event::Incoming`].
    pub token: u64,
    /// What accepted connections start with.
    pub options: ConnOptions,
}

/// Whom to connect to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConnectSpec {
    /// The routing table to find the way in.
    pub table: Table,
    /// Our side; None, an unspecified address or port 0 leave the choice to the stack (RFC 6724,
    /// RFC 6056).
    pub local: Option<Endpoint>,
    /// The peer.
    pub remote: Endpoint,
    /// The owner's word, given back in [`crate::Event::Conn`].
    pub token: u64,
    /// What the connection starts with.
    pub options: ConnOptions,
}

/// True values of one connection, as they are at this moment. Bytes are payload bytes, windows are
/// in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpInfo {
    /// The state.
    pub state: State,
    /// Smoothed round-trip time (RFC 6298); zero before the first sample.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The smallest sample so far; zero before the first one.
    pub min_rtt: Duration,
    /// Retransmission timeout, with backoff.
    pub rto: Duration,
    /// How long an ACK may wait for company.
    pub ato: Duration,
    /// How often the timeout was doubled since the last answer.
    pub backoff: u8,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; `u32::MAX` before the first loss.
    pub ssthresh: u32,
    /// The largest payload that we send in one segment.
    pub snd_mss: u16,
    /// The largest payload that the peer was seen to send in one segment.
    pub rcv_mss: u16,
    /// The MSS that we announced.
    pub advertised_mss: u16,
    /// The longest IP packet of the way; 0 before anything was sent.
    pub path_mtu: u32,
    /// The peer's window, as last heard.
    pub snd_wnd: u32,
    /// The window we offer.
    pub rcv_wnd: u32,
    /// What the receive store would hold in all just now.
    pub rcv_space: u32,
    /// The shift of windows that the peer sends; None when scaling is off.
    pub snd_wscale: Option<u8>,
    /// The shift of windows that we send; None when scaling is off.
    pub rcv_wscale: Option<u8>,
    /// Timestamps are in use (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgements are in use (RFC 2018).
    pub sack: bool,
    /// Bytes sent and not acknowledged.
    pub unacked: u32,
    /// Bytes of those that the peer holds selectively.
    pub sacked: u32,
    /// Bytes of those that are deemed lost.
    pub lost: u32,
    /// Bytes of those that were sent again.
    pub retransmitted: u32,
    /// Written and not sent.
    pub unsent: u32,
    /// Received in order and not consumed.
    pub unread: u32,
    /// Retransmission timeouts since the last progress.
    pub retransmits: u32,
    /// Window probes or keepalive probes without an answer.
    pub probes: u8,
    /// Segments sent again since the beginning.
    pub total_retransmits: u32,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Payload bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Segments received, each of those counted that a device joined.
    pub segs_in: u32,
    /// Segments sent, each of those counted that a device cuts.
    pub segs_out: u32,
    /// Segments with payload received.
    pub data_segs_in: u32,
    /// Segments with payload sent, repetitions included.
    pub data_segs_out: u32,
    /// Segments that the peer has, our SYN counted.
    pub delivered: u32,
    /// Bytes per second at which data arrives at the peer, measured once in a round trip; 0 before
    /// the first time.
    pub delivery_rate: u64,
    /// Data went with the SYN, and was taken: ours or the peer's (Fast Open, RFC 7413).
    pub syn_data: bool,
    /// That measurement was limited by what the owner wrote.
    pub delivery_rate_app_limited: bool,
    /// Time in which something waited for the peer, to the millisecond.
    pub busy: Duration,
    /// Time in which the peer's window was what held sending back.
    pub rwnd_limited: Duration,
    /// Time in which all that was written was on its way and the send store was full.
    pub sndbuf_limited: Duration,
    /// Duplicate ACKs that mean a loss.
    pub reordering: u32,
    /// How often something late filled a hole that was not repaired.
    pub reord_seen: u32,
    /// D-SACKs received (RFC 2883): repetitions that were not needed.
    pub dsack_dups: u32,
    /// Segments received ahead of something missing.
    pub rcv_ooo_segs: u32,
    /// Since data, or our FIN, last left.
    pub last_data_sent: Duration,
    /// Since data last arrived.
    pub last_data_received: Duration,
    /// Since any segment of the peer last arrived; each carries an ACK.
    pub last_ack_received: Duration,
    /// Explicit congestion notification.
    pub ecn: EcnInfo,
    /// Bytes in a second at which data leaves; None: it is not paced.
    pub pacing_rate: Option<u64>,
    /// The most that the owner lets out; None: he says nothing.
    pub max_pacing_rate: Option<u64>,
    /// The congestion control in use.
    pub congestion: Congestion,
    /// What the congestion control is doing.
    pub phase: Phase,
    /// What BBR reckons with, where that is the algorithm.
    pub bbr: Option<BbrInfo>,
}

/// What BBR reckons with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BbrInfo {
    /// Bytes in a second that the path is thought to carry; 0: nothing was measured yet.
    pub bw: u64,
    /// The shortest round trip; zero: none was measured yet.
    pub min_rtt: Duration,
    /// By what the rate is multiplied, in hundredths.
    pub pacing_gain: u32,
    /// By what the volume of the path is multiplied, in hundredths.
    pub cwnd_gain: u32,
}

/// How congestion is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnFeedback {
    /// Not at all.
    #[default]
    None,
    /// By ECE and CWR (RFC 3168).
    Classic,
    /// By counters (RFC 9768).
    Accurate,
}

/// What a connection knows of explicit congestion notification. Bytes are those of payload, with
/// ECT(0), CE and ECT(1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnInfo {
    /// What both ends agreed on.
    pub feedback: EcnFeedback,
    /// A packet of the peer came that could be marked, or was.
    pub seen: bool,
    /// What we send may be marked.
    pub capable: bool,
    /// Marks that come back are not heeded: the counter of the first segment did not get through
    /// (RFC 9768 3.2.2.4).
    pub deaf: bool,
    /// The peer sends AccECN options.
    pub options_seen: bool,
    /// Our packets that were marked, as far as the peer has told. With RFC 3168: segments with ECE.
    pub delivered_ce: u32,
    /// Our bytes, as the peer's options tell.
    pub delivered_bytes: [u32; 3],
    /// Packets that arrived marked.
    pub received_ce: u32,
    /// Bytes that arrived (AccECN only).
    pub received_bytes: [u32; 3],
}

/// What a connection's loss recovery is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing is missing.
    Open,
    /// Duplicate ACKs arrive, not enough to mean a loss.
    Disorder,
    /// Fast recovery (RFC 6582, RFC 6675).
    Recovery,
    /// After a retransmission timeout, until what was in flight then is acknowledged.
    Loss,
}

/// What a connection's timer waits for, in the classes of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerKind {
    /// An acknowledgement of what is in flight: retransmission, a loss probe, or what may be late.
    Retransmit,
    /// The peer's window, which is shut.
    Persist,
    /// A sign of life.
    Keepalive,
}

/// What a connection has carried from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// Payload bytes that came in order.
    pub bytes_received: u64,
    /// Payload bytes that were sent, not counting repetitions.
    pub bytes_sent: u64,
    /// Payload bytes that were written and not sent yet.
    pub unsent: u32,
    /// Segments that came; the count wraps.
    pub segs_in: u32,
    /// Segments that were sent, repetitions included; the count wraps.
    pub segs_out: u32,
}

/// The timer of a connection that runs, at one glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningTimer {
    /// What it waits for.
    pub kind: TimerKind,
    /// For how long still.
    pub left: Duration,
    /// How often it has run out without an answer.
    pub tries: u8,
}
