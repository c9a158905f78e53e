use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Joins, and closes up first when it must.
fn join(line: &mut Line, places: &mut [Place], index: u32) {
    let mut place = places[index as usize];
    if !line.join(index, &mut place) {
        line.close_up(|index, place| places[index as usize] = place);
        assert!(line.join(index, &mut place), "a line that was closed up has room");
    }
    places[index as usize] = place;
}

fn serve(line: &mut Line, places: &mut [Place]) -> Option<u32> {
    let index = line.serve()?;
    places[index as usize] = Place::OFF;
    Some(index)
}

#[test]
fn who_came_first_is_served_first_and_stands_in_line_once() {
    let (mut line, mut places) = (Line::new(3), vec![Place::OFF; 3]);
    for index in [2, 0, 2, 1, 0] {
        join(&mut line, &mut places, index);
    }
    assert_eq!(line.len(), 3);
    let served: Vec<u32> = core::iter::from_fn(|| serve(&mut line, &mut places)).collect();
    assert_eq!(served, [2, 0, 1]);
    assert!(line.is_empty() && places.iter().all(|p| !p.is_taken()));
}

#[test]
fn who_leaves_is_not_served() {
    let (mut line, mut places) = (Line::new(3), vec![Place::OFF; 3]);
    for index in 0..3 {
        join(&mut line, &mut places, index);
    }
    line.leave(&mut places[1]);
    line.leave(&mut places[1]);
    assert_eq!(line.len(), 2);
    assert_eq!(serve(&mut line, &mut places), Some(0));
    assert_eq!(serve(&mut line, &mut places), Some(2));
    assert_eq!(serve(&mut line, &mut places), None);
}

#[test]
fn a_line_full_of_holes_is_closed_up() {
    let (mut line, mut places) = (Line::new(2), vec![Place::OFF; 2]);
    join(&mut line, &mut places, 0);
    for _ in 0..100 {
        join(&mut line, &mut places, 1);
        line.leave(&mut places[1]);
    }
    join(&mut line, &mut places, 1);
    assert_eq!(serve(&mut line, &mut places), Some(0));
    assert_eq!(serve(&mut line, &mut places), Some(1));
}

#[test]
fn a_place_is_small_and_a_line_for_nobody_is_empty() {
    assert_eq!(size_of::<Place>(), 4);
    assert_eq!(Line::new(0).serve(), None);
}

proptest! {
    #[test]
    fn it_does_what_a_queue_does(steps in prop::collection::vec((0u8..3, 0u32..5), 0..400)) {
        let (mut line, mut places) = (Line::new(5), vec![Place::OFF; 5]);
        let mut queue = VecDeque::new();
        for (what, index) in steps {
            match what {
                0 => {
                    join(&mut line, &mut places, index);
                    if !queue.contains(&index) {
                        queue.push_back(index);
                    }
                }
                1 => {
                    line.leave(&mut places[index as usize]);
                    queue.retain(|&i| i != index);
                }
                _ => prop_assert_eq!(serve(&mut line, &mut places), queue.pop_front()),
            }
            prop_assert_eq!(line.len() as usize, queue.len());
            prop_assert_eq!(line.is_empty(), queue.is_empty());
            for index in 0..5 {
                prop_assert_eq!(places[index as usize].is_taken(), queue.contains(&index));
            }
        }
    }
}

#[test]
fn who_could_not_be_served_after_all_is_the_next_again() {
    let (mut line, mut places) = (Line::new(3), vec![Place::OFF; 3]);
    for index in 0..3 {
        join(&mut line, &mut places, index);
    }
    for _ in 0..100 {
        assert_eq!(serve(&mut line, &mut places), Some(0));
        line.unserve(0, &mut places[0]);
        assert!(places[0].is_taken());
        assert_eq!(line.len(), 3);
    }
    // He may leave from there, as from any place.
    line.leave(&mut places[0]);
    assert_eq!(line.len(), 2);
    assert_eq!(serve(&mut line, &mut places), Some(1));
    assert_eq!(serve(&mut line, &mut places), Some(2));
    line.unserve(2, &mut places[2]);
    assert_eq!(serve(&mut line, &mut places), Some(2), "also when he was the last");
    assert_eq!(serve(&mut line, &mut places), None);
}

#[test]
fn who_is_served_later_is_known_before() {
    let (mut line, mut places) = (Line::new(4), vec![Place::OFF; 4]);
    // So that the line goes round the end of its ring.
    for _ in 0..3 {
        for index in 0..4 {
            join(&mut line, &mut places, index);
        }
        let ahead: Vec<Option<u32>> = (0..6).map(|n| line.ahead(n)).collect();
        assert_eq!(ahead, [Some(0), Some(1), Some(2), Some(3), None, None]);
        line.leave(&mut places[1]);
        assert_eq!(line.ahead(1), None, "a hole is nobody");
        assert_eq!(line.ahead(2), Some(2));
        assert_eq!(
            (0..3).map(|_| serve(&mut line, &mut places)).collect::<Vec<_>>(),
            [Some(0), Some(2), Some(3)]
        );
    }
}
