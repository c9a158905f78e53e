use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::attach_socket::Place;

const HEAD: u32 = 4096;

fn place(capacity: u32, limit: u32) -> FifoPlace {
    FifoPlace {
        head: Place { segment: 0, offset: HEAD },
        data: Place { segment: 0, offset: 0 },
        capacity,
        limit,
    }
}

fn memory(capacity: u32, limit: u32) -> FifoMem {
    let segment = Arc::new(Segment::on_heap(2 * 4096));
    FifoMem::new(&segment, &segment, &place(capacity, limit)).unwrap()
}

fn both(capacity: u32, limit: u32) -> (Producer, Consumer) {
    let mem = memory(capacity, limit);
    (Producer::new(mem.clone()), Consumer::new(mem))
}

/// Both ends of an empty FIFO whose positions are `start`.
fn both_at(start: u32, capacity: u32, limit: u32) -> (Producer, Consumer) {
    let mem = memory(capacity, limit);
    mem.head().tail.store(start, Ordering::Relaxed);
    mem.head().head.store(start, Ordering::Relaxed);
    (Producer::resume(mem.clone()).unwrap(), Consumer::resume(mem).unwrap())
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let (mut producer, mut consumer) = both(64, 64);
    assert_eq!(producer.write(b"clear"), Ok(5));
    assert_eq!(producer.write(b"way"), Ok(3));
    let mut out = [0; 64];
    assert_eq!(consumer.read(&mut out), Ok(8));
    assert_eq!(&out[..8], b"clearway");
    assert_eq!(consumer.read(&mut out), Ok(0));
}

#[test]
fn the_limit_is_kept() {
    let (mut producer, mut consumer) = both(64, 10);
    assert_eq!(producer.room(), Ok(10));
    assert_eq!(producer.write(&[1; 64]), Ok(10));
    assert_eq!(producer.write(&[1; 64]), Ok(0));
    assert_eq!(consumer.read(&mut [0; 4]), Ok(4));
    assert_eq!(producer.write(&[1; 64]), Ok(4));
}

#[test]
fn a_limit_that_shrinks_leaves_what_is_there() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(&[1; 40]).unwrap();
    producer.set_limit(16);
    assert_eq!((producer.room(), producer.len()), (Ok(0), Ok(40)));
    assert_eq!(consumer.read(&mut [0; 30]), Ok(30));
    assert_eq!(producer.room(), Ok(6));
    producer.set_limit(u32::MAX);
    assert_eq!(producer.room(), Ok(54), "never more than the capacity");
}

#[test]
fn bytes_written_ahead_wait_for_the_gap_before_them() {
    let (mut producer, mut consumer) = both(64, 64);
    assert_eq!(producer.write_ahead(5, b"way"), Ok(3));
    assert_eq!(consumer.len(), Ok(0));
    assert_eq!(producer.write_ahead(0, b"clear"), Ok(5));
    producer.publish(8);
    let mut out = [0; 8];
    assert_eq!(consumer.read(&mut out), Ok(8));
    assert_eq!(&out, b"clearway");
}

#[test]
fn who_is_in_the_midst_of_writing_says_so_with_the_bytes() {
    let (mut producer, mut consumer) = both(64, 64);
    assert!(!consumer.more_follows());
    for (more, bytes) in [(true, &b"cle"[..]), (true, b"ar"), (false, b"way")] {
        producer.say_more(more);
        producer.write(bytes).unwrap();
        assert!(consumer.len().unwrap() > 0);
        assert_eq!(consumer.more_follows(), more);
    }
    producer.say_more(true);
    producer.mem().clear();
    assert!(!consumer.more_follows(), "a FIFO that is used again knows nothing of it");
}

#[test]
fn bytes_ahead_of_the_room_are_cut_off() {
    let (mut producer, _consumer) = both(64, 20);
    assert_eq!(producer.write_ahead(15, &[1; 10]), Ok(5));
    assert_eq!(producer.write_ahead(20, &[1; 10]), Ok(0));
    assert_eq!(producer.write_ahead(u32::MAX, &[1; 10]), Ok(0));
}

#[test]
fn peeking_takes_nothing() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(b"clearway").unwrap();
    let mut out = [0; 8];
    assert_eq!(consumer.peek(5, &mut out), Ok(3));
    assert_eq!(&out[..3], b"way");
    assert_eq!(consumer.peek(8, &mut out), Ok(0));
    assert_eq!(consumer.peek(u32::MAX, &mut out), Ok(0));
    assert_eq!(consumer.len(), Ok(8));
    consumer.consume(u32::MAX);
    assert_eq!(consumer.len(), Ok(0), "there is no more to give up than there is");
}

