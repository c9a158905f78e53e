use clearway_base::{Duration, Instant};
use clearway_wire::Seq;
use proptest::prelude::*;

use super::{Cc, Event, Law, MAX_CWND};
use crate::config::Congestion;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

const MSS: u32 = 1000;

pub(in crate::tcp) fn ack(now: Instant, acked: u32, cwnd_limited: bool) -> AckInfo {
    AckInfo {
        now,
        acked,
        dup: false,
        rtt_sample: None,
        echoed: None,
        clock_step: Duration::from_millis(1),
        flight_before: acked,
        flight: 0,
        cwnd_limited,
        una: Seq(0),
        nxt: Seq(0),
        lost: None,
        delivered: acked,
        credit: acked,
    }
}

fn feed(cc: &mut Cc, acked: u32) {
    cc.on_ack(&ack(Instant::ZERO, acked, true), &Rtt::new());
}

fn reno() -> Cc {
    Cc::new(Congestion::Reno, MSS as u16, 10)
}

/// In congestion avoidance with this window.
fn avoiding(kind: Congestion, window: u32) -> Cc {
    let mut cc = Cc::new(kind, MSS as u16, 10);
    let flight = if kind == Congestion::Reno { 2 * window } else { window * 10 / 7 + 1 };
    cc.window.cwnd = flight;
    cc.on_event(Event::Loss { flight });
    assert_eq!((cc.cwnd(), cc.in_slow_start()), (window, false));
    cc
}

const BOTH: [Congestion; 2] = [Congestion::Reno, Congestion::Cubic];

#[test]
fn it_is_small() {
    assert!(size_of::<Cc>() <= 56, "{}", size_of::<Cc>());
}

#[test]
fn the_initial_window_is_that_of_rfc_6928() {
    for (mss, bytes) in
        [(1460, 14_600), (536, 5360), (1220, 12_200), (2000, 14_600), (8960, 17_920)]
    {
        assert_eq!(Cc::new(Congestion::Reno, mss, 10).cwnd(), bytes);
    }
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    let mut cc = reno();
    for _ in 0..5 {
        feed(&mut cc, 2 * MSS);
    }
    assert_eq!(cc.cwnd(), 20 * MSS);
}

#[test]
fn one_ack_opens_the_window_by_what_receivers_join_at_most_unless_larger_pieces_were_sent() {
    let joined = 64 << 10;
    let mut cc = reno();
    feed(&mut cc, 2 * joined);
    assert_eq!(cc.cwnd(), 10 * MSS + joined);
    cc.set_burst(joined + 4096);
    feed(&mut cc, 2 * joined);
    assert_eq!(cc.cwnd(), 10 * MSS + 2 * joined + 4096);
    cc.set_burst(0);
    feed(&mut cc, 2 * joined);
    assert_eq!(cc.cwnd(), 10 * MSS + 3 * joined + 4096);
    // Of segments so long that few of them are joined, eight, in whole pieces of 4 KiB.
    let mut cc = Cc::new(Congestion::Reno, 60_000, 10);
    let before = cc.cwnd();
    feed(&mut cc, 10 * 60_000);
    assert!((8 * 60_000..8 * 60_000 + 4096).contains(&(cc.cwnd() - before)), "{}", cc.cwnd());
}

#[test]
fn splitting_one_ack_into_many_gains_nothing() {
    for kind in BOTH {
        for start in [None, Some(20 * MSS)] {
            let make =
                || start.map_or_else(|| Cc::new(kind, MSS as u16, 10), |w| avoiding(kind, w));
            let (mut whole, mut split) = (make(), make());
            for _ in 0..40 {
                feed(&mut whole, MSS);
                (0..MSS).for_each(|_| feed(&mut split, 1));
            }
            assert!(split.cwnd() <= whole.cwnd(), "{kind:?} {} {}", split.cwnd(), whole.cwnd());
        }
    }
}

#[test]
fn congestion_avoidance_adds_one_segment_for_a_window_of_bytes() {
    let mut cc = avoiding(Congestion::Reno, 20 * MSS);
    for _ in 0..19 {
        feed(&mut cc, MSS);
    }
    assert_eq!(cc.cwnd(), 20 * MSS);
    feed(&mut cc, MSS);
    assert_eq!(cc.cwnd(), 21 * MSS);
}

