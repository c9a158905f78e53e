//! Target `frame`: arbitrary frames, one after the other, on an Ethernet and on a bare IP
//! interface.

use clearway_base::{Duration, Instant};
use clearway_pkt::Iface;
use clearway_proto::{ConnOptions, Link, ListenSpec, Table, UdpSpec};
use clearway_wire::{Cidr, Endpoint};

use crate::rig::{MAC, Rig};

/// The input is a row of records: one byte of flags, two bytes of length, then that many bytes of
/// frame.
///
/// Flag bits: 0 the bare IP interface instead of Ethernet; 1 mend the Ethernet destination so that
/// the frame is for us; 2 a second passes first; 3 the frame comes twice; 4 the owner accepts,
/// reads and answers.
pub fn frame(data: &[u8]) {
    let mut rig = Rig::new(&[Link::Ethernet(MAC), Link::Raw]);
    set_up(&mut rig);
    let tcp = rig.stack.listen(spec("[::]:80")).expect("port 80 is free");
    let udp = UdpSpec { table: Table(0), local: endpoint("[::]:53"), token: 2, v6_only: false };
    let udp = rig.stack.udp_bind(udp).expect("port 53 is free");
    let mut rest = data;
    while let [flags, hi, lo, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*hi, *lo])).min(tail.len());
        let (bytes, tail) = tail.split_at(len);
        rest = tail;
        let mut bytes = bytes.to_vec();
        let iface = Iface(u16::from(flags & 1));
        if flags & 3 == 2 && bytes.len() >= 6 {
            bytes[..6].copy_from_slice(&MAC.0);
        }
        if flags & 4 != 0 {
            rig.wait(Duration::from_secs(1));
        }
        for _ in 0..1 + (flags >> 3 & 1) {
            rig.receive(iface, &bytes);
        }
        if flags & 16 != 0 {
            while let Some(conn) = rig.stack.accept(tcp) {
                let _ = rig.stack.send(conn, b"hello");
                rig.stack.close(conn);
            }
            let mut from = None;
            while let Some(datagram) = rig.stack.udp_recv(udp) {
                from = Some(datagram.from);
            }
            if let Some(from) = from {
                let _ = rig.stack.udp_send(udp, from, None, b"hello");
            }
            while rig.stack.next_event().is_some() {}
            rig.answer();
        }
        rig.sent();
    }
    rig.stack.unlisten(tcp);
    rig.stack.udp_close(udp);
    rig.rest();
}

fn spec(local: &str) -> ListenSpec {
    ListenSpec {
        table: Table(0),
        local: endpoint(local),
        v6_only: false,
        backlog: 2,
        token: 1,
        options: ConnOptions::default(),
    }
}

pub(crate) fn endpoint(text: &str) -> Endpoint {
    let socket: core::net::SocketAddr = text.parse().expect("an address written in this file");
    socket.into()
}

fn set_up(rig: &mut Rig) {
    for (iface, cidr) in
        [(0, "10.0.0.1/24"), (0, "fd00::1/64"), (1, "10.1.0.1/24"), (1, "fd01::1/64")]
    {
        let cidr: Cidr = cidr.parse().expect("an address written in this file");
        rig.stack
            .add_address(Instant::ZERO, Iface(iface), cidr)
            .expect("the limits allow four addresses");
    }
    for iface in [Iface(0), Iface(1)] {
        rig.stack.set_up(iface, true);
    }
    rig.answer();
    rig.sent();
}
