//! The other side writes anything anywhere, at any time: what works on the same memory never
//! panics, never hangs, and reads and writes nothing outside.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clearway_shm::attach_socket::{FifoPlace, Place};
use clearway_shm::layout::{AcceptRecord, DatagramHead, Message, request};
use clearway_shm::ring::ring_len;
use clearway_shm::{Consumer, FifoMem, Hostile, Producer, RingConsumer, RingProducer, Segment};

const PAGE: usize = 4096;

/// Bytes of shared memory.
const SHARED: usize = 4 * PAGE;

/// Rounds that the host's side works at least while the other side scribbles.
const ROUNDS: u32 = 200_000;

/// How long it goes on at most to see a lie.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A scribbler on a mapping of its own, as another process would have it.
struct Scribbler {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Scribbler {
    /// Writes random words all over the memory. Now and then the words that matter are made nearly
    /// right, so that lies are also believable.
    fn start(fd: &OwnedFd, seed: u64, words: &'static [usize]) -> Scribbler {
        let fd = fd.try_clone().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || scribble(&fd, seed, words, &stopped));
        Scribbler { stop, thread: Some(thread) }
    }
}

impl Drop for Scribbler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn scribble(fd: &OwnedFd, mut seed: u64, words: &[usize], stop: &AtomicBool) {
    // SAFETY: a mapping of its own of memory that others map too.
    let base = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            ptr::null_mut(),
            SHARED,
            protection,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(fd),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base.cast::<u32>();
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    while !stop.load(Ordering::Relaxed) {
        let choice = random();
        let value = random() as u32;
        let at = match choice % 4 {
            0 => random() as usize % (SHARED / 4),
            _ => words[random() as usize % words.len()] / 4,
        };
        // SAFETY: inside of the mapping; volatile, since others read and write it.
        unsafe {
            let word = base.add(at);
            let near = word.read_volatile().wrapping_add(value % 512).wrapping_sub(256);
            word.write_volatile(if choice & 4 == 0 { near } else { value });
        }
    }
    // SAFETY: mapped above.
    unsafe { libc::munmap(base.cast(), SHARED) };
}

const FIFO_HEAD: usize = 0;
const FIFO_DATA: usize = PAGE;
const FIFO_WORDS: &[usize] = &[FIFO_HEAD, FIFO_HEAD + 4, FIFO_HEAD + 64, FIFO_HEAD + 68];

fn shared() -> (Arc<Segment>, OwnedFd) {
    let (memory, fd) = Segment::create("hostile", SHARED).unwrap();
    (Arc::new(memory), fd)
}

fn fifo(memory: &Arc<Segment>) -> FifoMem {
    let at = |offset: usize| Place { segment: 0, offset: offset as u32 };
    let place = FifoPlace {
        head: at(FIFO_HEAD),
        data: at(FIFO_DATA),
        capacity: PAGE as u32,
        limit: PAGE as u32,
    };
    FifoMem::new(memory, memory, &place).unwrap()
}

/// Counts what was refused, so that a test knows that it tested something.
#[derive(Default)]
struct Seen {
    hostile: u32,
    fine: u32,
}

impl Seen {
    fn take<T>(&mut self, result: Result<T, Hostile>) -> Option<T> {
        match result {
            Ok(value) => {
                self.fine += 1;
                Some(value)
            }
            Err(Hostile) => {
                self.hostile += 1;
                None
            }
        }
    }

    /// Whether there is to be one more round. On a busy machine the scribbler may get no time while
    /// the usual number of them passes.
    fn goes_on(&self, round: u32, begun: Instant) -> bool {
        round < ROUNDS || (self.hostile == 0 || self.fine == 0) && begun.elapsed() < TIME_LIMIT
    }

    fn check(&self) {
        assert!(self.hostile > 0, "nothing was refused");
        assert!(self.fine > 0, "everything was refused");
    }
}

#[test]
fn a_stream_s_fifo_under_a_scribbler() {
    let (memory, fd) = shared();
    let scribbler = Scribbler::start(&fd, 1, FIFO_WORDS);
    let mut seen = Seen::default();
    let mut buffer = vec![0; 2 * PAGE];
    let begun = Instant::now();
    for round in 0.. {
        if !seen.goes_on(round, begun) {
            break;
        }
        // A new pair of ends now and then, as a host that goes on after it has cut a program off.
        let mem = fifo(&memory);
        mem.clear();
        let (mut producer, mut consumer) = (Producer::new(mem.clone()), Consumer::new(mem));
        for step in 0..4u32 {
            let len = (round.wrapping_mul(37) + step * 911) as usize % buffer.len();
            seen.take(producer.write(&buffer[..len])).inspect(|written| assert!(*written <= PAGE));
            seen.take(producer.write_ahead(step * 100, &buffer[..len]));
            seen.take(producer.room()).inspect(|room| assert!(*room <= PAGE as u32));
            producer.kick();
            producer.ask_room();
            consumer.attend();
            seen.take(consumer.len()).inspect(|len| assert!(*len <= PAGE as u32));
            seen.take(consumer.peek(step * 50, &mut buffer[..len]))
                .inspect(|read| assert!(*read <= PAGE));
            seen.take(consumer.read(&mut buffer[..len / 2]));
            consumer.room_wanted(PAGE as u32 / 2);
            if step == 2 {
                // As a process among those that share an end.
                seen.take(producer.refresh());
                seen.take(consumer.refresh());
            }
        }
    }
    drop(scribbler);
    seen.check();
}

