extern crate std;

use clearway_pkt::Iface;
use clearway_wire::{Endpoint, Flags, Proto, Segment, Seq, ipv4, tcp};

use crate::testing::*;
use crate::{ConnId, ConnOptions, ConnectSpec, Drop, ListenSpec, State, Table, UdpSpec};

/// The two stacks of a host with two queues.
fn both() -> [Net; 2] {
    [0, 1].map(|index| {
        let mut net = Net::lan();
        net.stack.share_ports(index, 2);
        net.stack.keep_misdelivered(true);
        net
    })
}

fn connect(net: &mut Net, remote: Endpoint) -> ConnId {
    let options = ConnOptions::default();
    let spec = ConnectSpec { table: Table(0), local: None, remote, token: 0, options };
    net.stack.connect(net.now, spec).unwrap()
}

fn listen(net: &mut Net, local: Endpoint) {
    let options = ConnOptions::default();
    let spec =
        ListenSpec { table: Table(0), local, v6_only: false, backlog: 1_000, token: 0, options };
    net.stack.listen(spec).unwrap();
}

fn segment(src_port: u16, dst_port: u16, flags: Flags, ack: Seq) -> Segment {
    Segment { src_port, dst_port, flags, seq: Seq(7), ack, wnd: 1_000, ..Segment::default() }
}

#[test]
fn the_answer_to_what_one_stack_began_is_kept_for_it_by_the_other() {
    let mut both = both();
    for mine in 0..2 {
        let remote = Endpoint::new(addr("10.0.0.2"), 80);
        let conn = connect(&mut both[mine], remote);
        assert!(both[mine].stack.reaches_out());
        let local = both[mine].stack.local(conn).unwrap();
        assert_eq!(usize::from(local.port % 2), mine, "from a port of its own");
        let syn = both[mine].emit().remove(0);
        let v4 = ipv4::check(&syn[14..], true).unwrap();
        let sent = tcp::parse(v4.payload()).unwrap();
        let answer = segment(80, local.port, Flags::SYN | Flags::ACK, sent.seq + 1);
        let frame = ip_frame(&tcp_packet("10.0.0.2", "10.0.0.1", &answer, b""));
        let other = &mut both[1 - mine];
        assert_eq!(other.ingest(&frame), None);
        let misdelivered = other.stack.next_misdelivered().expect("it is kept");
        assert_eq!(
            (misdelivered.owner, &misdelivered.buf.0, misdelivered.meta.iface),
            (mine, &frame, Iface(0))
        );
        assert!(other.stack.next_misdelivered().is_none());
        assert_eq!(other.emit().len(), 0, "no reset");
        both[mine].ingest(&frame);
        assert!(both[mine].stack.next_misdelivered().is_none());
        assert_eq!(both[mine].stack.state(conn), State::Established);
        both[mine].emit();
    }
}

#[test]
fn what_is_of_no_other_stack_is_refused_as_ever() {
    let [mut net, _] = both();
    let closed = |port, flags| {
        ip_frame(&tcp_packet("10.0.0.2", "10.0.0.1", &segment(80, port, flags, Seq(9)), b""))
    };
    // A port of our own share, and a peer's SYN to any port.
    assert_eq!(net.ingest(&closed(40_000, Flags::ACK)), Some(Drop::TcpPortClosed));
    assert_eq!(net.ingest(&closed(40_001, Flags::SYN)), Some(Drop::TcpPortClosed));
    assert_eq!(net.emit().len(), 2, "resets");
    // A listener here answers for its port, whosever number it is.
    listen(&mut net, Endpoint::new(addr("10.0.0.1"), 8_081));
    assert_eq!(net.ingest(&closed(8_081, Flags::ACK)), Some(Drop::TcpNoHandshake));
    assert!(net.stack.next_misdelivered().is_none());
    // While nobody hands them over, they are refused.
    net.stack.keep_misdelivered(false);
    assert_eq!(net.ingest(&closed(40_001, Flags::ACK)), Some(Drop::TcpPortClosed));
}

#[test]
fn datagrams_for_a_socket_of_another_stack_are_kept_for_it() {
    let mut both = both();
    for mine in 0..2 {
        let spec = UdpSpec {
            table: Table(0),
            local: Endpoint::new(addr("10.0.0.1"), 0),
            token: 0,
            v6_only: false,
        };
        let socket = both[mine].stack.udp_bind(spec).unwrap();
        let port = both[mine].stack.udp_local(socket).unwrap().port;
        assert_eq!(usize::from(port % 2), mine);
        assert!(both[mine].stack.reaches_out());
        let frame = ip_frame(&packet(
            "10.0.0.2",
            "10.0.0.1",
            Proto::UDP,
            &udp_datagram(("10.0.0.2", 53), ("10.0.0.1", port), b"answer"),
        ));
        let other = &mut both[1 - mine];
        assert_eq!(other.ingest(&frame), None);
        assert_eq!(
            other
                .stack
                .next_misdelivered()
                .map(|misdelivered| (misdelivered.owner, misdelivered.buf.0)),
            Some((mine, frame.clone()))
        );
        assert_eq!(other.emit().len(), 0, "no port unreachable");
        both[mine].ingest(&frame);
        assert_eq!(both[mine].stack.udp_recv(socket).unwrap().payload, b"answer");
    }
}

#[test]
fn over_a_loopback_every_port_serves() {
    let mut net = Net::new(&[(loopback(65_535, 0), &["127.0.0.1/8"])]);
    net.stack.share_ports(1, 2);
    net.stack.keep_misdelivered(true);
    let to = Endpoint::new(addr("127.0.0.1"), 80);
    listen(&mut net, to);
    let mut even = 0;
    for _ in 0..40 {
        let conn = connect(&mut net, to);
        even += u32::from(net.stack.local(conn).unwrap().port % 2 == 0);
        net.loop_back();
        assert_eq!(net.stack.state(conn), State::Established);
    }
    assert!(even > 0 && !net.stack.reaches_out());
}
