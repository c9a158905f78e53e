//! Target `import`: an export that nobody has written, given to a stack that goes on with it.

use clearway_base::Duration;
use clearway_pkt::Iface;
use clearway_proto::{
    BindSpec, ConnId, ConnOptions, ConnectSpec, Keepalive, Link, ListenSpec, Table, UdpId, UdpSpec,
};
use clearway_wire::{Addr, Cidr, Endpoint};

use crate::rig::{MAC, Rig};

/// How long is waited at a time, and how often, before the owner closes all that it has.
const STEP: Duration = Duration::from_millis(170);
const STEPS: u32 = 20;

const LISTENED: u16 = 80;

/// Whatever is imported: what is refused changes nothing, what is taken can be gone on with, and
/// when its owner has closed it, every buffer comes back.
pub fn import(data: &[u8]) {
    let mut rig = Rig::sealed(&[Link::Raw, Link::Ethernet(MAC)]);
    let made = rig.stack.import(rig.now, data);
    for _ in 0..STEPS {
        rig.wait(STEP);
        while rig.stack.next_event().is_some() {}
    }
    let again = rig.stack.export(rig.now).0;
    // What a stack writes itself, one like it reads.
    let mut other = Rig::sealed(&[Link::Raw, Link::Ethernet(MAC)]);
    other.now = rig.now;
    let result = other.stack.import(other.now, &again);
    assert!(result.is_ok(), "{result:?} of {made:?}");
    close(rig);
    close(other);
}

/// The owner closes all that there is.
fn close(mut rig: Rig) {
    let listeners: Vec<_> = rig.stack.listeners().map(|l| l.listener).collect();
    listeners.into_iter().for_each(|id| rig.stack.unlisten(id));
    let sockets: Vec<UdpId> = rig.stack.udp_sockets().map(|s| s.socket).collect();
    sockets.into_iter().for_each(|id| rig.stack.udp_close(id));
    let conns: Vec<ConnId> = rig.stack.conn_ids().collect();
    conns.into_iter().for_each(|id| rig.stack.abort(id));
    rig.answer();
    rig.rest();
}

/// Two stacks, and a link that takes what it likes.
struct Pair {
    a: Rig,
    b: Rig,
}

impl Pair {
    fn new() -> Pair {
        let make = |last: u8| {
            let mut rig = Rig::sealed(&[Link::Raw, Link::Ethernet(MAC)]);
            let cidr = Cidr::new(Addr::v4([10, 0, 0, last]), 24).expect("a prefix of its family");
            rig.stack.add_address(rig.now, Iface(0), cidr).expect("room for an address");
            rig
        };
        Pair { a: make(1), b: make(2) }
    }

    /// Packets go to and fro until nobody has more to say; `lost` says which of all are lost.
    fn talk(&mut self, lost: impl Fn(usize) -> bool) {
        let mut count = 0;
        loop {
            self.a.answer();
            let there = self.a.sent();
            for packet in &there {
                count += 1;
                if !lost(count) {
                    self.b.receive(Iface(0), packet);
                }
            }
            let back = self.b.sent();
            for packet in &back {
                count += 1;
                if !lost(count) {
                    self.a.receive(Iface(0), packet);
                }
            }
            if there.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    fn listen(&mut self) {
        let local = Endpoint::new(Addr::ANY_V4, LISTENED);
        let bind = BindSpec {
            table: Table(0),
            local,
            v6_only: false,
            reuse_address: true,
            reuse_port: true,
            owner: 7,
        };
        let bind = self.b.stack.bind(bind).expect("a free port");
        let options =
            ConnOptions { keepalive: Some(Keepalive::default()), ..ConnOptions::default() };
        let spec =
            ListenSpec { table: Table(0), local, v6_only: false, backlog: 4, token: 1, options };
        self.b.stack.listen_bound(bind, spec).expect("a free port");
    }

    fn connect(&mut self) -> ConnId {
        let remote = Endpoint::new(Addr::v4([10, 0, 0, 2]), LISTENED);
        let spec = ConnectSpec {
            table: Table(0),
            local: None,
            remote,
            token: 2,
            options: ConnOptions::default(),
        };
        self.a.stack.connect(self.a.now, spec).expect("a way")
    }
}

/// Exports of stacks in the midst of their work, for the corpus.
pub fn exports() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    let mut pair = Pair::new();
    pair.listen();
    pair.connect();
    pair.talk(|n| n > 1);
    all.push(("half_open", pair.b.stack.export(pair.b.now).0));
    all.push(("syn_sent", pair.a.stack.export(pair.a.now).0));
    let mut pair = Pair::new();
    pair.listen();
    let conn = pair.connect();
    pair.talk(|_| false);
    let _ = pair.a.stack.send(conn, &[7; 4_000]);
    pair.talk(|n| n == 1);
    all.push(("a_hole", pair.b.stack.export(pair.b.now).0));
    all.push(("a_loss", pair.a.stack.export(pair.a.now).0));
    pair.a.stack.close(conn);
    pair.talk(|n| n == 2);
    all.push(("closing", pair.a.stack.export(pair.a.now).0));
    let listener = pair.b.stack.listeners().next().map(|l| l.listener);
    let accepted = listener.and_then(|id| pair.b.stack.accept(id));
    pair.talk(|_| false);
    accepted.into_iter().for_each(|conn| {
        let unread = pair.b.stack.unread(conn);
        pair.b.stack.consumed(conn, unread);
        pair.b.stack.close(conn);
    });
    pair.talk(|_| false);
    all.push(("time_wait", pair.a.stack.export(pair.a.now).0));
    let mut pair = Pair::new();
    let local = Endpoint::new(Addr::v4([10, 0, 0, 2]), 53);
    let there = pair.b.stack.udp_bind(UdpSpec { table: Table(0), local, token: 3, v6_only: false });
    let here = Endpoint::new(Addr::v4([10, 0, 0, 1]), 1053);
    let here =
        pair.a.stack.udp_bind(UdpSpec { table: Table(0), local: here, token: 3, v6_only: false });
    if let (Ok(_), Ok(here)) = (there, here) {
        let _ = pair.a.stack.udp_connect(here, local);
        let _ = pair.a.stack.udp_send(here, None, None, b"a question");
        pair.talk(|_| false);
        let _ = pair.a.stack.udp_send(here, None, None, b"another one");
    }
    all.push(("datagram_read", pair.b.stack.export(pair.b.now).0));
    all.push(("datagram_written", pair.a.stack.export(pair.a.now).0));
    all
}
