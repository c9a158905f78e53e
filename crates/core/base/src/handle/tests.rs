use super::*;
use core::mem::size_of;
use std::format;

/// Neither Copy, Eq, Hash nor Debug: the handle must be all of these without its help.
struct Plain;

fn handle(index: u32, generation: u32) -> Handle<Plain> {
    Handle::new(index, NonZeroU32::new(generation).unwrap())
}

#[test]
fn an_absent_handle_costs_no_space() {
    assert_eq!(size_of::<Handle<Plain>>(), 8);
    assert_eq!(size_of::<Option<Handle<Plain>>>(), 8);
}

#[test]
fn bits_and_back_is_the_same_handle() {
    for h in [handle(0, 1), handle(u32::MAX, u32::MAX), handle(7, 2)] {
        assert_eq!(Handle::from_bits(h.to_bits()), Some(h));
    }
}

#[test]
fn numbers_that_no_handle_makes_are_refused() {
    assert_eq!(Handle::<Plain>::from_bits(0), None);
    assert_eq!(Handle::<Plain>::from_bits(u64::from(u32::MAX)), None);
}

#[test]
fn equality_needs_index_and_generation() {
    assert_eq!(handle(1, 1), handle(1, 1));
    assert_ne!(handle(1, 1), handle(1, 2));
    assert_ne!(handle(1, 1), handle(2, 1));
}

#[test]
fn debug_shows_index_and_generation() {
    assert_eq!(format!("{:?}", handle(7, 2)), "7#2");
}
