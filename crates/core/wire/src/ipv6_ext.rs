//! IPv6 extension headers (RFC 8200 4): one walk, bounded in headers, bytes and options, from the
//! fixed header to the upper protocol.

use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::ip::Proto;
use crate::ipv6::{HEADER_LEN, Ipv6, MIN_MTU};
use crate::malformed::Malformed;

/// Headers in a chain. RFC 8200 4.1 knows six kinds, each at most once but for destination options,
/// which may come twice.
pub const MAX_HEADERS: usize = 8;
/// Bytes of a chain. The whole chain must fit a first fragment (RFC 7112 5), and 1280 bytes pass
/// every link.
pub const MAX_BYTES: usize = MIN_MTU - HEADER_LEN;
/// Options other than padding in one header: the default that RFC 8504 5.3 names.
pub const MAX_OPTIONS: usize = 8;
/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// Offset of the next-header field in the fixed header.
const NEXT_FIELD: usize = 6;
/// Offset of the payload length in the fixed header.
const LENGTH_FIELD: u32 = 4;

/// ICMPv6 parameter problem codes (RFC 4443 3.4, RFC 7112 6).
mod code {
    pub(super) const ERRONEOUS_FIELD: u8 = 0;
    pub(super) const UNKNOWN_NEXT_HEADER: u8 = 1;
    pub(super) const UNKNOWN_OPTION: u8 = 2;
    pub(super) const INCOMPLETE_CHAIN: u8 = 3;
}

/// Where a chain of extension headers ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain<'a> {
    /// The upper protocol, [`Proto::NO_NEXT`] included. For a fragment: the header that the
    /// fragmented part begins with.
    pub upper: Proto,
    /// Offset of `bytes` from the start of the IPv6 header.
    pub upper_offset: usize,
    /// Offset from the start of the IPv6 header of the field that named `upper`: the pointer of an
    /// "unknown next header" answer.
    pub named_at: usize,
    /// Present when the packet is a part of a datagram. A packet that is its own only fragment is
    /// walked through and shows None here (RFC 6946 4).
    pub fragment: Option<Fragment>,
    /// The upper header and its data; for a fragment its part of the fragmented data.
    pub bytes: &'a [u8],
}

/// A fragment header and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// Where the data stands in the fragmented part, in bytes.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Shared by the fragments of one datagram.
    pub id: u32,
    /// The header that the fragmented part begins with.
    pub next: Proto,
    /// Offset of the fragment header from the start of the IPv6 header, which is the length of the
    /// part before it that every fragment repeats.
    pub header_at: usize,
    /// Offset from the start of the IPv6 header of the field that names the fragment header: a
    /// reassembler writes `next` there.
    pub named_at: usize,
}

/// Why a chain is refused, and whether the sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Drop without a word.
    Drop(Malformed),
    /// Drop, and send an ICMPv6 parameter problem.
    Answer {
        /// The counter.
        reason: Malformed,
        /// The code of the parameter problem.
        code: u8,
        /// Offset of the fault from the start of the IPv6 header.
        pointer: u32,
        /// Answer although the destination was multicast (RFC 4443 2.4 (e.3), option action 10).
        even_multicast: bool,
    },
}

impl Refusal {
    /// The counter under which the packet is dropped.
    pub const fn reason(self) -> Malformed {
        match self {
            Refusal::Drop(reason) | Refusal::Answer { reason, .. } => reason,
        }
    }

    const fn answer(reason: Malformed, code: u8, pointer: usize) -> Refusal {
        Refusal::Answer { reason, code, pointer: pointer as u32, even_multicast: false }
    }
}

#[inline]
const fn is_extension(next: Proto) -> bool {
    matches!(next, Proto::HOP_BY_HOP | Proto::ROUTING | Proto::FRAGMENT | Proto::DEST_OPTIONS)
}

/// Follows the chain to the upper protocol, or to a fragment header that needs reassembly.
///
/// After reassembly the caller checks and walks the whole datagram again, and drops it when it
/// shows a fragment once more.
#[inline]
pub fn walk<'a>(ip: &Ipv6<'a>) -> Result<Chain<'a>, Refusal> {
    if is_extension(ip.next()) {
        return walk_chain(ip);
    }
    let (upper, bytes) = (ip.next(), ip.payload());
    Ok(Chain { upper, upper_offset: HEADER_LEN, named_at: NEXT_FIELD, fragment: None, bytes })
}

