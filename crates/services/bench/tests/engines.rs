//! A client and a server, each on a stack of its own, joined by a cable in memory and driven by a
//! clock that the test turns: what is asserted about times repeats exactly.

use std::sync::Arc;

use clearway_base::{Duration, Instant};
use clearway_bench::stack::{ClientApp, ServerApp};
use clearway_bench::{
    AddressRange, ClientPlan, ClientReport, Framing, Pattern, Protocol, ServerPlan, ServerReport,
    Sources, Start,
};
use clearway_dev::{FramePool, PairConfig, PairEnd, PoolBudget, pair};
use clearway_engine::{App, CoreReport, Engine, Mode, Stores, Team, Time};
use clearway_pkt::Iface;
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{Config, Congestion, Limits, Stack};
use clearway_wire::{Addr, Endpoint};

const PORT: u16 = 10_000;

fn engine<A: App<Stores>>(
    end: PairEnd,
    pool: &FramePool,
    addresses: &str,
    app: A,
) -> (Engine<Stores, PairEnd, A>, Team<A::Report>) {
    let (team, mut seats) = Team::new(1).unwrap();
    let mut config = Config::new([7; 32]);
    // What the stack has for all of its connections holds for those of the bench.
    config.tcp.defaults.congestion = Congestion::Reno;
    config.limits = Limits {
        connections: 20_000,
        time_wait: 4_096,
        addresses: 1_024,
        udp_sockets: 1_024,
        udp_queue_bytes: 65_536,
        neighbour_queue: 255,
        waiting_frames: 1_024,
        ..config.limits
    };
    let stack =
        Stack::new(config, ChainRx::new(20_000, 1 << 20), RingTx::new(40_000, 256, 1 << 20));
    let mut engine =
        Engine::new(stack, vec![end], pool.clone(), app, Mode::Interrupt, seats.remove(0)).unwrap();
    for cidr in addresses.parse::<AddressRange>().unwrap().cidrs() {
        engine.stack().add_address(Instant::ZERO, Iface(0), cidr).unwrap();
    }
    (engine, team)
}

fn at(now: Instant) -> Time {
    Time { now, since_1970: Duration::ZERO }
}

fn client_plan(protocol: Protocol, connections: u32) -> ClientPlan {
    ClientPlan {
        protocol,
        pattern: Pattern::PingPong,
        connections,
        active: connections,
        depth: 1,
        message: vec![b'q'; 64],
        answers: Framing::Fixed(64),
        every_ps: None,
        close_after: None,
        reset: false,
        duration: Duration::from_millis(20),
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(1),
        connecting: 256,
    }
}

fn server_plan() -> ServerPlan {
    ServerPlan {
        port: PORT,
        pattern: Pattern::PingPong,
        message: vec![b'a'; 64],
        requests: Framing::Fixed(64),
        connections: 20_000,
    }
}

