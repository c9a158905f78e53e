use super::{Delivery, Prr};

const MSS: u32 = 1000;

/// A flight of 20 segments of which the first is lost, with ssthresh at 10; what leaves after each
/// of the 19 ACKs that follow.
fn one_lost(safe: bool) -> (Vec<u32>, u32) {
    let mut prr = Prr::begin(20 * MSS, 0);
    let mut pipe = 19 * MSS;
    let left = (0..19)
        .map(|_| {
            pipe -= MSS;
            prr.on_ack(&Delivery { delivered: MSS, pipe, ssthresh: 10 * MSS, safe, mss: MSS });
            let count = (prr.window() - pipe) / MSS;
            prr.on_sent(count * MSS);
            pipe += count * MSS;
            count
        })
        .collect();
    (left, pipe)
}

extern crate std;
use std::vec::Vec;

#[test]
fn every_second_segment_that_arrives_lets_one_out_when_the_window_halves() {
    let (left, pipe) = one_lost(false);
    // RFC 9937 6.2: the first at once, then in proportion until what is in flight is ssthresh, and
    // then what arrives.
    assert_eq!(left[0], 1);
    assert_eq!(left.iter().sum::<u32>(), 10, "{left:?}");
    assert!(left[1..16].windows(2).all(|w| w.iter().sum::<u32>() <= 1), "{left:?}");
    assert_eq!(pipe, 10 * MSS);
}

#[test]
fn below_ssthresh_no_more_leaves_than_arrives_unless_the_ack_is_safe() {
    for (safe, most) in [(false, MSS), (true, 2 * MSS)] {
        let mut prr = Prr::begin(20 * MSS, 0);
        prr.on_sent(MSS);
        // Most of the flight was lost: what is in flight is far below ssthresh.
        prr.on_ack(&Delivery { delivered: MSS, pipe: 4 * MSS, ssthresh: 10 * MSS, safe, mss: MSS });
        assert_eq!(prr.window() - 4 * MSS, most);
    }
}

#[test]
fn the_window_never_passes_ssthresh_from_below() {
    let mut prr = Prr::begin(20 * MSS, 0);
    prr.on_sent(MSS);
    prr.on_ack(&Delivery {
        delivered: 8 * MSS,
        pipe: 9 * MSS,
        ssthresh: 10 * MSS,
        safe: true,
        mss: MSS,
    });
    assert_eq!(prr.window(), 10 * MSS);
}

#[test]
fn the_first_repetition_leaves_whatever_is_in_flight() {
    let mut prr = Prr::begin(20 * MSS, 0);
    prr.on_ack(&Delivery {
        delivered: 0,
        pipe: 15 * MSS,
        ssthresh: 10 * MSS,
        safe: false,
        mss: MSS,
    });
    assert_eq!(prr.window(), 16 * MSS);
    prr.on_sent(MSS);
    prr.on_ack(&Delivery {
        delivered: 0,
        pipe: 16 * MSS,
        ssthresh: 10 * MSS,
        safe: false,
        mss: MSS,
    });
    assert_eq!(prr.window(), 16 * MSS);
}

#[test]
fn what_acks_of_the_same_burst_had_let_go_leaves_with_the_first_repetition() {
    // Of twenty segments thirteen were acknowledged, and three told of behind the missing one,
    // before anything could leave: thirteen would have left behind the first, two by limited
    // transmit behind the others, and the repetition with the third.
    let ack = Delivery { delivered: MSS, pipe: 3 * MSS, ssthresh: 14 * MSS, safe: false, mss: MSS };
    let mut prr = Prr::begin(5 * MSS, 15 * MSS);
    prr.on_ack(&ack);
    assert_eq!(prr.window(), (3 + 15 + 1) * MSS);
    prr.on_sent(15 * MSS);
    assert_eq!(prr.window(), 19 * MSS);
    // From then on it is as if they had left when they were let go: of RecoverFS, twenty, seven
    // tenths of what arrives.
    prr.on_sent(MSS);
    let mut pipe = 19 * MSS;
    for _ in 0..9 {
        pipe -= MSS;
        prr.on_ack(&Delivery { pipe, ..ack });
        let count = prr.window() - pipe;
        prr.on_sent(count);
        pipe += count;
    }
    assert_eq!(pipe, (19 - 9 + 6) * MSS);
}

#[test]
fn a_repetition_is_not_alone_where_two_segments_may_be_in_flight() {
    // A window of four: one was acknowledged or told of, and the first is lost; two more could have
    // left behind the first two ACKs.
    let ack = Delivery { delivered: MSS, pipe: 0, ssthresh: 2 * MSS, safe: false, mss: MSS };
    let mut prr = Prr::begin(2 * MSS, 2 * MSS);
    prr.on_ack(&ack);
    assert_eq!(prr.window(), 3 * MSS);
}
