//! What two sides of shared memory may do to each other in time, in all orders that the memory
//! model allows. Run as `docs/shm.md` says.

use loom::model;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

use crate::fifo::{Consumer, FifoMem, Producer};
use crate::layout::{AcceptRecord, Message, request};
use crate::ring::{self, RingConsumer, RingProducer};
use crate::sleep;

fn fifo(capacity: u32) -> (Producer, Consumer) {
    let mem = FifoMem::modelled(capacity);
    (Producer::new(mem.clone()), Consumer::new(mem))
}

fn message(aux: u32) -> Message {
    Message { session: 7, what: request::WROTE, aux }
}

#[test]
fn bytes_arrive_in_order_and_are_not_touched_by_both_at_once() {
    model(|| {
        let (mut producer, mut consumer) = fifo(2);
        let writer = thread::spawn(move || {
            let mut rest: &[u8] = &[1, 2, 3];
            while !rest.is_empty() {
                match producer.write(rest).unwrap() {
                    0 => thread::yield_now(),
                    written => rest = &rest[written..],
                }
            }
        });
        let mut received = Vec::new();
        while received.len() < 3 {
            let mut out = [0; 3];
            match consumer.read(&mut out).unwrap() {
                0 => thread::yield_now(),
                read => received.extend_from_slice(&out[..read]),
            }
        }
        writer.join().unwrap();
        assert_eq!(received, [1, 2, 3]);
    });
}

#[test]
fn bytes_written_ahead_are_nobodys_before_they_are_published() {
    model(|| {
        let (mut producer, mut consumer) = fifo(4);
        let writer = thread::spawn(move || {
            producer.write_ahead(1, &[2, 3]).unwrap();
            producer.write_ahead(0, &[1]).unwrap();
            producer.publish(3);
        });
        let mut out = [0; 4];
        let read = consumer.read(&mut out).unwrap();
        assert!(out[..read] == [1, 2, 3] || read == 0);
        writer.join().unwrap();
    });
}

#[test]
fn records_are_seen_whole_or_not_at_all() {
    model(|| {
        let (mut producer, mut consumer) = fifo(16);
        let writer = thread::spawn(move || {
            assert!(producer.push_accept(AcceptRecord::new(1)).unwrap());
            while !producer.push_accept(AcceptRecord::new(2)).unwrap() {
                thread::yield_now();
            }
        });
        for expected in 1..=2 {
            let record = loop {
                match consumer.pop_accept().unwrap() {
                    None => thread::yield_now(),
                    Some(record) => break record,
                }
            };
            assert_eq!(record, AcceptRecord::new(expected));
        }
        writer.join().unwrap();
    });
}

#[test]
fn messages_arrive_in_order() {
    model(|| {
        let (mut producer, mut consumer) = ring::modelled(2);
        let writer = thread::spawn(move || {
            for number in 0..3 {
                while producer.push(message(number)).is_err() {
                    thread::yield_now();
                }
            }
        });
        for number in 0..3 {
            let received = loop {
                match consumer.pop().unwrap() {
                    None => thread::yield_now(),
                    Some(received) => break received,
                }
            };
            assert_eq!(received, message(number));
        }
        writer.join().unwrap();
    });
}

/// Bytes are published while the consumer attends: it sees them, or it gets a message.
#[test]
fn no_byte_is_published_without_being_seen_or_announced() {
    model(|| {
        let (mut producer, mut consumer) = fifo(4);
        // A message is under way.
        producer.write(&[1]).unwrap();
        assert!(producer.kick());
        let writer = thread::spawn(move || {
            producer.write(&[2]).unwrap();
            producer.kick()
        });
        consumer.attend();
        let seen = consumer.len().unwrap();
        let announced = writer.join().unwrap();
        assert!(seen == 2 || announced, "a byte that nobody will look at");
    });
}

