//! A port with packet memory of its own, as AF_XDP has it: what the application reads lies where
//! the device put it.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use clearway_base::{Duration, Instant};
use clearway_dev::{BufferSource, DevCounters, DevError, Facts, Mac, Receive, Transmit};
use clearway_engine::{App, Engine, Mode, Notifier, Team, Time};
use clearway_pkt::{Buf, Burst, Offloads, RxMeta, TxMeta};
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{
    Config, ConnId, ConnOptions, ConnectSpec, Env, Event, ListenSpec, Stack, Table,
};
use clearway_wire::{Cidr, Endpoint};

const FRAME: usize = 2_048;
const FRAMES: usize = 256;
const MTU: usize = 1_500;
const TOTAL: usize = 300_000;

type Memory = Box<[u8]>;

/// The device's packet memory: frames that are free, and where all of them lie.
#[derive(Clone)]
struct Umem {
    free: Rc<RefCell<Vec<Memory>>>,
    all: Rc<BTreeSet<usize>>,
}

impl Umem {
    fn new() -> Umem {
        let frames: Vec<Memory> = (0..FRAMES).map(|_| vec![0; FRAME].into_boxed_slice()).collect();
        let all = frames.iter().map(|frame| frame.as_ptr() as usize).collect();
        Umem { free: Rc::new(RefCell::new(frames)), all: Rc::new(all) }
    }

    fn take(&self) -> Option<UmemBuf> {
        let memory = self.free.borrow_mut().pop()?;
        Some(UmemBuf { memory, from: 0, to: 0, home: self.clone() })
    }

    /// Whether these bytes lie in the device's memory.
    fn holds(&self, bytes: &[u8]) -> bool {
        let at = bytes.as_ptr() as usize;
        self.all.range(..=at).next_back().is_some_and(|frame| at + bytes.len() <= frame + FRAME)
    }
}

/// One frame of it, which goes back when it is dropped.
struct UmemBuf {
    memory: Memory,
    from: usize,
    to: usize,
    home: Umem,
}

impl Buf for UmemBuf {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.to]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.to]
    }
    fn trim_front(&mut self, n: usize) {
        self.from = (self.from + n).min(self.to);
    }
    fn truncate(&mut self, len: usize) {
        self.to = self.to.min(self.from + len);
    }
    fn footprint(&self) -> usize {
        FRAME
    }
}

impl Drop for UmemBuf {
    fn drop(&mut self) {
        self.home.free.borrow_mut().push(std::mem::take(&mut self.memory));
    }
}

impl BufferSource for Umem {
    type Buf = UmemBuf;

    fn copy_of(&self, bytes: &[u8]) -> Option<UmemBuf> {
        let mut buf = self.take().filter(|_| bytes.len() <= FRAME)?;
        buf.memory[..bytes.len()].copy_from_slice(bytes);
        buf.to = bytes.len();
        Some(buf)
    }
}

enum UmemEnv {}

impl Env for UmemEnv {
    type Buf = UmemBuf;
    type Rx = ChainRx<UmemBuf>;
    type Tx = RingTx;
}

/// A wire that leads back: frames are written into the device's memory, and come in where they were
/// written.
struct Wire {
    umem: Umem,
    room: Option<UmemBuf>,
    queue: VecDeque<UmemBuf>,
    counters: DevCounters,
}

impl Receive for Wire {
    type Buf = UmemBuf;

    fn rx(&mut self, burst: &mut Burst<UmemBuf>) -> Result<(), DevError> {
        while burst.room() > 0 {
            let Some(buf) = self.queue.pop_front() else { break };
            self.counters.received(buf.len());
            let _ = burst.push(buf, RxMeta::default());
        }
        Ok(())
    }
}

impl Transmit for Wire {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.room.is_none() {
            self.room = self.umem.take();
        }
        self.room.as_mut().filter(|_| len <= FRAME).map(|room| &mut *room.memory)
    }
    fn commit(&mut self, len: usize, _meta: TxMeta) {
        let Some(mut buf) = self.room.take() else { return };
        buf.to = len;
        self.counters.sent(len);
        self.queue.push_back(buf);
    }
    fn reserved(&self) -> &[u8] {
        self.room.as_ref().map_or(&[], |room| &room.memory)
    }
}

