//! IGMP, versions 1 to 3 (RFC 1112 appendix I, RFC 2236, RFC 3376): a host's multicast memberships
//! over IPv4.

use crate::addr::Addr;
use crate::bytes::{head, put16, u16_at};
use crate::checksum;
use crate::group::{Message, Outgoing, Query, Records, Sources, Version, decode_8, read_addr};
use crate::malformed::Malformed;

/// Bytes of every message but queries and reports of version 3.
pub const HEADER_LEN: usize = 8;
/// Bytes of the IPv4 header in which every message leaves, with a router alert (RFC 3376 4).
pub const IP_HEADER_LEN: usize = crate::ipv4::ROUTER_ALERT_HEADER_LEN;
/// The TTL of every message (RFC 3376 4).
pub const TTL: u8 = 1;
/// All routers of the link: where leaving is told (RFC 2236 9).
pub const ALL_ROUTERS: Addr = Addr::v4([224, 0, 0, 2]);
/// Where reports of version 3 go (RFC 3376 4.2.14).
pub const ALL_V3_ROUTERS: Addr = Addr::v4([224, 0, 0, 22]);

/// A query of version 3 is at least so long (RFC 3376 7.1).
const QUERY_V3_LEN: usize = 12;
/// How long who answers a querier of version 1 may wait (RFC 3376 8.3).
const V1_MAX_RESPONSE_MS: u32 = 10_000;

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

/// Reads a message from the payload of an IPv4 packet with the TTL `ttl`.
pub fn check(bytes: &[u8], ttl: u8) -> Result<Message<'_>, Malformed> {
    let (h, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::IgmpTooShort)?;
    if !checksum::sum(bytes).is_valid() {
        return Err(Malformed::IgmpBadChecksum);
    }
    // RFC 3376 4: each leaves with a TTL of 1, and who is further away cannot send one that has it
    // still.
    if ttl != TTL {
        return Err(Malformed::IgmpBadTtl);
    }
    let group = read_addr(&h[4..], false);
    Ok(match h[0] {
        QUERY => Message::Query(query(bytes, h, group)?),
        REPORT_V1 => Message::Report { version: Version::V1, group },
        REPORT_V2 => Message::Report { version: Version::V2, group },
        LEAVE => Message::Leave { group },
        REPORT_V3 => {
            let records = Records::read(rest, u16_at(h, 6).into(), false);
            Message::Records(records.ok_or(Malformed::IgmpBadRecords)?)
        }
        other => Message::Other(other),
    })
}

/// RFC 3376 7.1: the version is told by length and code.
fn query<'a>(bytes: &'a [u8], h: &[u8; HEADER_LEN], group: Addr) -> Result<Query<'a>, Malformed> {
    if !group.is_unspecified() && !group.is_multicast() {
        return Err(Malformed::IgmpBadGroup);
    }
    let old = |version, max_response_ms| Query {
        version,
        max_response_ms,
        group,
        robustness: 0,
        interval_s: 0,
        sources: Sources::default(),
    };
    if bytes.len() == HEADER_LEN {
        return Ok(match h[1] {
            0 => old(Version::V1, V1_MAX_RESPONSE_MS),
            tenths => old(Version::V2, u32::from(tenths) * 100),
        });
    }
    let Some(whole) = bytes.first_chunk::<QUERY_V3_LEN>() else {
        return Err(Malformed::IgmpTooShort);
    };
    let sources = Sources::read(&bytes[QUERY_V3_LEN..], u16_at(whole, 10).into(), false);
    let sources = sources.ok_or(Malformed::IgmpBadRecords)?;
    Ok(Query {
        version: Version::V3,
        max_response_ms: decode_8(h[1]) * 100,
        group,
        robustness: whole[8] & 7,
        interval_s: decode_8(whole[9]),
        sources,
    })
}

/// Where a message goes.
pub fn destination(message: &Outgoing<'_>) -> Addr {
    match *message {
        Outgoing::Report { group, .. } => group,
        Outgoing::Leave { .. } => ALL_ROUTERS,
        Outgoing::Records(_) => ALL_V3_ROUTERS,
    }
}

/// Bytes that [`emit`] writes.
pub fn emitted_len(message: &Outgoing<'_>) -> usize {
    match message {
        Outgoing::Report { .. } | Outgoing::Leave { .. } => HEADER_LEN,
        Outgoing::Records(records) => {
            HEADER_LEN + records.iter().map(|r| r.emitted_len()).sum::<usize>()
        }
    }
}

/// Writes a message with its checksum and returns its length, [`emitted_len`].
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit(message: &Outgoing<'_>, out: &mut [u8]) -> usize {
    let len = emitted_len(message);
    let h = head::<HEADER_LEN>(out);
    let kind = match message {
        Outgoing::Report { version: Version::V1, .. } => REPORT_V1,
        Outgoing::Report { .. } => REPORT_V2,
        Outgoing::Leave { .. } => LEAVE,
        Outgoing::Records(_) => REPORT_V3,
    };
    *h = [kind, 0, 0, 0, 0, 0, 0, 0];
    match message {
        Outgoing::Report { group, .. } | Outgoing::Leave { group } => {
            h[4..].copy_from_slice(&group.v4_octets())
        }
        Outgoing::Records(records) => {
            put16(h, 6, records.len() as u16);
            let mut at = HEADER_LEN;
            for record in *records {
                at += record.emit(&mut out[at..]);
            }
        }
    }
    let sum = checksum::sum(&out[..len]).finish();
    put16(head::<HEADER_LEN>(out), 2, sum);
    len
}

#[cfg(test)]
mod tests;
