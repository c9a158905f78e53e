//! The first half of a turn: what the ports and the other cores bring.

use clearway_dev::{BufferSource, Dev, DevError};
use clearway_pkt::{BURST, Buf, Burst, Iface};
use clearway_proto::{Env, Stack};

use super::Engine;
use crate::core_queues::Frame;
use crate::error::EngineError;
use crate::inspect::{Inspect, Verdict};
use crate::ports::OnDeviceError;
use crate::wait::MAX_PORTS;
use crate::{App, Mode, Probe, Stage, Time};

impl<E: Env, D: Dev<Buf = E::Buf>, A: App<E>, P: Probe, M: BufferSource<Buf = E::Buf>>
    Engine<E, D, A, P, M>
{
    /// One burst from every port that may have one. Answers whether anything came, and whether a port may have more.
    pub(super) fn receive(&mut self, time: Time) -> Result<(bool, bool), EngineError> {
        let (mut received, mut full) = (false, false);
        let shares = self.seat.core_queues.has_others();
        self.stack.keep_misdelivered(shares && self.seat.core_queues.is_reaching());
        let quiet = std::mem::take(&mut self.ports.quiet);
        self.burst.set_limit(self.most_packets());
        let mut packets = 0;
        for place in 0..self.ports.places() {
            if place < MAX_PORTS && quiet & 1 << place != 0 {
                continue;
            }
            let iface = Iface(place as u16);
            self.ports.probe.enter(Stage::DriverIn);
            let Some(dev) = self.ports.working(place) else { continue };
            dev.set_now(time.now);
            if let Err(error) = dev.rx(&mut self.burst) {
                self.device_failed(iface, error)?;
            }
            full |= self.burst.may_have_more();
            if self.burst.is_empty() {
                // What it says besides would be taken for another port's word.
                self.burst.clear();
                continue;
            }
            self.ports.probe.enter(Stage::StackIn);
            received = true;
            packets += self.burst.len();
            if place != 0 {
                self.burst.set_iface(iface);
            }
            if let Some(inspector) = &mut self.ports.inspector {
                inspect(&mut **inspector, time, iface, &mut self.burst);
            }
            if shares {
                self.share(iface);
            }
            self.ingest(time);
        }
        self.burst.set_limit(BURST);
        self.burst_limit.turn(packets);
        if shares {
            self.ports.probe.enter(Stage::StackIn);
            received |= self.read_other_cores(time);
        }
        Ok((received, full))
    }

    // Of a port in this turn. Whoever sleeps now and then shares its core, or pays for each burst
    // that it sends, and takes what there is.
    fn most_packets(&self) -> usize {
        let splits = self.splits_bursts && self.effective == Mode::Polling;
        if splits { self.burst_limit.get() } else { BURST }
    }

    fn device_failed(&mut self, iface: Iface, error: DevError) -> Result<(), EngineError> {
        if self.on_device_error == OnDeviceError::End {
            return Err(error.into());
        }
        self.stack.set_up(iface, false);
        if let Some(port) = self.ports.get_mut(iface) {
            port.error = Some(error);
        }
        self.choose_mode();
        self.is_unreported = true;
        Ok(())
    }

    fn share(&mut self, iface: Iface) {
        let ethernet = self.port(iface).is_some_and(|dev| dev.mac().is_some());
        for (frame, _) in (0..self.burst.len()).filter_map(|at| self.burst.peek(at)) {
            self.seat.core_queues.share(iface, ethernet, frame.bytes());
        }
    }

    fn ingest(&mut self, time: Time) {
        self.tell_calendar();
        match &mut self.ports.inspector {
            Some(inspector) if inspector.wants_drops() => {
                ingest_and_tell(&mut self.stack, time, &mut self.burst, &mut **inspector);
            }
            _ => self.stack.ingest(time.now, &mut self.burst),
        }
        self.burst.clear();
        while let Some(misdelivered) = self.stack.next_misdelivered() {
            self.seat.core_queues.hand_over(
                misdelivered.owner,
                misdelivered.meta,
                misdelivered.buf.bytes(),
            );
        }
    }

    // What another core shared has passed the inspector there.
    fn read_other_cores(&mut self, time: Time) -> bool {
        let mut frames = self.seat.core_queues.take();
        let any = !frames.is_empty();
        while !frames.is_empty() {
            while let Some(Frame { meta, frame }) = frames.pop_front() {
                match self.pool.copy_of(&frame) {
                    // The burst has room: it is emptied as soon as it is full.
                    Some(buf) => drop(self.burst.push(buf, meta)),
                    None => self.seat.core_queues.no_buffer(),
                }
                if self.burst.room() == 0 {
                    break;
                }
            }
            self.ingest(time);
        }
        any
    }
}

// Kept out of the turn of an engine without an inspector.
#[inline(never)]
fn ingest_and_tell<E: Env>(
    stack: &mut Stack<E>,
    time: Time,
    burst: &mut Burst<E::Buf>,
    inspector: &mut dyn Inspect,
) {
    stack.ingest_with(time.now, burst, &mut |why, meta, head| {
        inspector.dropped(time, meta.iface, head, why)
    });
}

/// Shows a burst to the inspector and takes out of it what he drops.
#[inline(never)]
fn inspect<B: Buf>(inspector: &mut dyn Inspect, time: Time, iface: Iface, burst: &mut Burst<B>) {
    let mut dropped = 0u64;
    const { assert!(clearway_pkt::BURST <= u64::BITS as usize) };
    for at in 0..burst.len() {
        let Some((buf, meta)) = burst.peek(at) else { continue };
        if inspector.rx(time, iface, buf.bytes(), meta) == Verdict::Drop {
            dropped |= 1 << at;
        }
    }
    if dropped == 0 {
        return;
    }
    let mut passed = Burst::new();
    for at in (0..burst.len()).filter(|at| dropped & 1 << at == 0) {
        if let Some((buf, meta)) = burst.take(at) {
            // Both bursts have as many places.
            let _ = passed.push(buf, meta);
        }
    }
    *burst = passed;
}
