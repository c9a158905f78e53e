//! Datagram sockets.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::io::ReadBuf;

use crate::guests::*;
use crate::world::World;

#[test]
fn each_datagram_reaches_one_of_the_tasks_that_receive() {
    let world = World::new();
    on_threads(3, async {
        let theirs = Arc::new(server(&world).udp("172.16.1.1:0").await.unwrap());
        let to = theirs.local_addr().unwrap();
        for _ in 0..4 {
            let theirs = theirs.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 100];
                while let Ok((len, from)) = theirs.recv_from(&mut bytes).await {
                    theirs.send_to(&bytes[..len], from).await.unwrap();
                }
            });
        }
        let net = client(&world);
        let tasks: Vec<_> = (0..4u16)
            .map(|number| {
                let net = net.clone();
                tokio::spawn(async move {
                    let ours = net.udp("172.16.2.1:0").await.unwrap();
                    ours.connect(to).await.unwrap();
                    assert_eq!(ours.peer_addr().unwrap(), to);
                    let mut answers = HashSet::new();
                    let mut bytes = [0; 100];
                    for turn in 0..200u16 {
                        let sent = [number.to_ne_bytes(), turn.to_ne_bytes()].concat();
                        ours.send(&sent).await.unwrap();
                        let len = ours.recv(&mut bytes).await.unwrap();
                        assert_eq!(&bytes[..len], sent);
                        answers.insert(turn);
                    }
                    answers.len()
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 200);
        }
    });
}

#[test]
fn a_datagram_is_looked_at_cut_and_polled_for() {
    let world = World::new();
    on_threads(0, async {
        let theirs = server(&world).udp("172.16.1.1:0").await.unwrap();
        let ours = client(&world).udp("172.16.2.1:0").await.unwrap();
        let (from, to) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        let mut bytes = [0; 4];
        let nothing = theirs.try_recv_from(&mut bytes).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        for datagram in [&b"longer than four"[..], b"", b"three"] {
            ours.try_send_to(datagram, to).unwrap();
        }
        assert_eq!(theirs.peek_from(&mut bytes).await.unwrap(), (4, from));
        assert_eq!(theirs.recv_from(&mut bytes).await.unwrap(), (4, from));
        assert_eq!(&bytes, b"long");
        assert_eq!(theirs.recv_from(&mut bytes).await.unwrap(), (0, from), "an empty datagram");
        let mut room = [0; 10];
        let mut buf = ReadBuf::new(&mut room);
        let polled = std::future::poll_fn(|cx| theirs.poll_recv_from(cx, &mut buf)).await;
        assert_eq!((polled.unwrap(), buf.filled()), (from, &b"three"[..]));
        assert_eq!(errno(ours.send(b"x").await), Some(libc::EDESTADDRREQ));
        assert_eq!(errno(ours.send_to(&[0; 70_000], to).await), Some(libc::EMSGSIZE));
    });
}

#[test]
fn nobody_at_a_port_is_told_as_linux_tells_it() {
    let world = World::new();
    on_threads(0, async {
        let ours = client(&world).udp("172.16.2.1:0").await.unwrap();
        ours.connect("172.16.1.1:9").await.unwrap();
        ours.send(b"anybody").await.unwrap();
        assert_eq!(errno(ours.recv(&mut [0; 4]).await), Some(libc::ECONNREFUSED));
    });
}
