extern crate std;

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

#[test]
fn records_come_out_as_they_went_in() {
    let mut q = Records::new(4, 10);
    assert!(q.push(1, &[b"ab", b"cd"]));
    assert!(q.push(2, &[b"efgh"]));
    assert!(!q.push(3, &[b"ijk"]), "only two bytes are left");
    assert_eq!(q.front(), Some((&1, &b"abcd"[..])));
    assert_eq!(q.pop(), Some((1, &b"abcd"[..])));
    assert!(q.push(3, &[b"ijk"]));
    assert_eq!(q.pop(), Some((2, &b"efgh"[..])));
    assert_eq!(q.pop(), Some((3, &b"ijk"[..])));
    assert!(q.pop().is_none());
}

#[test]
fn a_full_length_record_fits_an_empty_queue() {
    let mut q = Records::new(2, 8);
    for _ in 0..5 {
        assert!(q.push((), &[&[7; 8]]));
        assert!(!q.push((), &[&[7; 1]]));
        assert_eq!(q.pop(), Some(((), &[7; 8][..])));
    }
    assert!(!q.push((), &[&[7; 9]]));
}

#[test]
fn memory_is_taken_by_use_and_given_back_when_nothing_came_since_the_last_look() {
    let mut q = Records::new(512, 256 * 1024);
    assert_eq!(q.memory(), 0, "a queue that nothing went through");
    assert!(q.push(0u32, &[b"x"]));
    assert!(q.memory() <= 2 * FIRST_BYTES, "{}", q.memory());
    for n in 1..180 {
        assert!(q.push(n, &[&[n as u8; 1400]]));
    }
    assert!(q.rest(), "records are there: nothing is given back");
    assert!(q.memory() >= 179 * 1400);
    for n in 0..180 {
        let (value, bytes) = q.pop().unwrap();
        assert!(value == n && (n == 0 || bytes == [n as u8; 1400]), "{n}");
    }
    assert!(q.push(0, &[b"y"]) && q.pop().is_some());
    assert!(!q.rest(), "one came since the last look");
    assert!(q.memory() > 0);
    assert!(q.rest());
    assert_eq!(q.memory(), 0);
}

proptest! {
    #[test]
    fn no_record_is_ever_overwritten_while_memory_grows(steps in
        proptest::collection::vec((0usize..3000, 0u8..5), 1..300)) {
        let mut q: Records<u8> = Records::new(64, 40_000);
        let mut model: VecDeque<(u8, Vec<u8>)> = VecDeque::new();
        for (n, (len, step)) in steps.into_iter().enumerate() {
            match step {
                0..=2 => {
                    let bytes = vec![n as u8; len];
                    let used: usize = model.iter().map(|(_, b)| b.len().max(1)).sum();
                    prop_assert_eq!(q.free_bytes(), 40_000 - used);
                    if q.push(n as u8, &[&bytes]) {
                        model.push_back((n as u8, bytes));
                    } else {
                        prop_assert!(used + len > 40_000 / 2);
                    }
                }
                3 => {
                    let got = q.pop().map(|(v, b)| (v, b.to_vec()));
                    prop_assert_eq!(got, model.pop_front());
                }
                _ => {
                    q.rest();
                }
            }
            let all: Vec<_> = q.iter().map(|(v, b)| (*v, b.to_vec())).collect();
            prop_assert!(all.iter().eq(model.iter()));
        }
    }

    #[test]
    fn no_record_is_ever_overwritten(steps in proptest::collection::vec((0usize..20, any::<bool>()),
        1..300)) {
        let mut q: Records<u8> = Records::new(6, 32);
        let mut model: VecDeque<(u8, Vec<u8>)> = VecDeque::new();
        for (n, (len, push)) in steps.into_iter().enumerate() {
            if push {
                let bytes = vec![n as u8; len];
                if q.push(n as u8, &[&bytes]) {
                    model.push_back((n as u8, bytes));
                } else {
                    prop_assert!(!model.is_empty());
                }
            } else {
                let got = q.pop().map(|(v, b)| (v, b.to_vec()));
                prop_assert_eq!(got, model.pop_front());
            }
            prop_assert_eq!(q.len(), model.len());
            let front = q.front().map(|(v, b)| (*v, b.to_vec()));
            prop_assert_eq!(front, model.front().cloned());
        }
    }
}