/// Room is made while the producer asks for it: it sees the room, or it gets a message.
#[test]
fn no_room_is_made_without_being_seen_or_announced() {
    model(|| {
        let (mut producer, mut consumer) = fifo(2);
        producer.write(&[1, 2]).unwrap();
        let writer = thread::spawn(move || {
            producer.ask_room();
            producer.room().unwrap()
        });
        assert_eq!(consumer.read(&mut [0; 2]), Ok(2));
        let announced = consumer.room_wanted(1);
        let seen = writer.join().unwrap();
        assert!(seen == 2 || announced, "room that nobody will use");
    });
}

/// A message is left while somebody goes to sleep: it is seen before, or the notifier is notified.
#[test]
fn no_message_is_slept_over() {
    model(|| {
        let (mut producer, consumer) = ring::modelled(2);
        let sleeps = Arc::new(AtomicU32::new(0));
        let word = sleeps.clone();
        let writer = thread::spawn(move || {
            producer.push(message(1)).unwrap();
            sleep::is_asleep(&word)
        });
        sleep::about_to_sleep(&sleeps);
        let seen = !consumer.is_empty();
        let notified = writer.join().unwrap();
        assert!(seen || notified, "a message that nobody wakes up for");
    });
}

/// Two threads of a process go to sleep at once: a notifier that is notified for one of them is
/// notified.
#[test]
fn a_sleeper_that_wakes_does_not_hide_another() {
    model(|| {
        let (mut producer, consumer) = ring::modelled(2);
        let sleeps = Arc::new(AtomicU32::new(0));
        let word = sleeps.clone();
        let other = thread::spawn(move || {
            sleep::about_to_sleep(&word);
            sleep::awake(&word);
        });
        let word = sleeps.clone();
        let writer = thread::spawn(move || {
            producer.push(message(1)).unwrap();
            sleep::is_asleep(&word)
        });
        sleep::about_to_sleep(&sleeps);
        let seen = !consumer.is_empty();
        let notified = writer.join().unwrap();
        other.join().unwrap();
        assert!(seen || notified, "a message that nobody wakes up for");
    });
}

/// The whole way of a byte: FIFO, kick, ring, notifier. The worker sleeps whenever it sees nothing;
/// loom finds a sleep that nobody ends.
#[test]
fn a_worker_that_sleeps_gets_every_byte() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (mut producer, mut consumer) = fifo(4);
        let (mut requests, mut worker_requests) = ring::modelled(2);
        let sleeps = Arc::new(AtomicU64::new(0));
        let word = sleeps.clone();
        let worker = thread::spawn(move || {
            let mut bytes = 0;
            while bytes < 2 {
                bytes += drain(&mut worker_requests, &mut consumer);
                sleep::doze(&word);
                if bytes < 2 && worker_requests.is_empty() {
                    thread::park();
                }
                sleep::rise(&word);
            }
        });
        let mut rung = None;
        for byte in 0..2 {
            send(&mut producer, &mut requests, byte, (&sleeps, &mut rung), &worker);
        }
        worker.join().unwrap();
    });
}

fn send(
    producer: &mut Producer,
    requests: &mut RingProducer,
    byte: u8,
    (sleeps, rung): (&AtomicU64, &mut Option<u64>),
    worker: &thread::JoinHandle<()>,
) {
    assert_eq!(producer.write(&[byte]), Ok(1));
    if producer.kick() {
        requests.push(message(0)).unwrap();
        // Once for each sleep, as `Attachment::push` of the client does it.
        let sleep = sleep::which_sleep(sleeps);
        if sleep.is_some() && sleep != *rung {
            worker.thread().unpark();
            *rung = sleep;
        }
    }
}

fn drain(requests: &mut RingConsumer, consumer: &mut Consumer) -> usize {
    let mut bytes = 0;
    while requests.pop().unwrap().is_some() {
        consumer.attend();
        let _ = consumer.len().unwrap();
        bytes += consumer.read(&mut [0; 4]).unwrap();
    }
    bytes
}

