//! A port that writes down what passes.

use std::io::{self, Write};

use clearway_base::{Duration, Instant};
use clearway_pkt::{Buf, Burst, Offloads, TxMeta};

use super::write::{Direction, InterfaceId, Packet, PcapWriter};
use crate::device::{MAX_IP_PACKET, max_frame};
use crate::staging::Staging;
use crate::{Dev, DevCounters, DevError, Facts, Receive, Transmit, TxDrop};

/// How much of a capture may be lost when the program is killed.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A port whose frames, both ways, are written to a capture.
///
/// What is left to the port shows as it was handed over: large packets are whole, and unfinished
/// checksums look wrong to a viewer. When the file can no longer be written, the capture ends and
/// the port goes on: see [`Capture::error`].
pub struct Capture<D, W: Write> {
    below: D,
    writer: PcapWriter<W>,
    interface: InterfaceId,
    /// What is added to the time of a turn to make it nanoseconds since 1970.
    unix_ns_at_zero: u64,
    now: Instant,
    flushed: Instant,
    error: Option<io::Error>,
    staging: Staging,
    counters: DevCounters,
}

impl<D: Dev, W: Write> Capture<D, W> {
    /// Captures what passes through `below` to `out`, under the name `interface`. `unix_ns_at_zero`
    /// is what the wall clock showed at [`Instant::ZERO`] of the times that [`Facts::set_now`]
    /// tells.
    pub fn new(
        below: D,
        out: W,
        interface: &str,
        unix_ns_at_zero: u64,
    ) -> io::Result<Capture<D, W>> {
        let ethernet = below.mac().is_some();
        let mut writer = PcapWriter::new(out)?;
        Ok(Capture {
            interface: writer.interface(ethernet, interface)?,
            writer,
            below,
            unix_ns_at_zero,
            now: Instant::ZERO,
            flushed: Instant::ZERO,
            error: None,
            staging: Staging::new(max_frame(MAX_IP_PACKET, true)),
            counters: DevCounters::default(),
        })
    }

    /// The port below.
    pub fn below(&self) -> &D {
        &self.below
    }

    /// Why the capture ended early, if it did.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Ends the capture and gives the port and the file back, everything written.
    pub fn finish(mut self) -> io::Result<(D, W)> {
        self.writer.flush()?;
        Ok((self.below, self.writer.into_inner()))
    }

    fn unix_ns(&self) -> u64 {
        self.unix_ns_at_zero.saturating_add(self.now.as_nanos())
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

impl<D: Dev, W: Write> Receive for Capture<D, W> {
    type Buf = D::Buf;

    fn rx(&mut self, burst: &mut Burst<D::Buf>) -> Result<(), DevError> {
        let before = burst.len();
        let result = self.below.rx(burst);
        for index in before..burst.len() {
            if self.error.is_some() {
                break;
            }
            if let Some((buf, _)) = burst.peek(index) {
                let written = self.writer.write(&Packet::whole(
                    self.interface,
                    self.unix_ns(),
                    Direction::Received,
                    buf.bytes(),
                ));
                self.keep(written);
            }
        }
        result
    }
}

impl<D: Dev, W: Write> Transmit for Capture<D, W> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.staging.forget();
        self.below.reserve(len)?;
        self.staging.reserve(len)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        let unix_ns = self.unix_ns();
        let Some(frame) = self.staging.commit(len) else {
            return self.counters.drop_tx(TxDrop::BadRequest);
        };
        let Some(room) = self.below.reserve(len) else {
            return self.counters.drop_tx(TxDrop::NoRoom);
        };
        room[..len].copy_from_slice(frame);
        self.below.commit(len, meta);
        if self.error.is_none() {
            let written =
                self.writer.write(&Packet::whole(self.interface, unix_ns, Direction::Sent, frame));
            self.keep(written);
        }
    }

    fn reserved(&self) -> &[u8] {
        self.staging.reserved()
    }

    fn flush(&mut self) {
        self.below.flush();
        if self.error.is_none() && self.now.since(self.flushed) >= FLUSH_EVERY {
            self.flushed = self.now;
            let flushed = self.writer.flush();
            self.keep(flushed);
        }
    }
}

impl<D: Dev, W: Write> Facts for Capture<D, W> {
    fn offloads(&self) -> Offloads {
        self.below.offloads()
    }

    crate::device::same_link_as_below!();

    fn counters(&self) -> DevCounters {
        self.below.counters().with_drops_of(&self.counters)
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.below.set_now(now);
    }

    fn next_deadline(&self) -> Instant {
        self.below.next_deadline()
    }
}
