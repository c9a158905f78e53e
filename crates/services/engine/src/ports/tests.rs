use std::cell::RefCell;
use std::rc::Rc;

use clearway_base::{Duration, Instant};
use clearway_dev::{
    DevCounters, DevError, Facts, FramePool, PairConfig, PairEnd, PoolBudget, Receive, Transmit,
    pair,
};
use clearway_pkt::{Burst, Offloads, PoolBuf, RxMeta};
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{Config, Drop, Stack};
use clearway_wire::{Proto, icmpv4, ipv4};

use super::*;
use crate::{App, Engine, EngineError, NoProbe, Step, Stores, Team};

/// An application without wishes; it counts its calls.
#[derive(Default)]
struct Quiet {
    /// Times that it keeps the engine awake.
    stay_awake: u32,
    woke: u32,
}

impl App<Stores> for Quiet {
    type Report = ();

    fn start(&mut self, _time: Time, _stack: &mut Stack<Stores>) -> Result<(), String> {
        Ok(())
    }
    fn on_events(&mut self, _time: Time, _stack: &mut Stack<Stores>) {}
    fn may_sleep(&mut self) -> bool {
        let awake = self.stay_awake > 0;
        self.stay_awake = self.stay_awake.saturating_sub(1);
        !awake
    }
    fn woke(&mut self, _rung: bool) {
        self.woke += 1;
    }
    fn stop(&mut self, _time: Time, _stack: &mut Stack<Stores>) {}
    fn report(&self) {}
}

/// A device that can break.
struct Fragile {
    below: PairEnd,
    broken: Rc<RefCell<bool>>,
}

impl Receive for Fragile {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        if *self.broken.borrow() {
            return Err(DevError::new("fragile", "it broke", "Mend it"));
        }
        self.below.rx(burst)
    }
}

impl Transmit for Fragile {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.below.reserve(len)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        self.below.commit(len, meta);
    }

    fn reserved(&self) -> &[u8] {
        self.below.reserved()
    }

    fn flush(&mut self) {
        self.below.flush();
    }
}

impl Facts for Fragile {
    fn offloads(&self) -> Offloads {
        self.below.offloads()
    }

    fn mtu(&self) -> usize {
        self.below.mtu()
    }

    fn mac(&self) -> Option<clearway_dev::Mac> {
        self.below.mac()
    }

    fn counters(&self) -> DevCounters {
        self.below.counters()
    }
}

type TestEngine = Engine<Stores, Fragile, Quiet>;

struct World {
    engine: TestEngine,
    pool: FramePool,
    notifier: crate::Notifier,
    team: Team<()>,
}

fn world() -> World {
    let notifier = crate::Notifier::new().unwrap();
    let (team, mut seats) = Team::with_notifiers(vec![notifier.clone()]).unwrap();
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let stack = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(100, 1 << 20),
        RingTx::new(100, 4_096, 1 << 18),
    );
    let engine = Engine::new(
        stack,
        Vec::new(),
        pool.clone(),
        Quiet::default(),
        Mode::Interrupt,
        seats.remove(0),
    )
    .unwrap();
    World { engine, pool, notifier, team }
}

/// The far end of a cable.
struct Far {
    end: PairEnd,
    broken: Rc<RefCell<bool>>,
    number: u8,
}

impl World {
    /// A port whose address is 10.0.NUMBER.1/24, and the other end of its cable.
    fn plug(&mut self, number: u8) -> (Iface, Far) {
        let config = PairConfig { macs: None, ..PairConfig::default() };
        let (end, below) = pair(config, &self.pool);
        let broken = Rc::new(RefCell::new(false));
        let dev = Fragile { below, broken: Rc::clone(&broken) };
        let options = PortOptions { name: format!("cable{number}"), ..PortOptions::default() };
        let iface = self.engine.add_port(dev, options).unwrap();
        let cidr = Cidr { addr: Addr::v4([10, 0, number, 1]), prefix_len: 24 };
        self.engine.stack().add_address(Instant::ZERO, iface, cidr).unwrap();
        (iface, Far { end, broken, number })
    }

