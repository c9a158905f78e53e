//! What one acknowledgement says, for those who decide: loss recovery, congestion control, the
//! estimate of the round trip.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

/// Everything that one arriving ACK said. Lengths are in bytes of sequence space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// When it arrived.
    pub now: Instant,
    /// Newly acknowledged by SEG.ACK.
    pub acked: u32,
    /// A duplicate ACK in the sense of RFC 5681 2 (with SACK: one that brings new SACK blocks, RFC
    /// 6675 2).
    pub dup: bool,
    /// A round trip that this ACK completed (RFC 6298 3, RFC 7323 4).
    pub rtt_sample: Option<Duration>,
    /// How long ago that was sent which it answers, as its timestamp says (RFC 7323 4.1), in whole
    /// milliseconds. Where nothing was sent twice every ACK says so, and not one in a round trip.
    pub echoed: Option<Duration>,
    /// The step of the clock that says so.
    pub clock_step: Duration,
    /// Bytes in flight before this ACK.
    pub flight_before: u32,
    /// Bytes in flight after it.
    pub flight: u32,
    /// The congestion window was what held us back before this ACK (RFC 7661 4.2; RFC 9438 5.8):
    /// only then may it grow.
    pub cwnd_limited: bool,
    /// SND.UNA after it.
    pub una: Seq,
    /// SND.NXT, which an ACK does not change.
    pub nxt: Seq,
    /// Bytes that are lost for the time that has passed (RFC 8985) and were not sent again. None:
    /// losses are told by counting.
    pub lost: Option<u32>,
    /// Bytes that the peer was not known to have, by whichever way it told (RFC 9937 6.1,
    /// DeliveredData).
    pub delivered: u32,
    /// Bytes that the congestion window may grow by: those newly delivered, and of what had arrived
    /// out of order two segments (RFC 3465 2.2). Duplicates that tell of new data count where the
    /// path was seen to reorder, and then each byte counts once, when it is told of first. While
    /// what was in flight at a timeout is not acknowledged, an ACK covers what had arrived long
    /// before: without SACK one segment counts then (RFC 3465 2.3).
    pub credit: u32,
}
