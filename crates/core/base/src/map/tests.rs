use super::*;
use crate::Rng;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// Every entry is where a lookup finds it, in Robin Hood order, within the bound.
fn check(map: &FlowMap) {
    let mut held = 0;
    for (at, &slot) in map.slots.iter().enumerate() {
        if slot == 0 {
            continue;
        }
        held += 1;
        let distance = map.distance(at);
        assert!(distance <= MAX_PROBE);
        if distance > 0 {
            let before = at.wrapping_sub(1) & map.mask;
            assert_ne!(map.slots[before], 0, "a hole between an entry and the slot it wanted");
            assert!(
                map.distance(before) + 1 >= distance,
                "an entry in front of one that wanted an earlier slot"
            );
        }
    }
    assert_eq!(held, map.len());
}

#[test]
fn a_value_is_found_until_it_is_removed() {
    let mut map = FlowMap::new(10);
    assert_eq!(map.insert(42, 0), Ok(()));
    assert_eq!(map.find(42, |v| v == 0), Some(0));
    assert_eq!(map.candidate(42), 0);
    assert_eq!(map.candidate(43), u32::MAX, "no value is that");
    assert_eq!(map.find(42, |_| false), None);
    assert_eq!(map.find(43, |_| true), None);
    assert!(map.slot_of(42) < map.slots().len());
    assert_eq!(map.remove(42, |v| v == 0), Some(0));
    assert_eq!(map.remove(42, |_| true), None);
    assert!(map.is_empty());
}

#[test]
fn entries_with_the_same_hash_are_told_apart_by_the_caller() {
    let mut map = FlowMap::new(10);
    (0..5).for_each(|v| map.insert(99, v).unwrap());
    assert_eq!(map.remove(99, |v| v == 2), Some(2));
    assert!(map.replace(99, 4, 40));
    assert!(!map.replace(99, 4, 41));
    assert_eq!(
        [0, 1, 2, 3, 4, 40].map(|v| map.find(99, |w| w == v).is_some()),
        [true, true, false, true, false, true]
    );
    check(&map);
}

#[test]
fn a_flood_of_equal_hashes_is_refused_at_the_probe_bound_and_hurts_nobody_else() {
    let mut map = FlowMap::new(1 << 12);
    let taken = (0..1000).take_while(|&v| map.insert(7, v).is_ok()).count();
    assert_eq!(taken, MAX_PROBE + 1);
    let mut rng = Rng::seed(1);
    let others: Vec<u64> = (0..1000).map(|_| rng.next_u64()).collect();
    for (v, &hash) in (10_000..).zip(&others) {
        if map.slot_of(hash) < 7 || map.slot_of(hash) > 7 + MAX_PROBE {
            map.insert(hash, v).unwrap();
            assert_eq!(map.find(hash, |w| w == v), Some(v));
        }
    }
    check(&map);
    let mut asked = 0;
    map.find(7, |_| {
        asked += 1;
        false
    });
    assert!(asked <= MAX_PROBE + 1);
    // Once the flood is gone, nothing of it is left.
    (0..taken as u32).for_each(|v| assert_eq!(map.remove(7, |w| w == v), Some(v)));
    check(&map);
    map.insert(7, 1).unwrap();
}

#[test]
fn a_refused_insert_changes_nothing() {
    let mut map = FlowMap::new(1 << 10);
    while map.insert(1 << 32, 5).is_ok() {}
    let before = map.slots.clone();
    assert_eq!(map.insert(1, 6), Err(MapFull));
    // One that wants the slot before must push the whole flood one further, which the bound
    // forbids.
    assert!(map.insert(0, 6).is_ok());
    assert_eq!(map.insert(0, 6), Err(MapFull));
    assert_eq!(map.remove(0, |_| true), Some(6));
    assert_eq!(map.slots, before);
}

#[test]
fn full_is_full_at_the_asked_capacity() {
    for capacity in [0, 1, 6, 7, 100] {
        let mut map = FlowMap::new(capacity);
        let mut rng = Rng::seed(5);
        (0..capacity).for_each(|v| map.insert(rng.next_u64(), v).unwrap());
        assert_eq!(map.insert(rng.next_u64(), 0), Err(MapFull));
        assert_eq!(map.values().count() as u32, capacity);
        assert!(map.slots.contains(&0), "a lookup must always reach a vacant slot");
    }
}

#[test]
fn random_hashes_at_the_highest_load_stay_far_below_the_probe_bound() {
    let capacity = (1 << 17) / 4 * 3 - 1;
    let mut map = FlowMap::new(capacity);
    assert_eq!(map.slots.len(), 1 << 17);
    let mut rng = Rng::seed(6);
    (0..capacity).for_each(|v| map.insert(rng.next_u64(), v).unwrap());
    check(&map);
    let distances: Vec<usize> =
        (0..map.slots.len()).filter(|&at| map.slots[at] != 0).map(|at| map.distance(at)).collect();
    assert!(distances.iter().max() < Some(&(MAX_PROBE / 2)), "{:?}", distances.iter().max());
    assert!(distances.iter().sum::<usize>() < 2 * distances.len());
}

#[test]
fn a_table_does_not_wear_out() {
    let mut map = FlowMap::new(3000);
    let mut rng = Rng::seed(8);
    let mut live: Vec<u64> = (0..3000).map(|_| rng.next_u64()).collect();
    live.iter().for_each(|&h| map.insert(h, 1).unwrap());
    for _ in 0..50_000 {
        let at = rng.below(3000) as usize;
        map.remove(live[at], |_| true).unwrap();
        live[at] = rng.next_u64();
        map.insert(live[at], 1).unwrap();
    }
    check(&map);
    live.iter().for_each(|&h| assert_eq!(map.remove(h, |_| true), Some(1)));
    assert!(map.slots.iter().all(|&slot| slot == 0));
}

proptest! {
    #[test]
    fn behaves_as_a_list_of_pairs(
        capacity in 1..24_u32,
        // Few hashes, close together, so that runs collide and wrap around the end of the table.
        ops in prop::collection::vec((0..4_u8,
            prop::sample::select(vec![0_u64, 1, 2, 6, 7, 30, 31, 32, 63]), 0..40_u32), 0..200),
    ) {
        let mut map = FlowMap::new(capacity);
        let mut model: Vec<(u64, u32)> = Vec::new();
        for (op, hash, value) in ops {
            let known = model.iter().position(|&pair| pair == (hash, value));
            match op {
                0 if known.is_none() => {
                    let fits = model.len() < capacity as usize;
                    prop_assert_eq!(map.insert(hash, value).is_ok(), fits);
                    if fits { model.push((hash, value)) }
                }
                1 => {
                    prop_assert_eq!(map.remove(hash, |v| v == value), known.map(|_| value));
                    if let Some(at) = known { model.remove(at); }
                }
                2 => {
                    prop_assert_eq!(map.replace(hash, value, value + 100), known.is_some());
                    if let Some(at) = known { model[at].1 = value + 100 }
                }
                _ => prop_assert_eq!(map.find(hash, |v| v == value), known.map(|_| value)),
            }
            check(&map);
            for &(hash, value) in &model {
                prop_assert_eq!(map.find(hash, |v| v == value), Some(value));
            }
        }
    }
}