fn walk_chain<'a>(ip: &Ipv6<'a>) -> Result<Chain<'a>, Refusal> {
    let mut bytes = ip.payload();
    let (mut next, mut at, mut named_at) = (ip.next(), HEADER_LEN, NEXT_FIELD);
    let mut seen_fragment = false;
    for count in 0..=MAX_HEADERS {
        if !is_extension(next) {
            return Ok(Chain { upper: next, upper_offset: at, named_at, fragment: None, bytes });
        }
        let Some(h) = bytes.first_chunk::<8>().filter(|_| count < MAX_HEADERS) else {
            let too_many = count == MAX_HEADERS;
            return Err(Refusal::Drop(if too_many {
                Malformed::Ipv6ExtTooMany
            } else {
                Malformed::Ipv6ExtTruncated
            }));
        };
        let len = if next == Proto::FRAGMENT { FRAGMENT_LEN } else { (usize::from(h[1]) + 1) * 8 };
        let Some((header, rest)) = bytes.split_at_checked(len) else {
            return Err(Refusal::Drop(Malformed::Ipv6ExtTruncated));
        };
        if at + len > HEADER_LEN + MAX_BYTES {
            return Err(Refusal::Drop(Malformed::Ipv6ExtTooLong));
        }
        match next {
            Proto::FRAGMENT if seen_fragment => {
                return Err(Refusal::Drop(Malformed::Ipv6BadFragment));
            }
            Proto::FRAGMENT => {
                let fragment = fragment_header(h, at, named_at);
                if fragment.offset != 0 || fragment.more {
                    check_fragment(&fragment, rest)?;
                    let (upper, upper_offset) = (fragment.next, at + FRAGMENT_LEN);
                    return Ok(Chain {
                        upper,
                        upper_offset,
                        named_at: at,
                        fragment: Some(fragment),
                        bytes: rest,
                    });
                }
                seen_fragment = true;
            }
            Proto::ROUTING => check_routing(h, at)?,
            Proto::HOP_BY_HOP if count != 0 => {
                // RFC 8200 4: the value 0 anywhere else is treated as a next header that is not
                // recognised.
                let reason = Malformed::Ipv6ExtHopByHopNotFirst;
                return Err(Refusal::answer(reason, code::UNKNOWN_NEXT_HEADER, named_at));
            }
            _ => check_options(header, at)?,
        }
        (next, named_at, at, bytes) = (Proto(h[0]), at, at + len, rest);
    }
    Err(Refusal::Drop(Malformed::Ipv6ExtTooMany))
}

fn fragment_header(h: &[u8; FRAGMENT_LEN], header_at: usize, named_at: usize) -> Fragment {
    let field = u16_at(h, 2);
    let (offset, more) = (field & !7, field & 1 != 0);
    Fragment { offset, more, id: u32_at(h, 4), next: Proto(h[0]), header_at, named_at }
}

/// RFC 8200 4.5, the error conditions; RFC 7112 5 for the first fragment.
fn check_fragment(fragment: &Fragment, data: &[u8]) -> Result<(), Refusal> {
    let bad = Malformed::Ipv6BadFragment;
    if data.is_empty() {
        return Err(Refusal::Drop(bad));
    }
    if fragment.more && data.len() % 8 != 0 {
        return Err(Refusal::answer(bad, code::ERRONEOUS_FIELD, LENGTH_FIELD as usize));
    }
    // The payload length of the whole would hold the headers before the fragment header too.
    let unfragmentable = fragment.header_at - HEADER_LEN;
    if unfragmentable + usize::from(fragment.offset) + data.len() > 65535 {
        return Err(Refusal::answer(bad, code::ERRONEOUS_FIELD, fragment.header_at + 2));
    }
    if fragment.offset == 0 && !holds_upper_header(fragment.next, data) {
        return Err(Refusal::answer(
            Malformed::Ipv6FirstFragmentIncomplete,
            code::INCOMPLETE_CHAIN,
            0,
        ));
    }
    Ok(())
}

fn holds_upper_header(next: Proto, data: &[u8]) -> bool {
    let Some(skipped) = skip(next, data) else { return false };
    let needed = match skipped.upper {
        Proto::TCP => crate::tcp::HEADER_LEN,
        Proto::UDP => crate::udp::HEADER_LEN,
        Proto::ICMPV6 => crate::icmpv6::HEADER_LEN,
        _ => 0,
    };
    data.len().saturating_sub(skipped.offset) >= needed
}

