use proptest::prelude::*;

use super::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// What a server says with these options.
pub(crate) fn reply(exchange: u32, yours: [u8; 4], options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    out[..3].copy_from_slice(&[2, 1, 6]);
    out[4..8].copy_from_slice(&exchange.to_be_bytes());
    out[16..20].copy_from_slice(&yours);
    out[28..34].copy_from_slice(&MAC.0);
    out.extend(COOKIE);
    for (code, value) in options {
        out.extend([*code, value.len() as u8]);
        out.extend(*value);
    }
    out.push(option::END);
    out
}

fn with(options: &[(u8, &[u8])]) -> Result<Reply, Malformed> {
    let mut all: Vec<(u8, &[u8])> = vec![(53, &[5])];
    all.extend(options);
    check(&reply(7, [10, 0, 0, 9], &all))
}

#[test]
fn what_we_send_says_who_we_are_and_asks_for_all_to_hear_the_answer() {
    let ask = Ask {
        kind: Kind::Discover,
        exchange: 0x0102_0304,
        seconds: 5,
        mac: MAC,
        ours: None,
        requested: Some(Addr::v4([10, 0, 0, 9])),
        server: None,
    };
    let bytes = emit(&ask);
    assert_eq!(bytes.len(), MIN_LEN);
    assert_eq!(bytes[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 5, 0x80, 0]);
    assert_eq!(bytes[28..34], MAC.0);
    assert_eq!(bytes[236..243], [99, 130, 83, 99, 53, 1, 1]);
    let rest = &bytes[243..];
    assert_eq!(rest[..9], [61, 7, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(rest[9..15], [50, 4, 10, 0, 0, 9]);
    // With an address in use the answer comes to it.
    let renew = emit(&Ask { ours: ask.requested, requested: None, kind: Kind::Request, ..ask });
    assert_eq!((renew[10], &renew[12..16]), (0, &[10, 0, 0, 9][..]));
}

#[test]
fn all_that_a_lease_says_is_read() {
    let read = with(&[
        (1, &[255, 255, 255, 0]),
        (3, &[10, 0, 0, 1, 10, 0, 0, 2]),
        (6, &[10, 0, 0, 3]),
        (15, b"example.org\0"),
        (26, &[5, 0]),
        (51, &[0, 0, 14, 16]),
        (54, &[10, 0, 0, 1]),
        (58, &[0, 0, 7, 8]),
        (59, &[0, 0, 12, 0]),
        (121, &[0, 10, 0, 0, 1, 24, 192, 0, 2, 10, 0, 0, 2, 20, 172, 16, 255, 0, 0, 0, 0]),
        (200, b"who knows"),
    ])
    .unwrap();
    let cidr = |text: &str| text.parse::<Cidr>().unwrap();
    assert_eq!(read.prefix_len, Some(24));
    assert_eq!(read.routers, [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])]);
    assert_eq!(read.dns, [Addr::v4([10, 0, 0, 3])]);
    assert_eq!(read.domain.as_deref(), Some("example.org"));
    assert_eq!((read.mtu, read.seconds), (Some(1280), Some(3600)));
    assert_eq!((read.t1, read.t2), (Some(1800), Some(3072)));
    let routes = read.routes.unwrap();
    assert_eq!(routes[0], (cidr("0.0.0.0/0"), Addr::v4([10, 0, 0, 1])));
    assert_eq!(routes[1], (cidr("192.0.2.0/24"), Addr::v4([10, 0, 0, 2])));
    // RFC 3442: bits behind the prefix count as zero; a router of 0.0.0.0 means the link.
    assert_eq!(routes[2], (cidr("172.16.240.0/20"), Addr::ANY_V4));
}

#[test]
fn an_option_in_parts_is_one_and_the_fields_for_names_hold_options_too() {
    let read = with(&[(15, b"exam"), (6, &[10, 0, 0, 3]), (15, b"ple")]).unwrap();
    assert_eq!(read.domain.as_deref(), Some("example"));
    let mut bytes = reply(7, [10, 0, 0, 9], &[(52, &[3]), (15, b"ex")]);
    bytes[108..112].copy_from_slice(&[53, 1, 5, 0]);
    bytes[44..50].copy_from_slice(&[15, 2, b'a', b'm', 255, 9]);
    let read = check(&bytes).unwrap();
    assert_eq!((read.kind, read.domain.as_deref()), (Kind::Ack, Some("exam")));
}

#[test]
fn what_is_broken_is_refused_under_its_name() {
    let good = reply(7, [10, 0, 0, 9], &[(53, &[5])]);
    assert!(check(&good).is_ok());
    for len in 0..240 {
        assert_eq!(check(&good[..len]), Err(Malformed::Short), "{len}");
    }
    assert_eq!(check(&good[..241]), Err(Malformed::Option));
    for (at, byte, why) in [
        (0, 1, Malformed::NoReply),
        (1, 6, Malformed::NoReply),
        (2, 16, Malformed::NoReply),
        (236, 0, Malformed::Short),
        (241, 200, Malformed::Option),
        (242, 1, Malformed::Kind),
        (242, 0, Malformed::Kind),
        (240, 12, Malformed::Kind),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(check(&bad), Err(why), "{byte} at {at}");
    }
    for (code, value) in [
        (1, &[255, 255, 0, 1][..]),
        (1, &[255, 255, 0]),
        (3, &[]),
        (3, &[1, 2, 3]),
        (6, &[1, 2, 3, 4, 5]),
        (15, b"two words"),
        (15, b"a\nnameserver 192.0.2.66"),
        (15, b""),
        (26, &[5]),
        (51, &[1]),
        (52, &[4]),
        (121, &[]),
        (121, &[33, 1, 2, 3, 4, 5, 1, 2, 3, 4]),
        (121, &[24, 192, 0]),
        (121, &[0, 10, 0, 0]),
    ] {
        assert_eq!(with(&[(code, value)]), Err(Malformed::Value), "option {code}: {value:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..1500), good: bool) {
        if good && bytes.len() > 240 {
            bytes[..3].copy_from_slice(&[2, 1, 6]);
            bytes[236..240].copy_from_slice(&COOKIE);
        }
        if let Ok(read) = check(&bytes) {
            prop_assert!(read.routers.len() <= MOST && read.dns.len() <= MOST);
            prop_assert!(read.routes.map_or(0, |routes| routes.len()) <= MOST_ROUTES);
        }
    }
}
