//! More strangers than places for connections.

use super::*;

const PLACES: u32 = 128;

/// A server with few places, and the handles that it holds.
struct Crowded {
    net: Net,
    held: Vec<ConnId>,
}

/// What a peer saw of its handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Open,
    Refused,
    Silence,
}

impl Crowded {
    fn new(when_full: WhenFull) -> Crowded {
        let mut config = plain();
        config.limits.connections = PLACES;
        config.tcp.when_full = when_full;
        Crowded::with(config)
    }

    fn with(config: Config) -> Crowded {
        let mut net = Net::with(config, &[(raw(1500), &["10.0.0.1/24", "2001:db8::1/32"])]);
        let spec = ListenSpec {
            table: Table(0),
            local: Endpoint::new(Addr::ANY_V6, PORT),
            v6_only: false,
            backlog: 1_024,
            token: 0,
            options: ConnOptions::default(),
        };
        net.stack.listen(spec).unwrap();
        Crowded { net, held: Vec::new() }
    }

    /// A turn: what leaves for the peer at this port, the first of it.
    fn turn(&mut self, port: u16) -> Option<Segment> {
        while let Some(event) = self.net.stack.next_event() {
            match event {
                Event::Incoming { listener, .. } => {
                    while let Some(conn) = self.net.stack.accept(listener) {
                        self.held.push(conn);
                    }
                }
                Event::Conn { conn, what, .. } if what.has(ConnEvents::FAILED) => {
                    assert_eq!(self.net.stack.failure(conn), Some(Failure::NoMemory));
                    self.net.stack.close(conn);
                    self.held.retain(|held| *held != conn);
                }
                _ => {}
            }
        }
        let sent: Vec<Segment> =
            self.net.emit().iter().filter_map(|p| read(p)).map(|seen| seen.seg).collect();
        sent.into_iter().find(|seg| seg.dst_port == port)
    }

    fn put(&mut self, from: &str, port: u16, seg: Segment, data: &[u8]) {
        let seg = Segment { src_port: port, dst_port: PORT, wnd: 8_000, ..seg };
        self.net.ingest(&tcp_packet(
            from,
            if from.contains(':') { "2001:db8::1" } else { US },
            &seg,
            data,
        ));
    }

    /// A peer connects and says something.
    fn come(&mut self, from: &str, port: u16) -> Outcome {
        let syn = Segment { seq: Seq(100), flags: SYN, ..Segment::default() };
        self.put(from, port, syn, &[]);
        let Some(answer) = self.turn(port) else { return Outcome::Silence };
        if answer.flags.rst() {
            return Outcome::Refused;
        }
        let ack = Segment { seq: Seq(101), ack: answer.seq + 1, flags: ACK, ..Segment::default() };
        self.put(from, port, ack, b"hello");
        match self.turn(port) {
            Some(seg) if seg.flags.rst() => Outcome::Refused,
            Some(seg) if seg.ack == Seq(106) => Outcome::Open,
            other => panic!("{other:?}"),
        }
    }

    fn open_from(&self, from: &str) -> usize {
        let from = addr(from);
        self.held
            .iter()
            .filter(|conn| self.net.stack.remote(**conn).is_some_and(|end| end.addr == from))
            .count()
    }
}

#[test]
fn the_idlest_of_the_busiest_source_make_room_for_new_ones() {
    for (busy, quiet, newcomer) in [
        ("10.0.0.66", "10.0.0.7", "10.0.0.8"),
        ("2001:db8::66", "2001:db8:0:1::7", "2001:db8:0:2::8"),
    ] {
        let mut c = Crowded::new(WhenFull::MakeRoom);
        assert!((0..20).all(|port| c.come(quiet, 1000 + port) == Outcome::Open));
        assert!(
            (0..105).all(|port| c.come(busy, 2000 + port) == Outcome::Open),
            "they make room from the 120th on"
        );
        c.net.now += secs(2);
        assert!((0..60).all(|port| c.come(newcomer, 3000 + port) == Outcome::Open));
        // The sample is random: who has few of them is nearly never the busiest in it.
        assert!(c.open_from(quiet) >= 18, "{} of 20 quiet ones", c.open_from(quiet));
        assert!(c.open_from(busy) <= 52 && c.open_from(newcomer) == 60, "{busy} {newcomer}");
        assert!(c.net.stack.counters().tcp.idle_evicted >= 55);
        assert!(c.net.stack.population().connections <= PLACES);
    }
}

