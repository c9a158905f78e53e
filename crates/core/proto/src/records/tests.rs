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

proptest! {
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
