use super::*;
use crate::list::List;
use core::mem::size_of;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

#[test]
fn an_entry_costs_at_most_eight_bytes_beside_its_value() {
    assert_eq!(size_of::<Entry<u64>>(), 16);
    assert_eq!(size_of::<Entry<[u64; 31]>>(), 256);
    assert_eq!(size_of::<Entry<u32>>(), 12);
    // The least there is: a vacant place must hold a generation and an index.
    assert_eq!(size_of::<Entry<u8>>(), 12);
}

#[test]
fn a_removed_value_is_gone_for_its_handle_though_the_place_is_used_again() {
    let mut slab = Slab::new(4);
    let old = slab.insert("old").unwrap();
    assert_eq!(slab.remove(old), Some("old"));
    let new = slab.insert("new").unwrap();
    assert_eq!(new.index(), old.index());
    assert_eq!(slab.get(old), None);
    assert_eq!(slab.remove(old), None);
    assert_eq!(slab.get(new), Some(&"new"));
    assert_eq!(slab.handle_at(new.index()), Some(new));
}

#[test]
fn the_place_freed_last_is_used_first() {
    let mut slab = Slab::new(4);
    let handles: Vec<_> = (0..4).map(|n| slab.insert(n).unwrap()).collect();
    slab.remove(handles[2]);
    slab.remove(handles[0]);
    assert_eq!(slab.insert(9).unwrap().index(), 0);
    assert_eq!(slab.insert(9).unwrap().index(), 2);
}

#[test]
fn a_full_slab_refuses_and_does_not_call_the_maker() {
    let mut slab = Slab::new(2);
    slab.insert(1).unwrap();
    slab.insert(2).unwrap();
    assert!(slab.is_full());
    assert_eq!(slab.insert(3), None);
    assert_eq!(slab.insert_with(|_| panic!("called though full")), None);
    assert_eq!(Slab::<u8>::new(0).insert(1), None);
}

#[test]
fn filling_to_capacity_never_reallocates() {
    let mut slab = Slab::new(1000);
    slab.insert(0_u64).unwrap();
    let place = slab.entries().as_ptr();
    while slab.insert(1).is_some() {}
    assert_eq!(slab.len(), 1000);
    assert_eq!(slab.entries().as_ptr(), place);
}

#[test]
fn a_value_can_know_its_own_handle() {
    let mut slab: Slab<u64> = Slab::new(2);
    let first = slab.insert_with(Handle::to_bits).unwrap();
    assert_eq!(slab.get(first), Some(&first.to_bits()));
    slab.remove(first);
    let second = slab.insert_with(Handle::to_bits).unwrap();
    assert_eq!(slab.get(second), Some(&second.to_bits()));
}

#[test]
fn a_maker_that_panics_leaves_the_slab_as_it_was() {
    let mut slab = Slab::new(2);
    let first = slab.insert(1).unwrap();
    slab.remove(first);
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        slab.insert_with(|_| -> i32 { panic!("on purpose") });
    }));
    assert!(outcome.is_err());
    assert!(slab.is_empty());
    assert_eq!(slab.insert(2).unwrap().index(), first.index());
    assert_eq!(slab.len(), 1);
}

#[test]
fn generations_skip_zero_when_they_wrap() {
    let mut slab = Slab::new(1);
    let h = slab.insert(1).unwrap();
    slab.entries[0].0 = State::Occupied { generation: NonZeroU32::MAX, value: 1 };
    assert!(!slab.contains(h));
    slab.remove(Handle::new(0, NonZeroU32::MAX)).unwrap();
    assert_eq!(slab.insert(2).unwrap().generation(), FIRST);
}

#[test]
fn forged_handles_find_nothing() {
    let mut slab = Slab::new(2);
    slab.insert(1).unwrap();
    for bits in [1 << 32 | 1, 2 << 32, 1 << 32 | u64::from(u32::MAX), u64::MAX] {
        let forged = Handle::from_bits(bits).unwrap();
        assert_eq!(slab.get(forged), None);
        assert_eq!(slab.get_mut(forged), None);
        assert_eq!(slab.remove(forged), None);
    }
    assert_eq!(slab.by_index(NIL), None);
    assert_eq!(slab.len(), 1);
}

#[test]
fn iteration_shows_what_is_held_and_nothing_else() {
    let mut slab = Slab::new(8);
    let handles: Vec<_> = (0..5).map(|n| slab.insert(n).unwrap()).collect();
    slab.remove(handles[1]);
    slab.remove(handles[4]);
    slab.iter_mut().for_each(|(_, value)| *value += 10);
    assert_eq!(
        slab.iter().collect::<Vec<_>>(),
        vec![(handles[0], &10), (handles[2], &12), (handles[3], &13)]
    );
}

#[test]
fn entries_of_a_slab_can_be_on_two_lists_at_once() {
    #[derive(Default)]
    struct Connection {
        ready: Link,
        lru: Link,
    }
    let mut slab = Slab::new(3);
    let (mut ready, mut lru) = (List::new(), List::new());
    for _ in 0..3 {
        let at = slab.insert(Connection::default()).unwrap().index();
        lru.push_back(&mut slab.links(|c| &mut c.lru), at);
    }
    ready.push_back(&mut slab.links(|c| &mut c.ready), 1);
    lru.move_to_back(&mut slab.links(|c| &mut c.lru), 0);
    assert_eq!(lru.front(), Some(1));
    assert_eq!(lru.back(), Some(0));
    assert_eq!(lru.next(&mut slab.links(|c| &mut c.lru), 1), Some(2));
    assert_eq!(ready.pop_front(&mut slab.links(|c| &mut c.ready)), Some(1));
    assert_eq!(lru.len(), 3);
}

proptest! {
    #[test]
    fn behaves_as_a_map_from_handles(ops in prop::collection::vec((any::<bool>(), any::<u16>()),
        0..400)) {
        let mut slab = Slab::new(16);
        let mut model = BTreeMap::new();
        let mut gone: Vec<Handle<u16>> = Vec::new();
        for (insert, n) in ops {
            if insert {
                match slab.insert(n) {
                    Some(h) => prop_assert!(model.insert(h.to_bits(), n).is_none()),
                    None => prop_assert_eq!(model.len(), 16),
                }
            } else if let Some((&bits, &value)) = model.iter()
                .nth(n as usize % model.len().max(1)) {
                let h = Handle::from_bits(bits).unwrap();
                prop_assert_eq!(slab.remove(h), Some(value));
                model.remove(&bits);
                gone.push(h);
            }
            prop_assert_eq!(slab.len() as usize, model.len());
            for (&bits, value) in &model {
                prop_assert_eq!(slab.get(Handle::from_bits(bits).unwrap()), Some(value));
            }
            prop_assert!(gone.iter().all(|h| !slab.contains(*h)));
        }
    }
}
