use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::layout::event;

fn memory() -> Arc<Segment> {
    Arc::new(Segment::on_heap(4096))
}

fn ring(memory: &Arc<Segment>) -> (RingProducer, RingConsumer) {
    (RingProducer::new(memory, 0, 8).unwrap(), RingConsumer::new(memory, 0, 8).unwrap())
}

fn message(number: u32) -> Message {
    Message { session: u64::from(number) << 40, what: event::READABLE, aux: number }
}

#[test]
fn messages_come_out_as_they_went_in() {
    let (mut producer, mut consumer) = ring(&memory());
    for number in 0..8 {
        producer.push(message(number)).unwrap();
    }
    assert_eq!(producer.push(message(8)), Err(Full));
    assert!(!consumer.is_empty());
    for number in 0..8 {
        assert_eq!(consumer.pop(), Ok(Some(message(number))));
    }
    assert!(consumer.is_empty());
    assert_eq!(consumer.pop(), Ok(None));
    producer.push(message(9)).unwrap();
}

#[test]
fn a_queue_pair_holds_several_rings() {
    let memory = memory();
    let second = ring_len(8);
    let (mut producer, mut consumer) = ring(&memory);
    let mut other = RingProducer::new(&memory, second, 4).unwrap();
    other.push(message(100)).unwrap();
    for number in 0..8 {
        producer.push(message(number)).unwrap();
    }
    for number in 0..8 {
        assert_eq!(consumer.pop(), Ok(Some(message(number))));
    }
    assert_eq!(RingConsumer::new(&memory, second, 4).unwrap().pop(), Ok(Some(message(100))));
}

#[test]
fn places_and_sizes_that_make_no_ring_are_refused() {
    let memory = memory();
    for (offset, slots) in
        [(0, 0), (0, 3), (0, 256), (4, 8), (4096, 1), (3968, 1), (u32::MAX - 63, 8), (0, 1 << 31)]
    {
        assert!(RingProducer::new(&memory, offset, slots).is_err(), "{offset} {slots}");
        assert!(RingConsumer::new(&memory, offset, slots).is_err(), "{offset} {slots}");
    }
}

#[test]
fn more_messages_than_slots_are_hostile() {
    let memory = memory();
    let (mut producer, mut consumer) = ring(&memory);
    producer.push(message(1)).unwrap();
    let words: Words<RingHead> = memory.words(0).unwrap();
    for tail in [9, 1 << 31, u32::MAX] {
        words.tail.store(tail, Ordering::Relaxed);
        assert!(!consumer.is_empty());
        assert_eq!(consumer.pop(), Err(Hostile), "{tail}");
    }
    words.tail.store(1, Ordering::Relaxed);
    assert_eq!(consumer.pop(), Ok(Some(message(1))));
}

#[test]
fn an_impossible_consumer_gets_no_more_messages() {
    let memory = memory();
    let (mut producer, _consumer) = ring(&memory);
    for number in 0..8 {
        producer.push(message(number)).unwrap();
    }
    let words: Words<RingHead> = memory.words(0).unwrap();
    for head in [9, 1 << 31, u32::MAX] {
        words.head.store(head, Ordering::Relaxed);
        assert_eq!(producer.push(message(9)), Err(Full), "{head}");
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn a_ring_behaves_like_a_queue(ops in proptest::collection::vec(any::<bool>(), 0..200)) {
        let (mut producer, mut consumer) = ring(&memory());
        let mut model = VecDeque::new();
        for (op, number) in ops.into_iter().zip(0..) {
            if op {
                let pushed = producer.push(message(number));
                prop_assert_eq!(pushed.is_ok(), model.len() < 8);
                model.extend(pushed.ok().map(|()| message(number)));
            } else {
                prop_assert_eq!(consumer.is_empty(), model.is_empty());
                prop_assert_eq!(consumer.pop(), Ok(model.pop_front()));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn nonsense_in_the_words_is_borne(ops in proptest::collection::vec((0..4, any::<u32>()),
        0..200)) {
        let memory = memory();
        let (mut producer, mut consumer) = ring(&memory);
        let words: Words<RingHead> = memory.words(0).unwrap();
        for (op, value) in ops {
            match op {
                0 => words.tail.store(value % 64, Ordering::Relaxed),
                1 => words.head.store(value, Ordering::Relaxed),
                2 => drop(producer.push(message(value))),
                _ => drop(consumer.pop()),
            }
        }
    }
}
