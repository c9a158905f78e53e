//! What two ends agree on in their SYNs (RFC 9293 3.7.1, RFC 7323, RFC 2018, RFC 6691).

use clearway_wire::tcp::TcpOptions;

use super::ecn::Handshake;
use super::window::{MAX_SCALE, scale_for};
use crate::config::TcpConfig;

/// The least segment size that we go down to, whatever the peer says. A peer that asks for segments
/// of a few bytes would make us send forty bytes of header for each of them and keep a record per
/// byte (THREATS 20, CVE-2019-11479). RFC 791 makes every IPv4 host take packets of 576 bytes and
/// every link carry 68, so that 88 with headers is no burden to anyone honest.
pub(crate) const MIN_MSS: u16 = 88;

/// RFC 9293 3.7.1: what an end takes that does not say.
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;

/// Timestamps with their padding take this much of every segment (RFC 7323 A).
const TIMESTAMPS_LEN: u16 = 12;

/// What [`MIN_MSS`] leaves beside timestamps: no full segment has a shorter payload.
pub(crate) const LEAST_PAYLOAD: u16 = MIN_MSS - TIMESTAMPS_LEN;

/// What a SYN or SYN-ACK offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offered {
    /// The largest segment that its sender takes.
    pub(crate) mss: Option<u16>,
    /// The shift of the windows that its sender will send.
    pub(crate) scale: Option<u8>,
    /// TSval and TSecr.
    pub(crate) ts: Option<(u32, u32)>,
    /// SACK permitted.
    pub(crate) sack: bool,
}

impl From<&TcpOptions> for Offered {
    fn from(o: &TcpOptions) -> Offered {
        Offered { mss: o.mss, scale: o.wscale, ts: o.ts, sack: o.sack_permitted }
    }
}

/// What holds for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Agreed {
    /// Windows that arrive are shifted by this.
    pub(crate) snd_scale: u8,
    /// Windows that leave are shifted by this.
    pub(crate) rcv_scale: u8,
    /// Both sides scale. When not, both shifts are 0.
    pub(crate) scaling: bool,
    /// Every segment carries timestamps.
    pub(crate) ts: bool,
    /// Selective acknowledgements may be sent, both ways.
    pub(crate) sack: bool,
    /// The largest segment that may be sent, in bytes after the fixed header: options have to fit
    /// in too (RFC 6691 3).
    pub(crate) mss: u16,
    /// Explicit congestion notification.
    pub(crate) ecn: Handshake,
}

impl Agreed {
    /// The largest payload of a segment that carries no other options than the agreed ones.
    pub(crate) fn payload_mss(&self) -> u16 {
        if self.ts { self.mss.saturating_sub(TIMESTAMPS_LEN).max(1) } else { self.mss }
    }
}

/// The segment size to announce and the bound for what we send: what the link carries, or less when
/// the owner wants less.
fn own_mss(link_mss: u16, max_segment: u16) -> u16 {
    if max_segment == 0 { link_mss } else { link_mss.min(max_segment.max(MIN_MSS)) }
}

/// What our SYN offers. `link_mss` is the link's MTU less the fixed IP and TCP headers;
/// `max_segment` the owner's bound, 0 for none. The timestamps' values are the caller's to fill in
/// when `ts` is there.
pub(crate) fn ours(cfg: &TcpConfig, link_mss: u16, max_segment: u16) -> Offered {
    Offered {
        mss: Some(own_mss(link_mss, max_segment)),
        scale: cfg.window_scaling.then(|| scale_for(cfg.max_receive_window)),
        ts: cfg.timestamps.then_some((0, 0)),
        sack: cfg.sack,
    }
}

/// The largest segment that an end takes which does not say.
pub(crate) const fn default_mss(v6: bool) -> u16 {
    if v6 { DEFAULT_MSS_V6 } else { DEFAULT_MSS_V4 }
}

/// What holds after the peer's SYN or SYN-ACK said `peer` and ours said, or will say, [`ours`]:
/// each option only if both have it.
pub(crate) fn agree(
    cfg: &TcpConfig,
    peer: &Offered,
    v6: bool,
    link_mss: u16,
    max_segment: u16,
) -> Agreed {
    let scaling = cfg.window_scaling && peer.scale.is_some();
    let default = default_mss(v6);
    Agreed {
        // RFC 7323 2.3: a larger shift than 14 is taken as 14.
        snd_scale: peer.scale.filter(|_| scaling).map_or(0, |s| s.min(MAX_SCALE)),
        rcv_scale: if scaling { scale_for(cfg.max_receive_window) } else { 0 },
        scaling,
        ts: cfg.timestamps && peer.ts.is_some(),
        sack: cfg.sack && peer.sack,
        mss: peer.mss.unwrap_or(default).max(MIN_MSS).min(own_mss(link_mss, max_segment)),
        ecn: Handshake::default(),
    }
}

#[cfg(test)]
mod tests;
