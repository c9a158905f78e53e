//! TCP from one address of a stack to another over two loopbacks in two routing tables, as two
//! application namespaces of one host use them.

use std::net::Ipv4Addr;

use clearway_base::{Duration, Instant};
use clearway_dev::{Dev, DevCounters, Fault, FaultSpec, FramePool, Loopback, PoolBudget, RxDrop};
use clearway_engine::{App, Engine, Mode, Notifier, PortOptions, Stores, Team, Time};
use clearway_pkt::PoolBuf;
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{
    Config, ConnEvents, ConnId, ConnOptions, ConnectSpec, Event, ListenSpec, NextHop, Stack, Table,
};
use clearway_wire::{Addr, Cidr, Endpoint};

const SERVER: Ipv4Addr = Ipv4Addr::new(172, 16, 1, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(172, 16, 2, 1);
const PORT: u16 = 5201;
const TOTAL: usize = 4 << 20;

/// The owner's words of the two sides.
const SERVERS: u64 = 1;
const CLIENTS: u64 = 2;

/// A client that sends bytes and a server that checks them.
#[derive(Default)]
struct Transfer {
    client: Option<ConnId>,
    sent: usize,
    received: usize,
    wrong: usize,
    ended: bool,
}

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 16) as u8
}

impl Transfer {
    fn push(&mut self, stack: &mut Stack<Stores>) {
        let Some(conn) = self.client else { return };
        while self.sent < TOTAL {
            let piece: Vec<u8> = (self.sent..(self.sent + 16_384).min(TOTAL)).map(byte).collect();
            let taken = stack.send(conn, &piece).unwrap_or(0);
            self.sent += taken;
            if taken < piece.len() {
                return;
            }
        }
        let _ = stack.shutdown(conn);
    }

    fn pull(&mut self, stack: &mut Stack<Stores>, conn: ConnId) {
        while let Some(bytes) = stack.recv(conn).ok().filter(|bytes| !bytes.is_empty()) {
            let n = bytes.len();
            self.wrong += (0..n).filter(|at| bytes[*at] != byte(self.received + at)).count();
            self.received += n;
            stack.consumed(conn, n as u32);
        }
        if stack.peer_closed(conn) {
            stack.close(conn);
            self.ended = true;
        }
    }
}

impl App<Stores> for Transfer {
    type Report = ();

