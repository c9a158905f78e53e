extern crate std;

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use clearway_base::Duration;
use clearway_pkt::BURST;
use proptest::prelude::*;

use super::*;
use crate::export::VERSION;
use crate::testing::*;
use crate::{
    Congestion, ConnEvents, ConnId, ConnOptions, ConnectSpec, Event, FilterMode, GroupChange,
    Keepalive, ListenSpec, ListenerId, Sharing, State, UdpId, UdpSpec,
};

fn empty() -> Stack<TestEnv> {
    let mut stack = bare(config());
    stack.set_buffer_maker(Box::new(|bytes| {
        (bytes.len() <= 2_000).then(|| TestBuf(bytes.to_vec()))
    }));
    stack
}

/// A stack that talks with itself over a loopback interface, in the midst of it.
struct Busy {
    net: Net,
    listener: ListenerId,
    conns: Vec<ConnId>,
    socket: UdpId,
}

fn end(port: u16) -> Endpoint {
    Endpoint::new(addr("10.0.0.1"), port)
}

impl Busy {
    fn new() -> Busy {
        let mut net = Net::new(&[
            (loopback(1_500, 0), &["10.0.0.1/24", "2001:db8::1/64"]),
            (ethernet(1_400), &[]),
        ]);
        net.stack.add_static_neighbour(net.now, Iface(1), addr("10.0.1.2"), PEER_MAC).unwrap();
        net.stack.add_route(Table(0), cidr("10.0.2.0/24"), NextHop::Interface(Iface(1))).unwrap();
        net.stack.add_route(Table(1), cidr("0.0.0.0/0"), NextHop::Lookup(Table(0))).unwrap();
        let spec = BindSpec {
            table: Table(0),
            local: end(80),
            v6_only: false,
            reuse_address: true,
            reuse_port: true,
            owner: 7,
        };
        let bind = net.stack.bind(spec).unwrap();
        let keepalive = Some(Keepalive { idle: Duration::from_secs(9), ..Keepalive::default() });
        let options = ConnOptions { keepalive, nodelay: true, ..ConnOptions::default() };
        let listen = ListenSpec {
            table: Table(0),
            local: end(80),
            v6_only: false,
            backlog: 5,
            token: 11,
            options,
        };
        let listener = net.stack.listen_bound(bind, listen).unwrap();
        let udp = UdpSpec { table: Table(0), local: end(53), token: 13, v6_only: false };
        let socket = net
            .stack
            .udp_bind_shared(udp, Sharing { reuse_port: true, ..Sharing::default() })
            .unwrap();
        net.stack.udp_group(socket, Iface(1), addr("239.1.2.3"), GroupChange::Join).unwrap();
        net.stack.udp_send(socket, end(53), None, b"unread").unwrap();
        Busy { net, listener, conns: Vec::new(), socket }
    }

    fn connect(&mut self) {
        self.connect_with(ConnOptions::default());
    }

    fn connect_with(&mut self, options: ConnOptions) {
        let spec =
            ConnectSpec { table: Table(0), local: None, remote: end(80), token: 12, options };
        self.conns.extend(self.net.stack.connect(self.net.now, spec));
    }

    /// What was sent comes back, but for every `lost`-th packet.
    fn talk(&mut self, lost: usize) {
        let mut count = 0;
        for _ in 0..40 {
            if !self.hop(lost, &mut count) {
                return;
            }
        }
    }

    /// The same, for what leaves at this moment. False: nothing did.
    fn hop(&mut self, lost: usize, count: &mut usize) -> bool {
        self.net.stack.emit(self.net.now, &mut self.net.sink);
        let sent: Vec<_> =
            self.net.sink.sent.drain(..).filter(|(iface, ..)| *iface == Iface(0)).collect();
        for frames in sent.chunks(BURST) {
            let kept = frames.iter().filter(|_| {
                *count += 1;
                lost == 0 || *count % lost != 0
            });
            let frames: Vec<_> =
                kept.map(|(iface, frame, meta)| (arrival(*iface, meta), frame.clone())).collect();
            self.net.ingest_all(&frames);
        }
        !sent.is_empty()
    }

