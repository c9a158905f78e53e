use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::FifoMem;
use crate::atomic::Ordering;
use crate::attach_socket::{FifoPlace, Place};
use crate::memory::Segment;

fn both_at(start: u32, capacity: u32) -> (Producer, Consumer) {
    let segment = Arc::new(Segment::on_heap(64 * 4096));
    let head = Place { segment: 0, offset: 63 * 4096 };
    let place = FifoPlace { head, data: Place::default(), capacity, limit: capacity };
    let mem = FifoMem::new(&segment, &segment, &place).unwrap();
    mem.head().tail.store(start, Ordering::Relaxed);
    mem.head().head.store(start, Ordering::Relaxed);
    (Producer::resume(mem.clone()).unwrap(), Consumer::resume(mem).unwrap())
}

fn both(capacity: u32) -> (Producer, Consumer) {
    both_at(0, capacity)
}

fn head(port: u16) -> DatagramHead {
    let mut head = DatagramHead::default();
    (head.port, head.family, head.peer[0]) = (port, 4, 10);
    head
}

fn push(producer: &mut Producer, port: u16, payload: &[u8]) -> bool {
    producer.push_datagram(head(port), &[IoSlice::new(payload)]).unwrap()
}

fn pop(consumer: &mut Consumer) -> Option<(u16, Vec<u8>)> {
    let head = consumer.datagram().unwrap()?;
    let mut payload = vec![0; head.len as usize];
    assert_eq!(consumer.peek_datagram(&head, 0, &mut payload), Ok(payload.len()));
    consumer.consume_datagram(&head);
    Some((head.port, payload))
}

#[test]
fn a_datagram_comes_out_with_its_head() {
    let (mut producer, mut consumer) = both(4096);
    let parts = [IoSlice::new(b"clear"), IoSlice::new(b""), IoSlice::new(b"way")];
    assert_eq!(producer.push_datagram(head(53), &parts), Ok(true));
    let mut expected = head(53);
    expected.len = 8;
    assert_eq!(consumer.datagram(), Ok(Some(expected)));
    assert_eq!(consumer.datagram(), Ok(Some(expected)), "looking takes nothing");
    assert_eq!(pop(&mut consumer), Some((53, b"clearway".to_vec())));
    assert_eq!(consumer.datagram(), Ok(None));
}

#[test]
fn an_empty_datagram_is_one_too() {
    let (mut producer, mut consumer) = both(64);
    assert!(push(&mut producer, 1, b""));
    assert_eq!(pop(&mut consumer), Some((1, Vec::new())));
    assert_eq!(pop(&mut consumer), None);
}

#[test]
fn payload_can_be_read_in_pieces_and_not_beyond_its_end() {
    let (mut producer, mut consumer) = both(256);
    assert!(push(&mut producer, 1, b"clearway"));
    assert!(push(&mut producer, 2, b"next"));
    let head = consumer.datagram().unwrap().unwrap();
    let mut out = [0; 16];
    assert_eq!(consumer.peek_datagram(&head, 5, &mut out), Ok(3));
    assert_eq!(&out[..4], b"way\0");
    assert_eq!(consumer.peek_datagram(&head, 8, &mut out), Ok(0));
    assert_eq!(consumer.peek_datagram(&head, u32::MAX, &mut out), Ok(0));
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let (mut producer, mut consumer) = both(128);
    assert!(push(&mut producer, 1, &[1; 8]));
    assert!(!push(&mut producer, 2, &[2; 25]), "48 + 32 of 72");
    assert!(push(&mut producer, 3, &[3; 24]));
    assert!(!push(&mut producer, 4, &[]));
    assert_eq!(pop(&mut consumer), Some((1, vec![1; 8])));
    assert_eq!(pop(&mut consumer), Some((3, vec![3; 24])));
    assert_eq!(pop(&mut consumer), None);
}

#[test]
fn no_datagram_is_longer_than_any_may_be() {
    let (mut producer, mut consumer) = both(128 * 1024);
    assert!(!push(&mut producer, 1, &vec![1; MAX_DATAGRAM as usize + 1]));
    assert!(push(&mut producer, 1, &vec![1; MAX_DATAGRAM as usize]));
    assert_eq!(pop(&mut consumer), Some((1, vec![1; MAX_DATAGRAM as usize])));
}