#[test]
fn one_emit_serves_so_many_and_the_next_ones_the_rest() {
    let mut config = plain();
    config.limits.connections = 3_000;
    let mut c = Crowded::with(config);
    for port in 1..=2_500 {
        let remote = Endpoint::new(addr(PEER), port);
        let options = ConnOptions::default();
        let spec = ConnectSpec { table: Table(0), local: None, remote, token: 1, options };
        c.net.stack.connect(c.net.now, spec).unwrap();
    }
    let mut served = Vec::new();
    while c.net.stack.wants_emit() {
        served.push(c.net.emit().len());
    }
    assert_eq!(served, [2_048, 452]);
}

#[test]
fn where_nobody_is_idle_a_new_one_is_reset_at_once() {
    let mut c = Crowded::new(WhenFull::MakeRoom);
    let outcomes: Vec<Outcome> = (0..200).map(|port| c.come("10.0.0.66", 2000 + port)).collect();
    assert!(outcomes[..PLACES as usize].iter().all(|o| *o == Outcome::Open), "{outcomes:?}");
    assert!(outcomes[PLACES as usize..].iter().all(|o| *o == Outcome::Refused), "{outcomes:?}");
    assert_eq!(c.net.stack.counters().tcp.idle_evicted, 0);
    assert_eq!(c.net.stack.population().half_open, 0, "nothing is left of those that were refused");
}

#[test]
fn a_forged_syn_takes_nobodys_place() {
    let mut c = Crowded::new(WhenFull::MakeRoom);
    assert!((0..PLACES as u16).all(|port| c.come("10.0.0.66", 2000 + port) == Outcome::Open));
    c.net.now += secs(2);
    for port in 0..300 {
        let syn = Segment { seq: Seq(100), flags: SYN, ..Segment::default() };
        c.put("10.0.0.9", 3000 + port, syn, &[]);
        c.turn(3000 + port);
    }
    assert_eq!(
        (c.net.stack.counters().tcp.idle_evicted, c.open_from("10.0.0.66")),
        (0, PLACES as usize)
    );
}

#[test]
fn a_full_table_refuses_or_drops_as_configured() {
    for (when_full, outcome) in
        [(WhenFull::Reset, Outcome::Refused), (WhenFull::Drop, Outcome::Silence)]
    {
        let mut c = Crowded::new(when_full);
        assert!((0..PLACES as u16).all(|port| c.come("10.0.0.66", 2000 + port) == Outcome::Open));
        c.net.now += secs(100);
        assert_eq!(c.come("10.0.0.8", 3000), outcome);
        assert_eq!(c.net.stack.counters().drops(Drop::TcpConnectionsFull), 1);
        assert_eq!(c.open_from("10.0.0.66"), PLACES as usize);
    }
}

#[test]
fn a_stack_that_is_drained_keeps_new_connections_out_and_goes_on_with_the_old() {
    for (admission, outcome) in
        [(Admission::Reset, Outcome::Refused), (Admission::Drop, Outcome::Silence)]
    {
        let mut c = Crowded::new(WhenFull::MakeRoom);
        assert_eq!(c.come("10.0.0.7", 1000), Outcome::Open);
        // A handshake that began before is finished.
        let syn = Segment { seq: Seq(100), flags: SYN, ..Segment::default() };
        c.put("10.0.0.7", 1001, syn, &[]);
        let begun = c.turn(1001).unwrap();
        c.net.stack.reconfigure_tcp(|tcp| tcp.admission = admission);
        assert_eq!(c.come("10.0.0.8", 3000), outcome);
        assert_eq!(c.come("2001:db8::8", 3000), outcome);
        assert_eq!(c.net.stack.counters().drops(Drop::TcpDraining), 2);
        let ack = Segment { seq: Seq(101), ack: begun.seq + 1, flags: ACK, ..Segment::default() };
        c.put("10.0.0.7", 1001, ack, b"hello");
        assert_eq!(c.turn(1001).map(|seg| seg.ack), Some(Seq(106)));
        assert_eq!(c.open_from("10.0.0.7"), 2);
        for conn in c.held.clone() {
            assert_eq!(c.net.stack.send(conn, b"more").unwrap(), 4);
        }
        assert!(c.turn(1000).is_some_and(|seg| !seg.flags.rst()));
        c.net.stack.reconfigure_tcp(|tcp| tcp.admission = Admission::Open);
        assert_eq!(c.come("10.0.0.8", 3000), Outcome::Open);
    }
}