    fn turn(&mut self, ms: u64) -> Result<crate::Turn, EngineError> {
        self.engine
            .turn(Time { now: Instant::from_millis(ms), since_1970: Duration::from_millis(ms) })
    }

    /// Whether an echo request from the far end is answered.
    fn answers(&mut self, far: &mut Far, ms: u64) -> bool {
        far.ask();
        let _ = self.turn(ms);
        let mut burst = Burst::new();
        far.end.rx(&mut burst).unwrap();
        !burst.is_empty()
    }
}

const REQUEST_LEN: usize = 20 + 8 + 4;

impl Far {
    fn ask(&mut self) {
        let header = ipv4::Header {
            src: Addr::v4([10, 0, self.number, 2]),
            dst: Addr::v4([10, 0, self.number, 1]),
            proto: Proto::ICMP,
            tos: 0,
            ttl: 64,
            id: 7,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: (REQUEST_LEN - 20) as u16,
        };
        let frame = self.end.reserve(REQUEST_LEN).unwrap();
        ipv4::emit(&header, frame);
        icmpv4::emit(
            &icmpv4::Icmpv4::EchoRequest { id: 1, seq: 2, data: b"ping" },
            &mut frame[20..],
        );
        self.end.commit(REQUEST_LEN, TxMeta::default());
        self.end.flush();
    }
}

#[test]
fn ports_come_and_go_while_the_engine_runs() {
    let mut world = world();
    world.turn(1).unwrap();
    let (first, mut far0) = world.plug(0);
    let (second, mut far1) = world.plug(1);
    assert!(world.answers(&mut far0, 2) && world.answers(&mut far1, 3));
    assert_eq!(
        world.engine.port_counters(second).map(|c| (c.rx_packets, c.tx_packets)),
        Some((1, 1))
    );
    assert!(world.engine.remove_port(first).is_some());
    assert!(world.engine.port(first).is_none() && world.engine.remove_port(first).is_none());
    assert!(!world.answers(&mut far0, 4) && world.answers(&mut far1, 5));
    assert!(world.engine.stack().addresses().all(|address| address.iface == second));
    let routes: Vec<_> = world.engine.stack().routes().map(|route| route.via).collect();
    assert_eq!(routes, [clearway_proto::NextHop::Interface(second)]);
    let names: Vec<_> =
        world.engine.ports().map(|port| (port.iface, port.name.to_owned())).collect();
    assert_eq!(names, [(second, "cable1".to_owned())]);
}

#[test]
fn interfaces_whose_ports_went_are_used_again() {
    let mut world = world();
    let (first, far) = world.plug(0);
    drop(far);
    for number in 1..100 {
        world.engine.remove_port(first).unwrap();
        let (iface, mut far) = world.plug(number);
        assert_eq!(iface, first);
        assert!(world.answers(&mut far, u64::from(number)));
    }
    world.engine.remove_port(first).unwrap();
    let ethernet =
        |macs| pair(PairConfig { macs: Some(macs), ..PairConfig::default() }, &world.pool).1;
    let own = |last| clearway_dev::Mac([2, 0, 0, 0, 0, last]);
    let (below, again) = (ethernet([own(1), own(2)]), ethernet([own(1), own(3)]));
    let fragile = |below| Fragile { below, broken: Rc::default() };
    let second = world.engine.add_port(fragile(below), PortOptions::default()).unwrap();
    assert_ne!(second, first, "an interface of another kind is a new one");
    let locals = |world: &mut World| -> Vec<_> {
        world
            .engine
            .stack()
            .addresses()
            .filter(|address| address.iface == second)
            .map(|address| address.cidr)
            .collect()
    };
    let new = locals(&mut world);
    assert_eq!(new, [link_local(own(2))], "the stack makes the same address");
    world.engine.remove_port(second).unwrap();
    assert_eq!(world.engine.add_port(fragile(again), PortOptions::default()).unwrap(), second);
    assert_eq!(locals(&mut world), [link_local(own(3))]);
}

