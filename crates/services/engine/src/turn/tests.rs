use clearway_dev::{Fault, PairConfig, PairEnd, PoolBudget, Receive, Transmit, pair};
use clearway_pkt::{BURST, Iface, PoolBuf, TxMeta};
use clearway_proto::Config;
use clearway_proto::store::{ChainRx, RingTx};
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::{Addr, Endpoint, EtherType, Flags, Mac, Proto, Segment, eth, ipv4, tcp};

use super::*;
use crate::{Ended, Io, Next, Service, Source, Stores, Talks, Team};

/// A server gives back what it gets; a client sends so many bytes, ends its side, and counts what
/// comes back.
struct Echo {
    to_send: usize,
    report: Seen,
}

#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Seen {
    came: usize,
    ended: Option<Option<Ended>>,
}

impl Service for Echo {
    type Talk = usize;
    type Report = Seen;

    fn begin(&mut self, _now: Instant) -> usize {
        self.to_send
    }

    fn on_ready<I: Io>(&mut self, _now: Instant, left: &mut usize, io: &mut I) -> Next {
        while *left > 0 {
            let piece = vec![b'x'; (*left).min(10_000)];
            let sent = io.send(&piece);
            *left -= sent;
            if *left == 0 {
                io.shutdown();
            }
            if sent < piece.len() {
                break;
            }
        }
        loop {
            let bytes = io.recv().to_vec();
            if bytes.is_empty() {
                break;
            }
            let taken = if self.to_send > 0 { bytes.len() } else { io.send(&bytes) };
            io.consumed(taken);
            self.report.came += taken;
            if taken == 0 {
                break;
            }
        }
        if io.peer_closed() && io.recv().is_empty() { Next::Close } else { Next::Wait }
    }

    fn deadline(&self, _talk: &usize) -> Instant {
        Instant::NEVER
    }

    fn on_timeout<I: Io>(&mut self, _now: Instant, _talk: &mut usize, _io: &mut I) -> Next {
        Next::Abort
    }

    fn is_idle(&self, _talk: &usize) -> bool {
        false
    }

    fn end(&mut self, _talk: Option<usize>, why: Option<Ended>) {
        self.report.ended = Some(why);
    }

    fn is_finished(&self) -> bool {
        self.to_send > 0 && self.report.ended.is_some()
    }

    fn report(&self) -> Seen {
        self.report
    }
}

type HostOver<D> = Engine<Stores, D, Talks<Echo>>;
type Host = HostOver<PairEnd>;

fn host<D: Dev<Buf = PoolBuf>>(
    end: D,
    pool: &FramePool,
    address: &str,
    to_send: usize,
    source: Source,
) -> HostOver<D> {
    let (_, mut seats) = Team::new(1).unwrap();
    let stack = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(1_000, 1 << 20),
        RingTx::new(1_000, 4_096, 1 << 18),
    );
    let app = Talks::new(Echo { to_send, report: Seen::default() }, source, 16);
    let mut host =
        Engine::new(stack, vec![end], pool.clone(), app, Mode::Interrupt, seats.remove(0)).unwrap();
    host.stack().add_address(Instant::ZERO, Iface(0), address.parse().unwrap()).unwrap();
    host
}

fn at(ms: u64) -> Time {
    Time { now: Instant::from_millis(ms), since_1970: Duration::ZERO }
}

fn start(host: &mut Host) {
    App::<Stores>::start(&mut host.app, at(1), &mut host.stack).unwrap();
}

#[test]
fn two_engines_echo_over_a_cable_in_both_families() {
    for (here, there) in [("10.0.0.1/24", "10.0.0.2/24"), ("2001:db8::1/64", "2001:db8::2/64")] {
        let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
        let (a, b) = pair(PairConfig::default(), &pool);
        let address: Addr = there.split('/').next().unwrap().parse().unwrap();
        let mut client =
            host(a, &pool, here, 300_000, Source::Connect(Endpoint::new(address, 7), 1));
        let mut server = host(b, &pool, there, 0, Source::Listen(7));
        start(&mut server);
        start(&mut client);
        let mut ms = 1;
        while !App::<Stores>::is_finished(&client.app) {
            ms += 1;
            assert!(
                ms < 60_000,
                "{here}: not finished: {:?} {:?}",
                client.app.service().report,
                server.app.service().report
            );
            client.turn(at(ms)).unwrap();
            server.turn(at(ms)).unwrap();
        }
        assert_eq!(client.app.service().report, Seen { came: 300_000, ended: Some(None) });
        assert_eq!(server.app.service().report.came, 300_000);
    }
}

