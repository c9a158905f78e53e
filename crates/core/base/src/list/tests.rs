use super::*;
use core::mem::size_of;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

/// The list read from head to tail, after checking that it reads the same backwards.
fn read(list: &List, links: &mut [Link]) -> Vec<u32> {
    let mut seen = Vec::new();
    let (mut at, mut before) = (list.head, NIL);
    while at != NIL {
        let link = *links.link(at);
        // What the head has there means nothing.
        assert!(before == NIL || link.prev == before);
        assert!(link.is_linked());
        seen.push(at);
        (before, at) = (at, link.next);
    }
    assert_eq!(list.tail, before);
    assert_eq!(list.len() as usize, seen.len());
    assert_eq!(list.is_empty(), seen.is_empty());
    seen
}

#[test]
fn a_link_is_eight_bytes_and_a_list_twelve() {
    assert_eq!(size_of::<Link>(), 8);
    assert_eq!(size_of::<List>(), 12);
}

#[test]
fn marking_twice_is_marking_once() {
    let mut links = [Link::OFF; 4];
    let mut ready = List::new();
    assert!(ready.push_back(&mut links[..], 2));
    assert!(!ready.push_back(&mut links[..], 2));
    assert!(!ready.push_front(&mut links[..], 2));
    assert!(links[2].is_linked());
    assert_eq!(ready.pop_front(&mut links[..]), Some(2));
    assert!(!links[2].is_linked());
    assert_eq!(ready.pop_front(&mut links[..]), None);
    assert!(ready.push_back(&mut links[..], 2));
}

proptest! {
    #[test]
    fn behaves_as_a_deque(ops in prop::collection::vec((0..5_u8, 0..8_u32), 0..300)) {
        let mut links = [Link::OFF; 8];
        let mut list = List::new();
        let mut model: VecDeque<u32> = VecDeque::new();
        for (op, index) in ops {
            let on = model.contains(&index);
            prop_assert_eq!(links[index as usize].is_linked(), on);
            match op {
                0 => {
                    prop_assert_eq!(list.push_back(&mut links[..], index), !on);
                    if !on { model.push_back(index) }
                }
                1 => {
                    prop_assert_eq!(list.push_front(&mut links[..], index), !on);
                    if !on { model.push_front(index) }
                }
                2 => prop_assert_eq!(list.pop_front(&mut links[..]), model.pop_front()),
                3 => {
                    prop_assert_eq!(list.remove(&mut links[..], index), on);
                    model.retain(|&i| i != index);
                }
                _ => {
                    prop_assert_eq!(list.move_to_back(&mut links[..], index), on);
                    model.retain(|&i| i != index);
                    if on { model.push_back(index) }
                }
            }
            prop_assert_eq!(read(&list, &mut links), model.iter().copied().collect::<Vec<_>>());
        }
    }
}
