//! The ports of one core: what the engine receives from, and the stack sends into.

use clearway_base::Instant;
use clearway_dev::{Dev, DevCounters, DevError, Facts};
use clearway_pkt::{Iface, Piece, Sink, TxMeta};
use clearway_proto::{AddError, InterfaceSpec, Link, Table};
use clearway_wire::{Addr, Cidr, Mac};

use crate::inspect::{Inspect, Verdict};
use crate::{Mode, Probe, Stage, Time};

/// What the stack is told of a port besides what the device says itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortOptions {
    /// How people call it.
    pub name: String,
    /// The routing table that its packets are looked up in.
    pub table: Table,
    /// The longest IP packet in bytes; None takes the device's.
    pub mtu: Option<u32>,
}

/// What becomes of an engine when one of its devices is of no more use: its interface was removed,
/// say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDeviceError {
    /// It ends with the device's error.
    #[default]
    End,
    /// The interface goes down and stays, the error with it; the other ports go on.
    TakeDown,
}

/// What can be seen of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortInfo<'a> {
    /// The stack's interface.
    pub iface: Iface,
    /// Its name.
    pub name: &'a str,
    /// What it does with an idle engine when that differs from the engine's own mode.
    pub mode: Option<Mode>,
    /// What went through.
    pub counters: DevCounters,
    /// Why it is of no more use, if so.
    pub error: Option<&'a DevError>,
}

/// One port.
pub(crate) struct Port<D> {
    pub(crate) dev: D,
    pub(crate) name: String,
    pub(crate) mode: Option<Mode>,
    pub(crate) error: Option<DevError>,
}

/// The ports, each at the place of its interface's number.
pub(crate) struct Ports<D, P> {
    slots: Vec<Option<Port<D>>>,
    // Frames committed since this was last set to zero.
    pub(crate) committed: u32,
    // Ports that need not be looked at in the next turn, a bit for each place: whoever woke us from
    // a sleep, their descriptors had nothing in that moment. A system call each is spared.
    pub(crate) quiet: u64,
    pub(crate) inspector: Option<Box<dyn Inspect>>,
    // Of the present turn; kept for the inspector only.
    pub(crate) time: Time,
    pub(crate) probe: P,
}

impl<D: Dev, P: Probe> Ports<D, P> {
    pub(crate) fn new(probe: P) -> Ports<D, P> {
        Ports {
            slots: Vec::new(),
            committed: 0,
            quiet: 0,
            inspector: None,
            time: Time::default(),
            probe,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Whether the place of this interface is free.
    pub(crate) fn is_free(&self, iface: Iface) -> bool {
        self.get(iface).is_none() && usize::from(iface.0) <= self.slots.len()
    }

    /// Whether there was a port at the place of this interface, and is none any more.
    pub(crate) fn is_left(&self, iface: Iface) -> bool {
        self.slots.get(usize::from(iface.0)).is_some_and(Option::is_none)
    }

    /// Puts a port at its interface's place, which is free.
    pub(crate) fn put(&mut self, iface: Iface, port: Port<D>) {
        match self.slots.get_mut(usize::from(iface.0)) {
            Some(slot) => *slot = Some(port),
            None => self.slots.push(Some(port)),
        }
    }

    pub(crate) fn take(&mut self, iface: Iface) -> Option<Port<D>> {
        self.slots.get_mut(usize::from(iface.0))?.take()
    }

    pub(crate) fn get(&self, iface: Iface) -> Option<&Port<D>> {
        self.slots.get(usize::from(iface.0))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, iface: Iface) -> Option<&mut Port<D>> {
        self.slots.get_mut(usize::from(iface.0))?.as_mut()
    }

    /// How many interface numbers there are to look at.
    #[inline]
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// The device at a place when there is one that works.
    #[inline]
    pub(crate) fn working(&mut self, place: usize) -> Option<&mut D> {
        working(&mut self.slots, place)
    }

    /// As [`Sink::reserve`], for a probe: what the device does is told apart from what the stack
    /// does, where it does more than hand out memory.
    fn reserve_probed(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        let dev = working(&mut self.slots, usize::from(iface.0))?;
        if !dev.sends_next() {
            return dev.reserve(len);
        }
        self.probe.enter(Stage::DriverOut);
        let room = dev.reserve(len);
        self.probe.enter(Stage::StackOut);
        room
    }

    /// The devices that work.
    pub(crate) fn all_working(&self) -> impl Iterator<Item = &D> {
        self.slots.iter().flatten().filter(|port| port.error.is_none()).map(|port| &port.dev)
    }

    /// The devices that work, and their places.
    pub(crate) fn places_working(&self) -> impl Iterator<Item = (usize, &D)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| match slot {
            Some(Port { dev, error: None, .. }) => Some((place, dev)),
            _ => None,
        })
    }

