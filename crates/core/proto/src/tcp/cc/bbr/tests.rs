//! BBR on a path of paper: a bottleneck with a queue, and what it loses by chance.

extern crate std;

use std::collections::VecDeque;

use super::model::min_pipe;
use super::third::signals::is_too_high;
use super::*;
use crate::tcp::delivery::{Delivery, RateSample};
use clearway_wire::Seq;

const MSS: u32 = 1000;
const VERSIONS: [Congestion; 2] = [Congestion::Bbr, Congestion::Bbr1];
/// The path is looked at in steps of this.
const STEP: Duration = Duration::from_micros(100);

/// The clock's.
const NANO: Duration = Duration::from_nanos(1);

/// What a path does.
#[derive(Clone, Copy)]
struct Path {
    /// Bytes in a second.
    rate: u64,
    rtt_ms: u64,
    /// Bytes that wait in front of it at most.
    buffer: u64,
    /// One of so many segments is lost by chance; 0: none.
    one_in: u64,
}

/// A sender that always has data, on a path. A lost segment is known to be lost when its ACK would
/// have come, and what it carried is the next that leaves: so it has no number of its own. Recovery
/// lasts until what was in flight when it began has come or is lost.
struct Flow {
    bbr: Bbr,
    window: Window,
    delivery: Delivery,
    rng: Rng,
    chance: Rng,
    now: Instant,
    sent: u32,
    una: u32,
    /// In flight, and never to arrive.
    missing: u32,
    /// Segments after which a recovery is over; 0: there is none.
    recovers: usize,
    lost: u64,
    queue: u64,
    next: Instant,
    /// When the ACK of a segment comes, and whether it was lost.
    way: VecDeque<(Instant, bool)>,
    delivered: u64,
    most_queued: u64,
    /// What the owner has under way at most.
    writes: u32,
}

impl Flow {
    /// The handshake has measured the round trip.
    fn new(kind: Congestion, path: &Path) -> Flow {
        let srtt = Some(Duration::from_millis(path.rtt_ms));
        let now = Instant::from_millis(1000);
        let window = Window::new(MSS as u16, 10);
        Flow {
            bbr: Bbr::new(kind, &window, now, srtt, 0),
            window,
            delivery: Delivery::new(Seq(0), 0, now),
            rng: Rng::seed(7),
            chance: Rng::seed(9),
            now,
            sent: 0,
            una: 0,
            missing: 0,
            recovers: 0,
            lost: 0,
            queue: 0,
            next: now,
            way: VecDeque::new(),
            delivered: 0,
            most_queued: 0,
            writes: u32::MAX,
        }
    }

    /// Runs for so long; returns the bytes that arrived.
    fn run(&mut self, path: &Path, time: Duration) -> u64 {
        let (end, before) = (self.now + time, self.delivered);
        while self.now < end {
            self.now += STEP;
            let left = path.rate * STEP.as_nanos() / 1_000_000_000;
            self.queue = self.queue.saturating_sub(left);
            self.take_acks(Duration::from_millis(path.rtt_ms));
            self.send(path);
        }
        self.delivered - before
    }

    fn mode(&self) -> Mode {
        self.bbr.model().mode
    }

    fn model(&mut self) -> &mut Model {
        match &mut self.bbr {
            Bbr::First(first) => &mut first.model,
            Bbr::Third(third) => &mut third.model,
        }
    }

    fn set_pacing_rate(&mut self) {
        let window = self.window;
        self.model().set_pacing_rate(&window, 100);
    }

    fn in_flight(&self) -> u32 {
        self.sent.wrapping_sub(self.una) + self.missing
    }

    fn take_acks(&mut self, least: Duration) {
        while self.way.front().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, lost)) = self.way.pop_front() else { return };
            self.recovers = self.recovers.saturating_sub(1);
            let begins = lost && self.recovers == 0;
            if begins {
                self.recovers = self.way.len();
            }
            let is_repairing = self.recovers > 0;
            if lost {
                self.missing -= MSS;
                self.lost += u64::from(MSS);
            } else {
                self.una = self.una.wrapping_add(MSS);
                self.delivered += u64::from(MSS);
            }
            let sample =
                self.delivery.on_ack(self.now, (Seq(self.una), None), self.lost, (least, NANO));
            let input = Input {
                now: self.now,
                sample,
                delivered: self.delivery.delivered(),
                in_flight: self.in_flight(),
                oldest: self.delivery.oldest(),
                marked: 0,
                in_recovery: is_repairing,
                is_repairing,
                has_sack: true,
            };
            if begins {
                self.bbr.on_trouble(&mut self.window, false);
            }
            self.bbr.on_ack(&mut self.window, &input, &mut self.rng);
        }
    }

    fn send(&mut self, path: &Path) {
        while self.next <= self.now && self.in_flight() + MSS <= self.window.cwnd {
            if self.in_flight() >= self.writes {
                self.delivery.app_limits(self.in_flight());
                return;
            }
            let lost = (path.one_in > 0 && self.chance.below(path.one_in) == 0)
                || self.queue + u64::from(MSS) > path.buffer;
            if !lost {
                self.queue += u64::from(MSS);
                self.most_queued = self.most_queued.max(self.queue);
            }
            let wait = Duration::from_nanos(self.queue * 1_000_000_000 / path.rate);
            let arrives = self.now + Duration::from_millis(path.rtt_ms) + wait;
            let arrives = self.way.back().map_or(arrives, |(last, _)| arrives.max(*last));
            self.way.push_back((arrives, lost));
            let before = self.in_flight();
            if lost {
                self.missing += MSS;
            } else {
                self.sent = self.sent.wrapping_add(MSS);
                self.window.on_sent(Seq(self.una), Seq(self.sent));
                let srtt = Duration::from_millis(path.rtt_ms);
                self.delivery.on_sent((before, MSS), Seq(self.sent), self.now, srtt);
            }
            let pause =
                Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / self.bbr.pacing_rate());
            self.next = self.next.max(self.now - STEP) + pause;
        }
    }
}