#[test]
fn bytes_are_where_the_consumer_looks_after_the_fifo_began_anew() {
    model(|| {
        let (mut producer, mut consumer) = fifo(4);
        producer.write(&[9]).unwrap();
        let writer = thread::spawn(move || {
            for byte in [1, 2] {
                producer.room().unwrap();
                assert_eq!(producer.write(&[byte]), Ok(1));
            }
        });
        let mut received = Vec::new();
        while received.len() < 3 {
            let mut out = [0; 4];
            match consumer.read(&mut out).unwrap() {
                0 => thread::yield_now(),
                read => received.extend_from_slice(&out[..read]),
            }
        }
        writer.join().unwrap();
        assert_eq!(received, [9, 1, 2]);
    });
}

#[test]
fn memory_is_given_back_or_written_but_not_both_and_room_is_room() {
    model(|| {
        let (mut producer, mut consumer) = fifo(4);
        let writer = thread::spawn(move || {
            producer.begin().unwrap();
            let written = producer.write(&[5]).unwrap();
            producer.end_write();
            assert_eq!(written, 1, "there was room all the time");
            written
        });
        if consumer.withhold() && consumer.len().unwrap() == 0 {
            // What giving back does: the bytes are zero afterwards. Loom complains when anybody
            // writes meanwhile.
            consumer.mem.bytes.write(0, &[0; 4]);
        }
        consumer.lend(4);
        let written = writer.join().unwrap();
        let mut out = [0; 4];
        assert_eq!(consumer.read(&mut out), Ok(written));
        assert_eq!(out[..written], [5][..written]);
    });
}

/// Bytes that one program passes to another past the stack, in the model below.
const PASSED: usize = 2;

/// A process as a worker reaches it, and a worker as a process reaches it: rings there and back, and
/// the word that says who sleeps.
struct Side {
    requests: RingProducer,
    events: RingConsumer,
    sleepers: Arc<AtomicU32>,
    worker_sleeps: Arc<AtomicU64>,
    worker: thread::Thread,
    rung: Option<u64>,
}

struct WorkerSide {
    requests: RingConsumer,
    events: RingProducer,
    sleepers: Arc<AtomicU32>,
    pending: bool,
}

fn side(worker_sleeps: &Arc<AtomicU64>) -> (Side, WorkerSide) {
    let (requests, worker_requests) = ring::modelled(4);
    let (worker_events, events) = ring::modelled(4);
    let sleepers = Arc::new(AtomicU32::new(0));
    let worker_side = WorkerSide {
        requests: worker_requests,
        events: worker_events,
        sleepers: sleepers.clone(),
        pending: false,
    };
    let (worker_sleeps, worker) = (worker_sleeps.clone(), thread::current());
    (Side { requests, events, sleepers, worker_sleeps, worker, rung: None }, worker_side)
}

impl Side {
    /// As `Attachment::push` of the client.
    fn tell(&mut self) {
        self.requests.push(message(0)).unwrap();
        let sleep = sleep::which_sleep(&self.worker_sleeps);
        if sleep.is_some() && sleep != self.rung {
            self.worker.unpark();
            self.rung = sleep;
        }
    }

    /// As `Waiting::sleep` of the client: the last look is at the events alone.
    fn sleep(&mut self) {
        sleep::about_to_sleep(&self.sleepers);
        if self.events.pop().unwrap().is_none() {
            thread::park();
        }
        sleep::awake(&self.sleepers);
        while self.events.pop().unwrap().is_some() {}
    }
}

impl WorkerSide {
    /// As `QueuePair::leave`.
    fn leave(&mut self) {
        self.events.push(message(0)).unwrap();
        self.pending = true;
    }

