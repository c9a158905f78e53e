//! A path of paper: rounds in which every second segment is answered, with round trips that the
//! test says.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::HyStart;
use crate::config::Congestion;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::cc::tests::ack;
use crate::tcp::cc::{Cc, Event, Law};
use crate::tcp::rtt::Rtt;

const MSS: u32 = 1000;
const BOTH: [Congestion; 2] = [Congestion::Reno, Congestion::Cubic];

struct Path {
    cc: Cc,
    una: Seq,
    nxt: Seq,
    clock_step: Duration,
}

impl Path {
    fn new(kind: Congestion) -> Path {
        Path::of(kind, 20_000)
    }

    /// With so many microseconds in the first round.
    fn of(kind: Congestion, rtt_us: u64) -> Path {
        let mut path = Path {
            cc: Cc::new(kind, MSS as u16, 10),
            una: Seq(0),
            nxt: Seq(0),
            clock_step: Duration::from_millis(1),
        };
        path.fill();
        // Ten segments, and ten more.
        path.round(|_| rtt_us);
        path
    }

    fn fill(&mut self) {
        self.nxt = self.una + self.cc.cwnd();
        self.cc.on_sent(self.una, self.nxt);
    }

    /// All that is in flight is answered; the ACK with this number has taken so many microseconds.
    /// Returns how much the window has grown, in hundredths of what it was.
    fn round(&mut self, rtt_us: impl Fn(u64) -> u64) -> u32 {
        let (end, before) = (self.nxt, self.cc.cwnd());
        let mut n = 0;
        while self.una.lt(end) {
            let acked = end.since(self.una).min(2 * MSS);
            self.una += acked;
            let info = AckInfo {
                una: self.una,
                nxt: self.nxt,
                echoed: Some(Duration::from_micros(rtt_us(n))),
                clock_step: self.clock_step,
                ..ack(Instant::ZERO, acked, true)
            };
            self.cc.on_ack(&info, &Rtt::new());
            self.fill();
            n += 1;
        }
        (u64::from(self.cc.cwnd() - before) * 100 / u64::from(before)) as u32
    }
}

#[test]
fn longer_round_trips_slow_the_growth_and_after_five_rounds_end_slow_start() {
    for kind in BOTH {
        let mut path = Path::new(kind);
        assert_eq!(path.round(|_| 20_000), 100, "{kind:?}");
        assert_eq!(path.round(|_| 20_000), 100, "{kind:?}");
        // Four milliseconds more than in the round before: the eighth sample decides.
        assert!((25..100).contains(&path.round(|_| 24_000)), "{kind:?}");
        // Rounds end where the windows of the rounds before end, which is within those of this path.
        let mut rounds = 1;
        while path.cc.in_slow_start() {
            let grown = path.round(|_| 26_000);
            assert!((24..=25).contains(&grown) || !path.cc.in_slow_start(), "{kind:?} {grown}");
            rounds += 1;
        }
        assert!((5..=6).contains(&rounds), "{rounds}");
        assert_eq!(path.cc.kind(), kind);
        assert!(path.round(|_| 26_000) < 3, "{kind:?} goes on in congestion avoidance");
    }
}

#[test]
fn a_little_longer_is_no_sign() {
    let mut path = Path::new(Congestion::Cubic);
    for round in 0..6 {
        assert_eq!(path.round(|_| 20_000 + round * 3_900), 100);
    }
    // From 128 ms on an eighth of the round trip would be more than MAX_RTT_THRESH.
    let mut path = Path::of(Congestion::Cubic, 400_000);
    path.round(|_| 400_000);
    assert_eq!(path.round(|_| 415_900), 100);
    assert!(path.round(|_| 431_900) < 100);
}

#[test]
fn one_short_round_trip_among_the_long_ones_is_enough_to_go_on() {
    let mut path = Path::new(Congestion::Cubic);
    for _ in 0..5 {
        let jitter = |n: u64| if n % 8 == 7 { 20_000 } else { 45_000 + n };
        assert_eq!(path.round(jitter), 100);
    }
}

