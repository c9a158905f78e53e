use super::*;
use crate::Rng;
use crate::time::Duration;
use core::mem::size_of;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

const TICK: u64 = 1 << DEFAULT_TICK_SHIFT;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn drain(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
    core::iter::from_fn(|| wheel.next_expired(now)).collect()
}

#[test]
fn a_timer_costs_sixteen_bytes() {
    assert_eq!(size_of::<Node>(), 16);
}

#[test]
fn a_timer_fires_at_the_first_tick_at_or_after_its_deadline_and_once() {
    let mut wheel = Wheel::new(4, at(0));
    wheel.arm(0, at(TICK));
    wheel.arm(1, at(TICK + 1));
    assert_eq!(wheel.deadline(1), Some(at(2 * TICK)));
    assert_eq!(drain(&mut wheel, at(TICK - 1)), []);
    assert_eq!(drain(&mut wheel, at(TICK)), [0]);
    assert!(!wheel.is_armed(0) && wheel.is_armed(1));
    assert_eq!(drain(&mut wheel, at(2 * TICK - 1)), []);
    assert_eq!(drain(&mut wheel, at(2 * TICK)), [1]);
    assert_eq!(drain(&mut wheel, at(100 * TICK)), []);
    assert!(wheel.is_empty());
}

#[test]
fn a_disarmed_timer_does_not_fire_and_a_moved_one_fires_at_the_new_time_only() {
    let mut wheel = Wheel::new(4, at(0));
    (0..3).for_each(|i| wheel.arm(i, at(10 * TICK)));
    assert!(wheel.disarm(0));
    assert!(!wheel.disarm(0));
    assert!(!wheel.disarm(3));
    wheel.arm(1, at(5000 * TICK));
    wheel.arm(2, Instant::NEVER);
    assert!(!wheel.is_armed(2));
    assert_eq!(wheel.len(), 1);
    assert_eq!(drain(&mut wheel, at(4999 * TICK)), []);
    assert_eq!(drain(&mut wheel, at(5000 * TICK)), [1]);
    assert_eq!(wheel.next_deadline(), Instant::NEVER);
}

#[test]
fn arm_if_earlier_moves_a_timer_forward_only() {
    let mut wheel = Wheel::new(2, at(0));
    assert!(wheel.arm_if_earlier(0, at(100 * TICK)));
    assert!(!wheel.arm_if_earlier(0, at(200 * TICK)));
    assert!(!wheel.arm_if_earlier(0, at(100 * TICK)));
    assert!(!wheel.arm_if_earlier(0, Instant::NEVER));
    assert!(!wheel.arm_if_earlier(1, Instant::NEVER));
    assert_eq!(wheel.deadline(0), Some(at(100 * TICK)));
    assert!(wheel.arm_if_earlier(0, at(50 * TICK)));
    assert_eq!(drain(&mut wheel, at(50 * TICK)), [0]);
}

#[test]
fn an_owner_that_arms_in_the_past_cannot_keep_the_turn_from_ending() {
    let mut wheel = Wheel::new(1, at(0));
    let now = at(10 * TICK);
    wheel.arm(0, at(TICK));
    let mut fired = 0;
    while let Some(index) = wheel.next_expired(now) {
        wheel.arm(index, at(0));
        fired += 1;
        assert!(fired <= 10);
    }
    assert_eq!(wheel.next_deadline(), now + Duration::from_nanos(TICK));
}

#[test]
fn a_jump_of_years_costs_no_more_than_the_timers_in_between() {
    let mut wheel = Wheel::new(2, at(0));
    let year = Duration::from_secs(365 * 24 * 3600);
    wheel.arm(0, at(0) + Duration::from_secs(3 * 24 * 3600 + 1));
    wheel.arm(1, at(0) + year.times(300));
    let mut work = LEVELS as u64 + 1;
    assert_eq!(wheel.next_expired_within(at(0) + year, &mut work), Some(0));
    assert_eq!(wheel.next_expired_within(at(0) + year, &mut work), None);
    assert!(work > 0);
    assert_eq!(drain(&mut wheel, at(0) + year.times(299)), []);
    assert_eq!(drain(&mut wheel, at(0) + year.times(301)), [1]);
}

