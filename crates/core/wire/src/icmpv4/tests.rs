use std::vec;

use super::*;

const KINDS: [Icmpv4<'static>; 8] = [
    Icmpv4::EchoRequest { id: 1, seq: 2, data: b"abc" },
    Icmpv4::EchoReply { id: 0xffff, seq: 0, data: b"" },
    Icmpv4::Unreachable {
        code: UNREACHABLE_FRAGMENTATION_NEEDED,
        mtu: 1400,
        quoted: b"quoted packet",
    },
    Icmpv4::Redirect { code: 1, gateway: Addr::v4([10, 0, 0, 254]), quoted: b"q" },
    Icmpv4::TimeExceeded { code: TIME_EXCEEDED_REASSEMBLY, quoted: b"qq" },
    Icmpv4::ParamProblem { code: 0, pointer: 20, quoted: b"qqq" },
    Icmpv4::Other { kind: 13, code: 0, rest: [1, 2, 3, 4], data: b"times" },
    Icmpv4::Other { kind: 8, code: 9, rest: [1, 2, 3, 4], data: b"an echo request of code 9" },
];

#[test]
fn every_kind_comes_back_as_it_was_written() {
    for message in KINDS {
        let mut out = vec![0xff; 64];
        let len = emit(&message, &mut out);
        assert_eq!(len, message.emitted_len());
        assert_eq!(check(&out[..len], true), Ok(message));
    }
}

#[test]
fn a_changed_byte_fails_the_checksum() {
    for message in KINDS {
        let mut out = vec![0; 64];
        let len = emit(&message, &mut out);
        for at in 0..len {
            out[at] ^= 0x10;
            assert_eq!(check(&out[..len], true), Err(Malformed::Icmpv4BadChecksum), "byte {at}");
            out[at] ^= 0x10;
        }
    }
}

#[test]
fn fewer_than_eight_bytes_are_too_short() {
    assert_eq!(check(&[8, 0, 0, 0, 0, 0, 0], false), Err(Malformed::Icmpv4TooShort));
}

#[test]
fn errors_are_told_from_questions() {
    let errors = KINDS.map(|m| m.is_error());
    assert_eq!(errors, [false, false, true, true, true, true, false, false]);
}
