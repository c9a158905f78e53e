//! A port of Clearway's as smoltcp's device.

use clearway_base::Instant;
use clearway_dev::{DevError, Facts as _, Headers, Part, Receive as _, Transmit as _};
use clearway_pkt::{Buf as _, Burst, Checksum, PoolBuf, TxMeta};
use clearway_ports::Port;
use clearway_wire::{Proto, checksum};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time;
use smoltcp::wire::{EthernetAddress, HardwareAddress};

/// Bytes of an Ethernet header, which smoltcp counts to the MTU.
const ETHERNET: usize = 14;

/// The port, the frames that it brought in this turn, and what happened to those that are not
/// smoltcp's to judge.
pub(crate) struct Link {
    port: Port,
    burst: Burst<PoolBuf>,
    next: usize,
    capabilities: DeviceCapabilities,
    /// Whether the port says of each frame if its checksum is good, so that smoltcp need not look.
    vouches: bool,
    /// A frame that the port took no more; its bytes go nowhere.
    nowhere: Vec<u8>,
    /// Frames with a wrong checksum, and frames that were not sent.
    pub(crate) lost: u64,
}

impl Link {
    pub(crate) fn new(port: Port) -> Link {
        let ethernet = port.mac().is_some();
        let vouches = port.offloads().tx_checksum;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = if ethernet { Medium::Ethernet } else { Medium::Ip };
        capabilities.max_transmission_unit = port.mtu() + if ethernet { ETHERNET } else { 0 };
        let mut sums = ChecksumCapabilities::default();
        if vouches {
            sums.tcp = phy::Checksum::Tx;
            sums.udp = phy::Checksum::Tx;
        }
        capabilities.checksum = sums;
        let nowhere = vec![0; capabilities.max_transmission_unit];
        Link { port, burst: Burst::new(), next: 0, capabilities, vouches, nowhere, lost: 0 }
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    pub(crate) fn hardware_address(&self) -> HardwareAddress {
        self.port.mac().map_or(HardwareAddress::Ip, |mac| EthernetAddress(mac.0).into())
    }

    /// Takes what has arrived, once a turn; how many frames there are.
    pub(crate) fn fill(&mut self, now: Instant) -> Result<usize, DevError> {
        self.burst.clear();
        self.next = 0;
        self.port.set_now(now);
        self.port.rx(&mut self.burst)?;
        Ok(self.burst.len())
    }

    pub(crate) fn flush(&mut self) {
        self.port.flush();
    }

    /// Whether the port takes a frame of any length. Asking for room costs nothing when it is not
    /// used.
    fn has_room(&mut self) -> bool {
        self.port.reserve(self.capabilities.max_transmission_unit).is_some()
    }
}

/// Whether a frame's transport checksum is good, or there is none that could be looked at.
fn is_sound(frame: &[u8], ethernet: bool) -> bool {
    let Some(headers) = Headers::of(frame, ethernet).filter(|headers| headers.part == Part::Whole)
    else {
        return true;
    };
    let ip_at = if ethernet { ETHERNET } else { 0 };
    let header_len = match frame.get(ip_at) {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        _ => 40,
    };
    let proto = match headers.proto {
        Some(proto) if proto == Proto::TCP || proto == Proto::UDP => proto,
        _ => return true,
    };
    frame.get(ip_at + header_len..headers.frame_len).is_none_or(|message| {
        checksum::transport_is_valid(&headers.src, &headers.dst, proto, message)
    })
}

/// A received frame.
pub(crate) struct Received(PoolBuf);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0.bytes())
    }
}

/// The place of a frame to be sent.
pub(crate) struct Room<'a>(&'a mut Link);

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let link = self.0;
        if let Some(room) = link.port.reserve(len) {
            let result = f(&mut room[..len]);
            link.port.commit(len, TxMeta::default());
            return result;
        }
        link.lost += 1;
        link.nowhere.resize(len.max(link.nowhere.len()), 0);
        f(&mut link.nowhere[..len])
    }
}

impl Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _now: time::Instant) -> Option<(Received, Room<'_>)> {
        while self.next < self.burst.len() {
            // What is received may be answered at once.
            if !self.has_room() {
                return None;
            }
            let taken = self.burst.take(self.next);
            self.next += 1;
            let Some((frame, meta)) = taken else { continue };
            let sound = match meta.checksum {
                Checksum::Good => true,
                Checksum::Bad => false,
                Checksum::Unknown => {
                    !self.vouches || is_sound(frame.bytes(), self.port.mac().is_some())
                }
            };
            if sound {
                return Some((Received(frame), Room(self)));
            }
            self.lost += 1;
        }
        None
    }

    fn transmit(&mut self, _now: time::Instant) -> Option<Room<'_>> {
        self.has_room().then_some(Room(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}