fn bdp(path: &Path) -> u64 {
    path.rate * path.rtt_ms / 1000
}

fn path(rate: u64, rtt_ms: u64, bdps_in_hundredths: u64, one_in: u64) -> Path {
    let mut path = Path { rate, rtt_ms, buffer: 0, one_in };
    path.buffer = (bdp(&path) * bdps_in_hundredths / 100).max(10 * u64::from(MSS));
    path
}

#[test]
fn a_path_is_filled_and_its_queue_is_not() {
    let paths = [(1_000_000, 20), (4_000_000, 20), (2_000_000, 100), (4_000_000, 66)];
    for (kind, (rate, rtt)) in VERSIONS.into_iter().flat_map(|kind| paths.map(|p| (kind, p))) {
        let path = path(rate, rtt, 400, 0);
        let mut flow = Flow::new(kind, &path);
        flow.run(&path, Duration::from_secs(4));
        assert!(
            !matches!(flow.mode(), Mode::Startup | Mode::Drain),
            "{:?} at {rate} {rtt}",
            flow.mode()
        );
        flow.most_queued = 0;
        let share = flow.run(&path, Duration::from_secs(8)) * 100 / (rate * 8);
        assert!(share >= 93, "{kind:?}: {share} % of {rate} B/s over {rtt} ms");
        let most = flow.most_queued * 100 / bdp(&path);
        assert!(most <= 150, "{kind:?}: {most} % of a BDP are queued at {rate} B/s over {rtt} ms");
    }
}

#[test]
fn one_loss_in_a_hundred_costs_next_to_nothing() {
    for (kind, rtt) in VERSIONS.into_iter().flat_map(|kind| [20, 100].map(|rtt| (kind, rtt))) {
        let path = path(2_000_000, rtt, 100, 100);
        let mut flow = Flow::new(kind, &path);
        flow.run(&path, Duration::from_secs(3));
        let before = flow.lost;
        let arrived = flow.run(&path, Duration::from_secs(12));
        let (share, lost) =
            (arrived * 100 / (2_000_000 * 12), (flow.lost - before) * 100 / arrived);
        assert!(share >= 90, "{kind:?}: {share} % over {rtt} ms");
        assert!(lost <= 2, "{kind:?}: {lost} % are lost over {rtt} ms");
    }
}

#[test]
fn the_first_version_probes_one_round_trip_in_eight() {
    let path = path(2_000_000, 50, 400, 0);
    let mut flow = Flow::new(Congestion::Bbr1, &path);
    flow.run(&path, Duration::from_secs(2));
    let mut seen = [0; 3];
    for _ in 0..400 {
        flow.run(&path, Duration::from_millis(10));
        let at = [Mode::Up, Mode::Down, Mode::Cruise].iter().position(|m| *m == flow.mode());
        seen[at.unwrap_or_else(|| panic!("{:?}", flow.mode()))] += 1;
    }
    // Draining ends as soon as the queue is gone.
    let [up, down, cruise] = seen;
    assert!((30..=90).contains(&up) && (5..=60).contains(&down) && cruise >= 250, "{seen:?}");
}

#[test]
fn an_owner_who_writes_little_does_not_let_the_first_version_forget_the_rate() {
    let path = path(2_000_000, 50, 400, 0);
    let mut flow = Flow::new(Congestion::Bbr1, &path);
    flow.run(&path, Duration::from_secs(2));
    let before = flow.bbr.info().bw;
    assert!(before >= 1_900_000, "{before}");
    flow.writes = 2 * MSS;
    // A hundred round trips, where ten are remembered.
    let sent = flow.run(&path, Duration::from_secs(5));
    assert!(sent <= 300_000, "{sent}");
    assert_eq!(flow.bbr.info().bw, before);
}

#[test]
fn more_than_chance_explains_is_too_much() {
    // Segments in flight, and the most of them that may be lost: six where the flight is small,
    // then a fiftieth and the square root of that.
    for (in_flight, most) in [(10, 5), (100, 5), (200, 6), (345, 9), (1_000, 24), (10_000, 214)] {
        let bytes = in_flight * MSS;
        let lost = |segments: u64| is_too_high(segments * u64::from(MSS), bytes, MSS, true);
        assert!(!lost(most) && lost(most + 1), "{in_flight} in flight");
    }
    assert!(is_too_high(1, 100 * MSS, MSS, false), "without SACK any loss is");
}