#[test]
fn the_last_instants_there_are_do_no_harm_at_any_resolution() {
    for shift in [MIN_TICK_SHIFT, DEFAULT_TICK_SHIFT, 18, MAX_TICK_SHIFT] {
        let mut wheel = Wheel::with_tick_shift(3, shift, at(5));
        wheel.arm(0, at(u64::MAX - 1));
        wheel.arm(1, at(u64::MAX >> shift << shift));
        assert_eq!(drain(&mut wheel, at(u64::MAX - (2 << shift))), []);
        assert_eq!(drain(&mut wheel, at(u64::MAX)), [1]);
        wheel.arm(2, at(u64::MAX - 1));
        assert_eq!(drain(&mut wheel, at(u64::MAX)), []);
        assert!(wheel.disarm(0) && wheel.disarm(2));
    }
}

#[test]
fn a_crowd_of_timers_is_dealt_out_in_portions() {
    let hour = Duration::from_secs(3600);
    let mut wheel = Wheel::new(1000, at(0));
    let mut rng = Rng::seed(1);
    (0..1000).for_each(|i| wheel.arm(i, at(0) + hour + Duration::from_millis(rng.below(60_000))));
    let now = wheel.next_deadline();
    assert!(now <= at(0) + hour);
    let mut rounds = 0;
    while wheel.next_deadline() <= now {
        let mut work = 100;
        assert_eq!(wheel.next_expired_within(now, &mut work), None);
        rounds += 1;
        // Between the portions the wheel is usable: a timer not dealt out yet can be stopped.
        wheel.disarm(1000 - rounds);
    }
    assert!((9..=11).contains(&rounds), "{rounds}");
    assert_eq!(wheel.len(), 1000 - rounds);
    assert_eq!(drain(&mut wheel, at(0) + hour.times(2)).len() as u32, 1000 - rounds);
}

#[test]
fn arming_never_reallocates() {
    let mut wheel = Wheel::new(5000, at(0));
    wheel.arm(0, at(1));
    let place = wheel.nodes.as_ptr();
    (0..5000).rev().for_each(|i| wheel.arm(i, at(u64::from(i) << 20)));
    assert_eq!(wheel.nodes.as_ptr(), place);
    assert_eq!(wheel.len(), 5000);
}

#[test]
fn a_lazy_owner_is_woken_at_the_old_deadline_and_arms_the_new_one() {
    let mut wheel = Wheel::new(1, at(0));
    let mut idle_until = at(0);
    wheel.arm(0, at(0) + Duration::from_millis(100));
    let mut fired = Vec::new();
    for ms in 1..400 {
        let now = Instant::from_millis(ms);
        if ms <= 150 {
            // A packet each millisecond pushes the deadline back, and the wheel is not told.
            idle_until = now + Duration::from_millis(100);
        }
        while let Some(index) = wheel.next_expired(now) {
            if idle_until > now {
                wheel.arm(index, idle_until);
            } else {
                fired.push(ms);
            }
        }
    }
    assert_eq!(fired, [251]);
}

#[test]
#[should_panic(expected = "timer 4 of a wheel for 4")]
fn an_index_beyond_the_capacity_is_a_mistake_of_the_owner() {
    Wheel::new(4, at(0)).arm(4, at(1));
}

/// A wheel beside the obvious thing: a map from timer to the tick at which it must fire.
struct Pair {
    wheel: Wheel,
    model: BTreeMap<u32, u64>,
    now: u64,
}

impl Pair {
    fn arm(&mut self, index: u32, deadline: u64) {
        self.wheel.arm(index, at(deadline));
        self.model.insert(index, deadline.div_ceil(TICK).max(self.now / TICK + 1));
    }

    fn arm_if_earlier(&mut self, index: u32, deadline: u64) {
        let tick = deadline.div_ceil(TICK).max(self.now / TICK + 1);
        let earlier = self.model.get(&index).is_none_or(|&old| tick < old);
        assert_eq!(self.wheel.arm_if_earlier(index, at(deadline)), earlier);
        if earlier {
            self.model.insert(index, tick);
        }
    }

    /// Turns to `now` in portions of `portion`; what fires must be what is due, in the order of
    /// ticks.
    fn advance(&mut self, now: u64, portion: u64) {
        self.now = now;
        let due = self.model.values().filter(|&&tick| tick <= now / TICK).count();
        let mut last = 0;
        let mut fired = 0;
        loop {
            let mut work = portion;
            while let Some(index) = self.wheel.next_expired_within(at(now), &mut work) {
                let tick = self.model.remove(&index).expect("fired though not armed");
                assert!(tick <= now / TICK, "fired early");
                assert!(tick >= last, "fired out of order");
                assert!(!self.wheel.is_armed(index));
                last = tick;
                fired += 1;
            }
            if work > 0 {
                break;
            }
        }
        assert_eq!(fired, due);
    }