#[test]
fn what_seemed_longer_and_was_jitter_leads_back_to_slow_start() {
    for kind in BOTH {
        let mut path = Path::new(kind);
        path.round(|_| 20_000);
        assert!(path.round(|_| 30_000) < 100, "{kind:?}");
        assert!(path.round(|n| if n < 8 { 29_000 } else { 20_000 }) > 25, "{kind:?}");
        assert_eq!(path.round(|_| 20_000), 100, "{kind:?}");
        // And watches on.
        assert!(path.round(|_| 30_000) < 100, "{kind:?}");
    }
}

#[test]
fn a_clock_of_15_6_milliseconds_does_not_end_slow_start() {
    // What a clock shows that is read 15.6 ms too early or too late at either end.
    for (first, then) in [(15_600, 31_200), (0, 15_600), (15_600, 46_799)] {
        let mut path = Path::of(Congestion::Cubic, first);
        path.clock_step = Duration::from_micros(15_625);
        path.round(|_| first);
        for _ in 0..4 {
            assert_eq!(path.round(|_| then), 100);
        }
    }
}

#[test]
fn fewer_than_eight_samples_of_a_round_say_nothing() {
    let mut cc = Cc::new(Congestion::Cubic, MSS as u16, 20);
    let mut start = HyStart { last_min_us: 20_000, ..HyStart::at(Seq(1_000_000)) };
    let info =
        AckInfo { echoed: Some(Duration::from_millis(40)), ..ack(Instant::ZERO, 2 * MSS, true) };
    let mut grows = || {
        let before = cc.window.cwnd;
        assert!(!start.on_ack(&mut cc.window, &info));
        cc.window.cwnd - before
    };
    for _ in 0..8 {
        assert_eq!(grows(), 2 * MSS);
    }
    assert_eq!(grows(), MSS / 2);
}

#[test]
fn only_the_first_slow_start_is_watched() {
    for kind in BOTH {
        let mut path = Path::new(kind);
        path.round(|_| 20_000);
        path.cc.on_event(Event::Timeout { flight: 200 * MSS, again: false });
        assert_eq!(path.cc.parts().1.kind(), kind);
        path.fill();
        for round in 0..5 {
            path.round(|_| 20_000 + round * 10_000);
        }
        assert!(!matches!(path.cc.parts().1, Law::Starting(..)), "{kind:?}");
    }
}

#[test]
fn a_loss_or_a_mark_in_slow_start_is_answered_by_the_algorithm() {
    let flight = 40 * MSS;
    for (kind, event, window) in [
        (Congestion::Reno, Event::Loss { flight }, 20),
        (Congestion::Cubic, Event::Loss { flight }, 28),
        (Congestion::Reno, Event::Marked { flight }, 32),
        (Congestion::Cubic, Event::Marked { flight }, 34),
    ] {
        let mut path = Path::new(kind);
        path.round(|_| 20_000);
        assert!(matches!(path.cc.parts().1, Law::Starting(..)));
        path.cc.on_event(event);
        let is_law = matches!(
            (kind, path.cc.parts().1),
            (Congestion::Reno, Law::Reno(_)) | (Congestion::Cubic, Law::Cubic(_))
        );
        assert!(is_law, "{:?}", path.cc);
        let used = path.cc.cwnd();
        assert!(!path.cc.in_slow_start() && used >= window * MSS, "{used}");
    }
}

#[test]
fn nothing_is_remembered_of_a_window_below_sixteen_segments() {
    let mut cc = Cc::new(Congestion::Cubic, MSS as u16, 10);
    for n in 0..6 {
        let info =
            AckInfo { echoed: Some(Duration::from_millis(n)), ..ack(Instant::ZERO, MSS, true) };
        assert!(!cc.parts().1.is_needed());
        cc.on_ack(&info, &Rtt::new());
    }
    cc.on_ack(&ack(Instant::ZERO, MSS, true), &Rtt::new());
    assert!(cc.parts().1.is_needed());
}