#[test]
fn several_parts_are_one_write_and_one_read() {
    let (mut producer, mut consumer) = both(64, 10);
    let parts =
        [IoSlice::new(b"clear"), IoSlice::new(b""), IoSlice::new(b"way"), IoSlice::new(b"s open")];
    assert_eq!(producer.write_vectored(&parts), Ok(10));
    let (mut first, mut second, mut third) = ([0; 3], [0; 0], [0; 20]);
    let mut parts =
        [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second), IoSliceMut::new(&mut third)];
    assert_eq!(consumer.read_vectored(&mut parts), Ok(10));
    assert_eq!((&first, &third[..7]), (b"cle", &b"arways "[..]));
}

#[test]
fn only_the_first_publication_after_a_look_kicks() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(b"a").unwrap();
    assert!(producer.kick());
    producer.write(b"b").unwrap();
    assert!(!producer.kick());
    consumer.attend();
    assert_eq!(consumer.len(), Ok(2));
    producer.write(b"c").unwrap();
    assert!(producer.kick());
}

#[test]
fn room_is_announced_once_to_who_asked() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(&[1; 64]).unwrap();
    assert!(!consumer.room_wanted(0), "nobody asked");
    producer.ask_room();
    consumer.read(&mut [0; 20]).unwrap();
    assert!(!consumer.room_wanted(32), "not enough yet");
    consumer.read(&mut [0; 20]).unwrap();
    assert!(consumer.room_wanted(32));
    assert!(!consumer.room_wanted(32), "once");
}

#[test]
fn another_thread_of_the_same_side_goes_on_where_the_last_one_stopped() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(b"clear").unwrap();
    let mut second = Producer::resume(producer.mem().clone()).unwrap();
    second.write(b"way").unwrap();
    producer.refresh().unwrap();
    producer.write(b"s").unwrap();
    let mut out = [0; 5];
    assert_eq!(consumer.read(&mut out), Ok(5));
    let mut second = Consumer::resume(consumer.mem().clone()).unwrap();
    assert_eq!(second.read(&mut out), Ok(4));
    assert_eq!(&out[..4], b"ways");
    consumer.refresh().unwrap();
    assert_eq!(consumer.len(), Ok(0));
}

#[test]
fn a_cleared_fifo_is_new() {
    let (mut producer, _consumer) = both(64, 64);
    producer.write(&[1; 30]).unwrap();
    producer.kick();
    let mem = producer.mem().clone();
    mem.clear();
    let (mut producer, mut consumer) = (Producer::new(mem.clone()), Consumer::new(mem));
    assert_eq!((producer.room(), consumer.len(), producer.kick()), (Ok(64), Ok(0), true));
}

#[test]
fn places_and_sizes_that_make_no_fifo_are_refused() {
    let segment = Arc::new(Segment::on_heap(2 * 4096));
    let refused = |place: FifoPlace| FifoMem::new(&segment, &segment, &place).is_err();
    for (capacity, limit) in
        [(0, 0), (32, 32), (63, 63), (96, 96), (64, 0), (64, 65), (1 << 31, 1), (16384, 1)]
    {
        assert!(refused(place(capacity, limit)), "{capacity} {limit}");
    }
    assert!(refused(FifoPlace { head: Place { segment: 0, offset: HEAD + 4 }, ..place(64, 64) }));
    assert!(refused(FifoPlace {
        head: Place { segment: 0, offset: 2 * 4096 - 64 },
        ..place(64, 64)
    }));
    assert!(refused(FifoPlace { data: Place { segment: 0, offset: 4 }, ..place(64, 64) }));
    assert!(refused(FifoPlace {
        data: Place { segment: 0, offset: 2 * 4096 - 56 },
        ..place(64, 64)
    }));
    assert!(refused(FifoPlace {
        data: Place { segment: 0, offset: u32::MAX - 7 },
        ..place(64, 64)
    }));
}

#[test]
fn a_consumer_that_takes_more_than_there_is_is_hostile() {
    let (mut producer, _consumer) = both(64, 64);
    producer.write(&[1; 10]).unwrap();
    producer.mem().head().head.store(11, Ordering::Relaxed);
    assert_eq!(producer.room(), Err(Hostile));
    assert_eq!(producer.len(), Err(Hostile));
    assert_eq!(producer.write(&[1; 55]), Err(Hostile));
    assert_eq!(producer.write(&[1; 4]), Ok(4), "what was free before still is");
}

