use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Endpoint};

use super::{Secret, isn, port_offset, ts_offset};

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32])
}

fn end(last: u8, port: u16) -> Endpoint {
    Endpoint::new(Addr::v4([10, 0, 0, last]), port)
}

#[test]
fn numbers_of_one_pair_of_ends_rise_by_one_every_four_microseconds() {
    let s = secret(1);
    let t = Instant::from_micros(1_000_000);
    let first = isn(&s, end(1, 80), end(2, 5000), t);
    assert_eq!(isn(&s, end(1, 80), end(2, 5000), t), first);
    assert_eq!(isn(&s, end(1, 80), end(2, 5000), t + Duration::from_micros(4)).since(first), 1);
    assert_eq!(isn(&s, end(1, 80), end(2, 5000), t + Duration::from_secs(1)).since(first), 250_000);
}

#[test]
fn every_part_of_the_four_tuple_and_of_the_secret_matters() {
    let t = Instant::ZERO;
    let base = isn(&secret(1), end(1, 80), end(2, 5000), t);
    let mut low = [1; 32];
    low[0] = 2;
    let mut high = [1; 32];
    high[31] = 2;
    for other in [
        isn(&secret(1), end(3, 80), end(2, 5000), t),
        isn(&secret(1), end(1, 81), end(2, 5000), t),
        isn(&secret(1), end(1, 80), end(3, 5000), t),
        isn(&secret(1), end(1, 80), end(2, 5001), t),
        isn(&secret(1), end(2, 5000), end(1, 80), t),
        isn(&Secret::new(&low), end(1, 80), end(2, 5000), t),
        isn(&Secret::new(&high), end(1, 80), end(2, 5000), t),
    ] {
        assert_ne!(base, other);
    }
}

#[test]
fn timestamps_have_one_offset_per_peer() {
    let (a, b, c) = (end(1, 0).addr, end(2, 0).addr, end(3, 0).addr);
    assert_eq!(ts_offset(&secret(1), a, b), ts_offset(&secret(1), a, b));
    assert_ne!(ts_offset(&secret(1), a, b), ts_offset(&secret(1), a, c));
    assert_ne!(ts_offset(&secret(1), a, b), ts_offset(&secret(2), a, b));
}

#[test]
fn answers_to_different_questions_do_not_tell_of_each_other() {
    let s = secret(1);
    let port = port_offset(&s, end(1, 0).addr, end(2, 80)) as u32;
    assert_ne!(isn(&s, end(1, 0), end(2, 80), Instant::ZERO).0, port);
    assert_ne!(s.cookie_hash(end(1, 0), end(2, 80), [0, 0]) as u32, port);
}