    /// As `QueuePair::notify`. A notifier that is held is not notified now.
    fn notify(&mut self, is_held: bool, thread: &thread::Thread) {
        if !self.pending {
            return;
        }
        if !sleep::is_asleep(&self.sleepers) {
            self.pending = false;
        } else if !is_held {
            self.pending = false;
            thread.unpark();
        }
    }
}

/// As `Sessions::pass_on`: what one program has written goes into the other's FIFO. Whether the
/// reader is to be told, whether the writer is, and how many bytes went.
fn pass_on(tx: &mut Consumer, rx: &mut Producer) -> (bool, bool, usize) {
    let (mut moved, mut writer_waits) = (0, false);
    loop {
        let (written, room) = (tx.len().unwrap(), rx.room().unwrap());
        let bytes = tx.pass(rx, written.min(room));
        moved += bytes as usize;
        writer_waits |= bytes > 0 && tx.room_wanted(tx.lent() / 2);
        if written == bytes {
            break;
        }
        rx.ask_room();
        if rx.room().unwrap() == 0 {
            break;
        }
    }
    (moved > 0 && rx.kick(), writer_waits, moved)
}

/// Two programs and a worker past the stack, each of which sleeps whenever it has nothing to do:
/// a full FIFO, an empty one, room that is made, notifiers that are held. Loom finds a sleep that
/// nobody ends.
fn bytes_past_the_stack(capacity: u32, is_held: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let ((mut tx, mut worker_tx), (mut worker_rx, mut rx)) = (fifo(capacity), fifo(capacity));
        let sleeps = Arc::new(AtomicU64::new(0));
        let ((mut writer, mut at_writer), (mut reader, mut at_reader)) =
            (side(&sleeps), side(&sleeps));
        let writes = thread::spawn(move || {
            for byte in 0..PASSED as u8 {
                while tx.write(&[byte]).unwrap() == 0 {
                    // As `ask_for_room`, and again behind each sleep.
                    tx.ask_room();
                    if tx.room().unwrap() == 0 {
                        writer.sleep();
                    }
                }
                if tx.kick() {
                    writer.tell();
                }
            }
        });
        let reads = thread::spawn(move || {
            let mut got = Vec::new();
            while got.len() < PASSED {
                let mut out = [0; PASSED];
                let read = rx.read(&mut out).unwrap();
                got.extend_from_slice(&out[..read]);
                if rx.room_wanted(rx.mem().limit() / 2) {
                    reader.tell();
                }
                if read == 0 {
                    rx.attend();
                    if rx.len().unwrap() == 0 {
                        reader.sleep();
                    }
                }
            }
            assert_eq!(got, [0, 1]);
        });
        let (writing, reading) = (writes.thread().clone(), reads.thread().clone());
        let mut passed = 0;
        while passed < PASSED {
            let mut is_told = false;
            while at_writer.requests.pop().unwrap().is_some() {
                worker_tx.attend();
                is_told = true;
            }
            while at_reader.requests.pop().unwrap().is_some() {
                is_told = true;
            }
            if is_told {
                let (arrived, has_room, moved) = pass_on(&mut worker_tx, &mut worker_rx);
                passed += moved;
                if arrived {
                    at_reader.leave();
                }
                if has_room {
                    at_writer.leave();
                }
            }
            at_writer.notify(false, &writing);
            at_reader.notify(is_held, &reading);
            // Before it sleeps nothing is held; then `may_sleep`.
            at_reader.notify(false, &reading);
            sleep::doze(&sleeps);
            let is_quiet = at_writer.requests.is_empty() && at_reader.requests.is_empty();
            if is_quiet && passed < PASSED {
                thread::park();
            }
            sleep::rise(&sleeps);
        }
        writes.join().unwrap();
        reads.join().unwrap();
    });
}

#[test]
fn two_programs_past_the_stack_never_all_sleep() {
    bytes_past_the_stack(1, false);
}

#[test]
fn nor_do_they_while_notifiers_are_held() {
    bytes_past_the_stack(1, true);
}
