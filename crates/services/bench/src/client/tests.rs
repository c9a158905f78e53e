use std::collections::{BTreeMap, VecDeque};

use clearway_wire::Endpoint;

use super::*;
use crate::framing::Framing;
use crate::plan::Pattern;

/// What becomes of a message that came at this time: answered at another time, never, or the
/// connection breaks.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    At(Instant),
    Never,
    Break,
}

/// A server that exists in the test only, and takes everything at once.
struct Fake {
    fate: Box<dyn FnMut(Instant) -> Fate>,
    now: Instant,
    next_id: u32,
    open: BTreeMap<u32, (Token, usize)>,
    opened: VecDeque<(u32, Token)>,
    answers: Vec<(Instant, u32)>,
    broken: VecDeque<u32>,
    ended: VecDeque<u32>,
    message: usize,
    room: usize,
    refuses: bool,
    asked: BTreeMap<u32, u32>,
    most_opening: usize,
}

impl Net for Fake {
    type Id = u32;

    fn open(
        &mut self,
        _now: Instant,
        token: Token,
        _from: Option<Endpoint>,
    ) -> Result<u32, OpenError> {
        self.next_id += 1;
        self.open.insert(self.next_id, (token, 0));
        self.opened.push_back((self.next_id, token));
        self.most_opening = self.most_opening.max(self.opened.len());
        Ok(self.next_id)
    }

    fn send(&mut self, token: Token, id: u32, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room);
        let (owner, here) = self.open.get_mut(&id).unwrap();
        assert_eq!(*owner, token);
        *here += taken;
        while *here >= self.message {
            *here -= self.message;
            *self.asked.entry(token.conn).or_default() += 1;
            match (self.fate)(self.now) {
                Fate::At(at) => self.answers.push((at, id)),
                Fate::Never => {}
                Fate::Break => self.broken.push_back(id),
            }
        }
        taken
    }

    fn shutdown(&mut self, id: u32) {
        self.ended.push_back(id);
    }

    fn close(&mut self, id: u32) {
        assert!(self.open.remove(&id).is_some(), "closed twice");
    }

    fn abort(&mut self, id: u32) {
        self.close(id);
    }
}

struct World {
    client: Client<u32>,
    net: Fake,
    now: Instant,
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn plan(connections: u32) -> ClientPlan {
    ClientPlan {
        protocol: Protocol::Tcp,
        pattern: Pattern::PingPong,
        connections,
        active: connections,
        depth: 1,
        message: b"hello".to_vec(),
        answers: Framing::Fixed(3),
        every_ps: None,
        close_after: None,
        reset: false,
        duration: Duration::from_millis(10),
        warmup: Duration::ZERO,
        timeout: Duration::from_millis(50),
        connecting: 64,
    }
}

impl World {
    fn new(plan: ClientPlan, fate: impl FnMut(Instant) -> Fate + 'static) -> World {
        let now = Instant::from_millis(1_000);
        let net = Fake {
            fate: Box::new(fate),
            now,
            next_id: 0,
            open: BTreeMap::new(),
            opened: VecDeque::new(),
            answers: Vec::new(),
            broken: VecDeque::new(),
            ended: VecDeque::new(),
            message: plan.message.len(),
            room: usize::MAX,
            refuses: false,
            asked: BTreeMap::new(),
            most_opening: 0,
        };
        World { client: Client::new(plan, None, Arc::new(Start::new(1)), now), net, now }
    }

