//! The script's numbers and the real ones: ports, sequence numbers, timestamps, and the bytes that
//! travel.

use clearway_wire::{Addr, Endpoint};

use crate::ast::Micros;
use crate::backend::{BOUND_PORT, CLIENT_PORT, Net};

/// The byte that stands at `index` in every stream and every datagram, in both directions, so that
/// each side can tell whether it got the bytes that belong there.
pub fn byte_at(index: u32) -> u8 {
    (index.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// `len` bytes from `index` on.
pub fn bytes_from(index: u32, len: u32) -> Vec<u8> {
    (0..len).map(|n| byte_at(index.wrapping_add(n))).collect()
}

/// One connection of a script, or one pair of UDP ports.
#[derive(Clone, Debug)]
pub struct Flow {
    number: u8,
    /// The two ends, as soon as they are known: that under test first.
    ends: Option<(Endpoint, Endpoint)>,
    /// What is added to the script's sequence numbers of the stack under test; None until its SYN
    /// was seen.
    local_shift: Option<u32>,
    /// A SYN that was seen last may be followed by another of a new connection.
    expect_new_syn: bool,
    /// What is added to the script's sequence numbers of the peer.
    remote_shift: u32,
    /// The peer's last SYN.
    remote_syn: Option<u32>,
    /// The script's number of the first byte behind each side's SYN.
    local_start: u32,
    remote_start: u32,
    /// What is added to the script's timestamps of the stack under test.
    stamp_shift: Option<u32>,
    /// Timestamps of the stack under test that the script has named, with the real ones.
    stamps: Vec<(u32, u32)>,
}

impl Flow {
    /// The connection with that number; `remote_shift` is added to all sequence numbers of the
    /// peer.
    pub fn new(number: u8, remote_shift: u32) -> Flow {
        Flow {
            number,
            ends: None,
            local_shift: None,
            expect_new_syn: true,
            remote_shift,
            remote_syn: None,
            local_start: 1,
            remote_start: 1,
            stamp_shift: None,
            stamps: Vec::new(),
        }
    }

    /// The two ends, that under test first, if they are known.
    pub fn ends(&self) -> Option<(Endpoint, Endpoint)> {
        self.ends
    }

    /// The two ends. A peer that speaks first comes from a port of its own to the one that sockets
    /// are bound to.
    pub fn ends_or_passive(&mut self, net: &Net) -> (Endpoint, Endpoint) {
        let passive = || {
            let port = CLIENT_PORT + u16::from(self.number);
            (Endpoint::new(net.local, BOUND_PORT), Endpoint::new(net.remote, port))
        };
        *self.ends.get_or_insert_with(passive)
    }

    /// Whether a packet between these two ends belongs here; learns them when the script has not
    /// spoken of this connection before.
    pub fn claims(&mut self, net: &Net, src: (Addr, u16), dst: (Addr, u16)) -> bool {
        let found = (Endpoint::new(src.0, src.1), Endpoint::new(dst.0, dst.1));
        if self.ends.is_none() && src.0 == net.local && dst.0 == net.remote {
            self.ends = Some(found);
        }
        self.ends == Some(found)
    }

    /// Notes a SYN that the peer sends.
    pub fn peer_syn(&mut self, seq: u32) {
        if self.remote_syn != Some(seq) {
            self.remote_syn = Some(seq);
            self.expect_new_syn = true;
        }
        self.remote_start = seq.wrapping_add(1);
    }

    /// Notes a SYN that the stack under test sent, which the script calls `seq`.
    pub fn local_syn(&mut self, seq: u32, live: u32) {
        if self.expect_new_syn
            && self.local_shift.is_none_or(|shift| seq.wrapping_add(shift) != live)
        {
            self.local_shift = Some(live.wrapping_sub(seq));
            self.stamps.clear();
            self.stamp_shift = None;
        }
        self.expect_new_syn = false;
        self.local_start = seq.wrapping_add(1);
    }

    /// The real sequence number of the peer.
    pub fn remote_live(&self, seq: u32) -> u32 {
        seq.wrapping_add(self.remote_shift)
    }

    /// The script's sequence number of the peer.
    pub fn remote_script(&self, live: u32) -> u32 {
        live.wrapping_sub(self.remote_shift)
    }

    /// The real sequence number of the stack under test.
    pub fn local_live(&self, seq: u32) -> u32 {
        seq.wrapping_add(self.local_shift.unwrap_or(0))
    }

    /// The script's sequence number of the stack under test.
    pub fn local_script(&self, live: u32) -> u32 {
        live.wrapping_sub(self.local_shift.unwrap_or(0))
    }

    /// Where a byte of the stack under test stands in its stream.
    pub fn local_index(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.local_start)
    }

    /// Where a byte of the peer stands in its stream.
    pub fn remote_index(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.remote_start)
    }

    /// The real timestamp that the script calls `stamp`, to be echoed.
    pub fn stamp_live(&self, stamp: u32) -> u32 {
        match self.stamps.iter().rev().find(|(script, _)| *script == stamp) {
            Some((_, live)) => *live,
            None if stamp == 0 => 0,
            None => stamp.wrapping_add(self.stamp_shift.unwrap_or(0)),
        }
    }

    /// The script's timestamp.
    pub fn stamp_script(&self, live: u32) -> u32 {
        live.wrapping_sub(self.stamp_shift.unwrap_or(0))
    }

    /// Holds a timestamp of the stack under test against what the script says; the first one is the
    /// script's to name.
    pub fn stamp_fits(&mut self, stamp: u32, live: u32, tolerance: Micros) -> bool {
        let shift = *self.stamp_shift.get_or_insert(live.wrapping_sub(stamp));
        self.stamps.push((stamp, live));
        let off = live.wrapping_sub(shift).wrapping_sub(stamp) as i32;
        // Both clocks count milliseconds, and each may be about to tick.
        i64::from(off).abs() <= tolerance / 1000 + 1
    }
}
