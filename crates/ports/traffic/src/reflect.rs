//! The reflector of one queue: what comes in goes out again.

use clearway_base::Instant;
use clearway_dev::device::{VLAN_TAGS_LEN, max_frame};
use clearway_dev::{Dev, DevError};
use clearway_pkt::{Buf, Burst, RxMeta, TxMeta};
use clearway_wire::{EtherType, Proto, eth, ipv6};

/// What is exchanged in a frame before it goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mirror {
    /// Nothing: the frame goes back untouched.
    AsIs,
    /// The Ethernet addresses.
    #[default]
    Macs,
    /// Ethernet addresses, IP addresses, and the ports of TCP and UDP. No checksum changes: a sum
    /// does not know the order of its words.
    Addresses,
}

/// What happened to the frames that came in; each is counted once beside `frames`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reflected {
    /// Frames that came in.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that went back.
    pub returned: u64,
    /// Their bytes.
    pub returned_bytes: u64,
    /// The port had no room.
    pub no_room: u64,
    /// To a group (broadcast or multicast): its address cannot be a sender's, so such a frame
    /// cannot go back with the addresses exchanged.
    pub group: u64,
    /// Shorter than its headers say.
    pub malformed: u64,
    /// Several segments that the port had joined, or a frame longer than the link carries.
    pub too_long: u64,
    /// Of an [`Answerer`](crate::Answerer): what asks nothing (acknowledgements, resets), and what
    /// is not a segment of TCP over IPv4.
    pub unanswered: u64,
}

impl Reflected {
    /// Adds those of another queue.
    pub fn add(&mut self, other: &Reflected) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.returned += other.returned;
        self.returned_bytes += other.returned_bytes;
        self.no_room += other.no_room;
        self.group += other.group;
        self.malformed += other.malformed;
        self.too_long += other.too_long;
        self.unanswered += other.unanswered;
    }

    /// Frames for which none went back.
    pub fn not_returned(&self) -> u64 {
        self.lost().iter().map(|(_, count)| count).sum()
    }

    /// The reasons why frames did not go back, with their names and counts.
    pub fn lost(&self) -> [(&'static str, u64); 5] {
        [
            ("no-room", self.no_room),
            ("group-address", self.group),
            ("malformed", self.malformed),
            ("too-long", self.too_long),
            ("unanswered", self.unanswered),
        ]
    }
}

/// Sends back what comes in on one queue.
#[derive(Clone, Debug, Default)]
pub struct Reflector {
    mirror: Mirror,
    counts: Reflected,
}

/// Why a frame does not go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoWayBack {
    /// It goes to a group.
    Group,
    /// It is shorter than its headers say.
    Malformed,
}

impl Reflector {
    /// Exchanges what `mirror` says.
    pub fn new(mirror: Mirror) -> Reflector {
        Reflector { mirror, counts: Reflected::default() }
    }

    /// What happened so far.
    pub fn counts(&self) -> &Reflected {
        &self.counts
    }

    /// Takes what came in and sends it back; says whether there was anything.
    pub fn turn<D: Dev>(
        &mut self,
        now: Instant,
        dev: &mut D,
        burst: &mut Burst<D::Buf>,
    ) -> Result<bool, DevError> {
        dev.set_now(now);
        let ethernet = dev.mac().is_some();
        let longest = max_frame(dev.mtu(), ethernet);
        // Counted here and not where they lie, so that they stay in registers.
        let mut judge =
            Judge { mirror: self.mirror, ethernet, longest, counts: Reflected::default() };
        let sent_back = dev.send_back(|len, meta, frame| judge.goes_back(len, meta, frame))?;
        let came = match sent_back {
            Some(came) => came > 0,
            None => turn_by_copy(dev, burst, &mut judge)?,
        };
        if came {
            self.counts.add(&judge.counts);
        }
        dev.flush();
        Ok(came)
    }
}

/// The long way, for a device that cannot send a frame in the memory in which it came.
fn turn_by_copy<D: Dev>(
    dev: &mut D,
    burst: &mut Burst<D::Buf>,
    judge: &mut Judge,
) -> Result<bool, DevError> {
    dev.rx(burst)?;
    let came = !burst.is_empty();
    for index in 0..burst.len() {
        let Some((buf, meta)) = burst.peek(index) else { continue };
        let frame = buf.bytes();
        let mut room = dev.reserve(frame.len()).map(|room| &mut room[..frame.len()]);
        if let Some(room) = &mut room {
            room.copy_from_slice(frame);
        }
        // Room that is not committed is as if it had never been asked for.
        if judge.goes_back(frame.len(), meta, room) {
            dev.commit(frame.len(), TxMeta::default());
        }
    }
    burst.clear();
    Ok(came)
}