    fn turn(&mut self) {
        let World { client, net, now } = self;
        net.now = *now;
        for (id, token) in std::mem::take(&mut net.opened) {
            if net.refuses {
                client.on_ended(net, *now, token, Ending::Failed("refused"));
            } else if net.open.contains_key(&id) {
                client.on_connected(net, *now, token);
            }
        }
        let (due, later) =
            std::mem::take(&mut net.answers).into_iter().partition(|(at, _)| at <= now);
        net.answers = later;
        for (_, id) in due {
            if let Some(&(token, _)) = net.open.get(&id) {
                assert!(client.owns(token, id));
                client.on_bytes(*now, token, b"yes").unwrap();
                client.go_on(net, *now, token);
            }
        }
        for id in std::mem::take(&mut net.broken) {
            if let Some(&(token, _)) = net.open.get(&id) {
                client.on_ended(net, *now, token, Ending::Failed("broken"));
            }
        }
        for id in std::mem::take(&mut net.ended) {
            if let Some(&(token, _)) = net.open.get(&id) {
                client.on_ended(net, *now, token, Ending::PeerClosed);
            }
        }
        client.pump(net, *now);
        if net.room < 1_000_000 {
            net.room = 7;
            let open: Vec<Token> = net.open.values().map(|&(token, _)| token).collect();
            open.into_iter().for_each(|token| client.on_writable(net, token));
        }
    }

    /// Turns every 10 us until the client has finished, or `until` says so.
    fn run(&mut self) -> ClientReport {
        for _ in 0..10_000_000 {
            self.turn();
            if self.client.is_finished() {
                return self.checked();
            }
            self.now += us(10);
        }
        panic!("not finished: {:?}", self.client.report());
    }

