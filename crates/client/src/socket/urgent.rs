//! The urgent byte of a stream (MSG_OOB). As in Linux it is the byte before the peer's urgent pointer, and stands outside of the stream unless SO_OOBINLINE is set.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

use clearway_shm::{Consumer, Hostile};

use super::{Received, broken};
use crate::{Errno, Socket};

/// Set in [`crate::core::Core::urgent_read`] beside the mark that was read.
const READ_BIT: u64 = 1 << 32;

impl Socket {
    /// How many bytes may be read before the urgent one, which is passed over first when it is next.
    pub(super) fn before_mark(&self, rx: &mut Consumer) -> Result<u32, Hostile> {
        let Some(distance) = self.core.distance_to_urgent() else { return Ok(u32::MAX) };
        if distance > 0 {
            return Ok(distance);
        }
        if !self.options().oob_inline && rx.len()? > 0 {
            rx.consume(1);
        }
        Ok(u32::MAX)
    }

    /// MSG_OOB.
    pub(super) fn recv_urgent(&self, into: &mut [IoSliceMut<'_>], flags: i32) -> Result<Received, Errno> {
        let mark = self.core.words.urgent.load(Ordering::Acquire);
        let taken = READ_BIT | u64::from(mark);
        let held = self.core.lock_rx();
        let distance = self.core.distance_to_urgent().ok_or(Errno::INVAL)?;
        if self.options().oob_inline || self.core.urgent_read.load(Ordering::Relaxed) == taken {
            return Err(Errno::INVAL);
        }
        let rx = self.core.rx().ok_or(Errno::INVAL)?;
        let mut byte = [0];
        let there = rx.with(&held, |rx| rx.peek(distance, &mut byte)).and_then(|there| there).map_err(broken)?;
        if there == 0 {
            return Err(Errno::AGAIN);
        }
        if flags & libc::MSG_PEEK == 0 {
            self.core.urgent_read.store(taken, Ordering::Relaxed);
        }
        match into.iter_mut().find(|part| !part.is_empty()) {
            Some(part) => part[0] = byte[0],
            None => return Ok(Received { len: 0, flags: libc::MSG_OOB | libc::MSG_TRUNC, datagram: None }),
        }
        Ok(Received { len: 1, flags: libc::MSG_OOB, datagram: None })
    }

    /// SIOCATMARK: what is read next is the urgent byte.
    pub fn at_mark(&self) -> bool {
        self.core.distance_to_urgent() == Some(0) && self.core.readable()
    }
}
