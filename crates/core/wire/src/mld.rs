//! MLD, versions 1 and 2 (RFC 2710, RFC 3810): a host's multicast memberships over IPv6. The
//! messages are ICMPv6's.

use crate::addr::Addr;
use crate::bytes::{head, put16, u16_at};
use crate::checksum;
use crate::group::{Message, Outgoing, Query, Records, Sources, Version, decode_8, read_addr};
use crate::ip::Proto;
use crate::malformed::Malformed;

/// Bytes of a message of version 1 (RFC 2710 3).
const V1_LEN: usize = 24;
/// Bytes of a query of version 2 before its sources (RFC 3810 5.1).
const QUERY_V2_LEN: usize = 28;
/// Bytes of a report of version 2 before its records.
const REPORT_V2_HEADER: usize = 8;
/// The hop limit of every message (RFC 3810 5).
pub const HOP_LIMIT: u8 = 1;
/// Where reports of version 2 go (RFC 3810 5.2.14).
pub const ALL_V2_ROUTERS: Addr = Addr::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);
/// The hop-by-hop header with a router alert (RFC 2711, value 0) that stands before every message.
pub const ROUTER_ALERT: [u8; 8] = [Proto::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0];

const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

/// Whether an ICMPv6 type is one of this protocol's.
pub const fn is_ours(kind: u8) -> bool {
    matches!(kind, QUERY | REPORT_V1 | DONE | REPORT_V2)
}

/// Reads a message from an ICMPv6 message whose checksum was looked at. RFC 3810 6.2: only from a
/// link-local source, with a hop limit of 1, and behind a router alert.
pub fn check<'a>(
    src: &Addr,
    hop_limit: u8,
    has_router_alert: bool,
    bytes: &'a [u8],
) -> Result<Message<'a>, Malformed> {
    let (h, rest) = bytes.split_first_chunk::<8>().ok_or(Malformed::MldTooShort)?;
    let from_nobody = src.is_unspecified() && h[0] != QUERY;
    if !(src.is_link_local() || from_nobody) {
        return Err(Malformed::MldBadSource);
    }
    if hop_limit != HOP_LIMIT || !has_router_alert {
        return Err(Malformed::MldBadHopLimit);
    }
    if h[0] == REPORT_V2 {
        let records = Records::read(rest, u16_at(h, 6).into(), true);
        return Ok(Message::Records(records.ok_or(Malformed::MldBadRecords)?));
    }
    let Some((_, group)) =
        bytes.first_chunk::<V1_LEN>().and_then(|whole| whole.split_last_chunk::<16>())
    else {
        return Err(Malformed::MldTooShort);
    };
    let group = read_addr(group, true);
    if !(group.is_multicast() || h[0] == QUERY && group.is_unspecified()) {
        return Err(Malformed::MldBadGroup);
    }
    match h[0] {
        QUERY => query(bytes, u16_at(h, 4), group).map(Message::Query),
        REPORT_V1 => Ok(Message::Report { version: Version::V2, group }),
        DONE => Ok(Message::Leave { group }),
        other => Ok(Message::Other(other)),
    }
}

/// RFC 3810 8.1: the version is told by the length.
fn query(bytes: &[u8], code: u16, group: Addr) -> Result<Query<'_>, Malformed> {
    if bytes.len() == V1_LEN {
        let (robustness, interval_s) = (0, 0);
        let sources = Sources::default();
        return Ok(Query {
            version: Version::V2,
            max_response_ms: code.into(),
            group,
            robustness,
            interval_s,
            sources,
        });
    }
    let Some(whole) = bytes.first_chunk::<QUERY_V2_LEN>() else {
        return Err(Malformed::MldTooShort);
    };
    let sources = Sources::read(&bytes[QUERY_V2_LEN..], u16_at(whole, 26).into(), true);
    // RFC 3810 5.1.3: a mantissa of twelve bits, an exponent of three.
    let max_response_ms = match code {
        0..0x8000 => u32::from(code),
        _ => (u32::from(code & 0xfff) | 0x1000) << (u32::from(code >> 12 & 7) + 3),
    };
    Ok(Query {
        version: Version::V3,
        max_response_ms,
        group,
        robustness: whole[24] & 7,
        interval_s: decode_8(whole[25]),
        sources: sources.ok_or(Malformed::MldBadRecords)?,
    })
}

/// Where a message goes.
pub fn destination(message: &Outgoing<'_>) -> Addr {
    match *message {
        Outgoing::Report { group, .. } => group,
        Outgoing::Leave { .. } => Addr::ALL_ROUTERS,
        Outgoing::Records(_) => ALL_V2_ROUTERS,
    }
}

/// Bytes that [`emit`] writes.
pub fn emitted_len(message: &Outgoing<'_>) -> usize {
    match message {
        Outgoing::Report { .. } | Outgoing::Leave { .. } => V1_LEN,
        Outgoing::Records(records) => {
            REPORT_V2_HEADER + records.iter().map(|r| r.emitted_len()).sum::<usize>()
        }
    }
}

/// Writes a message from `src` with its checksum and returns its length, [`emitted_len`].
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit(src: &Addr, message: &Outgoing<'_>, out: &mut [u8]) -> usize {
    let len = emitted_len(message);
    out[..8].fill(0);
    out[0] = match message {
        Outgoing::Report { .. } => REPORT_V1,
        Outgoing::Leave { .. } => DONE,
        Outgoing::Records(_) => REPORT_V2,
    };
    match message {
        Outgoing::Report { group, .. } | Outgoing::Leave { group } => {
            out[8..V1_LEN].copy_from_slice(group.octets())
        }
        Outgoing::Records(records) => {
            put16(head::<8>(out), 6, records.len() as u16);
            let mut at = REPORT_V2_HEADER;
            for record in *records {
                at += record.emit(&mut out[at..]);
            }
        }
    }
    let sum = checksum::transport(src, &destination(message), Proto::ICMPV6, &out[..len]);
    put16(head::<8>(out), 2, sum);
    len
}

#[cfg(test)]
mod tests;
