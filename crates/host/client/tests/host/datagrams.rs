//! Datagrams: records kept whole, errors, truncation.

use std::io::{IoSlice, IoSliceMut};

use clearway_client::{Errno, Kind, SendTo};

use crate::guests::*;
use crate::world::World;

fn bound(world: &World) -> (Own, Own) {
    let theirs = open(&server(world), Kind::Datagram);
    theirs.bind("172.16.1.1:0".parse().unwrap()).unwrap();
    (open(&client(world), Kind::Datagram), theirs)
}

#[test]
fn a_datagram_goes_there_and_back() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    let to = SendTo { to: Some(theirs.local()), ..SendTo::default() };
    assert_eq!(
        ours.send_to(&[IoSlice::new(b"to whom "), IoSlice::new(b"it concerns")], &to, 0),
        Ok(19)
    );
    let mut bytes = [0; 100];
    let received = theirs.recv(&mut [IoSliceMut::new(&mut bytes)], 0).unwrap();
    assert_eq!(&bytes[..received.len], b"to whom it concerns");
    let arrived = received.datagram.unwrap();
    assert_eq!(arrived.from.ip(), "172.16.2.1".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(arrived.to, Some("172.16.1.1".parse().unwrap()));
    let back = SendTo { to: Some(arrived.from), ..SendTo::default() };
    theirs.send_to(&[IoSlice::new(b"thanks")], &back, 0).unwrap();
    assert_eq!(recv(&ours, 100, 0).unwrap(), b"thanks");
}

#[test]
fn a_connected_socket_needs_no_address() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    assert_eq!(send(&ours, b"x"), Err(Errno::DESTADDRREQ));
    ours.connect(Some(theirs.local())).unwrap();
    assert_eq!(ours.remote(), Some(theirs.local()));
    assert_eq!(send(&ours, b""), Ok(0));
    assert_eq!(send(&ours, b"second"), Ok(6));
    assert_eq!(recv(&theirs, 10, 0).unwrap(), b"", "an empty datagram is one");
    assert_eq!(
        recv(&theirs, 10, libc::MSG_PEEK).unwrap(),
        b"second",
        "looking waits until it is there"
    );
    assert_eq!(theirs.readable_bytes(), 6);
    assert_eq!(recv(&theirs, 10, 0).unwrap(), b"second");
}

#[test]
fn what_does_not_fit_is_cut_and_said_to_be() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    ours.connect(Some(theirs.local())).unwrap();
    send(&ours, b"0123456789").unwrap();
    send(&ours, b"next").unwrap();
    let mut bytes = [0; 4];
    let peeked =
        theirs.recv(&mut [IoSliceMut::new(&mut bytes)], libc::MSG_PEEK | libc::MSG_TRUNC).unwrap();
    assert_eq!((peeked.len, peeked.flags), (10, libc::MSG_TRUNC));
    let received = theirs.recv(&mut [IoSliceMut::new(&mut bytes)], 0).unwrap();
    assert_eq!((received.len, received.flags, &bytes), (4, libc::MSG_TRUNC, b"0123"));
    assert_eq!(recv(&theirs, 10, 0).unwrap(), b"next");
}

#[test]
fn too_long_is_said() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    ours.connect(Some(theirs.local())).unwrap();
    assert_eq!(send(&ours, &vec![0; 65_508]), Err(Errno::MSGSIZE));
    assert_eq!(send(&ours, &pattern(0, 65_507)), Ok(65_507));
    assert!(recv(&theirs, 70_000, 0).unwrap() == pattern(0, 65_507));
}

#[test]
fn nobody_there_is_told_later() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    let nobody = std::net::SocketAddr::new(theirs.local().ip(), 9);
    ours.connect(Some(nobody)).unwrap();
    send(&ours, b"x").unwrap();
    assert_eq!(recv(&ours, 10, 0), Err(Errno::CONNREFUSED));
    assert_eq!(recv(&ours, 10, libc::MSG_DONTWAIT), Err(Errno::AGAIN));
}

#[test]
fn many_in_a_row_keep_their_order() {
    let world = World::new();
    let (ours, theirs) = bound(&world);
    ours.connect(Some(theirs.local())).unwrap();
    for round in 0..2000u32 {
        send(&ours, &round.to_ne_bytes()).unwrap();
        assert_eq!(recv(&theirs, 10, 0).unwrap(), round.to_ne_bytes());
    }
}
