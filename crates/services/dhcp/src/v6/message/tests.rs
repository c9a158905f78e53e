use super::*;

const MAC: Mac = Mac([2, 0, 0, 10, 11, 12]);

/// An Advertise as a server sends it, with one address.
pub(crate) fn advertise() -> Vec<u8> {
    let mut out = vec![2, 1, 2, 3];
    put(&mut out, option::CLIENT, &client_of(MAC));
    put(&mut out, option::SERVER, &[0, 3, 0, 1, 9, 9, 9, 9, 9, 9]);
    let mut ia = [&association(MAC)[..], &[0, 0, 0, 50], &[0, 0, 0, 80]].concat();
    let addr: Addr = "2001:db8::7".parse().unwrap();
    put(&mut ia, option::ADDRESS, &[&addr.octets()[..], &[0, 0, 0, 90], &[0, 0, 0, 100]].concat());
    put(&mut out, option::IA_NA, &ia);
    let dns: Addr = "2001:db8::53".parse().unwrap();
    put(&mut out, option::DNS, dns.octets());
    put(&mut out, option::DOMAINS, b"\x03lab\x07example\x00\x02it\x00");
    put(&mut out, option::PREFERENCE, &[7]);
    out
}

#[test]
fn what_a_server_says_is_read() {
    let said = read(&advertise(), MAC).unwrap();
    assert_eq!((said.kind, said.exchange, said.preference), (Kind::Advertise, 0x01_02_03, 7));
    assert_eq!(said.client.as_deref(), Some(&client_of(MAC)[..]));
    assert_eq!((said.times, said.status, said.rapid_commit), ((50, 80), Status::Success, false));
    let addr = "2001:db8::7".parse().unwrap();
    assert_eq!(said.given, [Given { addr, preferred: 90, valid: 100 }]);
    assert_eq!(said.dns, ["2001:db8::53".parse().unwrap()]);
    assert_eq!(said.domains, ["lab.example", "it"]);
}

#[test]
fn what_is_asked_has_the_options_of_the_rfc_in_their_places() {
    let ask = Ask {
        kind: Kind::Request,
        exchange: 0x0a_0b_0c,
        mac: MAC,
        elapsed: 258,
        server: Some(&[1, 2, 3]),
        address: Some("2001:db8::7".parse().unwrap()),
    };
    let bytes = emit(&ask);
    assert_eq!(bytes[..4], [3, 10, 11, 12]);
    let all: Vec<(u16, &[u8])> = options(&bytes[4..]).map(Result::unwrap).collect();
    let find = |code| all.iter().find(|(c, _)| *c == code).unwrap().1;
    assert_eq!(find(option::CLIENT), [0, 3, 0, 1, 2, 0, 0, 10, 11, 12]);
    assert_eq!((find(option::SERVER), find(option::ELAPSED)), (&[1, 2, 3][..], &[1, 2][..]));
    assert_eq!(find(option::WANTED), [0, 23, 0, 24]);
    let ia = find(option::IA_NA);
    assert_eq!((&ia[..4], &ia[4..12]), (&MAC.0[2..], &[0; 8][..]));
    let (code, addr) = options(&ia[12..]).next().unwrap().unwrap();
    assert_eq!((code, addr.len()), (option::ADDRESS, 24));
    assert!(all.iter().all(|(code, _)| *code != option::RAPID_COMMIT));
    let solicit = emit(&Ask { kind: Kind::Solicit, server: None, ..ask });
    assert!(options(&solicit[4..]).any(|o| o.unwrap().0 == option::RAPID_COMMIT));
    let information = emit(&Ask { kind: Kind::Information, server: None, address: None, ..ask });
    assert!(options(&information[4..]).all(|o| o.unwrap().0 != option::IA_NA));
}

#[test]
fn each_kind_of_damage_has_its_reason() {
    let whole = advertise();
    assert_eq!(read(&whole[..3], MAC), Err(Malformed::Short));
    assert_eq!(read(&[&[1], &whole[1..]].concat(), MAC), Err(Malformed::Kind));
    assert_eq!(read(&whole[..whole.len() - 1], MAC), Err(Malformed::Option));
    assert_eq!(read(&whole[..18], MAC), Err(Malformed::NoServer));
    let with = |code, value: &[u8]| {
        let mut out = whole.clone();
        put(&mut out, code, value);
        read(&out, MAC)
    };
    for (code, value) in [
        (option::SERVER, &[1, 2][..]),
        (option::SERVER, &[1; MAX_DUID + 1]),
        (option::DNS, &[1; 15]),
        (option::DNS, &[]),
        (option::DOMAINS, b"\x04lab"),
        (option::DOMAINS, b"\x03lab"),
        (option::DOMAINS, &[64; 65]),
        (option::STATUS, &[1]),
        (option::PREFERENCE, &[]),
        (option::REFRESH, &[1, 2, 3]),
        (option::IA_NA, &association(MAC)),
    ] {
        assert_eq!(with(code, value), Err(Malformed::Value), "{code} {value:?}");
    }
    // An address that reaches beyond its association, and a server of names that cannot be one.
    let ia = [&association(MAC)[..], &[0; 8], &[0, 5, 0, 24, 1]].concat();
    assert_eq!(with(option::IA_NA, &ia), Err(Malformed::Option));
    assert_eq!(with(option::DNS, &[0; 16]).unwrap().dns, []);
    // Another one's association is none of ours.
    let other = [&[0; 12][..], &[0, 5, 0, 24, 1]].concat();
    assert_eq!(with(option::IA_NA, &other).unwrap().given.len(), 1);
    // A name that is none of hosts is left out.
    assert_eq!(with(option::DOMAINS, b"\x03a b\x00\x02it\x00").unwrap().domains, ["it"]);
}

#[test]
fn no_damage_makes_reading_panic_or_keep_more_than_it_may() {
    let whole = advertise();
    for len in 0..whole.len() {
        let _ = read(&whole[..len], MAC);
    }
    let mut rng = clearway_base::Rng::seed(7);
    for _ in 0..100_000 {
        let mut bytes = whole.clone();
        for _ in 0..=rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
        }
        if let Ok(said) = read(&bytes, MAC) {
            assert!(said.dns.len() <= MOST && said.domains.len() <= MOST);
            assert!(said.given.len() <= MOST && said.server.len() <= MAX_DUID);
        }
    }
}