#[test]
fn a_consumer_that_goes_back_is_hostile() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(&[1; 10]).unwrap();
    consumer.consume(0);
    consumer.read(&mut [0; 5]).unwrap();
    assert_eq!(producer.room(), Ok(59));
    producer.mem().head().head.store(4, Ordering::Relaxed);
    assert_eq!(producer.room(), Err(Hostile));
}

#[test]
fn a_producer_that_writes_more_than_fits_or_goes_back_is_hostile() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(&[1; 10]).unwrap();
    assert_eq!(consumer.len(), Ok(10));
    for tail in [9, 65, u32::MAX, 1 << 31] {
        consumer.mem().head().tail.store(tail, Ordering::Relaxed);
        assert_eq!(consumer.len(), Err(Hostile), "{tail}");
        assert_eq!(consumer.peek(0, &mut [0; 11]), Err(Hostile), "{tail}");
        assert_eq!(consumer.peek(0, &mut [0; 10]), Ok(10), "what was there before still is");
    }
    assert!(Consumer::resume(consumer.mem().clone()).is_err());
    assert!(Producer::resume(consumer.mem().clone()).is_err());
}

#[test]
fn what_the_other_side_writes_to_our_own_position_does_not_matter() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(b"clear").unwrap();
    producer.mem().head().tail.store(77, Ordering::Relaxed);
    producer.write(b"way").unwrap();
    consumer.mem().head().head.store(99, Ordering::Relaxed);
    let mut out = [0; 8];
    assert_eq!(consumer.read(&mut out), Ok(8));
    assert_eq!(&out, b"clearway");
    assert_eq!(producer.len(), Ok(0));
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    WriteAhead(u32, usize),
    Publish,
    Read(usize),
    Peek(u32, usize),
    Consume(u32),
    Limit(u32),
    OtherThread,
    Len,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..80usize).prop_map(Op::Write),
        (0..70u32, 0..40usize).prop_map(|(at, len)| Op::WriteAhead(at, len)),
        Just(Op::Publish),
        (0..80usize).prop_map(Op::Read),
        (0..70u32, 0..80usize).prop_map(|(at, len)| Op::Peek(at, len)),
        (0..70u32).prop_map(Op::Consume),
        (1..=64u32).prop_map(Op::Limit),
        Just(Op::OtherThread),
        Just(Op::Len),
    ]
}

/// What a FIFO is: bytes in it, bytes written ahead, and a limit.
struct Model {
    bytes: VecDeque<u8>,
    ahead: [Option<u8>; 64],
    limit: usize,
    next: u8,
}

impl Model {
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Bytes unlike those before.
    fn fresh(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.next = self.next.wrapping_mul(5).wrapping_add(3);
                self.next
            })
            .collect()
    }

    fn write_ahead(&mut self, at: usize, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.room().saturating_sub(at));
        for (offset, byte) in bytes[..len].iter().enumerate() {
            self.ahead[at + offset] = Some(*byte);
        }
        len
    }

    fn publish(&mut self, len: usize) {
        for slot in 0..len {
            self.bytes.push_back(self.ahead[slot].expect("written ahead"));
        }
        self.ahead.rotate_left(len);
        self.ahead[64 - len..].fill(None);
    }

    fn peek(&self, at: usize, len: usize) -> Vec<u8> {
        self.bytes.iter().skip(at).take(len).copied().collect()
    }
}

