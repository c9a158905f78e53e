//! Checksums that this machine's kernel has left undone.
//!
//! The kernel leaves the checksums of TCP and UDP that it sends into a veth pair to the other end:
//! the field holds the sum of the pseudo header alone, and that nothing else was summed stands in
//! the kernel's own description of the packet, which an AF_XDP socket does not get. Such a frame
//! never was on a wire. A damaged one from elsewhere looks like it once in 65,536 times, which is
//! as often as it passes for whole by its checksum.

use clearway_pkt::Checksum;
use clearway_wire::{Addr, Proto, checksum};

/// Bytes of an Ethernet header, and of a VLAN tag (IEEE 802.1Q).
const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV6_HEADER: usize = 40;

/// What can be said of the checksum of a frame that came over a link whose kernel leaves them: good
/// when it was left, else whatever the stack finds.
#[inline]
pub(crate) fn of_frame(frame: &[u8]) -> Checksum {
    if is_left(frame).unwrap_or(false) { Checksum::Good } else { Checksum::Unknown }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn is_left(frame: &[u8]) -> Option<bool> {
    let (mut kind, mut at) = (word(frame, ETHERNET - 2)?, ETHERNET);
    // IEEE 802.1Q and 802.1ad: a tag stands between the addresses and the type.
    while matches!(kind, 0x8100 | 0x88a8) && at < ETHERNET + 2 * TAG {
        kind = word(frame, at + 2)?;
        at += TAG;
    }
    let packet = frame.get(at..)?;
    match kind {
        0x0800 => is_left_v4(packet),
        0x86dd => is_left_v6(packet),
        _ => None,
    }
}

fn is_left_v4(packet: &[u8]) -> Option<bool> {
    let header_len = usize::from(packet.first()? & 0xf) * 4;
    let total_len = usize::from(word(packet, 2)?);
    // A fragment has no sum of its own (RFC 791 3.1: more-fragments flag, and offset).
    if word(packet, 6)? & 0x3fff != 0 {
        return None;
    }
    let (proto, src, dst) =
        (*packet.get(9)?, packet.get(12..)?.first_chunk()?, packet.get(16..)?.first_chunk()?);
    let message = packet.get(header_len..total_len)?;
    compare(message, proto, &Addr::v4(*src), &Addr::v4(*dst))
}

fn is_left_v6(packet: &[u8]) -> Option<bool> {
    let payload_len = usize::from(word(packet, 4)?);
    let (next, src, dst) =
        (*packet.get(6)?, packet.get(8..)?.first_chunk()?, packet.get(24..)?.first_chunk()?);
    let message = packet.get(IPV6_HEADER..IPV6_HEADER + payload_len)?;
    compare(message, next, &Addr::v6(*src), &Addr::v6(*dst))
}

fn compare(message: &[u8], proto: u8, src: &Addr, dst: &Addr) -> Option<bool> {
    // RFC 9293 3.1 and RFC 768: where the checksum stands.
    let (proto, at) = match proto {
        6 => (Proto::TCP, 16),
        17 => (Proto::UDP, 6),
        _ => return None,
    };
    Some(word(message, at)? == checksum::partial(src, dst, proto, message.len() as u32))
}

#[cfg(test)]
mod tests {
    use clearway_wire::{EtherType, Mac, eth, ipv4, ipv6, udp};

    use super::*;

    fn frame(v4: bool, tag: bool, payload: &[u8], finished: bool) -> Vec<u8> {
        let (src, dst): (Addr, Addr) = if v4 {
            (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]))
        } else {
            ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
        };
        let mut message = vec![0; udp::HEADER_LEN + payload.len()];
        udp::emit(1, 2, payload.len() as u16, &mut message);
        message[udp::HEADER_LEN..].copy_from_slice(payload);
        let len = message.len();
        if finished {
            let sum = checksum::transport(&src, &dst, Proto::UDP, &message);
            message[6..8].copy_from_slice(&sum.to_be_bytes());
        } else {
            udp::fill_partial_checksum(&src, &dst, len as u32, &mut message);
        }
        let mut frame = vec![0; 128 + len];
        let kind = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let mut at = eth::emit(Mac([2; 6]), Mac([4; 6]), kind, &mut frame);
        if tag {
            frame.splice(12..12, [0x81, 0, 0, 7]);
            at += 4;
        }
        at += if v4 {
            let header = ipv4::Header {
                src,
                dst,
                proto: Proto::UDP,
                tos: 0,
                ttl: 64,
                id: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len: len as u16,
            };
            ipv4::emit(&header, &mut frame[at..])
        } else {
            let header = ipv6::Header {
                src,
                dst,
                next: Proto::UDP,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 64,
                payload_len: len as u16,
            };
            ipv6::emit(&header, &mut frame[at..])
        };
        frame[at..at + len].copy_from_slice(&message);
        frame.truncate(at + len);
        // Padding behind the packet is none of its.
        frame.resize(frame.len().max(90), 0xaa);
        frame
    }

    #[test]
    fn a_checksum_that_the_kernel_left_is_told_from_one_that_somebody_made() {
        for v4 in [true, false] {
            for tag in [true, false] {
                assert_eq!(of_frame(&frame(v4, tag, b"left", false)), Checksum::Good);
                assert_eq!(of_frame(&frame(v4, tag, b"finished", true)), Checksum::Unknown);
            }
        }
    }

    #[test]
    fn a_frame_that_is_cut_short_or_a_fragment_says_nothing() {
        let whole = frame(true, false, &[7; 60], false);
        for len in 0..whole.len() {
            assert_eq!(of_frame(&whole[..len]), Checksum::Unknown, "{len}");
        }
        let mut fragment = whole.clone();
        fragment[20] |= 0x20;
        assert_eq!(of_frame(&fragment), Checksum::Unknown);
        let mut other = whole;
        other[23] = 1;
        assert_eq!(of_frame(&other), Checksum::Unknown);
    }
}