    /// Everything that is there, also what works no more.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Iface, &Port<D>)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| Some((Iface(at as u16), slot.as_ref()?)))
    }

    /// Lets everything go that was committed. Answers when the next of the devices has something to
    /// do.
    #[inline]
    pub(crate) fn flush(&mut self) -> Instant {
        let mut deadline = Instant::NEVER;
        for port in self.slots.iter_mut().flatten().filter(|port| port.error.is_none()) {
            port.dev.flush();
            deadline = deadline.min(port.dev.next_deadline());
        }
        deadline
    }

    /// The mode for all of them: the one that looks longest.
    pub(crate) fn mode(&self, default: Mode) -> Mode {
        let modes = self.slots.iter().flatten().map(|port| port.mode.unwrap_or(default));
        modes.reduce(Mode::or_longer).unwrap_or(default)
    }
}

/// What the stack is told of a device.
pub(crate) fn interface_of(
    dev: &impl Facts,
    options: &PortOptions,
) -> Result<InterfaceSpec, AddError> {
    let offloads = dev.offloads();
    let link = match dev.mac() {
        Some(mac) => Link::Ethernet(Mac(mac.0)),
        None if offloads.trusted_link => Link::Loopback,
        None => Link::Raw,
    };
    let largest = u32::try_from(dev.mtu()).unwrap_or(u32::MAX).min(65_535);
    let mtu = options.mtu.unwrap_or(largest);
    // A loopback carries any packet, whatever its MTU; other devices lose what is too long for
    // them.
    if mtu > largest && link != Link::Loopback {
        return Err(AddError::BadMtu);
    }
    Ok(InterfaceSpec { link, mtu, offloads, table: options.table })
}

/// The IPv6 address that every Ethernet interface has (RFC 4291 2.1, and appendix A for the
/// modified EUI-64).
pub(crate) fn link_local(mac: Mac) -> Cidr {
    let [a, b, c, d, e, f] = mac.0;
    let addr = Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Cidr { addr, prefix_len: 64 }
}

/// The device at a place when there is one that works.
#[inline]
fn working<D>(slots: &mut [Option<Port<D>>], place: usize) -> Option<&mut D> {
    match slots.get_mut(place) {
        Some(Some(Port { dev, error: None, .. })) => Some(dev),
        _ => None,
    }
}

impl<D: Dev, P: Probe> Sink for Ports<D, P> {
    #[inline]
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        if P::ON && self.probe.listens() {
            return self.reserve_probed(iface, len);
        }
        self.working(usize::from(iface.0))?.reserve(len)
    }

    #[inline]
    fn is_full(&mut self, iface: Iface) -> bool {
        let Some(dev) = working(&mut self.slots, usize::from(iface.0)) else { return false };
        self.probe.enter(Stage::DriverOut);
        let is_full = dev.is_full();
        self.probe.enter(Stage::StackOut);
        is_full
    }

    #[inline]
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        let Some(Some(Port { dev, .. })) = self.slots.get_mut(usize::from(iface.0)) else { return };
        self.committed += 1;
        if let Some(inspector) = &mut self.inspector {
            let frame = dev.reserved().get(..len).unwrap_or_default();
            if inspector.tx(self.time, iface, frame, &meta) == Verdict::Drop {
                return;
            }
        }
        let is_timed = P::ON && self.probe.listens() && dev.sends_next();
        if is_timed {
            self.probe.enter(Stage::DriverOut);
        }
        dev.commit(len, meta);
        if is_timed {
            self.probe.enter(Stage::StackOut);
        }
    }

    /// An inspector wants to see whole frames.
    #[inline]
    fn gathers(&self, iface: Iface) -> bool {
        self.inspector.is_none() && self.get(iface).is_some_and(|port| port.dev.gathers())
    }

    fn commit_gathered(&mut self, iface: Iface, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        let Some(Some(Port { dev, .. })) = self.slots.get_mut(usize::from(iface.0)) else { return };
        self.committed += 1;
        self.probe.enter(Stage::DriverOut);
        dev.commit_gathered(head, body, meta);
        self.probe.enter(Stage::StackOut);
    }
}

#[cfg(test)]
mod tests;