fn run(op: Op, model: &mut Model, producer: &mut Producer, consumer: &mut Consumer) {
    match op {
        Op::Write(len) => {
            let bytes = model.fresh(len);
            let written = model.write_ahead(0, &bytes);
            model.publish(written);
            assert_eq!(producer.write(&bytes), Ok(written));
        }
        Op::WriteAhead(at, len) => {
            let bytes = model.fresh(len);
            let written = model.write_ahead(at as usize, &bytes);
            assert_eq!(producer.write_ahead(at, &bytes), Ok(written as u32));
        }
        Op::Publish => {
            let ready = model.ahead.iter().position(Option::is_none).unwrap_or(64);
            model.publish(ready);
            producer.publish(ready as u32);
        }
        Op::Read(len) => {
            let mut out = vec![0; len];
            let read = consumer.read(&mut out).unwrap();
            assert_eq!(out[..read], model.peek(0, len));
            model.bytes.drain(..read);
        }
        Op::Peek(at, len) => {
            let mut out = vec![0; len];
            let read = consumer.peek(at, &mut out).unwrap();
            assert_eq!(out[..read], model.peek(at as usize, len));
        }
        Op::Consume(len) => {
            assert_eq!(consumer.len().unwrap() as usize, model.bytes.len());
            consumer.consume(len);
            model.bytes.drain(..model.bytes.len().min(len as usize));
        }
        Op::Limit(limit) => {
            producer.set_limit(limit);
            model.limit = limit as usize;
        }
        Op::OtherThread => {
            producer.refresh().unwrap();
            consumer.refresh().unwrap();
        }
        Op::Len => {
            assert_eq!(producer.len().unwrap() as usize, model.bytes.len());
            assert_eq!(producer.room().unwrap() as usize, model.room());
            assert_eq!(consumer.len().unwrap() as usize, model.bytes.len());
        }
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn a_fifo_behaves_like_a_queue(start: u32, ops in proptest::collection::vec(op(), 0..200)) {
        let (mut producer, mut consumer) = both_at(start, 64, 64);
        let mut model = Model { bytes: VecDeque::new(), ahead: [None; 64], limit: 64, next: 1 };
        for op in ops {
            run(op, &mut model, &mut producer, &mut consumer);
        }
    }

    /// Whatever is written into the words between operations: no panic, no more bytes than the FIFO
    /// has, and an end that others disturb is only told so.
    #[test]
    #[cfg_attr(miri, ignore = "hours under miri; the tests above take the same ways")]
    fn nonsense_in_the_words_is_borne(
        start: u32,
        ops in proptest::collection::vec((op(), 0..4usize, any::<u32>(), any::<bool>()), 0..200),
    ) {
        let (mut producer, mut consumer) = both_at(start, 64, 64);
        for (op, word, value, near) in ops {
            let head = producer.mem().head();
            let word = [&head.tail, &head.head, &head.kicked, &head.want_room][word];
            let value = if near { word.load(Ordering::Relaxed).wrapping_add(value % 256)
                .wrapping_sub(128) } else { value };
            word.store(value, Ordering::Relaxed);
            bear(op, &mut producer, &mut consumer);
        }
    }
}

fn bear(op: Op, producer: &mut Producer, consumer: &mut Consumer) {
    match op {
        Op::Write(len) => assert!(producer.write(&vec![1; len]).unwrap_or(0) <= 64),
        Op::WriteAhead(at, len) => {
            let ahead = producer.write_ahead(at, &vec![1; len]).unwrap_or(0);
            assert!(ahead <= 64);
        }
        Op::Publish => {
            producer.kick();
            producer.ask_room();
        }
        Op::Read(len) => assert!(consumer.read(&mut vec![0; len]).unwrap_or(0) <= 64),
        Op::Peek(at, len) => assert!(consumer.peek(at, &mut vec![0; len]).unwrap_or(0) <= 64),
        Op::Consume(len) => consumer.consume(len),
        Op::Limit(limit) => producer.set_limit(limit),
        Op::OtherThread => {
            // Not even the own position can be trusted when others of the same program write it.
            let _ = (producer.refresh(), consumer.refresh());
            consumer.attend();
            consumer.room_wanted(32);
        }
        Op::Len => {
            assert!(producer.len().unwrap_or(0) <= 64);
            assert!(producer.room().unwrap_or(0) <= 64);
            assert!(consumer.len().unwrap_or(0) <= 64);
        }
    }
}

#[test]
fn two_threads_move_a_stream() {
    const TOTAL: u32 = if cfg!(miri) { 500 } else { 1_000_000 };
    let (mut producer, mut consumer) = both_at(u32::MAX - 100, 4096, 4096);
    let writer = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < TOTAL {
            let len = (sent % 997 + 1).min(TOTAL - sent);
            let bytes: Vec<u8> = (sent..sent + len).map(|at| (at % 251) as u8).collect();
            sent += producer.write(&bytes).unwrap() as u32;
            if producer.room() == Ok(0) {
                std::thread::yield_now();
            }
        }
    });
    let mut received = 0;
    let mut out = [0; 1500];
    while received < TOTAL {
        let read = consumer.read(&mut out).unwrap();
        for byte in &out[..read] {
            assert_eq!(*byte, (received % 251) as u8);
            received += 1;
        }
        if read == 0 {
            std::thread::yield_now();
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_conversation_of_small_messages_stays_in_front_of_the_memory() {
    let (mut producer, mut consumer) = both(4096, 4096);
    let mut furthest = 0;
    for round in 0..1000u32 {
        let message = [round as u8; 100];
        assert_eq!(producer.room(), Ok(4096));
        assert_eq!(producer.write(&message), Ok(100));
        let mut out = [0; 100];
        assert_eq!(consumer.len(), Ok(100));
        furthest = furthest.max(consumer.offset(100));
        assert_eq!(consumer.read(&mut out), Ok(100));
        assert_eq!(out, message);
    }
    assert!(furthest <= 200, "a message lay {furthest} bytes from the beginning");
}

#[test]
fn what_was_written_ahead_stays_where_it_is() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.write(b"before").unwrap();
    consumer.read(&mut [0; 6]).unwrap();
    // Behind a hole, in a FIFO that is empty.
    producer.room().unwrap();
    producer.write_ahead(4, b"late").unwrap();
    producer.write_ahead(0, b"soon").unwrap();
    producer.publish(8);
    let mut out = [0; 8];
    assert_eq!(consumer.read(&mut out), Ok(8));
    assert_eq!(&out, b"soonlate");
    assert_eq!(producer.ahead(), 0);
}

#[test]
fn ends_that_are_taken_over_know_where_the_bytes_lie() {
    let mem = memory(64, 64);
    for round in 0..40u8 {
        let mut producer = Producer::resume(mem.clone()).unwrap();
        producer.write(&[round; 24]).unwrap();
        let mut consumer = Consumer::resume(mem.clone()).unwrap();
        let mut out = [0; 10];
        assert_eq!(consumer.read(&mut out), Ok(10));
        assert_eq!(out, [round; 10]);
        let mut out = [0; 14];
        assert_eq!(Consumer::resume(mem.clone()).unwrap().read(&mut out), Ok(14));
        assert_eq!(out, [round; 14]);
    }
}

#[test]
fn an_origin_that_is_a_lie_stays_inside_of_the_memory() {
    let (mut producer, mut consumer) = both(64, 64);
    for lie in [1, 63, 64, 1 << 31, u32::MAX] {
        producer.room().unwrap();
        producer.write_ahead(0, &[7; 64]).unwrap();
        producer.mem().head().origin.store(lie, Ordering::Relaxed);
        producer.publish(64);
        assert_eq!(consumer.read(&mut [0; 64]), Ok(64));
    }
}

#[test]
fn room_is_what_the_consumer_lends() {
    let (mut producer, mut consumer) = both(64, 64);
    consumer.lend(16);
    assert_eq!(producer.write(&[1; 64]), Ok(64), "what was known to be free may be used");
    assert_eq!(producer.room(), Ok(0));
    consumer.read(&mut [0; 50]).unwrap();
    assert_eq!(producer.room(), Ok(2));
    producer.mem().head().want_room.store(1, Ordering::Relaxed);
    assert!(!consumer.room_wanted(8));
    consumer.lend(1000);
    assert_eq!((consumer.lent(), producer.room()), (64, Ok(50)));
    assert!(consumer.room_wanted(8));
}

#[test]
fn nothing_is_given_back_while_somebody_writes() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.begin_write();
    assert!(!consumer.withhold());
    consumer.lend(64);
    producer.end_write();
    assert!(consumer.withhold());
    let mut writer = Producer::resume(producer.mem().clone()).unwrap();
    writer.begin_write();
    writer.refresh().unwrap();
    assert_eq!(writer.write(b"now"), Ok(0), "there is no room while memory is given back");
    consumer.lend(64);
    assert_eq!(writer.room(), Ok(64));
}