    /// Another stack goes on.
    fn renew(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (state, left_out) = self.net.stack.export(self.net.now);
        assert_eq!(left_out, 0);
        self.net.stack = empty();
        let made = self.net.stack.import(self.net.now, &state).unwrap();
        self.listener = made.listeners.iter().find(|(was, _)| *was == self.listener).unwrap().1;
        self.socket = made.sockets.iter().find(|(was, _)| *was == self.socket).unwrap().1;
        for conn in &mut self.conns {
            // One that was closed belongs to nobody.
            *conn = made.conns.iter().find(|(was, _)| was == conn).map_or(*conn, |(_, is)| *is);
        }
        let again = self.net.stack.export(self.net.now).0;
        (state, again)
    }
}

/// A kind, and its fields.
type Record = (u16, Vec<(u16, Vec<u8>)>);

/// The rows of an export: kind or tag, and bytes.
fn rows(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let len = u32::from_le_bytes(bytes[2..6].try_into().unwrap()) as usize;
        all.push((u16::from_le_bytes([bytes[0], bytes[1]]), bytes[6..6 + len].to_vec()));
        bytes = &bytes[6 + len..];
    }
    all
}

/// An export made of rows.
fn written(records: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = [&b"CWST"[..], &VERSION.to_le_bytes()].concat();
    out.extend(row_bytes(records));
    out
}

fn row_bytes(rows: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let row = |(tag, value): &(u16, Vec<u8>)| {
        [&tag.to_le_bytes()[..], &(value.len() as u32).to_le_bytes()[..], value].concat()
    };
    rows.iter().flat_map(row).collect()
}

/// All records without the names of things, in an order that does not depend on them.
fn nameless(export: &[u8]) -> Vec<Record> {
    let names = |kind: u16, tag: u16| match kind {
        7 | 12 => tag == 1,
        8 => tag == 1 || tag == 5,
        9 => tag == 6,
        10 => tag == 6 || tag == 10,
        _ => false,
    };
    let fields = |(kind, bytes): (u16, Vec<u8>)| {
        (kind, rows(&bytes).into_iter().filter(|(tag, _)| !names(kind, *tag)).collect::<Vec<_>>())
    };
    // The first is about the stack, with random numbers that are new each time.
    let mut all: Vec<_> =
        rows(&export[6..]).into_iter().filter(|(kind, _)| *kind != 1).map(fields).collect();
    all.sort();
    all
}

/// The records of one export that the other does not have.
fn only(one: &[u8], other: &[u8]) -> Vec<Record> {
    let other = nameless(other);
    nameless(one).into_iter().filter(|record| !other.contains(record)).collect()
}

fn busy() -> Busy {
    let mut busy = Busy::new();
    busy.connect();
    busy.talk(0);
    busy.net.stack.send(busy.conns[0], &[7; 9_000]).unwrap();
    busy.talk(3);
    busy.connect();
    busy
}

#[test]
fn another_stack_goes_on_and_no_byte_is_lost() {
    let mut busy = busy();
    let server = busy.net.stack.accept(busy.listener).unwrap();
    busy.conns.push(server);
    busy.renew();
    busy.net.pass(1);
    let (mut got, client) = (0, busy.conns[0]);
    let server = busy.conns[2];
    for _ in 0..200 {
        busy.talk(0);
        let unread = busy.net.stack.unread(server);
        while let Ok(bytes) = busy.net.stack.recv(server).map(<[u8]>::to_vec) {
            if bytes.is_empty() {
                break;
            }
            assert!(bytes.iter().all(|b| *b == 7));
            got += bytes.len();
            busy.net.stack.consumed(server, bytes.len() as u32);
        }
        let due = busy.net.stack.next_deadline();
        busy.net.now = due.min(busy.net.now + Duration::from_secs(1)).max(busy.net.now);
        busy.net.stack.expire(busy.net.now);
        busy.renew();
        let _ = unread;
        if got == 9_000 {
            break;
        }
        assert_eq!((server, client), (busy.conns[2], busy.conns[0]));
    }
    assert_eq!(got, 9_000);
    assert_eq!(busy.net.stack.state(busy.conns[0]), State::Established);
}

