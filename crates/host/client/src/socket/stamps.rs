//! When data came, and of what is sent which is to be told of (SO_TIMESTAMP, SO_TIMESTAMPING). A
//! datagram carries it with itself; a stream has FIFOs of stamps beside those of its bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{Kind, Reply, Request, stamping};
use clearway_shm::layout::{StampRecord, state};
use clearway_shm::{Consumer, FifoMem, Producer};

use super::SendTo;
use crate::Socket;

/// A stream's FIFOs of stamps, as far as it has any.
#[derive(Default)]
pub(crate) struct StampFifos {
    rx: Option<FifoMem>,
    tx: Option<FifoMem>,
}

impl Socket {
    /// What is set of SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING
    /// ([`stamping`]), by whichever process.
    pub fn stamping(&self) -> u32 {
        self.core.words().stamping.load(Ordering::Relaxed)
    }

    /// A stream is connected, or about to be.
    pub fn is_begun(&self) -> bool {
        let state = self.core.state();
        state & (state::CONNECTED | state::CONNECTING) != 0
            && state & (state::FAILED | state::CLOSED | state::LISTENING) == 0
    }

    /// Numbers of what is sent begin anew (SOF_TIMESTAMPING_OPT_ID). Of a stream the first is that
    /// of the first byte that was not acknowledged, or, for `written`, not written
    /// (SOF_TIMESTAMPING_OPT_ID_TCP).
    pub fn begin_stamp_keys(&self, written: bool) {
        let first = match (self.core.kind, self.core.tx()) {
            (Kind::Stream, Some(tx)) if written => tx.mem.head().tail.load(Ordering::Acquire),
            (Kind::Stream, Some(tx)) => tx.mem.head().head.load(Ordering::Acquire),
            _ => 0,
        };
        self.core.words().stamp_key.store(first, Ordering::Relaxed);
    }

    /// The flags that hold for a send, when something is to be told of it or it counts.
    #[inline]
    pub(super) fn stamped(&self, how: &SendTo) -> Option<u32> {
        let word = self.stamping();
        if word == 0 && how.stamping.is_none() {
            return None;
        }
        let flags = match how.stamping {
            Some(own) => word & !stamping::TX_RECORD | own,
            None => word,
        };
        (flags & stamping::TX_RECORD != 0).then_some(flags)
    }

    /// What is written behind a datagram with these flags: its number, and what is to be told. The
    /// number is taken when it is in the FIFO ([`Socket::took_key`]). Call with `tx_lock` held.
    pub(super) fn stamp_of_datagram(&self, flags: u32, how: &SendTo) -> Option<u64> {
        let noted = flags & (stamping::TX_SOFTWARE | stamping::TX_SCHED);
        let key = match how.stamp_key {
            Some(key) => key,
            None if flags & stamping::OPT_ID != 0 => {
                self.core.words().stamp_key.load(Ordering::Relaxed)
            }
            None => 0,
        };
        let flags = noted | flags & stamping::OPT_TSONLY;
        (noted != 0).then_some(u64::from(flags) << 32 | u64::from(key))
    }

    /// A datagram with these flags is in the FIFO. Call with `tx_lock` held.
    pub(super) fn took_key(&self, flags: u32, how: &SendTo) {
        if flags & stamping::OPT_ID != 0 && how.stamp_key.is_none() {
            self.core.words().stamp_key.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Finds out where the FIFOs of stamps lie, when they are needed and that is not known. Nobody
    /// may hold a lock of the session: the host is asked.
    pub(super) fn find_stamps(&self) {
        let word = self.stamping();
        let known = self.core.stamps.load();
        let lacks = |fifos: &StampFifos| {
            stamping::notes_arrival(word) && fifos.rx.is_none()
                || stamping::notes_leaving(word) && fifos.tx.is_none()
        };
        if self.core.rx().is_none() || known.as_deref().is_some_and(|fifos| !lacks(fifos)) {
            return;
        }
        let fifos = self.ask_stamps().unwrap_or_default();
        self.core.stamps.store(Some(Arc::new(fifos)));
    }

    fn ask_stamps(&self) -> Option<StampFifos> {
        let request = Request::Stamps { session: self.core.id() };
        let Ok(Reply::Stamps { rx, tx }) = self.ask(&request) else { return None };
        let attachment = self.attachment().ok()?;
        let fifo = |place| self.client.fifo(&attachment, self.core.app(), place).ok();
        Some(StampFifos { rx: rx.and_then(fifo), tx: tx.and_then(fifo) })
    }

    /// When the byte before this position of the receive FIFO came, in nanoseconds since the start
    /// of 1970; 0: nobody knows. What is known of bytes before it is given up, if they were
    /// consumed. Call with `rx_lock` held.
    #[cold]
    #[inline(never)]
    pub(super) fn arrival_of(&self, position: u32, consumed: bool) -> u64 {
        let fifos = self.core.stamps.load();
        let Some(mem) = fifos.as_deref().and_then(|fifos| fifos.rx.as_ref()) else { return 0 };
        let Ok(mut fifo) = Consumer::resume(mem.clone()) else { return 0 };
        let (mut at, mut over) = (0, 0);
        while let Ok(Some(record)) = fifo.stamp_behind(over) {
            let ahead = record.end.wrapping_sub(position);
            if ahead < 1 << 31 {
                at = record.what;
                over += u32::from(ahead == 0);
                break;
            }
            over += 1;
        }
        if consumed {
            fifo.consume_stamps(over);
        }
        at
    }

    /// Marks the bytes before this position of the transmit FIFO, of which something is to be told.
    /// Called before they are published, with `tx_lock` held.
    #[cold]
    #[inline(never)]
    pub(super) fn mark(&self, flags: u32, end: u32) {
        let fifos = self.core.stamps.load();
        let Some(mem) = fifos.as_deref().and_then(|fifos| fifos.tx.as_ref()) else { return };
        let Ok(mut fifo) = Producer::resume(mem.clone()) else { return };
        let key = match flags & stamping::OPT_ID {
            0 => 0,
            _ => {
                let first = self.core.words().stamp_key.load(Ordering::Relaxed);
                end.wrapping_sub(1).wrapping_sub(first)
            }
        };
        let what = u64::from(flags & stamping::TX_NOTED) << 32 | u64::from(key);
        // Without room nothing is told of these, as where Linux has no room for what it tells.
        let _ = fifo.push_stamp(StampRecord::new(what, end));
    }
}