/// Both sides take a turn every 10 us until the client has finished. What both have done, and the
/// bytes of their stacks.
fn run_between(
    plan: ClientPlan,
    server: &ServerPlan,
    ours: &str,
    theirs: &str,
) -> (ClientReport, ServerReport) {
    let pool = FramePool::new(PoolBudget::of_bytes(32 << 20));
    let (a, b) = pair(PairConfig { limit: 4_096, ..PairConfig::default() }, &pool);
    let remote: Addr = theirs.split('/').next().unwrap().parse().unwrap();
    let addresses: Vec<Addr> =
        ours.parse::<AddressRange>().unwrap().cidrs().map(|cidr| cidr.addr).collect();
    let mut now = Instant::from_millis(1);
    let app = ClientApp::new(
        plan,
        Endpoint::new(remote, PORT),
        Sources::new(addresses, 0, 1, 77),
        Arc::new(Start::new(1)),
        now,
    );
    let (mut client, client_team) = engine(a, &pool, ours, app);
    let (mut server, server_team) = engine(b, &pool, theirs, ServerApp::new(server));
    let (stack, app) = server.stack_and_app();
    app.start(at(now), stack).unwrap();
    while !App::<Stores>::is_finished(client.app()) {
        now += Duration::from_micros(10);
        assert!(
            now < Instant::from_millis(60_000),
            "not finished: {:?}",
            App::<Stores>::report(client.app())
        );
        client.turn(at(now)).unwrap();
        server.turn(at(now)).unwrap();
        for engine_stack in [client.stack(), server.stack()] {
            let all: Vec<_> = engine_stack.conn_ids().collect();
            let by = |id| engine_stack.options(id).map(|options| options.congestion);
            assert!(all.iter().all(|id| by(*id) == Some(Congestion::Reno)));
        }
    }
    // The last resets arrive.
    for _ in 0..100 {
        now += Duration::from_micros(10);
        client.turn(at(now)).unwrap();
        server.turn(at(now)).unwrap();
    }
    client.finish(false).unwrap();
    server.finish(false).unwrap();
    let report = |reports: Vec<CoreReport<ClientReport>>| reports[0].app.clone();
    (report(client_team.reports()), server_team.reports()[0].app.clone())
}

fn run(plan: ClientPlan) -> (ClientReport, ServerReport) {
    run_between(plan, &server_plan(), "10.0.0.1-10.0.0.4/24", "10.0.0.100/24")
}

fn checked((client, server): (ClientReport, ServerReport)) -> (ClientReport, ServerReport) {
    assert_eq!(client.error, None);
    assert_eq!(
        client.requests,
        client.answers + client.timeouts + client.failed + client.unanswered,
        "{client:?}"
    );
    assert_eq!(
        (client.requests, client.answers),
        (server.requests, server.answers),
        "{client:?} {server:?}"
    );
    assert_eq!((client.bytes_out, client.bytes_in), (server.bytes_in, server.bytes_out));
    assert_eq!(server.accepted, client.connected);
    assert_eq!(server.open, 0, "{server:?}");
    (client, server)
}

#[test]
fn every_request_has_its_answer_over_both_families_and_both_protocols() {
    for (ours, theirs) in
        [("10.0.0.1-10.0.0.4/24", "10.0.0.100/24"), ("2001:db8::1/64", "2001:db8::2/64")]
    {
        let (client, _) =
            checked(run_between(client_plan(Protocol::Tcp, 100), &server_plan(), ours, theirs));
        // 100 connections for 20 ms; a request and its answer take two turns at most.
        assert!(client.answers >= 100 * 1_000, "{client:?}");
        assert!(client.latency.max() <= 20_000, "{:?}", client.latency);
        let plan = client_plan(Protocol::Udp, 100);
        let (client, server) = run_between(plan, &server_plan(), ours, theirs);
        assert_eq!((client.requests, client.answers), (server.requests, server.answers));
        // Each side takes 64 frames a turn at most.
        assert!(client.answers >= 60_000 && client.requests == client.answers, "{client:?}");
        assert_eq!(server.accepted, 0);
    }
}

#[test]
fn depth_is_how_many_requests_are_on_their_way() {
    let (one, _) = checked(run(client_plan(Protocol::Tcp, 3)));
    let (eight, _) = checked(run(ClientPlan { depth: 8, ..client_plan(Protocol::Tcp, 3) }));
    assert_eq!(eight.requests, one.requests * 8);
}

#[test]
fn an_open_loop_makes_exactly_the_requests_that_are_due() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        // 100,000 a second for 20 ms.
        let plan = ClientPlan { every_ps: Some(10_000_000), ..client_plan(protocol, 50) };
        let (client, server) = run(plan);
        assert_eq!(
            (client.requests, client.answers, server.answers),
            (2_000, 2_000, 2_000),
            "{protocol:?}"
        );
        assert_eq!((client.not_sent, client.unanswered), (0, 0));
    }
}