#[test]
fn records_under_a_scribbler() {
    let (memory, fd) = shared();
    let scribbler = Scribbler::start(
        &fd,
        2,
        &[FIFO_HEAD, FIFO_HEAD + 64, FIFO_DATA, FIFO_DATA + 8, FIFO_DATA + 512],
    );
    let mut seen = Seen::default();
    let mut buffer = vec![0; 65_536];
    let begun = Instant::now();
    for round in 0.. {
        if !seen.goes_on(round, begun) {
            break;
        }
        let mem = fifo(&memory);
        mem.clear();
        let (mut producer, mut consumer) = (Producer::new(mem.clone()), Consumer::new(mem));
        for step in 0..4u32 {
            let len = (round.wrapping_mul(37) + step * 911) as usize % PAGE;
            seen.take(
                producer.push_datagram(DatagramHead::default(), &[IoSlice::new(&buffer[..len])]),
            );
            if let Some(Some(head)) = seen.take(consumer.datagram()) {
                // Who checks the length once may use it: it does not change any more.
                let payload = &mut buffer[..head.len as usize];
                seen.take(consumer.peek_datagram(&head, 0, payload))
                    .inspect(|len| assert_eq!(*len, payload.len()));
                consumer.consume_datagram(&head);
            }
            seen.take(producer.push_accept(AcceptRecord::new(1)));
            seen.take(consumer.pop_accept());
        }
    }
    drop(scribbler);
    seen.check();
}

#[test]
fn rings_under_a_scribbler() {
    let (memory, fd) = shared();
    let scribbler = Scribbler::start(&fd, 3, &[0, 64, 128, 136]);
    let mut seen = Seen::default();
    let (mut full, mut pushed, mut rounds) = (0u64, 0u64, 0);
    let begun = Instant::now();
    while seen.goes_on(rounds, begun) {
        rounds += 1;
        let mut producer = RingProducer::new(&memory, 0, 16).unwrap();
        let mut consumer = RingConsumer::new(&memory, 0, 16).unwrap();
        for aux in 0..20 {
            match producer.push(Message { session: 1, what: request::WROTE, aux }) {
                Ok(()) => pushed += 1,
                Err(_) => full += 1,
            }
            consumer.is_empty();
            seen.take(consumer.pop());
        }
    }
    drop(scribbler);
    seen.check();
    assert_eq!(full + pushed, u64::from(rounds) * 20, "every message was taken or given back");
    // Cleaned, the same memory serves a new ring as any other does.
    memory.give_back(0, PAGE).unwrap();
    let mut producer = RingProducer::new(&memory, 0, 16).unwrap();
    for aux in 0..16 {
        producer.push(Message { session: 1, what: request::WROTE, aux }).unwrap();
    }
    producer.push(Message { session: 1, what: request::WROTE, aux: 16 }).unwrap_err();
}

/// What lies beside a FIFO and a ring in the same memory is not touched, however the words that
/// describe them are set.
#[test]
fn neighbours_stay_as_they_are() {
    let (memory, fd) = shared();
    let theirs = Arc::new(Segment::map(fd.as_fd(), SHARED).unwrap());
    let ring_at = 2 * PAGE as u32;
    let ring_end = ring_at + ring_len(16);
    let mem = fifo(&memory);
    let (mut producer, mut consumer) = (Producer::new(mem.clone()), Consumer::new(mem));
    let mut ring = RingProducer::new(&memory, ring_at, 16).unwrap();
    let guard = |offset: u32| theirs.session(offset).unwrap();
    let guards = [
        guard(FIFO_HEAD as u32 + 128),
        guard(FIFO_DATA as u32 - 128),
        guard(ring_end),
        guard(3 * PAGE as u32),
    ];
    for guard in &guards {
        guard.state.store(0xdead_beef, Ordering::Relaxed);
    }
    let mut seed = 7u32;
    for _ in 0..ROUNDS {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        producer.mem().head().head.store(seed, Ordering::Relaxed);
        producer.mem().head().tail.store(seed.rotate_left(7), Ordering::Relaxed);
        let _ = producer.refresh();
        let _ = producer.write(&[0; 999]);
        let _ = consumer.refresh();
        let _ = consumer.read(&mut [0; 999]);
        let _ = ring.push(Message::default());
    }
    for guard in &guards {
        assert_eq!(guard.state.load(Ordering::Relaxed), 0xdead_beef);
    }
}