/// RFC 8200 4.4: a type that is not recognised is skipped when no segments are left, else answered.
/// We know no type, and RFC 5095 3 asks that type 0 be treated as unknown too.
fn check_routing(h: &[u8; 8], at: usize) -> Result<(), Refusal> {
    match h[3] {
        0 => Ok(()),
        _ => Err(Refusal::answer(Malformed::Ipv6ExtRouting, code::ERRONEOUS_FIELD, at + 2)),
    }
}

/// RFC 8200 4.2: options are padding, known and harmless here (router alert, RFC 2711), or unknown
/// and treated by their two highest bits.
fn check_options(header: &[u8], at: usize) -> Result<(), Refusal> {
    const PAD_1: u8 = 0;
    const PAD_N: u8 = 1;
    let bad = Refusal::Drop(Malformed::Ipv6ExtBadOption);
    let mut i = 2;
    let mut count = 0;
    while let Some(&kind) = header.get(i) {
        if kind == PAD_1 {
            i += 1;
            continue;
        }
        let Some(&len) = header.get(i + 1) else { return Err(bad) };
        let end = i + 2 + usize::from(len);
        count += usize::from(kind != PAD_N);
        if end > header.len() || count > MAX_OPTIONS {
            return Err(bad);
        }
        let (reason, pointer) = (Malformed::Ipv6ExtUnknownOption, (at + i) as u32);
        match kind >> 6 {
            0 => {}
            1 => return Err(Refusal::Drop(reason)),
            action => {
                let even_multicast = action == 2;
                return Err(Refusal::Answer {
                    reason,
                    code: code::UNKNOWN_OPTION,
                    pointer,
                    even_multicast,
                });
            }
        }
        i = end;
    }
    Ok(())
}

/// Whether the packet's hop-by-hop header, whose options were walked, carries a router alert (RFC
/// 2711 2.1).
pub fn has_router_alert(ip: &Ipv6<'_>) -> bool {
    const ROUTER_ALERT: u8 = 5;
    if ip.next() != Proto::HOP_BY_HOP {
        return false;
    }
    let header = ip.payload();
    let len = header.get(1).map_or(0, |words| (usize::from(*words) + 1) * 8);
    let Some(mut options) = header.get(2..len) else { return false };
    while let Some((&kind, rest)) = options.split_first() {
        if kind == ROUTER_ALERT {
            return true;
        }
        // A padding byte has no length.
        let after = if kind == 0 {
            Some(rest)
        } else {
            rest.first().and_then(|n| rest.get(1 + usize::from(*n)..))
        };
        options = after.unwrap_or(&[]);
    }
    false
}

/// Where a chain leads when nobody judges it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Skipped {
    pub(crate) upper: Proto,
    /// From the first byte given.
    pub(crate) offset: usize,
    pub(crate) later_fragment: bool,
}

/// Follows lengths only, for packets that are quoted or in pieces. None when the chain is cut off
/// or too long.
pub(crate) fn skip(mut next: Proto, bytes: &[u8]) -> Option<Skipped> {
    let mut offset = 0;
    let mut later_fragment = false;
    for _ in 0..MAX_HEADERS {
        if !is_extension(next) || later_fragment {
            break;
        }
        let h = bytes.get(offset..)?.first_chunk::<4>()?;
        if next == Proto::FRAGMENT {
            later_fragment = u16_at(h, 2) & !7 != 0;
            offset += FRAGMENT_LEN;
        } else {
            offset += (usize::from(h[1]) + 1) * 8;
        }
        next = Proto(h[0]);
    }
    let done = !is_extension(next) || later_fragment;
    (done && offset <= bytes.len()).then_some(Skipped { upper: next, offset, later_fragment })
}

/// Writes a fragment header and returns [`FRAGMENT_LEN`]. `offset` is in bytes, a multiple of 8;
/// lower bits are lost.
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit_fragment(next: Proto, offset: u16, more: bool, id: u32, out: &mut [u8]) -> usize {
    let h = head::<FRAGMENT_LEN>(out);
    h[0] = next.0;
    h[1] = 0;
    put16(h, 2, offset & !7 | u16::from(more));
    put32(h, 4, id);
    FRAGMENT_LEN
}

#[cfg(test)]
mod tests;
