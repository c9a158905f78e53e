//! Stores that change while the stack works with them, as FIFOs in shared memory do: a program
//! writes, and reads, between any two looks.

use std::cell::RefCell;
use std::rc::Rc;

use clearway_base::Rng;

use super::*;
use crate::testing::{TestBuf, TestSink};

/// Which byte stands at `position` of every stream.
fn byte_at(position: u64) -> u8 {
    (position ^ position >> 8 ^ position >> 16) as u8
}

/// One program: what it has written and read of its one connection, and whether it has notified the
/// stack's notifier since that looked.
struct Program {
    rng: Rng,
    /// Bytes it writes in all, and has written; where its send FIFO begins.
    wants: u64,
    wrote: u64,
    acked: u64,
    rang_wrote: bool,
    /// All that it writes is one call: what it has written so far is not all.
    in_one: bool,
    more: bool,
    /// Bytes it has read, and where the in-order bytes of its receive FIFO end.
    read: u64,
    arrived: u64,
    rang_read: bool,
    asked_for_room: bool,
    rx: Vec<u8>,
    tx: Vec<u8>,
    wrong: u64,
}

impl Program {
    fn new(seed: u64, wants: u64, rx: usize, tx: usize) -> Program {
        Program {
            rng: Rng::seed(seed),
            wants,
            wrote: 0,
            acked: 0,
            rang_wrote: false,
            in_one: false,
            more: false,
            read: 0,
            arrived: 0,
            rang_read: false,
            asked_for_room: false,
            rx: vec![0; rx],
            tx: vec![0; tx],
            wrong: 0,
        }
    }

    /// Writes some bytes, if it feels like it and there is room.
    fn write_some(&mut self) {
        let room = self.tx.len() as u64 - (self.wrote - self.acked);
        let most = room.min(self.wants - self.wrote);
        if most == 0 || self.rng.below(3) > 0 {
            return;
        }
        for _ in 0..self.rng.between(1, most) {
            let len = self.tx.len() as u64;
            self.tx[(self.wrote % len) as usize] = byte_at(self.wrote);
            self.wrote += 1;
        }
        self.more = self.in_one
            && self.wrote < self.wants
            && self.wrote - self.acked < self.tx.len() as u64;
        self.rang_wrote = true;
    }

    /// Reads some bytes, if it feels like it and there are any.
    fn read_some(&mut self) {
        let most = self.arrived - self.read;
        if most == 0 || self.rng.below(3) > 0 {
            return;
        }
        for _ in 0..self.rng.between(1, most) {
            let byte = self.rx[(self.read % self.rx.len() as u64) as usize];
            self.wrong += u64::from(byte != byte_at(self.read));
            self.read += 1;
        }
        if self.asked_for_room && self.room() >= self.rx.len() as u32 / 2 {
            self.asked_for_room = false;
            self.rang_read = true;
        }
    }

    fn room(&self) -> u32 {
        (self.rx.len() as u64 - (self.arrived - self.read)) as u32
    }
}

type Shared = Rc<RefCell<Program>>;

struct LiveRx(Shared);
struct LiveTx(Shared);
struct LiveEnv;

impl Env for LiveEnv {
    type Buf = TestBuf;
    type Rx = LiveRx;
    type Tx = LiveTx;
}

impl RxStore<TestBuf> for LiveRx {
    type Queue = ();

    fn open(&mut self, _token: u64) -> Option<()> {
        Some(())
    }

    fn close(&mut self, _queue: ()) {}

    fn write(&mut self, _queue: &mut (), at: u32, buf: TestBuf) -> u32 {
        let mut p = self.0.borrow_mut();
        p.read_some();
        let kept = buf.0.len().min(p.room().saturating_sub(at) as usize);
        for (i, byte) in buf.0[..kept].iter().enumerate() {
            let position = p.arrived + u64::from(at) + i as u64;
            let len = p.rx.len() as u64;
            p.rx[(position % len) as usize] = *byte;
        }
        kept as u32
    }

    fn advance(&mut self, _queue: &mut (), n: u32) {
        let mut p = self.0.borrow_mut();
        p.arrived += u64::from(n);
        p.read_some();
    }

    fn unread(&self, _queue: &()) -> u32 {
        let mut p = self.0.borrow_mut();
        p.read_some();
        (p.arrived - p.read) as u32
    }

    fn room(&self, _queue: &(), most: u32) -> u32 {
        let mut p = self.0.borrow_mut();
        p.read_some();
        let room = p.room();
        if room < p.rx.len() as u32 / 2 {
            p.asked_for_room = true;
        }
        room.min(most)
    }

    fn window_is_low(&self, _queue: &(), _left: u32) {
        self.0.borrow_mut().asked_for_room = true;
    }

    fn largest_room(&self) -> u32 {
        self.0.borrow().rx.len() as u32
    }