#[test]
fn a_device_that_breaks_ends_the_engine_or_only_its_interface_as_the_owner_says() {
    let mut world = world();
    let (bad, mut far0) = world.plug(0);
    let (_, mut far1) = world.plug(1);
    *far0.broken.borrow_mut() = true;
    assert!(matches!(world.turn(1), Err(EngineError::Device(_))));
    world.engine.set_on_device_error(OnDeviceError::TakeDown);
    assert!(!world.answers(&mut far0, 2) && world.answers(&mut far1, 3));
    let info = world.engine.ports().find(|port| port.iface == bad).unwrap();
    assert_eq!(info.error.map(DevError::what), Some("it broke"));
    assert!(world.engine.stack().interfaces().any(|i| i.iface == bad && !i.up));
}

/// Writes down what it sees, and drops what it is told to.
struct Watcher {
    seen: Rc<RefCell<Vec<String>>>,
    drop: &'static str,
}

impl Watcher {
    fn see(&mut self, what: &str, iface: Iface, frame: &[u8]) -> Verdict {
        self.seen.borrow_mut().push(format!("{what} {} {}", iface.0, frame.len()));
        if what == self.drop { Verdict::Drop } else { Verdict::Pass }
    }
}

impl Inspect for Watcher {
    fn rx(&mut self, _time: Time, iface: Iface, frame: &[u8], meta: &RxMeta) -> Verdict {
        assert_eq!(meta.iface, iface);
        self.see("rx", iface, frame)
    }
    fn tx(&mut self, _time: Time, iface: Iface, frame: &[u8], _meta: &TxMeta) -> Verdict {
        self.see("tx", iface, frame)
    }
    fn dropped(&mut self, _time: Time, iface: Iface, head: &[u8], why: Drop) {
        self.see(why.name(), iface, head);
    }
    fn wants_drops(&self) -> bool {
        true
    }
}

#[test]
fn an_inspector_sees_every_frame_and_what_it_drops_goes_no_further() {
    let mut world = world();
    let (_, _far0) = world.plug(0);
    let (_, mut far1) = world.plug(1);
    for (drop, answered, expected) in [
        ("nothing", true, &["rx 1 32", "tx 1 32"][..]),
        ("rx", false, &["rx 1 32"]),
        ("tx", false, &["rx 1 32", "tx 1 32"]),
    ] {
        let seen = Rc::new(RefCell::new(Vec::new()));
        world.engine.set_inspector(Some(Box::new(Watcher { seen: Rc::clone(&seen), drop })));
        assert_eq!(world.answers(&mut far1, 1), answered, "{drop}");
        assert_eq!(*seen.borrow(), expected, "{drop}");
    }
    assert!(world.engine.set_inspector(None).is_some());
    assert!(world.answers(&mut far1, 2));
}

#[test]
fn an_inspector_hears_why_the_stack_dropped_a_frame() {
    let mut world = world();
    let (_, mut far) = world.plug(0);
    let seen = Rc::new(RefCell::new(Vec::new()));
    world.engine.set_inspector(Some(Box::new(Watcher { seen: Rc::clone(&seen), drop: "" })));
    far.number = 9;
    assert!(!world.answers(&mut far, 1));
    assert_eq!(*seen.borrow(), ["rx 0 32", "not-ours 0 32"]);
}