#[test]
fn lengths_that_lie_are_hostile() {
    for len in [9, 1000, MAX_DATAGRAM, MAX_DATAGRAM + 1, u32::MAX - 7, u32::MAX] {
        let (mut producer, mut consumer) = both(4096);
        assert!(push(&mut producer, 1, &[1; 8]));
        producer.mem.bytes.write_word(0, u64::from(len));
        assert_eq!(consumer.datagram(), Err(Hostile), "{len}");
        assert_eq!(consumer.datagram(), Err(Hostile), "{len}: it stays so");
        // Even who goes on with a head of his own reads nothing outside.
        let head = DatagramHead { len, ..DatagramHead::default() };
        let _ = consumer.peek_datagram(&head, 0, &mut [0; 64]);
        consumer.consume_datagram(&head);
    }
}

#[test]
fn a_shorter_length_misplaces_only_the_liar_s_own_records() {
    let (mut producer, mut consumer) = both(4096);
    assert!(push(&mut producer, 1, &[1; 64]));
    producer.mem.bytes.write_word(0, 8);
    let head = consumer.datagram().unwrap().unwrap();
    assert_eq!(head.len, 8);
    consumer.consume_datagram(&head);
    assert_eq!(consumer.datagram(), Err(Hostile), "payload is no head");
}

#[test]
fn pieces_of_records_are_hostile() {
    for len in [1, 15, 16, 47] {
        let (mut producer, mut consumer) = both(64);
        producer.write(&vec![0; len]).unwrap();
        assert_eq!(consumer.datagram(), Err(Hostile), "{len}");
        let whole = len >= 16;
        assert_eq!(consumer.pop_accept().is_ok(), whole, "{len}");
    }
}

#[test]
fn accepted_connections_come_out_in_order() {
    let (mut producer, mut consumer) = both(64);
    for session in 1..=4 {
        assert_eq!(producer.push_accept(AcceptRecord::new(session)), Ok(true));
    }
    assert_eq!(producer.push_accept(AcceptRecord::new(5)), Ok(false));
    for session in 1..=4 {
        assert_eq!(consumer.pop_accept(), Ok(Some(AcceptRecord::new(session))));
    }
    assert_eq!(consumer.pop_accept(), Ok(None));
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn datagrams_behave_like_a_queue(start: u32,
        ops in proptest::collection::vec((any::<bool>(), 0..300usize), 0..100)) {
        let (mut producer, mut consumer) = both_at(start & !7, 1024);
        let mut model = VecDeque::new();
        for ((push_one, len), number) in ops.into_iter().zip(0..) {
            if push_one {
                let payload: Vec<u8> = (0..len).map(|at| (at + usize::from(number)) as u8)
                    .collect();
                let used: u32 = model.iter().map(|(_, payload): &(u16,
                    Vec<u8>)| datagram_record_len(payload.len() as u32)).sum();
                let fits = used + datagram_record_len(len as u32) <= 1024;
                prop_assert_eq!(push(&mut producer, number, &payload), fits);
                if fits {
                    model.push_back((number, payload));
                }
            } else {
                prop_assert_eq!(pop(&mut consumer), model.pop_front());
            }
        }
    }

    /// Any bytes and any positions: no panic, and no payload beyond what a datagram may have.
    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn nonsense_is_borne(words in proptest::collection::vec((0..128u32, any::<u64>(), any::<u32>(),
        any::<bool>()), 0..100)) {
        let (mut producer, mut consumer) = both(1024);
        for (at, word, position, move_it) in words {
            producer.mem.bytes.write_word(8 * at, if move_it { word % 512 } else { word });
            if move_it {
                producer.mem.head.tail.store(position % 2048, Ordering::Relaxed);
            }
            if let Ok(Some(head)) = consumer.datagram() {
                prop_assert!(head.len <= 1024 - HEAD);
                let mut out = vec![0; head.len as usize];
                let _ = consumer.peek_datagram(&head, 0, &mut out);
                consumer.consume_datagram(&head);
            }
            let _ = consumer.pop_accept();
            let _ = (consumer.refresh(), producer.refresh());
            let _ = producer.push_datagram(head(1), &[IoSlice::new(&[1; 100])]);
        }
    }
}
