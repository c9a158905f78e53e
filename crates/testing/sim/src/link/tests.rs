use clearway_base::{Duration, Instant, Rng};
use clearway_wire::Mac;

use super::{Bursts, Damage, Direction, Rules};
use crate::frame::Framing;

const MS: Duration = Duration::from_millis(1);

fn direction(rules: Rules) -> Direction {
    Direction::new(rules, Rng::seed(1))
}

fn arrivals(d: &mut Direction, count: u64, apart: Duration) -> Vec<Instant> {
    let mut all = Vec::new();
    for i in 0..count {
        let passage = d.send(Instant::ZERO + apart.times(i), 1000);
        all.extend(passage.arrivals.iter().flatten().map(|a| a.at));
    }
    all
}

#[test]
fn a_clean_link_only_takes_time() {
    let all = arrivals(&mut direction(Rules::clean(MS)), 3, MS);
    assert_eq!(all, [Instant::from_millis(1), Instant::from_millis(2), Instant::from_millis(3)]);
}

#[test]
fn loss_comes_as_often_as_asked() {
    let mut d = direction(Rules { loss: 100_000, ..Rules::clean(MS) });
    let got = arrivals(&mut d, 10_000, MS).len();
    assert!((8_800..9_200).contains(&got), "{got} of 10000 arrived");
    assert_eq!(d.tally.lost as usize, 10_000 - got);
}

#[test]
fn bursts_take_neighbours_together() {
    let bursts = Bursts { begin: 10_000, end: 200_000, loss: 1_000_000 };
    let mut d = direction(Rules { bursts: Some(bursts), ..Rules::clean(MS) });
    let lost: Vec<bool> =
        (0..20_000).map(|_| d.send(Instant::ZERO, 100).arrivals[0].is_none()).collect();
    let total = lost.iter().filter(|l| **l).count();
    let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count();
    assert!(pairs * 10 > total * 6, "{pairs} of {total} losses had a loss before them");
}

#[test]
fn jitter_keeps_order_and_reordering_does_not() {
    let sorted = |v: &[Instant]| v.windows(2).all(|w| w[0] <= w[1]);
    let jitter = Rules { jitter: MS.times(50), ..Rules::clean(MS) };
    assert!(sorted(&arrivals(&mut direction(jitter), 1000, MS)));
    let reorder = Rules { reorder: 50_000, reorder_by: MS.times(20), ..Rules::clean(MS) };
    assert!(!sorted(&arrivals(&mut direction(reorder), 1000, MS)));
}

#[test]
fn a_rate_spaces_frames_and_the_queue_overflows() {
    // 1000 bytes at 8 Mbit/s take one millisecond.
    let mut d = direction(Rules { rate: 8_000_000, queue: 2, ..Rules::clean(Duration::ZERO) });
    let got = arrivals(&mut d, 5, Duration::ZERO);
    assert_eq!(got, [Instant::from_millis(1), Instant::from_millis(2)]);
    assert_eq!(d.tally.overflowed, 3);
}

#[test]
fn a_device_that_pushes_back_says_when_it_has_room() {
    let rules =
        Rules { rate: 8_000_000, queue: 2, backpressure: true, ..Rules::clean(Duration::ZERO) };
    let mut d = direction(rules);
    assert_eq!(d.room(Instant::ZERO), 2);
    arrivals(&mut d, 2, Duration::ZERO);
    assert_eq!(d.room(Instant::ZERO), 0);
    assert_eq!(d.next_room(), Instant::from_millis(1));
    assert_eq!(d.room(Instant::from_millis(1)), 1);
}

#[test]
fn damage_leaves_the_link_header_alone() {
    let packet = crate::frame::ip_packet(
        clearway_wire::Addr::v4([1, 2, 3, 4]),
        clearway_wire::Addr::v4([1, 2, 3, 5]),
        clearway_wire::Proto::UDP,
        64,
        &[0; 20],
    );
    let frame = Framing::Ethernet.wrap(Mac([2; 6]), Mac([4; 6]), &packet);
    for n in 0..320 {
        let mut harmed = frame.clone();
        Damage::Flip(n).apply(Framing::Ethernet, &mut harmed);
        assert_eq!(harmed[..14], frame[..14]);
        assert_ne!(harmed[14..], frame[14..]);
        Damage::Cut(n).apply(Framing::Ethernet, &mut harmed);
        assert!(harmed.len() >= 14 && harmed.len() < frame.len());
    }
}

#[test]
fn a_healed_link_keeps_its_length_and_width() {
    let rules = Rules { loss: 1, blackhole: true, rate: 5, ..Rules::clean(MS) };
    assert_eq!(rules.healed(), Rules { rate: 5, ..Rules::clean(MS) });
}
