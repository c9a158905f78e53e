use std::vec;
use std::vec::Vec;

use super::*;
use crate::group::{NewRecord, RecordKind};

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

/// A message with its checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum::sum(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn read_query(bytes: &[u8]) -> Result<Query<'_>, Malformed> {
    match check(bytes, 1)? {
        Message::Query(query) => Ok(query),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_version_of_a_query_is_told_by_its_length_and_code() {
    let v1 = summed(vec![0x11, 0, 0, 0, 0, 0, 0, 0]);
    let read = read_query(&v1).unwrap();
    assert_eq!(
        (read.version, read.max_response_ms, read.group),
        (Version::V1, 10_000, Addr::ANY_V4)
    );
    let v2 = summed(vec![0x11, 25, 0, 0, 239, 1, 2, 3]);
    let read = read_query(&v2).unwrap();
    assert_eq!(
        (read.version, read.max_response_ms, read.group),
        (Version::V2, 2_500, addr("239.1.2.3"))
    );
    let v3 = summed(vec![0x11, 0x8f, 0, 0, 239, 1, 2, 3, 0xf2, 125, 0, 1, 10, 0, 0, 9]);
    let read = read_query(&v3).unwrap();
    assert_eq!(
        (read.version, read.max_response_ms, read.robustness, read.interval_s),
        (Version::V3, 24_800, 2, 125)
    );
    assert_eq!(read.sources.iter().collect::<Vec<_>>(), [addr("10.0.0.9")]);
    for len in 9..12 {
        let odd = summed(vec![0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..len].to_vec());
        assert_eq!(read_query(&odd), Err(Malformed::IgmpTooShort), "RFC 3376 7.1: ignored, {len}");
    }
}

#[test]
fn queries_that_lie_are_refused() {
    let more_than_came = summed(vec![0x11, 1, 0, 0, 0, 0, 0, 0, 2, 125, 0, 2, 10, 0, 0, 9]);
    assert_eq!(read_query(&more_than_came), Err(Malformed::IgmpBadRecords));
    let no_group = summed(vec![0x11, 1, 0, 0, 10, 0, 0, 1]);
    assert_eq!(read_query(&no_group), Err(Malformed::IgmpBadGroup));
    let fine = summed(vec![0x11, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(check(&fine, 2), Err(Malformed::IgmpBadTtl));
    assert_eq!(check(&fine[..7], 1), Err(Malformed::IgmpTooShort));
    for at in 0..8 {
        let mut broken = fine.clone();
        broken[at] ^= 4;
        assert_eq!(check(&broken, 1), Err(Malformed::IgmpBadChecksum));
    }
}

#[test]
fn what_is_written_is_read_again() {
    let group = addr("239.255.0.7");
    let sources = [addr("10.0.0.1"), addr("10.0.0.2")];
    let mut out = [0xff; 128];
    for (message, to) in [
        (Outgoing::Report { version: Version::V1, group }, group),
        (Outgoing::Report { version: Version::V2, group }, group),
        (Outgoing::Leave { group }, ALL_ROUTERS),
    ] {
        let len = emit(&message, &mut out);
        assert_eq!((len, destination(&message)), (8, to));
        match (message, check(&out[..len], 1).unwrap()) {
            (Outgoing::Report { version, .. }, Message::Report { version: v, group: g }) => {
                assert_eq!((v, g), (version, group));
            }
            (Outgoing::Leave { .. }, Message::Leave { group: g }) => assert_eq!(g, group),
            other => panic!("{other:?}"),
        }
    }
    let records = [
        NewRecord { kind: RecordKind::ChangeToExclude, group, sources: &[] },
        NewRecord { kind: RecordKind::AllowNewSources, group, sources: &sources },
    ];
    let message = Outgoing::Records(&records);
    let len = emit(&message, &mut out);
    assert_eq!((len, len), (emitted_len(&message), 8 + 8 + 16));
    assert_eq!(destination(&message), addr("224.0.0.22"));
    let Message::Records(read) = check(&out[..len], 1).unwrap() else { panic!("no records") };
    let read: Vec<_> =
        read.iter().map(|r| (r.kind, r.group, r.sources.iter().collect::<Vec<_>>())).collect();
    assert_eq!(read, records.map(|r| (r.kind, r.group, r.sources.to_vec())));
}
