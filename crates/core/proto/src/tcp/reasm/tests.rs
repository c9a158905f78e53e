use alloc::vec;
use alloc::vec::Vec;

use clearway_wire::Seq;
use proptest::prelude::*;

use super::{BLOCKS, Full, Reasm, duplicate_of};
use crate::tcp::ranges::RANGES;
use crate::tcp::span::Span;

fn span(start: u32, end: u32) -> Span {
    Span::new(Seq(start), Seq(end))
}

fn of(spans: &[(u32, u32)]) -> Reasm {
    let mut r = Reasm::new();
    for &(start, end) in spans {
        r.insert(span(start, end)).unwrap();
    }
    r
}

fn blocks(r: &Reasm, dsack: Option<Span>, max: usize) -> Vec<Span> {
    let mut out = [Span::default(); BLOCKS];
    let n = r.sack_blocks(dsack, &mut out, max);
    out[..n].to_vec()
}

#[test]
fn the_edge_moves_over_what_touches_it_and_stops_at_the_next_hole() {
    let mut r = of(&[(20, 30), (30, 40), (50, 60)]);
    assert_eq!(r.contiguous_from(Seq(10)), 0);
    assert_eq!(r.contiguous_from(Seq(20)), 20);
    assert_eq!(r.len(), 1);
    assert_eq!(r.contiguous_from(Seq(50)), 10);
    assert!(r.is_empty());
    assert_eq!(r.bytes(), 0);
}

#[test]
fn what_lies_below_the_edge_leaves_the_map() {
    let mut r = of(&[(20, 30), (35, 50)]);
    assert_eq!(r.contiguous_from(Seq(40)), 10);
    assert!(r.is_empty());
    let mut r = of(&[(20, 30)]);
    assert_eq!(r.contiguous_from(Seq(40)), 0);
    assert!(r.is_empty());
}

#[test]
fn the_first_new_part_of_a_segment_is_what_a_buffer_is_cut_to() {
    let r = of(&[(20, 30), (40, 50)]);
    assert_eq!(r.missing(span(10, 60)), Some(span(10, 20)));
    assert_eq!(r.missing(span(25, 60)), Some(span(30, 40)));
    assert_eq!(r.missing(span(20, 30)), None);
    assert_eq!(r.missing(span(41, 60)), Some(span(50, 60)));
}

#[test]
fn blocks_are_told_most_recent_first() {
    // The example of RFC 2018 4: each later arrival comes first, and the earlier ones follow.
    let r = of(&[(5500, 6000), (6500, 7000), (7500, 8000), (8500, 9000)]);
    assert_eq!(blocks(&r, None, 3), [span(8500, 9000), span(7500, 8000), span(6500, 7000)]);
    assert_eq!(blocks(&r, None, 4).len(), 4);
}

#[test]
fn a_span_that_grows_becomes_the_most_recent_and_is_told_once() {
    let mut r = of(&[(10, 20), (30, 40), (50, 60)]);
    r.insert(span(20, 25)).unwrap();
    assert_eq!(blocks(&r, None, 4), [span(10, 25), span(50, 60), span(30, 40)]);
    r.insert(span(25, 30)).unwrap();
    assert_eq!(blocks(&r, None, 4), [span(10, 40), span(50, 60)]);
}

#[test]
fn blocks_never_name_what_was_taken_in_order() {
    let mut r = of(&[(10, 20), (30, 40)]);
    assert_eq!(r.contiguous_from(Seq(10)), 10);
    assert_eq!(blocks(&r, None, 4), [span(30, 40)]);
}

#[test]
fn a_duplicate_is_told_first_and_then_the_span_it_is_part_of() {
    let r = of(&[(10, 20), (30, 40)]);
    assert_eq!(blocks(&r, Some(span(12, 15)), 3), [span(12, 15), span(10, 20), span(30, 40)]);
    assert_eq!(blocks(&r, Some(span(1, 5)), 3), [span(1, 5), span(30, 40), span(10, 20)]);
    // A duplicate of a whole span is told as duplicate and as span (RFC 2883 4.2).
    assert_eq!(blocks(&r, Some(span(10, 20)), 2), [span(10, 20), span(10, 20)]);
    assert!(blocks(&r, Some(span(1, 5)), 0).is_empty());
}

