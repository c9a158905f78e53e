//! Streams: many tasks, both kinds of runtime, halves, full FIFOs, threads beside tasks.

use std::future::poll_fn;
use std::io::{IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::Poll;

use clearway_client::{Client, Kind, SocketOptions};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};

use crate::guests::*;
use crate::world::World;

/// So many connections at once, each with its own bytes, in both directions at the same time.
async fn exchange(world: &World, connections: u64, len: usize) {
    let listener = server(world).listen("172.16.1.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            tasks.push(tokio::spawn(echo(stream)));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    let net = client(world);
    let tasks: Vec<_> = (0..connections)
        .map(|number| {
            let net = net.clone();
            tokio::spawn(async move {
                let sent = pattern(number * 1_000_003, len);
                let (mut reader, mut writer) = net.connect(to).await.unwrap().into_split();
                let writes = sent.clone();
                let writing = tokio::spawn(async move {
                    writer.write_all(&writes).await.unwrap();
                    // Dropping the half ends writing.
                });
                let mut seen = Vec::new();
                reader.read_to_end(&mut seen).await.unwrap();
                assert!(seen == sent, "connection {number}");
                writing.await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    served.await.unwrap();
}

#[test]
fn many_tasks_get_their_own_bytes_back_on_several_threads() {
    let world = World::new();
    on_threads(3, exchange(&world, 60, 300_000));
}

#[test]
fn many_tasks_get_their_own_bytes_back_on_one_thread() {
    let world = World::new();
    on_threads(0, exchange(&world, 30, 300_000));
}

#[test]
fn small_turns_lose_no_wake_up() {
    let world = World::new();
    on_threads(3, async {
        let listener = server(&world).listen("172.16.1.1:0").await.unwrap();
        let net = client(&world);
        let mut tasks = Vec::new();
        for number in 0..8u8 {
            let (mut ours, theirs) = pair_at(&net, &listener).await;
            ours.set_nodelay(true).unwrap();
            assert!(ours.nodelay().unwrap());
            tasks.push(tokio::spawn(echo(theirs)));
            tasks.push(tokio::spawn(async move {
                let mut back = [0; 3];
                for turn in 0..1_000u16 {
                    let sent = [number, turn as u8, (turn >> 8) as u8];
                    ours.write_all(&sent).await?;
                    ours.read_exact(&mut back).await?;
                    assert_eq!(sent, back);
                }
                Ok(())
            }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn threads_that_block_and_tasks_share_one_client() {
    let world = World::new();
    let server_client = Client::attach(config(&world, "server", "1234")).unwrap();
    let net = clearway_tokio::Net::over(server_client.clone());
    on_threads(2, async {
        let listener = net.listen("172.16.1.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let ours = client(&world);
        // Each of these threads sleeps on the same notifier as the runtime does.
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (client, options) = (server_client.clone(), SocketOptions::default());
                let (listening, session_fd) = client.open(Kind::Stream, false, &options).unwrap();
                listening.bind(format!("172.16.1.1:{}", 4000 + number).parse().unwrap()).unwrap();
                listening.listen(4).unwrap();
                std::thread::spawn(move || {
                    let (socket, session, _) = listening.accept().unwrap();
                    let mut bytes = [0; 100];
                    loop {
                        let got = socket.recv(&mut [IoSliceMut::new(&mut bytes)], 0).unwrap().len;
                        if got == 0 {
                            break;
                        }
                        socket.send(&[IoSlice::new(&bytes[..got])], 0).unwrap();
                    }
                    drop((session, session_fd));
                })
            })
            .collect();
        let mut tasks = Vec::new();
        for number in 0..6u16 {
            let at =
                if number < 3 { format!("172.16.1.1:{}", 4000 + number) } else { to.to_string() };
            let mut stream = ours.connect(at).await.unwrap();
            if number >= 3 {
                tasks.push(tokio::spawn(echo(listener.accept().await.unwrap().0)));
            }
            tasks.push(tokio::spawn(async move {
                let mut back = [0; 2];
                for turn in 0..500u16 {
                    stream.write_all(&turn.to_ne_bytes()).await?;
                    stream.read_exact(&mut back).await?;
                    assert_eq!(turn.to_ne_bytes(), back);
                }
                stream.shutdown().await
            }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let world = World::new();
    on_threads(2, async {
        let (mut ours, mut theirs) = pair(&world).await;
        ours.write_all(b"last words").await.unwrap();
        ours.shutdown().await.unwrap();
        assert_eq!(errno(ours.write(b"more").await), Some(libc::EPIPE));
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"last words");
        // The end stays the end.
        assert_eq!(theirs.read(&mut [0; 4]).await.unwrap(), 0);
        theirs.write_all(b"answer").await.unwrap();
        drop(theirs);
        heard.clear();
        ours.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer");
        ours.shutdown().await.expect("what is over needs no end");
    });
}

#[test]
fn halves_of_one_stream_come_together_again() {
    let world = World::new();
    on_threads(2, async {
        let (ours, mut theirs) = pair(&world).await;
        let (other, _keep) = pair(&world).await;
        let (reader, writer) = ours.into_split();
        let (other_reader, other_writer) = other.into_split();
        let error = reader.reunite(other_writer).unwrap_err();
        assert_eq!(error.to_string(), "the halves are not of one stream");
        drop(other_reader);
        let mut ours = error.0.reunite(writer).unwrap();
        // Nothing was ended by that.
        ours.write_all(b"whole").await.unwrap();
        let mut heard = [0; 5];
        theirs.read_exact(&mut heard).await.unwrap();
        let (mut reading, mut writing) = ours.split();
        theirs.write_all(b"x").await.unwrap();
        assert_eq!(reading.read_u8().await.unwrap(), b'x');
        writing.write_all(b"y").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'y');
    });
}

#[test]
fn a_writer_waits_for_its_reader() {
    let world = World::new();
    on_threads(2, async {
        let (mut ours, mut theirs) = pair(&world).await;
        const TOTAL: usize = 8 << 20;
        let mut sent = 0;
        // Until it would have to wait, with nobody reading. What the host moves on meanwhile makes
        // room again, but both ends' FIFOs are all there is.
        let mut waits = 0;
        while waits < 20 {
            let bytes = pattern(sent as u64, 100_000);
            let wrote = poll_fn(|cx| {
                Poll::Ready(match Pin::new(&mut ours).poll_write(cx, &bytes) {
                    Poll::Ready(wrote) => Some(wrote.unwrap()),
                    Poll::Pending => None,
                })
            })
            .await;
            match wrote {
                Some(len) => sent += len,
                None => {
                    waits += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
            assert!(sent < TOTAL, "nobody reads");
        }
        let writer = tokio::spawn(async move {
            ours.write_all(&pattern(sent as u64, TOTAL - sent)).await.unwrap();
        });
        let mut seen = Vec::new();
        theirs.read_to_end(&mut seen).await.unwrap();
        assert!(seen == pattern(0, TOTAL));
        writer.await.unwrap();
    });
}

#[test]
fn looking_takes_nothing_and_trying_never_waits() {
    let world = World::new();
    on_threads(2, async {
        let (mut ours, mut theirs) = pair(&world).await;
        let mut bytes = [0; 8];
        assert_eq!(ours.try_read(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")];
        assert!(theirs.is_write_vectored());
        assert_eq!(theirs.write_vectored(&parts).await.unwrap(), 7);
        ours.readable().await.unwrap();
        // The parts may come one by one.
        while ours.peek(&mut bytes).await.unwrap() < 7 {
            tokio::task::yield_now().await;
        }
        let ready = ours.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
        assert!(ready.is_readable() && ready.is_writable() && !ready.is_read_closed());
        let (mut left, mut right) = ([0; 4], [0; 3]);
        let mut into = [IoSliceMut::new(&mut left), IoSliceMut::new(&mut right)];
        assert_eq!(ours.try_read_vectored(&mut into).unwrap(), 7);
        assert_eq!((&left, &right), (b"one ", b"two"));
        assert_eq!(ours.try_read(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(ours.peer_addr().unwrap(), theirs.local_addr().unwrap());
        assert_eq!(ours.info().unwrap().bytes_received, 7);
        assert_eq!(ours.linger().unwrap(), None);
        // Reset by the peer.
        theirs.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(theirs);
        assert_eq!(errno(ours.read(&mut bytes).await), Some(libc::ECONNRESET));
    });
}

#[test]
fn several_tasks_accept_from_one_listener() {
    let world = World::new();
    on_threads(3, async {
        let listener = std::sync::Arc::new(server(&world).listen("172.16.1.1:0").await.unwrap());
        let to = listener.local_addr().unwrap();
        let (send, mut accepted) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..5 {
            let (listener, send) = (listener.clone(), send.clone());
            tokio::spawn(async move {
                while let Ok((stream, from)) = listener.accept().await {
                    assert_eq!(stream.peer_addr().unwrap(), from);
                    if send.send((stream, from)).is_err() {
                        return;
                    }
                }
            });
        }
        let net = client(&world);
        let mut ours = std::collections::HashSet::new();
        let mut open = Vec::new();
        for _ in 0..100 {
            let stream = net.connect(to).await.unwrap();
            ours.insert(stream.local_addr().unwrap());
            open.push(stream);
        }
        for _ in 0..100 {
            let (_stream, from) = accepted.recv().await.unwrap();
            assert!(ours.remove(&from), "{from} came twice");
        }
    });
}

#[test]
fn errors_have_the_numbers_of_linux() {
    let world = World::new();
    on_threads(2, async {
        let (server, client) = (server(&world), client(&world));
        assert_eq!(errno(client.connect("172.16.1.1:9").await), Some(libc::ECONNREFUSED));
        assert_eq!(errno(client.connect("192.0.2.1:9").await), Some(libc::ENETUNREACH));
        assert_eq!(errno(server.listen("192.0.2.1:9").await), Some(libc::EADDRNOTAVAIL));
        let listener = server.listen("172.16.1.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(errno(server.listen(at).await), Some(libc::EADDRINUSE));
        drop(listener);
        server.listen(at).await.expect("it is free again");
    });
}