#[test]
fn connections_come_and_go_with_a_request_each() {
    for reset in [false, true] {
        let plan = ClientPlan {
            close_after: Some(1),
            reset,
            duration: Duration::from_millis(100),
            ..client_plan(Protocol::Tcp, 50)
        };
        let (client, server) = checked(run(plan));
        assert_eq!((client.connected, server.accepted), (client.requests, client.requests));
        assert!(client.requests > 50 * 1_000, "{client:?}");
        assert_eq!(server.failed, if reset { server.accepted } else { 0 }, "{server:?}");
    }
}

#[test]
fn ten_thousand_connections_exist_while_ten_are_asked() {
    let plan = ClientPlan { active: 10, ..client_plan(Protocol::Tcp, 10_000) };
    let (client, server) = checked(run(plan));
    assert_eq!((client.connected, server.accepted), (10_000, 10_000));
    assert!(client.answers >= 10 * 1_000, "{client:?}");
}

#[test]
fn a_burst_arrives_whole_and_is_not_answered() {
    let server = ServerPlan { pattern: Pattern::Burst, ..server_plan() };
    let plan = ClientPlan { pattern: Pattern::Burst, ..client_plan(Protocol::Tcp, 4) };
    let (client, server) = run_between(plan, &server, "10.0.0.1/24", "10.0.0.2/24");
    assert_eq!((client.error, client.answers, server.answers), (None, 0, 0));
    assert_eq!(server.open, 0, "the streams ended");
    assert_eq!(client.bytes_out, server.bytes_in);
    assert!(server.requests > 10_000, "{server:?}");
}

#[test]
fn an_http_answer_is_read_by_its_length() {
    let body = "x".repeat(1_000);
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let server =
        ServerPlan { message: answer.clone(), requests: Framing::HttpRequest, ..server_plan() };
    let plan = ClientPlan {
        message: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        answers: Framing::HttpAnswer,
        depth: 3,
        ..client_plan(Protocol::Tcp, 10)
    };
    let (client, _) = checked(run_between(plan, &server, "10.0.0.1/24", "10.0.0.2/24"));
    assert_eq!(client.bytes_in, client.answers * answer.len() as u64);
    assert!(client.answers > 1_000 && client.refused == 0);
}

#[test]
fn an_answer_that_cannot_be_read_ends_it_with_a_sentence() {
    let server = ServerPlan {
        message: b"no such thing\r\n\r\n".to_vec(),
        requests: Framing::Any,
        ..server_plan()
    };
    let plan = ClientPlan { answers: Framing::HttpAnswer, ..client_plan(Protocol::Tcp, 3) };
    let (client, _) = run_between(plan, &server, "10.0.0.1/24", "10.0.0.2/24");
    assert_eq!(client.error.as_deref(), Some("an answer is no HTTP/1 answer"));
    assert_eq!(client.requests, client.answers + client.unanswered, "{client:?}");
}

#[test]
fn a_message_longer_than_a_segment_goes_both_ways() {
    let server = ServerPlan {
        message: vec![b'a'; 100_000],
        requests: Framing::Fixed(50_000),
        ..server_plan()
    };
    let plan = ClientPlan {
        message: vec![b'q'; 50_000],
        answers: Framing::Fixed(100_000),
        duration: Duration::from_millis(200),
        ..client_plan(Protocol::Tcp, 3)
    };
    let (client, _) = checked(run_between(plan, &server, "10.0.0.1/24", "10.0.0.2/24"));
    assert!(client.answers > 10, "{client:?}");
}

#[test]
fn a_port_where_nobody_listens_is_told_of() {
    let server = ServerPlan { port: PORT + 1, ..server_plan() };
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let (client, _) =
            run_between(client_plan(protocol, 3), &server, "10.0.0.1/24", "10.0.0.2/24");
        assert!(
            client.error.as_ref().is_some_and(|why| why.contains("is it listening there?")),
            "{client:?}"
        );
    }
}