impl Facts for Wire {
    fn offloads(&self) -> Offloads {
        Offloads { trusted_link: true, ..Offloads::default() }
    }
    fn mtu(&self) -> usize {
        MTU
    }
    fn mac(&self) -> Option<Mac> {
        None
    }
    fn counters(&self) -> DevCounters {
        self.counters
    }
    fn next_deadline(&self) -> Instant {
        if self.queue.is_empty() { Instant::NEVER } else { Instant::ZERO }
    }
}

/// Sends to itself, and looks where what it reads lies.
struct Transfer {
    umem: Umem,
    addr: Endpoint,
    client: Option<ConnId>,
    sent: usize,
    received: usize,
    elsewhere: usize,
}

impl App<UmemEnv> for Transfer {
    type Report = ();

    fn start(&mut self, time: Time, stack: &mut Stack<UmemEnv>) -> Result<(), String> {
        let options = ConnOptions::default();
        let (table, local) = (Table(0), self.addr);
        let listen = ListenSpec { table, local, v6_only: false, backlog: 4, token: 1, options };
        stack.listen(listen).map_err(|error| format!("{error:?}"))?;
        let connect = ConnectSpec { table, local: None, remote: local, token: 2, options };
        self.client = Some(stack.connect(time.now, connect).map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    fn on_events(&mut self, _time: Time, stack: &mut Stack<UmemEnv>) {
        while let Some(event) = stack.next_event() {
            match event {
                Event::Incoming { listener, .. } => {
                    while let Some(conn) = stack.accept(listener) {
                        stack.set_token(conn, 1);
                        self.pull(stack, conn);
                    }
                }
                Event::Conn { conn, token: 1, .. } => self.pull(stack, conn),
                _ => self.push(stack),
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.received == TOTAL
    }
    fn stop(&mut self, _time: Time, _stack: &mut Stack<UmemEnv>) {}
    fn report(&self) {}
}

impl Transfer {
    fn push(&mut self, stack: &mut Stack<UmemEnv>) {
        let Some(conn) = self.client else { return };
        while self.sent < TOTAL {
            let taken =
                stack.send(conn, &[7; 8_192][..(TOTAL - self.sent).min(8_192)]).unwrap_or(0);
            self.sent += taken;
            if taken == 0 {
                return;
            }
        }
    }

    fn pull(&mut self, stack: &mut Stack<UmemEnv>, conn: ConnId) {
        while let Some(bytes) = stack.recv(conn).ok().filter(|bytes| !bytes.is_empty()) {
            let n = bytes.len();
            assert!(bytes.iter().all(|byte| *byte == 7));
            self.elsewhere += usize::from(!self.umem.holds(bytes));
            self.received += n;
            stack.consumed(conn, n as u32);
        }
    }
}

#[test]
fn what_an_application_reads_lies_where_the_device_put_it() {
    let umem = Umem::new();
    let (_, mut seats) = Team::with_notifiers(vec![Notifier::new().unwrap()]).unwrap();
    let stack = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(FRAMES as u32, 1 << 17),
        RingTx::new(64, 4_096, 1 << 16),
    );
    let wire = Wire {
        umem: umem.clone(),
        room: None,
        queue: VecDeque::new(),
        counters: DevCounters::default(),
    };
    let addr = Endpoint::new(std::net::Ipv4Addr::new(10, 0, 0, 1).into(), 80);
    let app =
        Transfer { umem: umem.clone(), addr, client: None, sent: 0, received: 0, elsewhere: 0 };
    let mut engine = Engine::<UmemEnv, Wire, Transfer, _, Umem>::new(
        stack,
        vec![wire],
        umem.clone(),
        app,
        Mode::Polling,
        seats.remove(0),
    )
    .unwrap();
    let (iface, cidr) = (clearway_pkt::Iface(0), Cidr { addr: addr.addr, prefix_len: 24 });
    engine.stack().add_address(Instant::ZERO, iface, cidr).unwrap();
    let at = |us: u64| Time { now: Instant::from_nanos(us * 1_000), since_1970: Duration::ZERO };
    let (stack, app) = engine.stack_and_app();
    app.start(at(1_000), stack).unwrap();
    let mut us = 1_000;
    while !engine.app().is_finished() {
        us += 20;
        assert!(us < 600_000_000, "only {} of {TOTAL} bytes came", engine.app().received);
        let turn = engine.turn(at(us)).unwrap();
        if !turn.again && turn.deadline.is_set() {
            us = us.max(turn.deadline.as_nanos() / 1_000);
        }
    }
    assert!(
        engine.app().received == TOTAL && engine.app().elsewhere == 0,
        "{} pieces were copied",
        engine.app().elsewhere
    );
}
