use std::vec;

use super::*;

const KINDS: [Icmpv6<'static>; 7] = [
    Icmpv6::Unreachable { code: UNREACHABLE_PORT, quoted: b"quoted packet" },
    Icmpv6::PacketTooBig { mtu: 1280, quoted: b"q" },
    Icmpv6::TimeExceeded { code: TIME_EXCEEDED_REASSEMBLY, quoted: b"qq" },
    Icmpv6::ParamProblem { code: PARAM_UNKNOWN_OPTION, pointer: 0x0102_0304, quoted: b"qqq" },
    Icmpv6::EchoRequest { id: 1, seq: 2, data: b"abc" },
    Icmpv6::EchoReply { id: 0xffff, seq: 0, data: b"" },
    Icmpv6::Other { kind: 143, code: 0, rest: [0, 0, 0, 1], data: b"report" },
];

fn ends() -> (Addr, Addr) {
    ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap())
}

#[test]
fn every_kind_comes_back_as_it_was_written() {
    let (src, dst) = ends();
    for message in KINDS {
        let mut out = vec![0xff; 64];
        let len = emit(&src, &dst, &message, &mut out);
        assert_eq!(len, message.emitted_len());
        assert_eq!(check(&src, &dst, 64, &out[..len], true), Ok(message));
    }
}

#[test]
fn the_checksum_covers_message_and_addresses() {
    let (src, dst) = ends();
    let mut out = vec![0; 64];
    let len = emit(&src, &dst, &KINDS[0], &mut out);
    let elsewhere = "fe80::3".parse().unwrap();
    assert_eq!(check(&src, &elsewhere, 64, &out[..len], true), Err(Malformed::Icmpv6BadChecksum));
    assert_eq!(check(&src, &elsewhere, 64, &out[..len], false), Ok(KINDS[0]));
    for at in 0..len {
        out[at] ^= 4;
        assert_eq!(
            check(&src, &dst, 64, &out[..len], true),
            Err(Malformed::Icmpv6BadChecksum),
            "byte {at}"
        );
        out[at] ^= 4;
    }
}

#[test]
fn fewer_than_eight_bytes_are_too_short() {
    let (src, dst) = ends();
    assert_eq!(check(&src, &dst, 64, &[128; 7], false), Err(Malformed::Icmpv6TooShort));
}

#[test]
fn errors_are_told_from_questions() {
    assert_eq!(KINDS.map(|m| m.is_error()), [true, true, true, true, false, false, false]);
}