#[test]
fn slow_start_ends_at_the_threshold_and_the_rest_counts_for_avoidance() {
    let mut cc = reno();
    cc.window.cwnd = 20 * MSS;
    cc.on_event(Event::Timeout { flight: 20 * MSS, again: false });
    for _ in 0..9 {
        feed(&mut cc, MSS);
    }
    assert_eq!((cc.cwnd(), cc.in_slow_start()), (10 * MSS, false));
    (0..10).for_each(|_| feed(&mut cc, MSS));
    assert_eq!(cc.cwnd(), 11 * MSS);
}

#[test]
fn where_data_is_paced_one_ack_opens_the_window_by_all_that_it_acknowledges() {
    let mut cc = reno();
    let mut places = clearway_base::Slab::new(1);
    cc.window.set_paced(crate::tcp::held::Held16::take(&mut places, ()));
    feed(&mut cc, 10 * MSS);
    assert_eq!(cc.cwnd(), 20 * MSS);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for kind in BOTH {
        for mut cc in [Cc::new(kind, MSS as u16, 10), avoiding(kind, 20 * MSS)] {
            let before = cc.cwnd();
            for i in 0..100 {
                cc.on_ack(&ack(Instant::from_millis(i * 100), 2 * MSS, false), &Rtt::new());
            }
            assert_eq!(cc.cwnd(), before);
        }
    }
}

#[test]
fn the_window_counts_as_used_for_the_whole_round_trip_in_which_it_was_full() {
    let mut cc = avoiding(Congestion::Reno, 20 * MSS);
    assert!(!cc.is_limited());
    cc.on_sent(Seq(0), Seq(20 * MSS));
    assert!(cc.is_limited());
    // A small send in the middle of the round does not take that back, one in the next round does.
    cc.on_sent(Seq(10 * MSS), Seq(21 * MSS));
    assert!(cc.is_limited());
    cc.on_sent(Seq(21 * MSS), Seq(22 * MSS));
    assert!(!cc.is_limited());
}

#[test]
fn in_slow_start_half_a_window_counts_as_used() {
    let mut cc = reno();
    cc.on_sent(Seq(0), Seq(5 * MSS));
    assert!(!cc.is_limited());
    cc.on_sent(Seq(0), Seq(6 * MSS));
    assert!(cc.is_limited());
}

/// ACKs of one burst are digested before anything is sent: the flight is zero between bursts, and
/// small when the last of them tells of a loss.
#[test]
fn bursts_of_acks_neither_stop_growth_nor_deepen_a_cut() {
    for kind in BOTH {
        let mut cc = Cc::new(kind, 1_000, 10);
        let mut rtt = Rtt::new();
        rtt.on_sample(Duration::from_micros(50), 10_000, 1_000);
        cc.on_sent(Seq(0), Seq(10_000));
        cc.on_event(Event::Loss { flight: 2_000 });
        assert!(
            cc.cwnd() >= 5_000,
            "{kind:?}: half of what was in flight, not of what was left: {}",
            cc.cwnd()
        );
        let before = cc.cwnd();
        let (mut now, mut una) = (Instant::from_millis(1), Seq(10_000));
        for _ in 0..20 {
            let cwnd = cc.cwnd() / 1_000 * 1_000;
            cc.on_event(Event::Idle {
                idle: Duration::from_micros(50),
                rto: Duration::from_millis(200),
            });
            cc.on_sent(una, una + cwnd);
            for _ in 0..cwnd / 1_000 {
                cc.on_ack(&ack(now, 1_000, cc.is_limited()), &rtt);
            }
            una += cwnd;
            now += Duration::from_micros(50);
        }
        assert!(cc.cwnd() >= before + 5_000, "{kind:?}: {} after {before}", cc.cwnd());
    }
}

#[test]
fn a_loss_cuts_by_half_or_by_three_tenths_of_the_flight() {
    let mut cc = reno();
    cc.on_event(Event::Loss { flight: 10 * MSS });
    assert_eq!((cc.cwnd(), cc.ssthresh()), (5 * MSS, 5 * MSS));
    let mut cc = Cc::new(Congestion::Cubic, MSS as u16, 10);
    cc.on_event(Event::Loss { flight: 10 * MSS });
    assert_eq!((cc.cwnd(), cc.ssthresh()), (7 * MSS, 7 * MSS));
}

