use alloc::vec;
use alloc::vec::Vec;

use clearway_wire::Seq;
use proptest::prelude::*;

use super::{SackUpdate, Scoreboard};
use crate::tcp::ranges::RANGES;
use crate::tcp::span::Span;

const MSS: u32 = 100;

fn b(start: u32, end: u32) -> (Seq, Seq) {
    (Seq(start), Seq(end))
}

fn of(una: u32, nxt: u32, blocks: &[(Seq, Seq)]) -> Scoreboard {
    let mut board = Scoreboard::new();
    for &block in blocks {
        assert_eq!(board.update(&[block], Seq(una), Seq(nxt)).refused, 0);
    }
    board
}

#[test]
fn blocks_above_the_hole_are_taken_and_counted_once() {
    let mut board = Scoreboard::new();
    let said = board.update(&[b(200, 300), b(400, 500)], Seq(100), Seq(1000));
    assert_eq!(said, SackUpdate { newly: 200, ..SackUpdate::default() });
    let said = board.update(&[b(200, 350)], Seq(100), Seq(1000));
    assert_eq!(said.newly, 50);
    assert_eq!(board.bytes(), 250);
    assert!(board.is_sacked(Seq(349)) && !board.is_sacked(Seq(350)));
    assert_eq!(board.highest(), Some(Seq(500)));
}

#[test]
fn blocks_that_cannot_be_true_are_refused() {
    let mut board = Scoreboard::new();
    for lie in [
        b(500, 400),
        b(400, 400),
        b(900, 1001),
        b(100, 200),
        b(50, 150),
        b(0x8000_0200, 0x8000_0300),
    ] {
        let said = board.update(&[b(300, 310), lie], Seq(100), Seq(1000));
        assert_eq!(said.refused, 1, "{lie:?}");
    }
    assert_eq!(board.bytes(), 10);
}

#[test]
fn a_first_block_below_the_hole_tells_of_a_duplicate() {
    let mut board = Scoreboard::new();
    let said = board.update(&[b(10, 20), b(200, 300)], Seq(100), Seq(1000));
    assert_eq!(said.dsack, Some(Span::new(Seq(10), Seq(20))));
    assert_eq!(said.newly, 100);
    // Elsewhere than first it is an old ACK, and nothing.
    let said = board.update(&[b(200, 300), b(10, 20)], Seq(100), Seq(1000));
    assert_eq!(said, SackUpdate::default());
}

#[test]
fn a_first_block_within_the_second_tells_of_a_duplicate() {
    let mut board = Scoreboard::new();
    let said = board.update(&[b(220, 230), b(200, 300)], Seq(100), Seq(1000));
    assert_eq!(said.dsack, Some(Span::new(Seq(220), Seq(230))));
    assert_eq!(said.newly, 100);
}

#[test]
fn the_cumulative_ack_takes_over_what_was_sacked() {
    let mut board = of(100, 1000, &[b(200, 300), b(400, 500)]);
    assert_eq!(board.advance(Seq(300)), 100);
    assert_eq!(board.bytes(), 100);
    assert_eq!(board.advance(Seq(1000)), 100);
    assert!(board.is_empty());
}

#[test]
fn a_peer_that_no_longer_holds_what_it_said_is_not_believed_any_more() {
    let mut board = of(100, 1000, &[b(200, 300), b(400, 500)]);
    // It acknowledges up to the middle of what it held: the rest of that is gone.
    assert_eq!(board.advance(Seq(250)), 50);
    let said = board.update(&[], Seq(250), Seq(1000));
    assert!(said.reneged);
    assert!(board.is_empty());
    assert!(!board.update(&[b(400, 500)], Seq(250), Seq(1000)).reneged);
}