#[test]
fn a_path_that_bbr_knows_nothing_of_yet_is_not_taken_for_known() {
    let mut busy = Busy::new();
    busy.connect_with(ConnOptions { congestion: Congestion::Bbr, ..ConnOptions::default() });
    let goes_on = |busy: &mut Busy, renews: bool| {
        for step in 0..6 {
            busy.hop(0, &mut 0);
            busy.net.now += Duration::from_millis(3);
            if renews {
                let (was, is) = busy.renew();
                assert_eq!(only(&is, &was), only(&was, &is), "step {step}");
            }
        }
    };
    goes_on(&mut busy, false);
    assert_eq!(busy.net.stack.state(busy.conns[0]), State::Established);
    goes_on(&mut busy, true);
    busy.net.stack.send(busy.conns[0], &[7; 3_000]).unwrap();
    goes_on(&mut busy, true);
}

#[test]
fn owners_find_what_they_had_under_new_names() {
    let mut busy = busy();
    let before: Vec<_> = busy.net.stack.routes().collect();
    busy.renew();
    let stack = &mut busy.net.stack;
    assert_eq!(stack.routes().collect::<Vec<_>>(), before);
    assert_eq!(stack.addresses().count(), 3, "two, and the link-local one of the other interface");
    assert!(
        stack
            .neighbours()
            .any(|n| n.addr == addr("10.0.1.2") && n.state == NeighbourState::Permanent)
    );
    assert_eq!(stack.udp_groups(busy.socket).collect::<Vec<_>>(), [(Iface(1), addr("239.1.2.3"))]);
    assert_eq!(stack.udp_recv(busy.socket).unwrap().payload, b"unread");
    let tokens: Vec<_> = core::iter::from_fn(|| stack.next_event()).collect();
    assert!(tokens.iter().any(
        |e| matches!(e, Event::Incoming { listener, token: 11 } if *listener == busy.listener)
    ));
    assert!(tokens.iter().any(|e| matches!(e, Event::Udp { token: 13, .. })));
    assert!(
        !tokens
            .iter()
            .any(|e| matches!(e, Event::Conn { what, .. } if what.has(ConnEvents::FAILED)))
    );
    let accepted = stack.accept(busy.listener).unwrap();
    assert!(stack.options(accepted).unwrap().nodelay);
    // The reservation is held, by whom it was held.
    let spec = BindSpec {
        table: Table(0),
        local: end(80),
        v6_only: false,
        reuse_address: false,
        reuse_port: false,
        owner: 0,
    };
    assert!(stack.bind(spec).is_err());
}

#[test]
fn datagrams_that_wait_filters_and_what_is_known_of_paths_go_on() {
    let mut busy = Busy::new();
    let (group, source, far) = (addr("239.1.2.4"), addr("10.0.0.9"), addr("10.0.2.9"));
    let stack = &mut busy.net.stack;
    stack.udp_group(busy.socket, Iface(1), addr("239.1.2.3"), GroupChange::Leave).unwrap();
    stack.udp_group(busy.socket, Iface(1), group, GroupChange::JoinSource(source)).unwrap();
    stack.udp_send(busy.socket, end(53), None, b"behind it").unwrap();
    stack.ip.path_mtus.learn(busy.net.now, Table(0), &far, 1_280);
    let ends = busy.net.now + Duration::from_secs(600);
    busy.net.now += Duration::from_secs(100);
    let (was, is) = busy.renew();
    assert_eq!(only(&is, &was), only(&was, &is));
    let stack = &mut busy.net.stack;
    let known: Vec<_> = stack.ip.path_mtus.iter().collect();
    assert_eq!(known, [(Table(0), far, 1_280, ends)], "it is believed no longer than it was");
    let (mode, sources) = stack.udp_group_filter(busy.socket, Iface(1), group).unwrap();
    assert_eq!((mode, sources), (FilterMode::Include, &[source][..]));
    busy.talk(0);
    for payload in [&b"unread"[..], b"behind it"] {
        assert_eq!(busy.net.stack.udp_recv(busy.socket).unwrap().payload, payload);
    }
}