/// Says of the frames of one turn whether they go back.
struct Judge {
    mirror: Mirror,
    ethernet: bool,
    longest: usize,
    counts: Reflected,
}

impl Judge {
    /// Counts a frame that came, and makes of it the one that goes back, if it does.
    #[inline(always)]
    fn goes_back(&mut self, len: usize, meta: &RxMeta, frame: Option<&mut [u8]>) -> bool {
        self.counts.frames += 1;
        self.counts.bytes += len as u64;
        // A joined frame would have to be cut again, and its checksum may never have been made.
        if meta.segment_size != 0 || len > self.longest {
            self.counts.too_long += 1;
            return false;
        }
        let Some(frame) = frame else {
            self.counts.no_room += 1;
            return false;
        };
        match turn_round(self.mirror, self.ethernet, frame) {
            Ok(()) => {
                self.counts.returned += 1;
                self.counts.returned_bytes += len as u64;
                return true;
            }
            Err(NoWayBack::Group) => self.counts.group += 1,
            Err(NoWayBack::Malformed) => self.counts.malformed += 1,
        }
        false
    }
}

/// Makes of a frame the one that goes back.
#[inline]
pub fn turn_round(mirror: Mirror, ethernet: bool, frame: &mut [u8]) -> Result<(), NoWayBack> {
    if mirror == Mirror::AsIs {
        return Ok(());
    }
    let mut ip_at = 0;
    if ethernet {
        let header = frame.first_chunk_mut::<{ eth::HEADER_LEN }>().ok_or(NoWayBack::Malformed)?;
        if header[0] & 1 != 0 {
            return Err(NoWayBack::Group);
        }
        let (dst, rest) = header.split_at_mut(6);
        dst.swap_with_slice(&mut rest[..6]);
        ip_at = eth::HEADER_LEN;
    }
    if mirror == Mirror::Macs {
        return Ok(());
    }
    if ethernet {
        match ip_behind_ethernet(frame) {
            Some(at) => ip_at = at,
            // Neither IPv4 nor IPv6: there is nothing more to exchange.
            None => return Ok(()),
        }
    }
    exchange_addresses(&mut frame[ip_at..])
}

/// Where the IP header begins; None when the frame carries something else.
fn ip_behind_ethernet(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    for _ in 0..=VLAN_TAGS_LEN / eth::TAG_LEN {
        let ethertype = EtherType(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => return Some(at + 2),
            EtherType::VLAN | EtherType::SERVICE_VLAN => at += eth::TAG_LEN,
            _ => return None,
        }
    }
    None
}

/// Exchanges addresses, and the ports of TCP and UDP.
fn exchange_addresses(packet: &mut [u8]) -> Result<(), NoWayBack> {
    let bad = NoWayBack::Malformed;
    let first = *packet.first().ok_or(bad)?;
    let (at, len, proto, header_len, later) = match first >> 4 {
        4 => {
            let header = packet.first_chunk::<20>().ok_or(bad)?;
            let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
            (12, 4, Proto(header[9]), usize::from(first & 0xf) * 4, later)
        }
        6 => {
            let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>().ok_or(bad)?;
            // Ports behind extension headers stay: such packets are rare, and their addresses are
            // enough to bring them back.
            (8, 16, Proto(header[6]), ipv6::HEADER_LEN, false)
        }
        _ => return Err(bad),
    };
    let dst_first = packet[at + len];
    let group = if len == 4 { dst_first >> 4 == 14 || dst_first == 255 } else { dst_first == 0xff };
    if group {
        return Err(NoWayBack::Group);
    }
    exchange(packet, at, len);
    if later || (proto != Proto::TCP && proto != Proto::UDP) {
        return Ok(());
    }
    if header_len < 20 || packet.len() < header_len + 4 {
        return Err(bad);
    }
    exchange(packet, header_len, 2);
    Ok(())
}

/// Exchanges two neighbours of `len` bytes each; the caller knows that they are there.
#[inline]
fn exchange(bytes: &mut [u8], at: usize, len: usize) {
    let (one, two) = bytes[at..at + 2 * len].split_at_mut(len);
    one.swap_with_slice(two);
}

#[cfg(test)]
mod tests;