#[test]
fn three_spans_above_or_more_than_two_segments_mean_lost() {
    let board = of(100, 5000, &[b(300, 301), b(400, 401)]);
    assert_eq!(board.lost_edge(MSS), None);
    let board = of(100, 5000, &[b(300, 301), b(400, 401), b(500, 501)]);
    assert_eq!(board.lost_edge(MSS), Some(Seq(300)));
    assert_eq!(of(100, 5000, &[b(300, 500)]).lost_edge(MSS), None);
    assert_eq!(of(100, 5000, &[b(300, 501)]).lost_edge(MSS), Some(Seq(300)));
    // What lies between is lost only as far as enough is held above it.
    let board = of(100, 5000, &[b(300, 301), b(400, 450), b(600, 801)]);
    assert_eq!(board.lost_edge(MSS), Some(Seq(600)));
}

#[test]
fn every_second_segment_of_a_thousand_and_a_half_is_remembered() {
    let mut board = Scoreboard::new();
    for i in 0..750u32 {
        let start = 100 + MSS + 2 * MSS * i;
        let said = board.update(&[b(start, start + MSS)], Seq(100), Seq(100 + 1500 * MSS));
        assert_eq!((said.newly, said.refused), (MSS, 0));
    }
    assert_eq!(board.bytes(), 750 * MSS);
}

#[test]
fn every_second_byte_fills_the_board_and_no_more() {
    let mut board = Scoreboard::new();
    let mut refused = 0u32;
    for i in 0..2000u32 {
        refused +=
            u32::from(board.update(&[b(102 + 2 * i, 103 + 2 * i)], Seq(100), Seq(5000)).refused);
    }
    assert_eq!(board.bytes(), RANGES as u32);
    assert_eq!(refused, 2000 - RANGES as u32);
}

const WIDTH: u32 = 600;

/// IsLost by the letter of RFC 6675 4, byte by byte.
fn is_lost(sacked: &[bool], seq: usize, mss: u32) -> bool {
    let above = &sacked[seq + 1..];
    let bytes = above.iter().filter(|s| **s).count() as u32;
    let spans = (0..above.len()).filter(|&i| above[i] && (i == 0 || !above[i - 1])).count();
    spans >= 3 || bytes > 2 * mss
}

proptest! {
    #[test]
    fn it_agrees_with_one_flag_per_byte(
        base in prop::sample::select(vec![5u32, (1 << 31) - 300, u32::MAX - 250]),
        mss in 1u32..60,
        acks in prop::collection::vec((0u32..20,
            prop::collection::vec((0u32..WIDTH, 0u32..WIDTH), 0..4)), 1..80),
    ) {
        let (start, nxt) = (Seq(base), Seq(base) + WIDTH);
        let mut una = start;
        let mut board = Scoreboard::new();
        let mut model = vec![false; WIDTH as usize];
        for (move_by, blocks) in acks {
            let index = |s: Seq| s.since(start) as usize;
            let next = (una + move_by).min(nxt);
            let gone = model[index(una)..index(next)].iter().filter(|s| **s).count() as u32;
            una = next;
            prop_assert_eq!(board.advance(una), gone);
            let reneged = index(una) < WIDTH as usize && model[index(una)];
            if reneged {
                model.fill(false);
            }
            let blocks: Vec<_> = blocks.into_iter().map(|(s, e)| (start + s, start + e)).collect();
            let mut newly = 0;
            for (i, &(s, e)) in blocks.iter().enumerate() {
                let within = i == 0 && blocks.get(1).is_some_and(|&(s2, e2)| s2.le(s) && e.le(e2)
                    && s2.lt(e2));
                if s.lt(e) && s.gt(una) && !within {
                    for flag in &mut model[index(s)..index(e)] {
                        newly += u32::from(!*flag);
                        *flag = true;
                    }
                }
            }
            let said = board.update(&blocks, una, nxt);
            prop_assert_eq!(said.newly, newly);
            prop_assert_eq!(said.reneged, reneged);
            let edge = board.lost_edge(mss);
            for i in index(una)..WIDTH as usize {
                let seq = start + i as u32;
                prop_assert_eq!(board.is_sacked(seq), model[i]);
                if !model[i] {
                    prop_assert_eq!(edge.is_some_and(|e| seq.lt(e)), is_lost(&model, i, mss), "{}",
                        i);
                }
            }
            prop_assert_eq!(board.sacked_within(Span::new(una, nxt)), board.bytes());
        }
    }
}