    fn front<'a>(&'a self, _queue: &'a ()) -> &'a [u8] {
        &[]
    }

    fn consume(&mut self, _queue: &mut (), _n: u32) {}
}

impl TxStore for LiveTx {
    type Queue = ();

    fn open(&mut self, _token: u64) -> Option<()> {
        Some(())
    }

    fn close(&mut self, _queue: ()) {}

    fn len(&self, _queue: &()) -> u32 {
        let mut p = self.0.borrow_mut();
        p.write_some();
        (p.wrote - p.acked) as u32
    }

    fn room(&self, _queue: &()) -> u32 {
        0
    }

    fn write(&mut self, _queue: &mut (), _bytes: &[u8], _most: impl FnOnce() -> u32) -> usize {
        0
    }

    fn peek(&mut self, _queue: &mut (), at: u32, out: &mut [u8]) -> usize {
        let mut p = self.0.borrow_mut();
        p.write_some();
        let held = (p.wrote - p.acked).saturating_sub(u64::from(at)) as usize;
        let n = out.len().min(held);
        for (i, byte) in out[..n].iter_mut().enumerate() {
            *byte = p.tx[((p.acked + u64::from(at) + i as u64) % p.tx.len() as u64) as usize];
        }
        n
    }

    fn more_follows(&self, _queue: &()) -> bool {
        let mut p = self.0.borrow_mut();
        let more = p.more;
        // It may end, or begin, to be so between this look and any other.
        p.write_some();
        more
    }

    fn consume(&mut self, _queue: &mut (), n: u32) {
        let mut p = self.0.borrow_mut();
        p.acked += u64::from(n);
        assert!(p.acked <= p.wrote, "more is acknowledged than was written");
        p.write_some();
    }
}

/// A stack with one program and one connection.
struct LiveEnd {
    stack: Stack<LiveEnv>,
    program: Shared,
    listener: Option<ListenerId>,
    conn: Option<ConnId>,
    shut: bool,
    /// The furthest right edge that it has promised.
    edge: Option<Seq>,
}

impl LiveEnd {
    fn new(program: Program, address: &str, offloads: Offloads) -> LiveEnd {
        let program = Rc::new(RefCell::new(program));
        let mut stack = Stack::new(config(), LiveRx(program.clone()), LiveTx(program.clone()));
        let iface = stack.add_interface(InterfaceSpec { offloads, ..raw(1_500) }).unwrap();
        stack.add_address(Instant::ZERO, iface, crate::testing::cidr(address)).unwrap();
        LiveEnd { stack, program, listener: None, conn: None, shut: false, edge: None }
    }

    /// What the notifiers that the program notified make the owner do, and what it does by itself.
    fn turn(&mut self) {
        while self.stack.next_event().is_some() {}
        if self.conn.is_none() {
            self.conn = self.listener.and_then(|l| self.stack.accept(l));
        }
        let Some(conn) = self.conn else { return };
        let (wrote, read, done) = {
            let mut p = self.program.borrow_mut();
            p.write_some();
            p.read_some();
            let rang = (core::mem::take(&mut p.rang_wrote), core::mem::take(&mut p.rang_read));
            (rang.0, rang.1, p.wrote == p.wants)
        };
        if wrote && !self.shut {
            let _ = self.stack.wrote(conn);
        }
        if read {
            self.stack.consumed(conn, 0);
        }
        if done && !self.shut && self.stack.state(conn) != State::SynSent {
            self.shut = true;
            let _ = self.stack.shutdown(conn);
        }
    }