#[test]
fn the_least_window_leaves_within_a_second_however_slow_the_path_was() {
    let slow = path(100, 20, 100, 0);
    let mut flow = Flow::new(Congestion::Bbr, &slow);
    let least = u64::from(min_pipe(&flow.window));
    flow.model().full_bw_reached = true;
    flow.model().bw = slow.rate;
    flow.set_pacing_rate();
    assert_eq!(flow.bbr.pacing_rate(), least);
    // What is not known changes nothing.
    flow.model().bw = 0;
    flow.set_pacing_rate();
    assert_eq!(flow.bbr.pacing_rate(), least);
    // And it is a floor only.
    flow.model().bw = 1_000_000;
    flow.set_pacing_rate();
    assert_eq!(flow.bbr.pacing_rate(), 990_000);
}

#[test]
fn a_path_that_becomes_faster_or_slower_is_followed() {
    let (slow, fast) = (path(500_000, 40, 100, 0), path(2_000_000, 40, 100, 0));
    for kind in VERSIONS {
        let mut flow = Flow::new(kind, &slow);
        flow.run(&slow, Duration::from_secs(5));
        flow.run(&fast, Duration::from_secs(10));
        let share = flow.run(&fast, Duration::from_secs(10)) * 100 / (2_000_000 * 10);
        assert!(share >= 90, "{kind:?}: {share} % of the faster path");
        flow.run(&slow, Duration::from_secs(10));
        let before = flow.lost;
        let arrived = flow.run(&slow, Duration::from_secs(10));
        let (share, lost) = (arrived * 100 / (500_000 * 10), (flow.lost - before) * 100 / arrived);
        assert!(share >= 90, "{kind:?}: {share} % of the slower path");
        assert!(lost <= 2, "{kind:?}: {lost} % are lost on the slower path");
    }
}

#[test]
fn the_round_trip_is_looked_for_anew_every_few_seconds() {
    let path = path(1_000_000, 50, 400, 0);
    for kind in VERSIONS {
        let mut flow = Flow::new(kind, &path);
        let mut seen = 0;
        for _ in 0..300 {
            flow.run(&path, Duration::from_millis(50));
            seen += u32::from(flow.mode() == Mode::ProbeRtt);
        }
        // 15 seconds hold at least one look, which takes a fifth of a second and a round trip.
        assert!((3..60).contains(&seen), "{kind:?}: {seen} of 300 looks");
    }
}

#[test]
fn a_loss_that_was_none_gives_back_what_it_took() {
    let path = path(2_000_000, 20, 100, 0);
    for kind in VERSIONS {
        let mut flow = Flow::new(kind, &path);
        flow.run(&path, Duration::from_secs(2));
        let before = flow.window.cwnd;
        flow.bbr.on_trouble(&mut flow.window, true);
        assert_eq!(flow.window.cwnd, MSS);
        flow.bbr.on_undone(&mut flow.window, flow.delivery.delivered());
        assert_eq!(flow.window.cwnd, before);
    }
}

#[test]
fn another_stack_goes_on_at_the_rate_that_was_known() {
    let path = path(2_000_000, 20, 400, 0);
    for kind in VERSIONS {
        let mut flow = Flow::new(kind, &path);
        flow.run(&path, Duration::from_secs(4));
        let mut anew = Bbr::new(kind, &flow.window, flow.now, None, 0);
        anew.resume(&flow.window, flow.bbr.known(), flow.now);
        let share = anew.pacing_rate() * 100 / 2_000_000;
        assert!(
            (90..=110).contains(&share) && anew.model().mode == Mode::Cruise,
            "{kind:?}: {share} %"
        );
        let mut flow = Flow { bbr: anew, ..flow };
        let share = flow.run(&path, Duration::from_secs(4)) * 100 / (2_000_000 * 4);
        assert!(share >= 85, "{kind:?}: {share} % by another stack");
    }
}

#[test]
fn marks_on_all_that_arrives_shrink_what_is_in_flight() {
    let path = path(2_000_000, 20, 400, 0);
    let mut flow = Flow::new(Congestion::Bbr, &path);
    flow.run(&path, Duration::from_secs(2));
    flow.model().start_cruise();
    let before = flow.window.cwnd;
    for _ in 0..50 {
        flow.now += Duration::from_millis(20);
        let delivered = flow.delivery.delivered();
        let sample = RateSample {
            newly_acked: MSS,
            prior_delivered: Some(delivered),
            delivered: u64::from(MSS),
            rate: 2_000_000,
            is_first: true,
            ..RateSample::default()
        };
        let in_flight = flow.in_flight();
        let input = Input {
            now: flow.now,
            sample,
            delivered,
            in_flight,
            oldest: None,
            marked: MSS,
            in_recovery: false,
            is_repairing: false,
            has_sack: true,
        };
        flow.bbr.on_ack(&mut flow.window, &input, &mut flow.rng);
    }
    assert!(flow.window.cwnd < before / 2, "{} of {before}", flow.window.cwnd);
}
