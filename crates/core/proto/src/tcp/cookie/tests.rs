use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Endpoint, Seq};
use proptest::prelude::*;

use super::{CookieOptions, check, make, put_options, take_options};
use crate::tcp::isn::Secret;

fn ends() -> (Endpoint, Endpoint) {
    (Endpoint::new(Addr::v4([10, 0, 0, 1]), 80), Endpoint::new(Addr::v4([10, 0, 0, 2]), 40_000))
}

fn secret() -> Secret {
    Secret::new(&[7; 32])
}

const PEER: Seq = Seq(0xdead_beef);

#[test]
fn a_cookie_comes_back_with_the_segment_size_rounded_down() {
    let (l, r) = ends();
    let now = Instant::from_millis(1_000_000);
    for (mss, said) in
        [(1460, 1460), (1459, 1440), (9000, 8960), (536, 536), (300, 256), (10, 88), (65_535, 8960)]
    {
        let cookie = make(&secret(), l, r, PEER, mss, now);
        assert_eq!(check(&secret(), l, r, PEER, cookie, now), Some(said));
    }
}

#[test]
fn sizes_of_ipv6_have_a_table_of_their_own() {
    let l = Endpoint::new("2001:db8::1".parse().unwrap(), 80);
    let r = Endpoint::new("2001:db8::2".parse().unwrap(), 40_000);
    let cookie = make(&secret(), l, r, PEER, 1440, Instant::ZERO);
    assert_eq!(check(&secret(), l, r, PEER, cookie, Instant::ZERO), Some(1440));
}

#[test]
fn a_cookie_is_good_for_one_to_two_epochs() {
    let (l, r) = ends();
    let made = Instant::ZERO + Duration::from_secs(64 * 10 + 63);
    let cookie = make(&secret(), l, r, PEER, 1460, made);
    let after = |s| check(&secret(), l, r, PEER, cookie, made + Duration::from_secs(s));
    assert_eq!(after(1), Some(1460));
    assert_eq!(after(64), Some(1460));
    assert_eq!(after(65), None);
    assert_eq!(after(64 * 8), None);
    assert_eq!(after(64 * 32), None);
}

#[test]
fn a_cookie_is_good_for_its_own_handshake_only() {
    let (l, r) = ends();
    let now = Instant::ZERO;
    let cookie = make(&secret(), l, r, PEER, 1460, now);
    let other = Endpoint::new(r.addr, r.port + 1);
    assert_eq!(check(&secret(), l, other, PEER, cookie, now), None);
    assert_eq!(check(&secret(), l, r, PEER + 1, cookie, now), None);
    assert_eq!(check(&secret(), l, r, PEER, cookie + 1, now), None);
    assert_eq!(check(&Secret::new(&[8; 32]), l, r, PEER, cookie, now), None);
}

#[test]
fn guesses_fail() {
    let (l, r) = ends();
    let hits = (0..200_000u32)
        .filter(|n| {
            check(&secret(), l, r, PEER, Seq(n.wrapping_mul(0x9e37_79b9)), Instant::ZERO).is_some()
        })
        .count();
    // One guess in 2^28 is right.
    assert!(hits <= 1, "{hits}");
}

proptest! {
    #[test]
    fn options_survive_the_timestamp_which_never_runs_ahead(
        tsval in any::<u32>(), sack in any::<bool>(), ecn in any::<bool>(),
            scale in prop::option::of(0u8..=14),
    ) {
        let options = CookieOptions { sack, ecn, scale };
        let sent = put_options(tsval, options);
        prop_assert_eq!(take_options(sent), options);
        prop_assert!(tsval.wrapping_sub(sent) < 64);
    }
}

#[test]
fn a_scale_beyond_fourteen_is_carried_as_fourteen() {
    let sent = put_options(0, CookieOptions { sack: false, ecn: false, scale: Some(200) });
    assert_eq!(take_options(sent).scale, Some(14));
}