#[test]
fn a_flood_on_one_port_leaves_the_others_their_burst_in_every_turn() {
    let pool = FramePool::new(PoolBudget::of_bytes(16 << 20));
    let (flooded, mut flood) = pair(PairConfig::default(), &pool);
    let (quiet, mut honest) = pair(PairConfig::default(), &pool);
    let mac = quiet.mac().unwrap();
    let mut server = host(flooded, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    server.add_port(quiet, PortOptions { name: "quiet".into(), ..PortOptions::default() }).unwrap();
    server.stack().add_address(Instant::ZERO, Iface(1), "10.1.0.1/24".parse().unwrap()).unwrap();
    start(&mut server);
    server.turn(at(1)).unwrap();
    let (us, peer) = (Addr::v4([10, 1, 0, 1]), Addr::v4([10, 1, 0, 2]));
    server
        .stack()
        .add_static_neighbour(Instant::ZERO, Iface(1), peer, Mac([2, 0, 0, 0, 0, 9]))
        .unwrap();
    let mut back = Burst::new();
    honest.rx(&mut back).unwrap();
    back.clear();
    for ms in 2..200 {
        // As much as the cable holds.
        while push(&mut flood, &[0x5a; 60]) {}
        for _ in 0..10 {
            assert!(push(&mut honest, &echo_request(mac, peer, us)), "turn {ms}");
        }
        let before = server.port(Iface(0)).unwrap().counters().rx_packets;
        server.turn(at(ms)).unwrap();
        let taken = server.port(Iface(0)).unwrap().counters().rx_packets - before;
        assert_eq!(taken, clearway_pkt::BURST as u64, "the flood has one burst in a turn");
        honest.rx(&mut back).unwrap();
        assert_eq!(back.len(), 10, "and the others are answered in the turn that they come in");
        back.clear();
    }
}

#[test]
fn a_polling_engine_answers_half_of_what_comes_at_once_before_it_takes_the_rest() {
    let pool = FramePool::new(PoolBudget::of_bytes(16 << 20));
    let (here, mut there) = pair(PairConfig::default(), &pool);
    let mac = here.mac().unwrap();
    let mut server = host(here, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    start(&mut server);
    let (us, peer) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
    server
        .stack()
        .add_static_neighbour(Instant::ZERO, Iface(0), peer, Mac([2, 0, 0, 0, 0, 9]))
        .unwrap();
    // What it says of its own accord.
    server.turn(at(1)).unwrap();
    let mut back = Burst::new();
    there.rx(&mut back).unwrap();
    back.clear();
    let mut ms = 1;
    // How many answers each turn sends to 16 questions that come at once, until none is left.
    let mut answers = |server: &mut Host| {
        for _ in 0..16 {
            assert!(push(&mut there, &echo_request(mac, peer, us)));
        }
        let mut seen = Vec::new();
        loop {
            ms += 1;
            let turn = server.turn(at(ms)).unwrap();
            there.rx(&mut back).unwrap();
            if back.is_empty() {
                return seen;
            }
            seen.push(back.len());
            assert!(
                turn.again || seen.iter().sum::<usize>() == 16,
                "the rest is taken at once: {seen:?}"
            );
            back.clear();
        }
    };
    server.set_mode(Mode::Polling);
    assert_eq!(answers(&mut server), [16]);
    assert_eq!(answers(&mut server), [8, 8]);
    server.set_splits_bursts(false);
    assert_eq!(answers(&mut server), [16]);
    server.set_splits_bursts(true);
    server.set_mode(Mode::Adaptive(Duration::from_micros(20)));
    assert_eq!(answers(&mut server), [16], "who may sleep takes all");
}

#[test]
fn nothing_is_sent_again_while_frames_wait_to_be_read() {
    let pool = FramePool::new(PoolBudget::of_bytes(16 << 20));
    let (a, b) = pair(PairConfig::default(), &pool);
    let (flooded, mut flood) = pair(PairConfig::default(), &pool);
    let mut server = host(a, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    let there = Endpoint::new(Addr::v4([10, 0, 0, 1]), 7);
    let mut client = host(b, &pool, "10.0.0.2/24", 1_000, Source::Connect(there, 1));
    client.add_port(flooded, PortOptions { name: "other".into(), ..Default::default() }).unwrap();
    start(&mut server);
    start(&mut client);
    let sent = |client: &mut Host| client.stack().counters().tcp.segs_out;
    let again = |client: &mut Host| client.stack().counters().tcp.retransmitted_segs;
    let mut ms = 1;
    client.turn(at(ms)).unwrap();
    // A SYN, and what nobody acknowledges.
    while sent(&mut client) < 2 {
        ms += 1;
        assert!(ms < 1_000, "the client has sent nothing");
        server.turn(at(ms)).unwrap();
        client.turn(at(ms)).unwrap();
    }
    while push(&mut flood, &[0x5a; 60]) {}
    client.turn(at(ms + 5_000)).unwrap();
    assert_eq!(again(&mut client), 0, "its acknowledgement may wait");
    for _ in 0..100 {
        ms += 1;
        client.turn(at(ms + 5_000)).unwrap();
    }
    assert!(again(&mut client) > 0, "it did not");
}

/// Sends a frame; false when the cable is full.
fn push(end: &mut PairEnd, frame: &[u8]) -> bool {
    let Some(room) = end.reserve(frame.len()) else { return false };
    room[..frame.len()].copy_from_slice(frame);
    end.commit(frame.len(), TxMeta::default());
    true
}

/// A ping in an Ethernet frame.
fn echo_request(to: Mac, src: Addr, dst: Addr) -> Vec<u8> {
    let mut icmp = vec![0; 12];
    icmpv4::emit(&Icmpv4::EchoRequest { id: 1, seq: 2, data: b"ping" }, &mut icmp);
    let header = ipv4::Header {
        src,
        dst,
        proto: Proto::ICMP,
        tos: 0,
        ttl: 64,
        id: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: icmp.len() as u16,
    };
    let mut frame = vec![0; 34];
    eth::emit(to, Mac([2, 0, 0, 0, 0, 9]), EtherType::IPV4, &mut frame);
    ipv4::emit(&header, &mut frame[14..]);
    frame.extend(icmp);
    frame
}

#[test]
fn a_segment_in_two_fragments_is_put_together() {
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let (a, mut b) = pair(PairConfig::default(), &pool);
    let mac = a.mac().unwrap();
    let mut server = host(a, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    start(&mut server);
    let (src, dst) = (Addr::v4([10, 0, 0, 2]), Addr::v4([10, 0, 0, 1]));
    let syn = Segment {
        src_port: 4_000,
        dst_port: 7,
        flags: Flags::SYN,
        wnd: 1_000,
        ..Segment::default()
    };
    let mut segment = [b'x'; 64];
    tcp::emit(&syn, &mut segment);
    tcp::fill_checksum(&src, &dst, &mut segment);
    for (fragment_offset, more_fragments) in [(0, true), (32, false)] {
        let header = ipv4::Header {
            src,
            dst,
            proto: Proto::TCP,
            tos: 0,
            ttl: 64,
            id: 7,
            dont_fragment: false,
            more_fragments,
            fragment_offset,
            payload_len: 32,
        };
        let at = usize::from(fragment_offset);
        let frame = b.reserve(66).unwrap();
        eth::emit(mac, Mac([2, 0, 0, 0, 0, 9]), EtherType::IPV4, frame);
        ipv4::emit(&header, &mut frame[14..]);
        frame[34..66].copy_from_slice(&segment[at..at + 32]);
        b.commit(66, TxMeta::default());
    }
    b.flush();
    server.turn(at(2)).unwrap();
    assert_eq!(
        (server.stack().counters().tcp.segs_in, server.stack().counters().drops_total()),
        (1, 0)
    );
}

#[test]
fn a_turn_without_work_says_how_long_to_sleep() {
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let (a, _b) = pair(PairConfig::default(), &pool);
    let mut lonely = host(a, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    start(&mut lonely);
    let mut turn = lonely.turn(at(1)).unwrap();
    for ms in 2..100 {
        turn = lonely.turn(at(ms * 1_000)).unwrap();
    }
    assert_eq!((turn.worked, turn.again), (false, false));
    assert!(turn.deadline > at(99 * 1_000).now);
}

#[test]
fn the_team_stops_a_sleeping_engine_and_hears_of_its_end() {
    let (team, seats) = Team::<Seen>::new(1).unwrap();
    std::thread::scope(|scope| {
        for seat in seats {
            scope.spawn(move || {
                let pool = FramePool::new(PoolBudget::of_bytes(1 << 20));
                let stack: Stack<Stores> = Stack::new(
                    Config::new([7; 32]),
                    ChainRx::new(10, 1 << 16),
                    RingTx::new(10, 4_096, 1 << 16),
                );
                let app =
                    Talks::new(Echo { to_send: 0, report: Seen::default() }, Source::Listen(7), 1);
                let devs: Vec<PairEnd> = Vec::new();
                let mut engine =
                    Engine::new(stack, devs, pool, app, Mode::Interrupt, seat).unwrap();
                engine.run().unwrap();
            });
        }
        assert_eq!(team.running(), 1);
        team.stop();
    });
    assert_eq!(team.running(), 0);
    assert!(team.reports()[0].turns > 0);
}

/// Works through its first turns, sleeps for a while, and is finished.
#[derive(Default)]
struct Worker {
    turns: u64,
    busy: Duration,
    deadline: Instant,
}

const WORK: std::time::Duration = std::time::Duration::from_millis(2);
const REST: Duration = Duration::from_millis(40);

impl App<Stores> for Worker {
    type Report = u64;

    fn start(&mut self, _time: Time, _stack: &mut Stack<Stores>) -> Result<(), String> {
        Ok(())
    }

    fn on_turn(&mut self, busy: Duration) {
        self.busy = busy;
    }

    fn on_events(&mut self, time: Time, _stack: &mut Stack<Stores>) {
        self.turns += 1;
        self.deadline = if self.turns < 6 { time.now } else { time.now + REST };
        if self.had_work() {
            std::thread::sleep(WORK);
        }
    }

    fn next_deadline(&self) -> Instant {
        self.deadline
    }

    fn had_work(&self) -> bool {
        self.turns < 6
    }

    fn is_finished(&self) -> bool {
        self.turns > 6
    }

    fn stop(&mut self, _time: Time, _stack: &mut Stack<Stores>) {}

    fn report(&self) -> u64 {
        self.turns
    }
}

#[test]
fn the_application_hears_how_long_the_turns_with_work_took_and_sleep_is_none() {
    let (_, mut seats) = Team::new(1).unwrap();
    let pool = FramePool::new(PoolBudget::of_bytes(1 << 20));
    let stack: Stack<Stores> = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(10, 1 << 16),
        RingTx::new(10, 4_096, 1 << 16),
    );
    let devs: Vec<PairEnd> = Vec::new();
    let mut engine =
        Engine::new(stack, devs, pool, Worker::default(), Mode::Interrupt, seats.remove(0))
            .unwrap();
    let began = engine.time().now;
    engine.run().unwrap();
    let all = engine.time().now.since(began);
    let busy = engine.app.busy;
    assert!(busy >= Duration::from(WORK * 5), "{busy:?} of {all:?}");
    assert!(busy + REST <= all, "{busy:?} of {all:?}");
}

#[test]
fn a_port_that_had_nothing_is_left_out_of_one_turn_and_no_more() {
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let (a, mut b) = pair(PairConfig::default(), &pool);
    let mut host = host(a, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    start(&mut host);
    b.reserve(64).unwrap().fill(0);
    b.commit(64, TxMeta::default());
    b.flush();
    let received = |host: &Host| host.ports.get(Iface(0)).unwrap().dev.counters().rx_packets;
    host.ports.quiet = 1;
    host.turn(at(2)).unwrap();
    assert_eq!(received(&host), 0, "the turn behind the sleep");
    host.turn(at(3)).unwrap();
    assert_eq!(received(&host), 1);
}

#[test]
fn a_port_that_gave_nothing_and_has_more_keeps_its_engine_awake() {
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let (near, mut far) = pair(PairConfig { limit: 2 * BURST, ..PairConfig::default() }, &pool);
    // What comes is on its way for 10 ms: nothing is there yet, and one frame is still to be taken.
    let port = Fault::new(near, "delay=10ms".parse().unwrap(), 1, pool.clone());
    let mut host = host(port, &pool, "10.0.0.1/24", 0, Source::Listen(7));
    App::<Stores>::start(&mut host.app, at(1), &mut host.stack).unwrap();
    for _ in 0..=BURST {
        assert!(push(&mut far, &[0; 64]));
    }
    far.flush();
    assert!(host.turn(at(2)).unwrap().again);
    let turn = host.turn(at(2)).unwrap();
    assert!(!turn.again && turn.deadline == at(12).now, "{:?}", turn.deadline);
}
