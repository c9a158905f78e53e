use std::vec::Vec;

use super::*;

#[test]
fn codes_are_numbers_or_mantissa_and_exponent() {
    // RFC 3376 4.1.1: 128 and more are (mantissa | 16) << (exponent + 3).
    for (code, value) in [(0, 0), (127, 127), (128, 128), (0x8f, 248), (0x90, 256), (0xff, 31_744)]
    {
        assert_eq!(decode_8(code), value, "{code:#x}");
    }
}

#[test]
fn records_of_unknown_kinds_and_auxiliary_data_are_passed_over() {
    let mut bytes = Vec::new();
    bytes.extend([9, 0, 0, 0, 239, 0, 0, 1]);
    bytes.extend([4, 1, 0, 1, 239, 0, 0, 2, 10, 0, 0, 7, 0xaa, 0xbb, 0xcc, 0xdd]);
    bytes.extend([1, 0, 0, 0, 239, 0, 0, 3]);
    let records = Records::read(&bytes, 3, false).unwrap();
    let read: Vec<_> =
        records.iter().map(|r| (r.kind, r.group, r.sources.iter().collect::<Vec<_>>())).collect();
    assert_eq!(
        read,
        [
            (
                RecordKind::ChangeToExclude,
                Addr::v4([239, 0, 0, 2]),
                [Addr::v4([10, 0, 0, 7])].to_vec()
            ),
            (RecordKind::ModeIsInclude, Addr::v4([239, 0, 0, 3]), Vec::new()),
        ]
    );
}

#[test]
fn records_that_are_cut_off_are_refused_wherever_they_end() {
    let record = NewRecord {
        kind: RecordKind::AllowNewSources,
        group: "ff0e::5".parse().unwrap(),
        sources: &["2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
    };
    let mut bytes = [0; 64];
    assert_eq!((record.emit(&mut bytes), record.emitted_len()), (52, 52));
    assert!(Records::read(&bytes[..52], 1, true).is_some());
    for len in 0..52 {
        assert_eq!(Records::read(&bytes[..len], 1, true), None, "{len}");
    }
    assert_eq!(Records::read(&bytes[..52], 2, true), None);
}