    /// The right edge of the window never moves left, but by what the scale cannot say (RFC 7323
    /// 2.4).
    fn watch(&mut self, seen: &Seen) {
        let shift =
            self.conn.and_then(|c| self.stack.info(c)).and_then(|i| i.rcv_wscale).unwrap_or(0);
        // TIME-WAIT remembers the window without its lowest bit, and takes nothing any more.
        let over = self.conn.is_some_and(|c| !self.stack.state(c).peer_may_send());
        if over || seen.flags().contains(SYN) || seen.flags().contains(RST) {
            return;
        }
        let edge = seen.seg.ack + (u32::from(seen.seg.wnd) << shift);
        if let Some(before) = self.edge {
            assert!(
                (edge + (1 << shift)).gt(before),
                "the window was taken back from {before:?} to {edge:?}"
            );
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
    }

    fn is_done(&self, other: &LiveEnd) -> bool {
        let (mine, theirs) = (self.program.borrow(), other.program.borrow());
        let closed = self
            .conn
            .is_some_and(|c| self.stack.peer_closed(c) || self.stack.state(c) == State::Closed);
        closed && mine.read == theirs.wants && mine.acked == mine.wants
    }
}

/// Lets two programs talk over a link that delays, loses and reorders; what went wrong, if
/// anything.
fn talk(seed: u64) {
    let mut rng = Rng::seed(seed);
    let sizes = |rng: &mut Rng| {
        (rng.between(1, 300_000), rng.between(2_000, 120_000), rng.between(500, 120_000))
    };
    let loss = [0, 0, 20, 60][rng.below(4) as usize];
    let offloads = if rng.below(2) == 0 { Offloads::default() } else { cutting() };
    let ends = [0, 1].map(|at| {
        let (wants, rx, tx) = sizes(&mut rng);
        let mut program = Program::new(rng.next_u64(), wants, rx as usize, tx as usize);
        program.in_one = rng.below(3) == 0;
        LiveEnd::new(program, ["10.0.0.1/24", "10.0.0.2/24"][at], offloads)
    });
    let options = ConnOptions { nodelay: rng.below(2) == 0, ..ConnOptions::default() };
    drive(seed, rng, loss, ends, options, |_, _| {});
}

/// Lets both ends talk until all that they want to say has arrived; `saw` is shown each segment and
/// by which end it was sent.
fn drive(
    seed: u64,
    mut rng: Rng,
    loss: u64,
    mut ends: [LiveEnd; 2],
    options: ConnOptions,
    mut saw: impl FnMut(usize, &Seen),
) {
    let local = Endpoint::new(addr(PEER), PORT);
    let spec = ListenSpec { table: Table(0), local, v6_only: false, backlog: 1, token: 0, options };
    ends[1].listener = Some(ends[1].stack.listen(spec).unwrap());
    let mut now = Instant::from_millis(1_000);
    let spec = ConnectSpec { table: Table(0), local: None, remote: local, token: 0, options };
    ends[0].conn = Some(ends[0].stack.connect(now, spec).unwrap());

    let mut on_way: Vec<(Instant, usize, RxMeta, Vec<u8>)> = Vec::new();
    let limit = now + secs(3_000);
    while !(ends[0].is_done(&ends[1]) && ends[1].is_done(&ends[0])) {
        assert!(now < limit, "seed {seed}: stuck at {now}");
        for (at, end) in ends.iter_mut().enumerate() {
            end.stack.expire(now);
            end.turn();
            let mut sink = TestSink::default();
            end.stack.emit(now, &mut sink);
            let sent: Vec<_> = sink.sent.drain(..).collect();
            for (iface, frame, meta) in sent {
                if let Some(seen) = read(&frame) {
                    end.watch(&seen);
                    saw(at, &seen);
                }
                if rng.below(1_000) >= loss {
                    let due = now
                        + Duration::from_micros(
                            rng.between(500, if loss == 0 { 500 } else { 900 }),
                        );
                    on_way.push((due, 1 - at, crate::testing::arrival(iface, &meta), frame));
                }
            }
        }
        on_way.sort_by_key(|(due, ..)| *due);
        now += Duration::from_micros(200);
        if on_way.is_empty() {
            let due = ends.iter().map(|e| e.stack.next_deadline()).min().unwrap();
            now = now.max(due.min(now + ms(50)));
        }
        let late = on_way.partition_point(|(due, ..)| *due <= now);
        for (_, to, meta, frame) in on_way.drain(..late) {
            let mut burst = clearway_pkt::Burst::new();
            burst.push(TestBuf(frame), meta).unwrap();
            ends[to].stack.ingest(now, &mut burst);
        }
    }
    for end in &ends {
        assert_eq!(end.program.borrow().wrong, 0, "seed {seed}: other bytes than were sent");
        assert_eq!(end.stack.counters().tcp.broken, 0, "seed {seed}");
    }
}

#[test]
fn programs_that_write_and_read_at_any_moment_get_all_their_bytes() {
    for seed in 0..150 {
        talk(seed);
    }
}

#[test]
fn what_is_written_in_parts_leaves_in_full_segments_but_for_the_last() {
    for seed in 0..50 {
        let mut rng = Rng::seed(seed);
        let ends = [0, 1].map(|at| {
            // There is room for everything on either side, so that nothing but the parts could make
            // a segment short.
            let wants = if at == 0 { rng.between(10_000, 300_000) } else { 1 };
            let mut program = Program::new(rng.next_u64(), wants, 400_000, 400_000);
            program.in_one = true;
            LiveEnd::new(program, ["10.0.0.1/24", "10.0.0.2/24"][at], Offloads::default())
        });
        let mut lengths = Vec::new();
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        drive(seed, rng, 0, ends, options, |at, seen| {
            if at == 0 && !seen.data.is_empty() {
                lengths.push(seen.data.len());
            }
        });
        let full = lengths.iter().max().copied().unwrap();
        let short = lengths.iter().filter(|len| **len < full).count();
        assert!(short <= 1, "seed {seed}: {short} short ones of {}", lengths.len());
    }
}