#[test]
fn duplicates_are_seen_below_the_edge_and_above() {
    let r = of(&[(30, 40)]);
    assert_eq!(duplicate_of(Seq(20), Some(&r), span(10, 25)), Some(span(10, 20)));
    assert_eq!(duplicate_of(Seq(20), Some(&r), span(20, 35)), Some(span(30, 35)));
    assert_eq!(duplicate_of(Seq(20), Some(&r), span(20, 30)), None);
    assert_eq!(duplicate_of(Seq(20), None, span(5, 6)), Some(span(5, 6)));
    assert_eq!(duplicate_of(Seq(20), None, span(5, 5)), None);
}

#[test]
fn every_second_byte_fills_the_map_but_for_the_place_of_the_bytes_in_order() {
    let mut r = Reasm::new();
    assert_eq!(r.contiguous_from(Seq(0)), 0);
    let taken = (0..2000u32).filter(|i| r.insert(span(i * 2 + 10, i * 2 + 11)).is_ok()).count();
    assert_eq!(taken, RANGES - 1);
    assert_eq!(r.insert(span(9001, 9002)), Err(Full));
    assert_eq!(r.insert(span(5, 6)), Err(Full));
    assert!(!r.can_insert(span(9001, 9002)));
    // A hole of many bytes fills from the front, piece by piece.
    for at in 0..9 {
        assert!(r.can_insert(span(at, at + 1)));
        assert_eq!(r.insert(span(at, at + 1)), Ok(()));
        assert_eq!(r.contiguous_from(Seq(at)), 1);
    }
    assert_eq!(r.insert(span(9, 10)), Ok(()));
    assert_eq!(r.contiguous_from(Seq(9)), 2);
}

/// ACKs that leave in front of the one that is due when that has room for `max` blocks: RCV.NXT, and
/// what they tell.
fn in_front(r: &mut Reasm, max: usize) -> Vec<(u32, Vec<Span>)> {
    let mut acks = Vec::new();
    while r.has_earlier(max) {
        let mut out = [Span::default(); BLOCKS];
        let told = r.earlier_blocks(None, &mut out, max);
        acks.push((told.nxt.0, out[..told.blocks].to_vec()));
    }
    r.all_is_told();
    acks
}

#[test]
fn of_a_burst_nothing_is_told_before_what_came_earlier() {
    let mut r = of(&[(20, 30), (100, 110)]);
    r.all_is_told();
    // New data in two pieces, a retransmission, and more of the second piece.
    for (start, end) in [(120, 130), (140, 150), (30, 40), (150, 160), (170, 180)] {
        r.insert(span(start, end)).unwrap();
    }
    let told = in_front(&mut r, 3);
    assert_eq!(told, [(0, vec![span(20, 40), span(140, 150), span(120, 130)])]);
    assert_eq!(blocks(&r, None, 3), [span(170, 180), span(140, 160), span(20, 40)]);
}

#[test]
fn what_is_missing_first_is_acknowledged_when_it_came() {
    let mut r = of(&[(20, 30)]);
    assert_eq!(r.contiguous_from(Seq(10)), 0);
    r.all_is_told();
    for (start, end) in [(40, 50), (60, 70), (10, 20), (80, 90), (30, 40), (100, 110)] {
        r.insert(span(start, end)).unwrap();
        let nxt = r.nxt;
        r.contiguous_from(nxt);
    }
    let told = in_front(&mut r, 2);
    assert_eq!(
        told,
        [(10, vec![span(60, 70), span(40, 50)]), (30, vec![span(80, 90)])],
        "the second block of the first is in order by now"
    );
    assert_eq!((r.nxt, blocks(&r, None, 2)), (Seq(50), vec![span(100, 110), span(80, 90)]));
}

#[test]
fn a_duplicate_is_told_with_its_span_as_it_was() {
    let mut r = of(&[(20, 30), (50, 60), (30, 35), (80, 90)]);
    let mut out = [Span::default(); BLOCKS];
    let told = r.earlier_blocks(Some(span(22, 25)), &mut out, 3);
    assert_eq!((told.blocks, &out[..2]), (2, &[span(22, 25), span(20, 30)][..]));
}

const WIDTH: usize = 400;