#[test]
fn the_port_that_looks_longest_decides_the_mode() {
    let mut ports: Ports<PairEnd, NoProbe> = Ports::new(NoProbe);
    assert_eq!(ports.mode(Mode::Interrupt), Mode::Interrupt);
    let pool = FramePool::new(PoolBudget::of_bytes(1 << 20));
    let (a, b) = pair(PairConfig::default(), &pool);
    let adaptive = |us| Mode::Adaptive(Duration::from_micros(us));
    for (iface, dev) in [a, b].into_iter().enumerate() {
        let mode = (iface == 1).then(|| adaptive(50));
        ports.put(Iface(iface as u16), Port { dev, name: String::new(), mode, error: None });
    }
    assert_eq!(ports.mode(Mode::Interrupt), adaptive(50));
    assert_eq!(ports.mode(adaptive(70)), adaptive(70));
    ports.get_mut(Iface(0)).unwrap().mode = Some(Mode::Interrupt);
    assert_eq!(ports.mode(Mode::Polling), adaptive(50), "no port is left that follows the engine");
    ports.get_mut(Iface(1)).unwrap().mode = Some(Mode::Polling);
    assert_eq!(ports.mode(Mode::Interrupt), Mode::Polling);
}

#[test]
fn an_mtu_changes_in_stack_and_device_or_in_neither() {
    let mut world = world();
    let (iface, _far) = world.plug(0);
    let mtu = |world: &mut World| world.engine.stack().interfaces().next().unwrap().mtu;
    // A cable has the MTU that it was made with.
    assert!(matches!(world.engine.set_mtu(iface, 1_400), Err(EngineError::Device(_))));
    assert!(matches!(world.engine.set_mtu(iface, 100), Err(EngineError::Mtu(_))));
    assert!(matches!(world.engine.set_mtu(Iface(9), 1_400), Err(EngineError::NoPort(_))));
    assert_eq!(mtu(&mut world), 1_500);
    let (_, mut seats) = Team::with_notifiers(vec![crate::Notifier::new().unwrap()]).unwrap();
    let stack: Stack<Stores> =
        Stack::new(Config::new([7; 32]), ChainRx::new(9, 9_999), RingTx::new(9, 4_096, 9_999));
    let looped = vec![clearway_dev::Loopback::with_mtu(world.pool.clone(), 1_500)];
    let app = Quiet::default();
    let mut engine =
        Engine::new(stack, looped, world.pool.clone(), app, Mode::Interrupt, seats.remove(0))
            .unwrap();
    engine.set_mtu(Iface(0), 9_000).unwrap();
    assert_eq!(engine.stack().interfaces().next().unwrap().mtu, 9_000);
    assert_eq!(engine.port(Iface(0)).map(Facts::mtu), Some(9_000));
}

#[test]
fn a_device_takes_the_place_of_another_and_the_interface_stays() {
    let mut world = world();
    let (iface, mut far) = world.plug(0);
    let (end, below) = pair(PairConfig { macs: None, ..PairConfig::default() }, &world.pool);
    let broken = Rc::new(RefCell::new(false));
    let old =
        world.engine.replace_port(iface, Fragile { below, broken: Rc::clone(&broken) }).unwrap();
    let mut new_far = Far { end, broken, number: 0 };
    assert!(world.answers(&mut new_far, 1) && !world.answers(&mut far, 2));
    assert_eq!(old.counters().tx_packets, 0);
}

#[test]
fn a_step_sleeps_until_somebody_rings_unless_the_application_keeps_it_awake() {
    let mut world = world();
    world.engine.start().unwrap();
    // The first report is due a second after the start, and no sleep is longer than that.
    world.engine.app().stay_awake = 1;
    assert_eq!(world.engine.step().unwrap(), Step::Again);
    assert_eq!(world.engine.turns_and_sleeps(), (1, 0));
    world.notifier.notify();
    assert_eq!(world.engine.step().unwrap(), Step::Slept);
    assert_eq!((world.engine.turns_and_sleeps(), world.engine.app().woke), ((2, 1), 2));
    world.engine.set_mode(Mode::Polling);
    assert_eq!(world.engine.step().unwrap(), Step::Again);
    world.team.stop();
    assert_eq!(world.engine.step().unwrap(), Step::Stop);
    world.engine.finish(true).unwrap();
}