#[test]
fn unknown_kinds_and_fields_are_skipped_and_missing_ones_have_defaults() {
    let mut busy = busy();
    let state = busy.net.stack.export(busy.net.now).0;
    let mut records = rows(&state[6..]);
    for (_, bytes) in &mut records {
        bytes.extend(row_bytes(&[(60_000, vec![1, 2, 3])]));
    }
    records.insert(3, (777, vec![9; 40]));
    let mut stack = empty();
    let made = stack.import(busy.net.now, &written(&records)).unwrap();
    assert_eq!((made.skipped, made.conns.len()), (1, busy.net.stack.connections().count()));
    let again = stack.export(busy.net.now).0;
    assert_eq!(only(&again, &state), only(&state, &again));
    // A listener of an older stack, which knew neither how long to wait for data nor any option.
    let listener = records.iter().find(|(kind, _)| *kind == 8).unwrap();
    let known: Vec<_> = rows(&listener.1).into_iter().filter(|(tag, _)| *tag < 5).collect();
    let mut stack = empty();
    stack.import(busy.net.now, &written(&[(8, row_bytes(&known))])).unwrap();
    let summary = stack.listeners().next().unwrap();
    assert_eq!((summary.local, summary.backlog, summary.token), (end(80), 1, 0));
}

#[test]
fn what_is_no_export_is_refused_with_the_reason() {
    let mut stack = empty();
    let now = Instant::from_millis(5);
    let why = |stack: &mut Stack<TestEnv>, bytes: &[u8]| {
        stack.import(now, bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(why(&mut stack, b"").why, Fault::Truncated);
    assert_eq!(why(&mut stack, b"nonsense").why, Fault::Truncated);
    let mut other = written(&[]);
    other[4] = 9;
    assert_eq!(why(&mut stack, &other).why, Fault::Version(9));
    let long = [&written(&[])[..], &[10, 0, 255, 255, 255, 255]].concat();
    let error = why(&mut stack, &long);
    assert_eq!((error.offset, error.why), (6, Fault::Truncated));
    let text = std::format!("{error}");
    assert!(text.contains("byte 6") && text.contains("ends too early"), "{text}");
    assert!(stack.import(now, &written(&[])).is_ok());
}

#[test]
fn a_record_that_contradicts_itself_is_refused_and_nothing_of_it_stays() {
    let mut busy = busy();
    busy.net.stack.send(busy.conns[0], &[7; 500]).unwrap();
    assert!(!busy.net.emit().is_empty(), "and lost");
    let state = busy.net.stack.export(busy.net.now).0;
    let records = rows(&state[6..]);
    let has_written =
        |bytes: &[u8]| rows(bytes).iter().any(|(tag, value)| *tag == 302 && !value.is_empty());
    let conn = records.iter().find(|(kind, bytes)| *kind == 10 && has_written(bytes)).unwrap();
    let with = |tag: u16, value: &[u8]| {
        let mut fields = rows(&conn.1);
        fields.iter_mut().find(|(t, _)| *t == tag).unwrap().1 = value.to_vec();
        written(&[(10, row_bytes(&fields))])
    };
    // More in flight than there are bytes; a state that no connection has; a shift that no peer can
    // ask for; a port of nobody; no segment size.
    for (tag, value) in
        [(302, &[][..]), (8, &[1]), (105, &[15]), (3, &[]), (16, &[1]), (1, &[1, 2])]
    {
        let mut stack = empty();
        let why = stack.import(busy.net.now, &with(tag, value)).unwrap_err().why;
        assert!(matches!(why, Fault::Contradiction(_) | Fault::Field(_)), "{tag}: {why:?}");
        assert_eq!(stack.connections().count(), 0, "{tag}");
        assert_eq!(stack.stores().0.free_nodes(), 4096, "{tag}");
    }
    // Twice the same.
    let twice = written(&[conn.clone(), conn.clone()]);
    let mut stack = empty();
    assert_eq!(stack.import(busy.net.now, &twice).unwrap_err().why, Fault::Exists);
    assert_eq!(stack.connections().count(), 1);
    // Received bytes, and nothing to keep them in.
    let mut stack = bare(config());
    let held = stack.import(busy.net.now, &written(&records[..])).unwrap_err();
    assert_eq!(held.why, Fault::NoBuffers);
}

/// Something that happens to a busy stack.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Connect,
    Accept,
    Choose(u8, u8),
    Send(u8, u16),
    Read(u8),
    Shut(u8),
    Close(u8),
    Talk(u8),
    Pass(u16),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => Just(Deed::Connect),
        2 => Just(Deed::Accept),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(who, n)| Deed::Choose(who, n)),
        4 => (any::<u8>(), 1..9_000u16).prop_map(|(who, n)| Deed::Send(who, n)),
        2 => any::<u8>().prop_map(Deed::Read),
        1 => any::<u8>().prop_map(Deed::Shut),
        1 => any::<u8>().prop_map(Deed::Close),
        5 => (0..7u8).prop_map(Deed::Talk),
        3 => (0..3_000u16).prop_map(Deed::Pass),
    ]
}

