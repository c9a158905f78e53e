extern crate std;

use clearway_wire::{Flags, Seq, eth, ipv4, tcp};

use super::*;
use crate::testing::*;

fn reply() -> ReplyTcp {
    let key = FlowKey {
        local: addr("10.0.0.1"),
        remote: addr("10.0.0.2"),
        local_port: 80,
        remote_port: 9,
        table: Table(0),
    };
    let mut seg =
        Segment { seq: Seq(7), ack: Seq(8), flags: Flags::RST | Flags::ACK, ..Segment::default() };
    seg.opts.ts = Some((1, 2));
    ReplyTcp { key, seg, tos: 0x10, ttl: 33 }
}

#[test]
fn a_tcp_reply_leaves_with_its_ports_and_options() {
    let mut net = Net::lan();
    assert!(net.stack.replies.tcp(reply()));
    assert!(net.stack.wants_emit());
    let sent = net.emit();
    let v4 = ipv4::check(eth::check(&sent[0]).unwrap().payload(), true).unwrap();
    assert_eq!((v4.tos(), v4.ttl()), (0x10, 33));
    let seg = tcp::parse(v4.payload()).unwrap();
    assert_eq!((seg.src_port, seg.dst_port, seg.seq, seg.ack), (80, 9, Seq(7), Seq(8)));
    assert_eq!((seg.flags, seg.opts.ts), (Flags::RST | Flags::ACK, Some((1, 2))));
    assert!(tcp::verify_checksum(&v4.src(), &v4.dst(), v4.payload()).is_ok());
    let c = net.stack.counters();
    assert_eq!((c.tcp.segs_out, c.tcp.resets_out), (1, 1));
    assert!(!net.stack.wants_emit());
}

#[test]
fn each_kind_has_room_of_its_own() {
    let mut net = Net::lan();
    let most = usize::from(config().limits.replies);
    for n in 0..most + 5 {
        assert_eq!(net.stack.replies.tcp(reply()), n < most);
    }
    let answer =
        ReplyLink { iface: Iface(0), ours: addr("10.0.0.1"), what: LinkWhat::Announcement };
    assert!(net.stack.replies.link(answer));
    assert_eq!(net.emit().len(), most + 1);
}

#[test]
fn a_full_device_keeps_them_waiting_and_an_unreachable_peer_does_not() {
    let mut net = Net::lan();
    let mut lost = reply();
    lost.key.remote = addr("192.0.2.1");
    net.stack.replies.tcp(lost);
    net.stack.replies.tcp(reply());
    net.sink.room = Some(0);
    assert!(net.stack.emit(net.now, &mut net.sink));
    net.sink.room = None;
    assert_eq!(net.emit().len(), 1);
    assert_eq!(net.stack.counters().icmp.replies_lost, 1);
}