/// What the peer holds behind a hole counts as outstanding, so that more than a window may be.
#[test]
fn a_loss_leaves_no_more_than_its_share_of_the_window() {
    for (kind, left) in [(Congestion::Reno, 5 * MSS), (Congestion::Cubic, 7 * MSS)] {
        for event in
            [Event::Loss { flight: 30 * MSS }, Event::Timeout { flight: 30 * MSS, again: false }]
        {
            let mut cc = Cc::new(kind, MSS as u16, 10);
            cc.on_event(event);
            assert_eq!(cc.ssthresh(), left, "{kind:?} {event:?}");
        }
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.on_event(Event::Marked { flight: 30 * MSS });
        assert!(cc.cwnd() <= 10 * MSS * 17 / 20, "{kind:?}");
    }
}

/// What is left of a segment would never be in flight, but would be grown for.
#[test]
fn a_loss_leaves_whole_segments() {
    for (kind, left) in [(Congestion::Reno, 2), (Congestion::Cubic, 3)] {
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.on_event(Event::Loss { flight: 5 * MSS });
        assert_eq!((cc.cwnd(), cc.ssthresh()), (left * MSS, left * MSS), "{kind:?}");
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.on_event(Event::Timeout { flight: 5 * MSS, again: false });
        assert_eq!(cc.ssthresh(), left * MSS, "{kind:?}");
        // A mark may cost less than a segment.
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.on_event(Event::Marked { flight: 10 * MSS - 1 });
        assert!(cc.cwnd() % MSS > 0 && cc.cwnd() > 7 * MSS, "{kind:?}");
    }
}

#[test]
fn no_cut_goes_below_two_segments() {
    for kind in BOTH {
        let mut cc = Cc::new(kind, MSS as u16, 10);
        for _ in 0..10 {
            cc.on_event(Event::Loss { flight: cc.cwnd().min(MSS) });
            assert_eq!(cc.cwnd(), 2 * MSS);
        }
    }
}

#[test]
fn a_timeout_leaves_one_segment_and_a_second_one_for_the_same_data_keeps_the_threshold() {
    for (kind, threshold) in [(Congestion::Reno, 5 * MSS), (Congestion::Cubic, 7 * MSS)] {
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.on_event(Event::Timeout { flight: 10 * MSS, again: false });
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, threshold));
        cc.on_event(Event::Timeout { flight: MSS, again: true });
        assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, threshold));
    }
}

#[test]
fn slow_start_counts_what_an_ack_is_said_to_be_worth() {
    for kind in BOTH {
        let mut cc = Cc::new(kind, MSS as u16, 10);
        cc.window.cwnd = 40 * MSS;
        cc.on_event(Event::Timeout { flight: 40 * MSS, again: false });
        // Ten segments are covered, and six of them are news.
        let info = AckInfo { credit: 6 * MSS, ..ack(Instant::ZERO, 10 * MSS, true) };
        cc.on_ack(&info, &Rtt::new());
        assert_eq!(cc.cwnd(), 7 * MSS, "{kind:?}");
    }
}

#[test]
fn leaving_recovery_does_not_let_out_a_burst() {
    let mut cc = reno();
    cc.window.cwnd = 40 * MSS;
    cc.on_event(Event::Loss { flight: 40 * MSS });
    cc.on_event(Event::Recovered { flight: 3 * MSS });
    assert_eq!((cc.cwnd(), cc.ssthresh()), (4 * MSS, 20 * MSS));
    cc.on_event(Event::Recovered { flight: 100 * MSS });
    assert_eq!(cc.cwnd(), 20 * MSS);
}

#[test]
fn a_long_pause_brings_back_the_initial_window_and_a_short_one_does_not() {
    for kind in BOTH {
        let mut cc = avoiding(kind, 50 * MSS);
        cc.on_event(Event::Idle {
            idle: Duration::from_millis(100),
            rto: Duration::from_millis(200),
        });
        assert_eq!(cc.cwnd(), 50 * MSS);
        cc.on_event(Event::Idle {
            idle: Duration::from_millis(201),
            rto: Duration::from_millis(200),
        });
        assert_eq!(cc.cwnd(), 10 * MSS);
        assert!(cc.in_slow_start());
        // A window below the initial one is not raised by idling.
        let mut cc = avoiding(kind, 3 * MSS);
        cc.on_event(Event::Idle { idle: Duration::from_secs(9), rto: Duration::from_millis(200) });
        assert_eq!(cc.cwnd(), 3 * MSS);
    }
}