proptest! {
    /// Each ACK in front of the one that is due tells what one would have told that had left when so
    /// much had come and no more, and each tells of all that came since the one before it.
    #[test]
    fn acks_in_front_are_as_if_they_had_left_earlier(
        max in 1usize..=BLOCKS,
        before in prop::collection::vec((1u32..60, 1u32..4), 0..12),
        pieces in prop::collection::vec((0u32..60, 1u32..4), 1..40),
    ) {
        let mut r = Reasm::new();
        r.contiguous_from(Seq(0));
        let take = |r: &mut Reasm, (start, len): (u32, u32)| {
            let piece = Span::new(Seq(start).max(r.nxt), Seq(start + len).max(r.nxt));
            let new = r.missing(piece).filter(|_| !piece.is_empty())?;
            r.insert(new).unwrap();
            let nxt = r.nxt;
            r.contiguous_from(nxt);
            Some(new)
        };
        for piece in before {
            take(&mut r, piece);
        }
        r.all_is_told();
        let mut states = vec![(Span::default(), r.nxt.0, r.parts().0.to_vec())];
        for piece in pieces {
            if let Some(new) = take(&mut r, piece) {
                states.push((new, r.nxt.0, r.parts().0.to_vec()));
            }
        }
        let mut told = 0;
        for (nxt, blocks) in in_front(&mut r, max) {
            let is_all = |until: usize| {
                let (_, then, spans) = &states[until];
                let is_told = |piece: &Span| {
                    piece.end.0 <= nxt || blocks.iter().any(|b| b.start.le(piece.start) && piece.end.le(b.end))
                };
                *then == nxt
                    && blocks.iter().all(|block| spans.contains(block))
                    && states[told + 1..=until].iter().all(|(piece, ..)| is_told(piece))
            };
            let until = (told + 1..states.len()).rev().find(|until| is_all(*until));
            prop_assert!(until.is_some(), "{nxt} {blocks:?} after {told} of {states:?}");
            told = until.unwrap();
        }
        let mut out = [Span::default(); BLOCKS];
        let n = r.sack_blocks(None, &mut out, max);
        for (piece, ..) in &states[told + 1..] {
            let is_told = |b: &Span| b.start.le(piece.start) && piece.end.le(b.end);
            prop_assert!(piece.end.le(r.nxt) || out[..n].iter().any(is_told), "{piece:?} {states:?}");
        }
    }

    /// A receiver that cuts, stores and advances as TCP does ends with exactly the bytes that were
    /// sent, whatever the order, across both seams of the circle.
    #[test]
    fn a_stream_in_any_order_comes_out_whole(
        base in prop::sample::select(vec![7u32, (1 << 31) - 200, u32::MAX - 150]),
        pieces in prop::collection::vec((0usize..WIDTH, 1usize..40), 1..300),
    ) {
        let mut r = Reasm::new();
        let mut model = [false; WIDTH];
        let mut nxt = Seq(base);
        for (start, len) in pieces {
            let whole = Span::new(Seq(base) + start as u32,
                Seq(base) + (start + len).min(WIDTH) as u32);
            let done = nxt.since(Seq(base)) as usize;
            let index = |s: Seq| s.since(Seq(base)) as usize;
            let dup = model[index(whole.start)..index(whole.end)].iter().any(|b| *b);
            prop_assert_eq!(duplicate_of(nxt, Some(&r), whole).is_some(), dup);
            let cut = Span::new(whole.start.max(nxt), whole.end);
            let Some(new) = r.missing(cut).filter(|_| !cut.is_empty()) else {
                prop_assert!(model[index(whole.start)..index(whole.end)].iter().all(|b| *b));
                continue;
            };
            prop_assert!(model[index(new.start)..index(new.end)].iter().all(|b| !*b));
            prop_assert!(r.insert(new).is_ok());
            model[index(new.start)..index(new.end)].fill(true);
            let moved = r.contiguous_from(nxt) as usize;
            prop_assert_eq!(moved, model[done..].iter().take_while(|b| **b).count());
            nxt += moved as u32;
            let held = model[index(nxt)..].iter().filter(|b| **b).count();
            prop_assert_eq!(r.bytes() as usize, held);
            for s in blocks(&r, None, BLOCKS) {
                prop_assert!(model[index(s.start)..index(s.end)].iter().all(|b| *b));
                prop_assert!(s.start.gt(nxt));
            }
        }
    }
}
