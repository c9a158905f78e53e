use alloc::vec::Vec;

use clearway_wire::Seq;
use proptest::prelude::*;

use super::{Full, RANGES, Ranges};
use crate::tcp::span::Span;

fn span(start: u32, end: u32) -> Span {
    Span::new(Seq(start), Seq(end))
}

fn of(spans: &[(u32, u32)]) -> Ranges {
    let mut r = Ranges::new();
    for &(start, end) in spans {
        r.insert(span(start, end)).unwrap();
    }
    r
}

#[test]
fn spans_that_overlap_or_touch_become_one() {
    let mut r = of(&[(10, 20), (30, 40), (50, 60)]);
    assert_eq!(r.insert(span(20, 30)), Ok(10));
    assert_eq!(r.spans(), [span(10, 40), span(50, 60)]);
    assert_eq!(r.insert(span(0, 100)), Ok(60));
    assert_eq!(r.spans(), [span(0, 100)]);
    assert_eq!(r.bytes(), 100);
    assert_eq!(r.insert(span(5, 50)), Ok(0));
}

#[test]
fn a_full_set_refuses_a_span_of_its_own_but_takes_one_that_joins() {
    let mut r = Ranges::new();
    for i in 0..RANGES as u32 {
        r.insert(span(i * 10 + 1, i * 10 + 2)).unwrap();
    }
    assert!(!r.can_insert(span(5, 6)));
    assert_eq!(r.insert(span(5, 6)), Err(Full));
    assert_eq!(r.bytes(), RANGES as u32);
    assert!(r.can_insert(span(2, 11)));
    assert_eq!(r.insert(span(2, 11)), Ok(9));
    assert_eq!(r.insert(span(5000, 5001)), Ok(1));
}

#[test]
fn reversed_and_empty_spans_add_nothing() {
    let mut r = Ranges::new();
    assert_eq!(r.insert(span(9, 9)), Ok(0));
    assert_eq!(r.insert(span(9, 3)), Ok(0));
    assert!(r.spans().is_empty());
}

#[test]
fn the_last_missing_part_is_found_from_above() {
    let r = of(&[(10, 20), (30, 40)]);
    assert_eq!(r.last_missing(span(0, 40)), Some(span(20, 30)));
    assert_eq!(r.last_missing(span(0, 45)), Some(span(40, 45)));
    assert_eq!(r.last_missing(span(25, 35)), Some(span(25, 30)));
    assert_eq!(r.last_missing(span(0, 20)), Some(span(0, 10)));
    assert_eq!(r.last_missing(span(12, 18)), None);
    assert_eq!(r.last_missing(span(0, 5)), Some(span(0, 5)));
}

/// The circle's seams: the sign of a distance changes at 2^31, the number itself wraps at 2^32.
const BASES: [u32; 3] = [1000, (1 << 31) - 128, u32::MAX - 127];
const WIDTH: usize = 256;

fn check(base: u32, r: &Ranges, model: &[bool; WIDTH]) {
    let mut expected = Vec::new();
    let mut i = 0;
    while i < WIDTH {
        if model[i] {
            let start = i;
            while i < WIDTH && model[i] {
                i += 1;
            }
            expected.push(span(base.wrapping_add(start as u32), base.wrapping_add(i as u32)));
        }
        i += 1;
    }
    assert_eq!(r.spans(), expected);
    assert_eq!(r.bytes() as usize, model.iter().filter(|b| **b).count());
}

proptest! {
    #[test]
    fn it_agrees_with_one_flag_per_number(
        base in prop::sample::select(&BASES[..]),
        ops in prop::collection::vec((0u8..8, 0usize..WIDTH, 0usize..24), 1..120),
    ) {
        let mut r = Ranges::new();
        let mut model = [false; WIDTH];
        for (op, start, len) in ops {
            let end = (start + len).min(WIDTH);
            let s = span(base.wrapping_add(start as u32), base.wrapping_add(end as u32));
            let held = model[start..end].iter().filter(|b| **b).count() as u32;
            prop_assert_eq!(r.count_within(s), held);
            let at = |i: usize| base.wrapping_add(i as u32);
            let run = |from: usize, what: bool| (from..end).take_while(|&i| model[i] == what)
                .count();
            let missing = (start..end).find(|&i| !model[i])
                .map(|i| span(at(i), at(i + run(i, false))));
            prop_assert_eq!(r.first_missing(s), missing);
            let present = (start..end).find(|&i| model[i])
                .map(|i| span(at(i), at(i + run(i, true))));
            prop_assert_eq!(r.first_present(s), present);
            let last = (start..end).rev().find(|&i| !model[i]).map(|i| {
                let from = (start..=i).rev().take_while(|&j| !model[j]).count();
                span(at(i + 1 - from), at(i + 1))
            });
            prop_assert_eq!(r.last_missing(s), last);
            prop_assert_eq!(r.around(s.start).is_some(), model[start]);
            if op == 0 {
                let below = start.min(WIDTH / 2);
                let gone = model[..below].iter().filter(|b| **b).count() as u32;
                prop_assert_eq!(r.drop_below(Seq(base.wrapping_add(below as u32))), gone);
                model[..below].fill(false);
            } else {
                prop_assert_eq!(r.insert(s), Ok((end - start) as u32 - held));
                model[start..end].fill(true);
            }
            check(base, &r, &model);
        }
    }
}