    /// Every request is in one place.
    fn checked(&self) -> ClientReport {
        let report = self.client.report();
        if self.client.plan.answered() {
            let sum = report.answers + report.timeouts + report.failed + report.unanswered;
            assert_eq!(report.requests, sum, "{report:?}");
        }
        assert_eq!(report.latency.count(), report.answers);
        if report.error.is_none() {
            assert_eq!((report.open, self.client.opening), (0, 0));
            assert!(self.net.open.is_empty(), "all connections are ended");
        }
        report
    }
}

fn after(us: u64) -> impl FnMut(Instant) -> Fate {
    move |now| Fate::At(now + Duration::from_micros(us))
}

#[test]
fn in_a_closed_loop_each_answer_brings_the_next_request() {
    let mut world = World::new(ClientPlan { depth: 2, ..plan(4) }, after(100));
    let report = world.run();
    // 4 connections, 2 at a time, 10 ms, 100 us each.
    assert_eq!((report.requests, report.answers, report.connected), (800, 800, 4));
    assert_eq!((report.latency.min(), report.latency.max()), (100_000, 100_000));
    assert_eq!((report.unanswered, report.timeouts, report.failed, report.in_flight), (0, 0, 0, 0));
    assert_eq!(report.measured, Duration::from_millis(10));
    assert_eq!((report.bytes_out, report.bytes_in), (800 * 5, 800 * 3));
    assert!(world.net.asked.values().all(|&asked| asked == 200));
}

#[test]
fn in_an_open_loop_a_stall_is_seen_by_every_request_that_was_due_in_it() {
    // Answers at once, except that nothing is answered between 20 ms and 120 ms after the start.
    let (from, to) = (Instant::from_millis(1_020), Instant::from_millis(1_120));
    let stall = move |now: Instant| Fate::At(if now >= from && now < to { to } else { now });
    let plan = ClientPlan {
        every_ps: Some(1_000_000_000),
        duration: Duration::from_millis(200),
        timeout: Duration::from_secs(1),
        ..plan(1)
    };
    let mut world = World::new(plan, stall);
    let report = world.run();
    assert_eq!((report.requests, report.answers, report.not_sent), (200, 200, 0));
    // The hundred requests of the stall waited 100, 99, 98 … ms, although there was only one
    // connection, on which only one of them was on its way.
    let above = |ms: u64| {
        (0..10_000)
            .filter(|&n| report.latency.percentile(n as f64 / 100.0) >= ms * 1_000_000)
            .count() as f64
            / 10_000.0
    };
    assert!((0.48..0.52).contains(&above(1)), "{}", above(1));
    assert!((0.23..0.27).contains(&above(50)), "{}", above(50));
    assert!(report.latency.max() >= 99_000_000);
    // What they waited for was their turn.
    assert!(report.delay.max() >= 98_000_000);
}

#[test]
fn an_open_loop_makes_as_many_requests_as_its_rate_says_in_turn_on_all_connections() {
    let plan =
        ClientPlan { every_ps: Some(30_000_000), duration: Duration::from_millis(30), ..plan(10) };
    let mut world = World::new(plan, after(50));
    let report = world.run();
    assert_eq!((report.requests, report.answers), (1_000, 1_000));
    assert!(world.net.asked.values().all(|&asked| asked == 100), "{:?}", world.net.asked);
    assert!(report.delay.max() <= 10_000, "a turn is 10 us");
}

#[test]
fn what_was_due_and_never_left_is_told() {
    let plan = ClientPlan {
        every_ps: Some(100_000_000),
        duration: Duration::from_millis(10),
        timeout: Duration::from_secs(9),
        ..plan(1)
    };
    let report = World::new(plan, |_| Fate::Never).run();
    assert_eq!(
        (report.requests, report.answers, report.unanswered, report.not_sent),
        (1, 0, 1, 99)
    );
}

#[test]
fn each_request_may_have_a_connection_of_its_own() {
    for every_ps in [None, Some(50_000_000)] {
        let plan = ClientPlan { close_after: Some(1), every_ps, ..plan(5) };
        let mut world = World::new(plan, after(100));
        let report = world.run();
        assert!(report.requests >= 200, "{report:?}");
        assert_eq!((report.connected, report.answers), (report.requests, report.requests));
        assert_eq!(report.connect.count(), report.connected);
        // A connection is there one turn after it was begun, and that counts.
        assert!(report.latency.min() >= 110_000, "{}", report.latency.min());
    }
}

#[test]
fn connections_that_only_exist_are_never_asked_and_the_others_lie_among_them() {
    let plan = ClientPlan { active: 10, ..plan(1_000) };
    let mut world = World::new(plan, after(100));
    let report = world.run();
    assert_eq!((report.connected, report.wanted), (1_000, 1_000));
    let asked: Vec<u32> = world.net.asked.keys().copied().collect();
    assert_eq!(asked, (0..10).map(|n| n * 100).collect::<Vec<_>>());
    assert_eq!(report.answers, 10 * 100);
    assert!(world.net.most_opening <= 64, "{} handshakes at a time", world.net.most_opening);
}

#[test]
fn any_number_of_active_ones_is_spread_and_found_again() {
    for (connections, active) in [(1, 1), (7, 3), (10, 7), (1_000, 999), (1_001, 17)] {
        let plan = ClientPlan { active, ..plan(connections) };
        let client: Client<u32> = Client::new(plan, None, Arc::new(Start::new(1)), Instant::ZERO);
        let tokens: Vec<Token> = (0..connections).map(|conn| client.token(conn)).collect();
        let slots: Vec<u32> =
            tokens.iter().map(|t| t.slot).filter(|&slot| slot != Token::IDLE).collect();
        assert_eq!(slots, (0..active).collect::<Vec<_>>(), "{active} of {connections}");
        assert!(tokens.iter().all(|&token| Token::from_bits(token.to_bits()) == token));
    }
}

#[test]
fn a_request_without_an_answer_times_out_and_its_connection_is_replaced() {
    let mut count = 0;
    let fate = move |now: Instant| {
        count += 1;
        if count % 10 == 0 { Fate::Never } else { Fate::At(now + us(100)) }
    };
    let plan = ClientPlan {
        duration: Duration::from_millis(100),
        timeout: Duration::from_millis(5),
        ..plan(3)
    };
    let report = World::new(plan, fate).run();
    assert!(report.timeouts > 10 && report.answers > 100, "{report:?}");
    // Those that end after the time are not replaced any more.
    let replaced = report.connected - 3;
    assert!(replaced <= report.timeouts && replaced + 3 >= report.timeouts, "{report:?}");
}

#[test]
fn a_connection_that_breaks_is_replaced_and_its_request_counts_as_failed() {
    let mut count = 0;
    let fate = move |now: Instant| {
        count += 1;
        if count % 7 == 0 { Fate::Break } else { Fate::At(now + us(100)) }
    };
    for every_ps in [None, Some(40_000_000)] {
        let report = World::new(ClientPlan { every_ps, ..plan(3) }, fate).run();
        assert!(report.failed > 10 && report.answers > 100, "{report:?}");
        assert_eq!(report.connections_failed, report.failed);
    }
}

#[test]
fn a_server_that_refuses_ends_it_with_a_sentence() {
    let mut world = World::new(plan(3), after(1));
    world.net.refuses = true;
    let report = world.run();
    assert_eq!(report.error.as_deref(), Some("connections fail: refused"));
    assert!(report.connect_failures < 100);
}

#[test]
fn a_server_that_never_answers_ends_it_with_a_sentence() {
    let plan = ClientPlan {
        protocol: Protocol::Udp,
        duration: Duration::from_secs(100),
        timeout: Duration::from_millis(2),
        ..plan(3)
    };
    let report = World::new(plan, |_| Fate::Never).run();
    assert!(report.error.as_ref().unwrap().contains("no answer within 0.002 s"), "{report:?}");
}

#[test]
fn what_is_asked_while_warming_up_does_not_count() {
    let plan = ClientPlan { warmup: Duration::from_millis(20), ..plan(1) };
    let mut world = World::new(plan, after(1_000));
    let report = world.run();
    assert_eq!((report.requests, report.answers), (10, 10));
    assert_eq!(world.net.asked[&0], 30);
    assert_eq!(report.measured, Duration::from_millis(10));
}

#[test]
fn requests_that_are_taken_in_pieces_arrive_whole() {
    let mut world = World::new(ClientPlan { depth: 3, ..plan(2) }, after(100));
    world.net.room = 7;
    let report = world.run();
    assert!(report.answers > 100);
    assert_eq!(u64::from(world.net.asked.values().sum::<u32>()), report.requests);
}

#[test]
fn a_burst_sends_and_waits_for_nothing() {
    let mut world = World::new(ClientPlan { pattern: Pattern::Burst, ..plan(2) }, |_| Fate::Never);
    let report = world.run();
    let sent = u64::from(world.net.asked.values().sum::<u32>());
    assert!(report.requests > 1_000_000, "{report:?}");
    assert_eq!((report.requests, report.answers, report.unanswered), (sent, 0, 0));
    let paced = ClientPlan { pattern: Pattern::Burst, every_ps: Some(100_000_000), ..plan(2) };
    assert_eq!(World::new(paced, |_| Fate::Never).run().requests, 100);
}

#[test]
fn whoever_stops_it_gets_sums_that_agree() {
    let mut world = World::new(
        ClientPlan { depth: 4, duration: Duration::from_secs(100), ..plan(10) },
        after(100),
    );
    for _ in 0..333 {
        world.turn();
        world.now += us(10);
    }
    world.client.stop(&mut world.net);
    let report = world.checked();
    assert!(report.stopped && report.unanswered == 40, "{report:?}");
}

#[test]
fn the_cores_of_a_client_begin_and_end_together() {
    let start = Arc::new(Start::new(2));
    let mut worlds: Vec<World> = (0..2).map(|_| World::new(plan(2), after(100))).collect();
    worlds.iter_mut().for_each(|world| world.client.start = Arc::clone(&start));
    let turn = |world: &mut World| {
        world.turn();
        world.now += us(10);
    };
    (0..2_000).for_each(|_| turn(&mut worlds[0]));
    assert_eq!(
        (worlds[0].client.report.phase, worlds[0].client.report.requests),
        (Phase::Waiting, 0)
    );
    (0..10).for_each(|_| turn(&mut worlds[1]));
    (0..2_000).for_each(|_| turn(&mut worlds[0]));
    assert_eq!(
        (worlds[0].client.report.phase, worlds[0].client.is_finished()),
        (Phase::Done, false)
    );
    (0..2_000).for_each(|_| turn(&mut worlds[1]));
    assert!(worlds.iter().all(|world| world.client.is_finished()));
    assert!(worlds.iter().all(|world| world.checked().answers == 200));
}