    fn check(&self) {
        assert_eq!(self.wheel.len() as usize, self.model.len());
        for index in 0..self.wheel.capacity() {
            let expected = self.model.get(&index).map(|&tick| at(tick * TICK));
            assert_eq!(self.wheel.deadline(index), expected);
        }
        let next = self.wheel.next_deadline();
        match self.model.values().min() {
            Some(&first) => assert!(next <= at(first * TICK) && next > at(self.now)),
            None => assert_eq!(next, Instant::NEVER),
        }
        // What the bitmaps say is what the slots hold.
        let held: BTreeSet<usize> =
            (0..LEVELS * SLOTS).filter(|&s| !self.wheel.slots[s].is_empty()).collect();
        let said: BTreeSet<usize> = (0..LEVELS * SLOTS)
            .filter(|&s| self.wheel.occupied[s / SLOTS] >> (s % SLOTS) & 1 == 1)
            .collect();
        assert_eq!(held, said);
        for level in 0..LEVELS {
            assert_eq!(self.wheel.levels >> level & 1 == 1, self.wheel.occupied[level] != 0);
        }
    }
}

/// Lengths of time from less than a tick to years, each magnitude as likely as the others.
fn length() -> impl Strategy<Value = u64> {
    (0..58_u32, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1))
}

proptest! {
    #[test]
    fn behaves_as_a_map_from_timer_to_tick(
        start in length(),
        ops in prop::collection::vec((0..6_u8, 0..24_u32, length(), 1..40_u64), 0..200),
    ) {
        let mut pair = Pair { wheel: Wheel::new(24, at(start)), model: BTreeMap::new(),
            now: start };
        for (op, index, length, portion) in ops {
            match op {
                0 | 1 => pair.arm(index, pair.now + length),
                2 => pair.arm_if_earlier(index, pair.now.saturating_sub(TICK * 2) + length),
                3 => prop_assert_eq!(pair.wheel.disarm(index), pair.model.remove(&index).is_some()),
                4 => pair.advance(pair.now + length, portion),
                _ => {
                    // Sleep as the wheel says: within one wake for each level, something fires.
                    let armed = pair.model.len();
                    for _ in 0..LEVELS {
                        let next = pair.wheel.next_deadline();
                        if next.is_set() && pair.model.len() == armed {
                            pair.advance(next.as_nanos(), portion);
                        }
                    }
                    prop_assert!(armed == 0 || pair.model.len() < armed);
                }
            }
            pair.check();
        }
    }

    #[test]
    fn changes_between_the_portions_of_a_turn_are_obeyed(
        deadlines in prop::collection::vec(length(), 24),
        ops in prop::collection::vec((0..4_u8, 0..24_u32, length()), 0..100),
    ) {
        let mut wheel = Wheel::new(24, at(0));
        let mut promised: BTreeMap<u32, (u64, Instant)> = BTreeMap::new();
        let mut now = 0;
        for (index, deadline) in (0..).zip(deadlines) {
            wheel.arm(index, at(deadline));
            promised.insert(index, (deadline, wheel.deadline(index).unwrap()));
        }
        for (op, index, length) in ops {
            match op {
                0 => {
                    wheel.arm(index, at(now + length));
                    let fires = wheel.deadline(index).unwrap();
                    prop_assert!(fires >= at(now + length));
                    prop_assert!(fires <= at((now + length).div_ceil(TICK)
                        .max(now / TICK + 1) * TICK));
                    promised.insert(index, (now + length, fires));
                }
                1 => prop_assert_eq!(wheel.disarm(index), promised.remove(&index).is_some()),
                _ => {
                    now += length;
                    let mut work = 2;
                    while let Some(index) = wheel.next_expired_within(at(now), &mut work) {
                        let (deadline, fires) = promised.remove(&index).expect(
                            "fired though not armed");
                        prop_assert!(deadline <= now && fires <= at(now), "fired early");
                    }
                }
            }
            prop_assert_eq!(wheel.len() as usize, promised.len());
            if let Some(first) = promised.values().map(|&(_, fires)| fires).min() {
                prop_assert!(wheel.next_deadline() <= first);
            }
        }
        while wheel.next_expired(at(now)).is_some() {}
        prop_assert!((0..24).all(|i| wheel.deadline(i).is_none_or(|fires| fires > at(now))),
            "a due timer was left behind");
    }
}
