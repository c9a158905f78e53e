//! Paths that swallow long packets without a word (RFC 4821).

use super::*;

/// A connection with segments of so many bytes, of which all that are longer than `most` bytes of
/// payload vanish.
struct Hole {
    b: Bench,
    most: usize,
    /// What has arrived, from the first byte on.
    acked: u32,
    lens: Vec<usize>,
}

impl Hole {
    fn new(most: usize, written: usize) -> Hole {
        Hole::with_mss(1_400, most, written)
    }

    fn with_mss(mss: u16, most: usize, written: usize) -> Hole {
        let mut b = Bench::accepted(plain(), mss, 60_000);
        b.send(&pattern(written));
        Hole { b, most, acked: 1, lens: Vec::new() }
    }

    /// Lets time pass until `written` bytes have arrived; the peer acknowledges what comes in
    /// order.
    fn run(&mut self, written: u32) {
        for _ in 0..4_000 {
            if self.acked > written {
                return;
            }
            let mut seen = self.b.out();
            seen.extend(self.b.pass(ms(20)).into_iter().map(|(_, seen)| seen));
            for s in seen {
                let (seq, len) = (self.b.rel_seq(&s), s.data.len());
                if len == 0 {
                    continue;
                }
                self.lens.push(len);
                if len > self.most {
                    continue;
                }
                if seq <= self.acked {
                    self.acked = self.acked.max(seq + len as u32);
                }
                self.b.inject(ACK, 1, self.acked, 60_000, &[]);
            }
        }
        panic!("{} of {written} bytes arrived, in segments of {:?}", self.acked, self.lens);
    }
}

#[test]
fn long_segments_that_vanish_are_sent_again_in_short_ones() {
    let mut h = Hole::new(1_160, 3_000);
    h.run(3_000);
    assert_eq!(h.b.counters().mtu_black_holes, 1);
    assert!(h.lens.iter().filter(|len| **len > 1_160).count() >= 3, "{:?}", h.lens);
    assert!(h.lens.contains(&1_160), "1,200 bytes and no more: {:?}", h.lens);
}

#[test]
fn a_path_that_takes_even_less_is_found_after_as_many_timeouts_again() {
    let mut h = Hole::new(600, 2_000);
    h.run(2_000);
    assert!(h.lens.contains(&512), "{:?}", h.lens);
}

#[test]
fn a_path_that_takes_less_than_the_base_is_found_where_segments_never_were_longer() {
    // 1,098 bytes is what the link itself takes, and 640 the path: seen in the simulator.
    for mss in [1_058, 1_160, 513] {
        let mut h = Hole::with_mss(mss, 512, 2_000);
        h.run(2_000);
        assert_eq!(
            (h.b.counters().mtu_black_holes, h.lens.contains(&512)),
            (1, true),
            "{mss}: {:?}",
            h.lens
        );
    }
}

#[test]
fn segments_that_cannot_be_shorter_are_not_taken_for_too_long() {
    let mut h = Hole::with_mss(512, 0, 2_000);
    for _ in 0..400 {
        assert!(h.b.pass(ms(1_000)).iter().all(|(_, s)| s.data.len() <= 512));
    }
    assert_eq!(h.b.counters().mtu_black_holes, 0);
}

#[test]
fn a_probe_that_arrives_makes_segments_long_again() {
    let mut h = Hole::new(1_160, 3_000);
    h.run(3_000);
    h.most = 1_400;
    h.b.send(&pattern(60_000));
    h.lens.clear();
    h.run(63_000);
    assert!(h.lens.iter().filter(|len| **len == 1_400).count() > 5, "{:?}", h.lens);
}

#[test]
fn a_probe_that_is_lost_costs_no_congestion_window() {
    let mut h = Hole::new(1_160, 3_000);
    h.run(3_000);
    h.b.send(&pattern(30_000));
    h.lens.clear();
    h.run(33_000);
    let before = h.b.info().cwnd;
    h.b.send(&pattern(30_000));
    h.run(63_000);
    assert!(h.lens.iter().any(|len| *len > 1_160), "a probe was lost: {:?}", h.lens);
    assert!(h.b.info().cwnd >= before, "{} after {before}", h.b.info().cwnd);
    assert!(h.lens.iter().filter(|len| **len > 1_160).count() < 10, "{:?}", h.lens);
}

#[test]
fn nothing_is_shortened_where_probing_is_off() {
    let mut h = Hole::new(1_160, 3_000);
    h.b.net.stack.config.tcp.mtu_probing = crate::config::MtuProbing::Never;
    for _ in 0..200 {
        assert!(h.b.pass(ms(100)).iter().all(|(_, s)| s.data.len() == 1_400));
    }
    assert_eq!(h.b.counters().mtu_black_holes, 0);
}