    fn start(&mut self, time: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
        let options = ConnOptions::default();
        let local = Endpoint::new(SERVER.into(), PORT);
        let listen = ListenSpec {
            table: Table(0),
            local,
            v6_only: false,
            backlog: 4,
            token: SERVERS,
            options,
        };
        stack.listen(listen).map_err(|error| format!("{error:?}"))?;
        let connect =
            ConnectSpec { table: Table(1), local: None, remote: local, token: CLIENTS, options };
        self.client = Some(stack.connect(time.now, connect).map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    fn on_events(&mut self, _time: Time, stack: &mut Stack<Stores>) {
        while let Some(event) = stack.next_event() {
            match event {
                Event::Incoming { listener, .. } => {
                    while let Some(conn) = stack.accept(listener) {
                        stack.set_token(conn, SERVERS);
                        self.pull(stack, conn);
                    }
                }
                Event::Conn { conn, token: SERVERS, .. } => self.pull(stack, conn),
                Event::Conn { what, .. } => {
                    assert!(!what.has(ConnEvents::FAILED), "the client's connection failed");
                    self.push(stack);
                }
                Event::Udp { .. } => {}
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.ended
    }
    fn stop(&mut self, _time: Time, _stack: &mut Stack<Stores>) {}
    fn report(&self) {}
}

type Port = Box<dyn Dev<Buf = PoolBuf>>;

fn loopback(pool: &FramePool, mtu: usize, fault: &str) -> Port {
    let loopback = Loopback::with_mtu(pool.clone(), mtu);
    if fault.is_empty() {
        return Box::new(loopback);
    }
    let fault: FaultSpec = fault.parse().unwrap();
    Box::new(Fault::on_loopback(loopback, fault.rx, 7, pool.clone()))
}

fn engine(mtu: usize, fault: &str) -> Engine<Stores, Port, Transfer> {
    let pool = FramePool::new(PoolBudget::for_mtu(16 << 20, mtu));
    let (_, mut seats) = Team::with_notifiers(vec![Notifier::new().unwrap()]).unwrap();
    let stack = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(5_000, 4 << 20),
        RingTx::new(1_000, 4_096, 1 << 20),
    );
    let mode = Mode::Interrupt;
    let mut engine =
        Engine::new(stack, Vec::new(), pool.clone(), Transfer::default(), mode, seats.remove(0))
            .unwrap();
    for (table, addr) in [(0, SERVER), (1, CLIENT)] {
        let options = PortOptions { name: format!("loop{table}"), table: Table(table), mtu: None };
        let iface = engine.add_port(loopback(&pool, mtu, fault), options).unwrap();
        let cidr = Cidr { addr: addr.into(), prefix_len: 24 };
        engine.stack().add_address(Instant::ZERO, iface, cidr).unwrap();
    }
    let host = |addr: Ipv4Addr| Cidr { addr: Addr::from(addr), prefix_len: 32 };
    engine.stack().add_route(Table(0), host(CLIENT), NextHop::Lookup(Table(1))).unwrap();
    engine.stack().add_route(Table(1), host(SERVER), NextHop::Lookup(Table(0))).unwrap();
    engine
}

/// Transfers everything; answers with the counters of both ports added up and the segments that
/// were sent again.
fn transfer(mtu: usize, fault: &str) -> (DevCounters, u64) {
    let mut engine = engine(mtu, fault);
    let mut us = 1_000;
    let at = |us: u64| Time { now: Instant::from_nanos(us * 1_000), since_1970: Duration::ZERO };
    let (stack, app) = engine.stack_and_app();
    app.start(at(us), stack).unwrap();
    while !engine.app().is_finished() {
        us += 20;
        assert!(
            us < 600_000_000,
            "mtu {mtu} {fault}: only {} of {TOTAL} bytes came",
            engine.app().received
        );
        let turn = engine.turn(at(us)).unwrap();
        if !turn.again && turn.deadline.is_set() {
            us = us.max(turn.deadline.as_nanos() / 1_000);
        }
    }
    assert_eq!((engine.app().received, engine.app().wrong), (TOTAL, 0), "mtu {mtu} {fault}");
    let mut sum = DevCounters::default();
    for port in engine.ports() {
        sum.add(&port.counters);
    }
    (sum, engine.stack().counters().tcp.retransmitted_segs)
}

#[test]
fn large_packets_cross_whole_whatever_the_mtu() {
    for mtu in [576, 1_500, 9_000, 65_535] {
        let (dev, retransmitted) = transfer(mtu, "");
        assert_eq!(
            (dev.rx_dropped_total(), dev.tx_dropped_total(), retransmitted),
            (0, 0, 0),
            "{mtu}"
        );
        let most = 8 * TOTAL as u64 / 60_000;
        assert!(dev.tx_packets < most, "mtu {mtu}: {} packets for {TOTAL} bytes", dev.tx_packets);
    }
}

#[test]
fn a_bad_wire_loses_segments_and_not_whole_large_packets() {
    for mtu in [1_500, 9_000, 65_535] {
        let (dev, retransmitted) = transfer(mtu, "loss=1%");
        let lost = dev.rx_dropped(RxDrop::FaultLoss);
        assert_eq!(dev.rx_dropped_total(), lost, "nothing is lost but by the fault");
        // Acknowledgements are lost too, and nobody sends those again; a few segments more may be
        // sent again than were lost.
        assert!(
            retransmitted <= 2 * lost + 2,
            "mtu {mtu}: {lost} lost and {retransmitted} sent again"
        );
        assert!(mtu > 1_500 || lost > 10, "{lost}");
    }
}

#[test]
fn a_damaging_wire_damages_no_byte_of_the_stream() {
    let (dev, retransmitted) = transfer(1_500, "corrupt=1%,dup=1%,reorder=1%");
    assert_eq!(dev.rx_dropped_total(), 0);
    assert!(retransmitted > 10);
}