fn done(busy: &mut Busy, deed: Deed) {
    let who =
        |busy: &Busy, n: u8| busy.conns.get(usize::from(n) % busy.conns.len().max(1)).copied();
    match deed {
        Deed::Connect => busy.connect(),
        Deed::Accept => busy.conns.extend(busy.net.stack.accept(busy.listener)),
        Deed::Choose(n, what) => {
            if let Some((conn, options)) =
                who(busy, n).and_then(|conn| Some((conn, busy.net.stack.options(conn)?)))
            {
                let congestion = Congestion::ALL[usize::from(what) % Congestion::ALL.len()];
                let max_pacing_rate = (what & 8 != 0).then_some(100_000);
                busy.net
                    .stack
                    .set_options(conn, ConnOptions { congestion, max_pacing_rate, ..options });
            }
        }
        Deed::Send(n, len) => {
            let _ = who(busy, n).map(|conn| busy.net.stack.send(conn, &vec![n; len.into()]));
        }
        Deed::Read(n) => {
            if let Some(conn) = who(busy, n) {
                let unread = busy.net.stack.unread(conn);
                busy.net.stack.consumed(conn, unread / 2 + 1);
            }
        }
        Deed::Shut(n) => {
            let _ = who(busy, n).map(|conn| busy.net.stack.shutdown(conn));
        }
        Deed::Close(n) => {
            let _ = who(busy, n).map(|conn| busy.net.stack.close(conn));
        }
        Deed::Talk(lost) => busy.talk(lost.into()),
        Deed::Pass(ms) => {
            busy.net.now += Duration::from_millis(ms.into());
            busy.net.stack.expire(busy.net.now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_imported_is_exported_the_same(deeds in proptest::collection::vec(deed(), 1..40)) {
        let mut busy = busy();
        for (at, what) in deeds.into_iter().enumerate() {
            done(&mut busy, what);
            if at % 5 == 0 {
                let (was, is) = busy.renew();
                prop_assert_eq!(only(&is, &was), only(&was, &is));
            }
        }
    }

    #[test]
    fn no_damage_makes_an_import_panic(
        deeds in proptest::collection::vec(deed(), 1..20),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<Option<proptest::sample::Index>>(),
    ) {
        let mut busy = busy();
        for what in deeds {
            done(&mut busy, what);
        }
        let mut state = busy.net.stack.export(busy.net.now).0;
        for (at, byte) in damage {
            let at = at.index(state.len());
            state[at] = byte;
        }
        if let Some(cut) = cut {
            state.truncate(cut.index(state.len()));
        }
        busy.net.stack = empty();
        let _ = busy.net.stack.import(busy.net.now, &state);
        for ms in [0, 40, 1_000, 60_000] {
            done(&mut busy, Deed::Pass(ms));
            busy.talk(0);
        }
    }
}