#[test]
fn a_process_waits_while_memory_is_given_back() {
    let (mut producer, mut consumer) = both(64, 64);
    assert!(consumer.withhold());
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&begun);
    let writer = thread::spawn(move || {
        let asked = producer.mem().lent_to_process();
        producer.begin().unwrap();
        has_begun.store(true, Ordering::Release);
        let written = producer.write(b"now").unwrap();
        producer.end_write();
        (asked, written)
    });
    // However long that takes it, within reason.
    thread::sleep(Duration::from_millis(20));
    assert!(!begun.load(Ordering::Acquire), "it looks at the FIFO before there is memory");
    consumer.lend(64);
    assert_eq!(writer.join().unwrap(), (64, 3), "there was room all the time");
}

#[test]
fn who_has_begun_to_write_keeps_its_room_whatever_is_withheld_then() {
    let (mut producer, mut consumer) = both(64, 64);
    producer.begin().unwrap();
    assert!(!consumer.withhold(), "the memory is written");
    assert_eq!(producer.room(), Ok(64));
    assert_eq!(producer.write(&[1; 60]), Ok(60));
    assert_eq!(producer.room(), Ok(4));
    consumer.lend(16);
    assert_eq!(producer.room(), Ok(0), "what is lent is heeded nevertheless");
    producer.end_write();
}

#[test]
fn a_worker_that_never_lends_again_is_not_waited_for_for_ever() {
    let (mut producer, consumer) = both(64, 64);
    assert!(consumer.withhold());
    producer.begin().unwrap();
    assert_eq!(producer.write(b"now"), Ok(0));
    producer.end_write();
}
