use std::vec;
use std::vec::Vec;

use super::*;
use crate::group::{NewRecord, RecordKind};
use crate::icmpv6;

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn query(len: usize, code: u16, group: &str) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[0] = 130;
    bytes[4..6].copy_from_slice(&code.to_be_bytes());
    bytes[8..24].copy_from_slice(addr(group).octets());
    bytes
}

fn read_query(bytes: &[u8]) -> Result<Query<'_>, Malformed> {
    match check(&addr("fe80::1"), 1, true, bytes)? {
        Message::Query(query) => Ok(query),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_version_of_a_query_is_told_by_its_length() {
    let v1 = query(24, 2_500, "::");
    let read = read_query(&v1).unwrap();
    assert_eq!(
        (read.version, read.max_response_ms, read.group),
        (Version::V2, 2_500, Addr::ANY_V6)
    );
    let mut v2 = query(28 + 16, 0x8001, "ff0e::7");
    v2[24..28].copy_from_slice(&[0x0b, 0x90, 0, 1]);
    v2[28..].copy_from_slice(addr("2001:db8::9").octets());
    let read = read_query(&v2).unwrap();
    assert_eq!((read.version, read.max_response_ms), (Version::V3, 0x1001 << 3));
    assert_eq!((read.robustness, read.interval_s), (3, 256));
    assert_eq!(read.sources.iter().collect::<Vec<_>>(), [addr("2001:db8::9")]);
    for len in 25..28 {
        assert_eq!(
            read_query(&query(len, 1, "::")),
            Err(Malformed::MldTooShort),
            "RFC 3810 8.1: ignored, {len}"
        );
    }
}

#[test]
fn messages_from_beyond_the_link_or_without_an_alert_are_refused() {
    let fine = query(24, 1, "::");
    assert!(check(&addr("fe80::1"), 1, true, &fine).is_ok());
    assert_eq!(check(&addr("2001:db8::1"), 1, true, &fine), Err(Malformed::MldBadSource));
    assert_eq!(check(&Addr::ANY_V6, 1, true, &fine), Err(Malformed::MldBadSource));
    assert_eq!(check(&addr("fe80::1"), 255, true, &fine), Err(Malformed::MldBadHopLimit));
    assert_eq!(check(&addr("fe80::1"), 1, false, &fine), Err(Malformed::MldBadHopLimit));
    assert_eq!(read_query(&fine[..23]), Err(Malformed::MldTooShort));
    assert_eq!(read_query(&query(24, 1, "2001:db8::1")), Err(Malformed::MldBadGroup));
    let mut lying = query(28, 1, "::");
    lying[27] = 1;
    assert_eq!(read_query(&lying), Err(Malformed::MldBadRecords));
}

#[test]
fn what_is_written_is_read_again() {
    let (src, group) = (addr("fe80::5"), addr("ff05::1:3"));
    let sources = [addr("2001:db8::1")];
    let records = [
        NewRecord { kind: RecordKind::BlockOldSources, group, sources: &sources },
        NewRecord { kind: RecordKind::ModeIsExclude, group, sources: &[] },
    ];
    let mut out = [0xff; 128];
    for (message, to, len) in [
        (Outgoing::Report { version: Version::V2, group }, group, 24),
        (Outgoing::Leave { group }, Addr::ALL_ROUTERS, 24),
        (Outgoing::Records(&records), addr("ff02::16"), 8 + 36 + 20),
    ] {
        assert_eq!((emit(&src, &message, &mut out), emitted_len(&message)), (len, len));
        assert_eq!(destination(&message), to);
        assert!(icmpv6::check(&src, &to, 1, &out[..len], true).is_ok(), "the checksum");
        match (message, check(&src, 1, true, &out[..len]).unwrap()) {
            (Outgoing::Report { .. }, Message::Report { version, group: g }) => {
                assert_eq!((version, g), (Version::V2, group));
            }
            (Outgoing::Leave { .. }, Message::Leave { group: g }) => assert_eq!(g, group),
            (Outgoing::Records(_), Message::Records(read)) => {
                let read: Vec<_> = read
                    .iter()
                    .map(|r| (r.kind, r.group, r.sources.iter().collect::<Vec<_>>()))
                    .collect();
                assert_eq!(read, records.map(|r| (r.kind, r.group, r.sources.to_vec())));
            }
            other => panic!("{other:?}"),
        }
    }
}