#[test]
fn another_segment_size_keeps_the_bytes_but_leaves_room_for_one_segment() {
    let mut cc = reno();
    cc.set_mss(500);
    assert_eq!(cc.cwnd(), 10 * MSS);
    cc.on_event(Event::Timeout { flight: 10 * MSS, again: false });
    assert_eq!(cc.cwnd(), 500);
    cc.set_mss(9000);
    assert_eq!(cc.cwnd(), 9000);
    assert_eq!(cc.ssthresh(), 18_000);
    cc.set_mss(0);
    assert_eq!(cc.mss(), 1);
}

#[test]
fn switching_keeps_window_and_threshold() {
    let mut cc = avoiding(Congestion::Reno, 20 * MSS);
    cc = Cc::of(cc.parts().0, Law::new(Congestion::Cubic));
    assert_eq!((cc.kind(), cc.cwnd(), cc.ssthresh()), (Congestion::Cubic, 20 * MSS, 20 * MSS));
    cc = Cc::of(cc.parts().0, Law::new(Congestion::Reno));
    assert_eq!(cc.kind(), Congestion::Reno);
}

proptest! {
    /// Whatever happens in whatever order: the window stays between one segment and the bound, one
    /// ACK never adds more than it acknowledged and the two segments beside, and nothing panics.
    #[test]
    fn any_history_stays_within_bounds(
        kind in prop::sample::select(&BOTH[..]),
        mss in 88u16..9000,
        ops in prop::collection::vec((0u8..8, any::<u32>(), 0u64..20_000_000_000), 1..200),
    ) {
        let mut cc = Cc::new(kind, mss, 10);
        let mut rtt = Rtt::new();
        let mut now = Instant::ZERO;
        for (op, n, dt) in ops {
            now += Duration::from_nanos(dt);
            let before = cc.cwnd();
            match op {
                0 => cc.on_event(Event::Loss { flight: n % (before * 2) }),
                1 => cc.on_event(Event::Timeout { flight: n % (before * 2), again: n % 3 == 0 }),
                2 => cc.on_event(Event::Idle { idle: Duration::from_nanos(dt),
                    rto: Duration::from_secs(1) }),
                3 => cc.on_event(Event::Recovered { flight: n % before }),
                4 => rtt.on_sample(Duration::from_nanos(dt), before, mss),
                _ => {
                    let acked = if op == 7 { n } else { n % (2 * before) };
                    cc.on_ack(&ack(now, acked, n % 5 != 0), &rtt);
                    let gained = cc.cwnd() - before;
                    let most = acked.max(before / 2).saturating_add(2 * u32::from(mss));
                    prop_assert!(gained <= most, "{gained} for {acked}");
                }
            }
            prop_assert!(cc.cwnd() >= u32::from(mss) && cc.cwnd() <= MAX_CWND);
        }
    }
}

#[test]
fn a_mark_cuts_less_than_a_loss_does() {
    // RFC 8511 3.1, of twenty segments in flight: 0.8 for Reno, 0.85 for CUBIC, where a loss takes
    // 0.5 and 0.7.
    for (kind, by_mark, by_loss) in [(Congestion::Reno, 16, 10), (Congestion::Cubic, 17, 14)] {
        let (mut marked, mut lost) = (avoiding(kind, 20 * MSS), avoiding(kind, 20 * MSS));
        marked.on_event(Event::Marked { flight: 20 * MSS });
        lost.on_event(Event::Loss { flight: 20 * MSS });
        assert_eq!((marked.cwnd(), marked.ssthresh()), (by_mark * MSS, by_mark * MSS), "{kind:?}");
        assert_eq!(lost.cwnd(), by_loss * MSS, "{kind:?}");
    }
}

#[test]
fn algorithms_that_know_no_rate_ask_for_proportional_rate_reduction() {
    for kind in BOTH {
        let advice = Cc::new(kind, MSS as u16, 10).advice();
        assert!(advice.uses_prr, "{advice:?}");
    }
}

#[test]
fn a_loss_that_was_none_does_not_bring_an_algorithm_back_that_the_owner_has_left() {
    let before = Cc::new(Congestion::Bbr, MSS as u16, 10);
    let mut cc = Cc::of(before.parts().0, Law::new(Congestion::Cubic));
    cc.on_event(Event::Loss { flight: cc.cwnd() });
    cc.restore(&before);
    assert_eq!((cc.kind(), cc.cwnd()), (Congestion::Cubic, before.cwnd()));
}
