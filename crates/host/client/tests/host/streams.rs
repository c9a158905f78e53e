//! Streams: what calls return, and what ends a connection.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use clearway_client::{Client, Errno, How, Kind, SocketOptions};

use crate::guests::*;
use crate::world::World;

#[test]
fn a_connection_that_is_closed_as_soon_as_it_was_accepted_ends_for_its_peer() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    // Enough for session fds ahead of need: then nobody is asked, and nobody is woken for the
    // claim.
    for _ in 0..40 {
        let ours = connect(&client, listener.local());
        drop(accept(&listener));
        // The server does nothing more.
        assert_eq!(recv(&ours, 1, 0).unwrap(), b"");
    }
}

#[test]
fn bytes_come_back() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    assert_eq!(ours.local(), theirs.remote().unwrap());
    assert_eq!(ours.remote().unwrap(), theirs.local());
    for len in [1, 100, 65_536, 200_000] {
        let bytes = pattern(len as u64, len);
        send_all(&ours, &bytes);
        let seen = recv_all(&theirs, len);
        assert!(seen == bytes);
        send_all(&theirs, &seen);
        assert!(recv_all(&ours, len) == bytes);
    }
}

#[test]
fn more_than_the_fifos_hold() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let total = 32 << 20;
    let reader = std::thread::spawn(move || {
        let mut at = 0;
        loop {
            let bytes = recv(&theirs, 100_000, 0).unwrap();
            if bytes.is_empty() {
                return at;
            }
            assert!(bytes == pattern(at, bytes.len()), "at {at}");
            at += bytes.len() as u64;
        }
    });
    let mut at = 0;
    while at < total {
        let bytes = pattern(at, 3 << 20);
        assert_eq!(send(&ours, &bytes), Ok(bytes.len()), "a blocking send takes all");
        at += bytes.len() as u64;
    }
    drop(ours);
    assert_eq!(reader.join().unwrap(), at);
}

/// A file of these bytes, which nobody else can open any more.
fn file_of(bytes: &[u8]) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("clearway-file-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

#[test]
fn a_file_is_sent_whole_and_what_is_not_there_is_not_waited_for() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let bytes = pattern(3, 5_000_000);
    let file = file_of(&bytes);
    let fd = file.as_raw_fd();
    let reader = {
        let wanted = bytes.len() - 1_000 + 700;
        std::thread::spawn(move || (recv_all(&theirs, wanted), theirs))
    };
    // More than the file has, and more than the FIFO takes at once.
    assert_eq!(ours.send_file(fd, 1_000, 8_000_000), Ok(bytes.len() - 1_000));
    assert_eq!(ours.send_file(fd, 0, 700), Ok(700));
    let (seen, theirs) = reader.join().unwrap();
    assert!(seen[..seen.len() - 700] == bytes[1_000..] && seen[seen.len() - 700..] == bytes[..700]);
    assert_eq!(ours.send_file(fd, 5_000_000, 10), Ok(0));
    assert_eq!(ours.send_file(fd, 0, 0), Ok(0));
    assert_eq!(ours.send_file(-1, 0, 10), Err(Errno(libc::EBADF)));
    // A file that ends where more was announced: its last bytes arrive all the same.
    ours.set_flag(clearway_client::flags::NONBLOCK, true);
    let sent = ours.send_file(fd, 0, 8_000_000).unwrap();
    assert!((1..5_000_000).contains(&sent), "only what there is room for: {sent}");
    assert!(recv_all(&theirs, sent) == bytes[..sent]);
    ours.set_flag(clearway_client::flags::NONBLOCK, false);
    let end = bytes.len() as u64 - 128 * 1024;
    assert_eq!(ours.send_file(fd, end, 8_000_000), Ok(128 * 1024));
    assert!(recv_all(&theirs, 128 * 1024) == bytes[end as usize..]);
}

#[test]
fn parts_are_gathered_and_scattered() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let parts =
        [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two "), IoSlice::new(b"three")];
    assert_eq!(ours.send(&parts, 0), Ok(13));
    let (mut first, mut second) = ([0; 6], [0; 7]);
    let received = theirs
        .recv(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)], libc::MSG_WAITALL);
    assert_eq!(received.unwrap().len, 13);
    assert_eq!((&first, &second), (b"one tw", b"o three"));
}

#[test]
fn peeking_takes_nothing() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    send_all(&ours, b"look");
    assert_eq!(recv(&theirs, 2, libc::MSG_PEEK).unwrap(), b"lo");
    assert_eq!(recv(&theirs, 10, libc::MSG_PEEK).unwrap(), b"look");
    assert_eq!(theirs.readable_bytes(), 4);
    assert_eq!(recv(&theirs, 10, 0).unwrap(), b"look");
    assert_eq!(theirs.readable_bytes(), 0);
}

#[test]
fn truncating_throws_away() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    send_all(&ours, b"forget this, keep that");
    let mut untouched = [7; 13];
    let received = theirs
        .recv(&mut [IoSliceMut::new(&mut untouched)], libc::MSG_TRUNC | libc::MSG_WAITALL)
        .unwrap();
    assert_eq!((received.len, untouched), (13, [7; 13]));
    assert_eq!(recv(&theirs, 20, 0).unwrap(), b"keep that");
}

#[test]
fn nothing_there_is_eagain_for_who_does_not_block() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    assert_eq!(recv(&ours, 1, libc::MSG_DONTWAIT), Err(Errno::AGAIN));
    nonblocking(&ours);
    assert_eq!(recv(&ours, 1, 0), Err(Errno::AGAIN));
    let bytes = pattern(0, 1 << 20);
    let mut sent = 0;
    // Until both FIFOs are full.
    while let Ok(len) = send(&ours, &bytes) {
        sent += len;
    }
    assert_eq!(send(&ours, &bytes), Err(Errno::AGAIN));
    let mut read = 0;
    while read < sent {
        read += recv(&theirs, 1 << 20, 0).unwrap().len();
    }
    assert_eq!(recv(&theirs, 1, libc::MSG_DONTWAIT), Err(Errno::AGAIN));
}

#[test]
fn timeouts_end_calls() {
    let world = World::new();
    let (ours, _theirs) = pair(&world);
    ours.set_receive_timeout(Some(Duration::from_millis(5)));
    ours.set_send_timeout(Some(Duration::from_millis(5)));
    assert_eq!(ours.timeouts(), (Some(Duration::from_millis(5)), Some(Duration::from_millis(5))));
    assert_eq!(recv(&ours, 1, 0), Err(Errno::AGAIN));
    let bytes = pattern(0, 4 << 20);
    let mut sent = send(&ours, &bytes).expect("what fits is sent");
    // A host that is kept waiting moves bytes on after the time is over, and then there is room
    // again: as often as the FIFOs of both ends are filled.
    let ended = loop {
        assert!(sent < bytes.len(), "nobody reads");
        match send(&ours, &bytes) {
            Ok(more) => sent += more,
            Err(errno) => break errno,
        }
    };
    assert_eq!(ended, Errno::AGAIN);
}

#[test]
fn a_listener_waits_no_longer_than_it_was_told() {
    let world = World::new();
    let listener = listener(&server(&world), "172.16.1.1:7");
    assert!(listener.is_listener());
    listener.set_receive_timeout(Some(Duration::from_millis(5)));
    assert_eq!(listener.accept().err(), Some(Errno::AGAIN));
    nonblocking(&listener);
    assert_eq!(listener.accept().err(), Some(Errno::AGAIN));
}

#[test]
fn shutting_down_ends_one_direction() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    send_all(&ours, b"last words");
    ours.shutdown(How::Write).unwrap();
    assert_eq!(send(&ours, b"more"), Err(Errno::PIPE));
    assert_eq!(recv_all(&theirs, 10), b"last words");
    assert_eq!(recv(&theirs, 10, 0).unwrap(), b"");
    send_all(&theirs, b"answer");
    assert_eq!(recv_all(&ours, 6), b"answer");
    ours.shutdown(How::Read).unwrap();
    assert_eq!(recv(&ours, 1, 0).unwrap(), b"");
}

#[test]
fn bytes_written_before_close_arrive() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let bytes = pattern(0, 150_000);
    send_all(&ours, &bytes);
    drop(ours);
    assert!(recv_all(&theirs, bytes.len()) == bytes);
    assert_eq!(recv(&theirs, 1, 0).unwrap(), b"");
}

#[test]
fn closing_with_unread_bytes_resets() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    send_all(&ours, b"never read");
    while theirs.readable_bytes() < 10 {
        std::thread::yield_now();
    }
    drop(theirs);
    assert_eq!(recv(&ours, 1, 0), Err(Errno::CONNRESET));
    assert_eq!(recv(&ours, 1, 0).unwrap(), b"", "the error is told once");
    assert_eq!(send(&ours, b"x"), Err(Errno::PIPE));
}

#[test]
fn a_port_without_listener_refuses() {
    let world = World::new();
    let ours = open(&client(&world), Kind::Stream);
    assert_eq!(ours.connect(Some("172.16.1.1:9".parse().unwrap())), Err(Errno::CONNREFUSED));
    assert_eq!(ours.take_error(), None);
}

#[test]
fn a_socket_that_was_refused_may_try_again() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let ours = open(&client, Kind::Stream);
    assert_eq!(ours.connect(Some("172.16.1.1:9".parse().unwrap())), Err(Errno::CONNREFUSED));
    let listener = listener(&server, "172.16.1.1:9");
    ours.connect(Some(listener.local())).unwrap();
    let theirs = accept(&listener);
    send_all(&ours, b"at last");
    assert_eq!(recv_all(&theirs, 7), b"at last");
    send_all(&theirs, b"indeed");
    assert_eq!(recv_all(&ours, 6), b"indeed");
}

#[test]
fn connecting_without_blocking() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    let ours = open(&client, Kind::Stream);
    nonblocking(&ours);
    assert_eq!(ours.connect(Some(listener.local())), Err(Errno::INPROGRESS));
    let _theirs = accept(&listener);
    while ours.readiness() & libc::POLLOUT as u32 == 0 {
        std::thread::yield_now();
    }
    assert_eq!(ours.take_error(), None);
    assert_eq!(
        ours.connect(Some(listener.local())),
        Ok(()),
        "the first to ask again learns that it is done"
    );
    assert_eq!(ours.connect(Some(listener.local())), Err(Errno::ISCONN));

    let refused = open(&client, Kind::Stream);
    nonblocking(&refused);
    assert_eq!(refused.connect(Some("172.16.1.1:9".parse().unwrap())), Err(Errno::INPROGRESS));
    while refused.readiness() & libc::POLLHUP as u32 == 0 {
        std::thread::yield_now();
    }
    assert_eq!(refused.take_error(), Some(Errno::CONNREFUSED));
}

#[test]
fn what_is_not_connected_says_so() {
    let world = World::new();
    let client = client(&world);
    let fresh = open(&client, Kind::Stream);
    assert_eq!(recv(&fresh, 1, 0), Err(Errno::NOTCONN));
    assert_eq!(send(&fresh, b"x"), Err(Errno::PIPE));
    assert_eq!(fresh.accept().err(), Some(Errno::INVAL));
    assert_eq!(fresh.remote(), None);
    assert_eq!(fresh.local(), "0.0.0.0:0".parse().unwrap());
    let closed = (libc::POLLOUT | libc::POLLWRNORM | libc::POLLHUP) as u32;
    assert_eq!(fresh.readiness(), closed);
    // An error, and done all the same, as on Linux.
    assert_eq!(fresh.shutdown(How::Both), Err(Errno::NOTCONN));
    assert_eq!(
        fresh.readiness(),
        closed | (libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP) as u32
    );
}

#[test]
fn addresses_that_are_not_the_namespaces_cannot_be_bound() {
    let world = World::new();
    let ours = open(&client(&world), Kind::Stream);
    assert_eq!(ours.bind("192.0.2.1:80".parse().unwrap()), Err(Errno(libc::EADDRNOTAVAIL)));
}

#[test]
fn what_a_namespace_reaches_follows_its_routes() {
    let world = World::new();
    let client = client(&world);
    let to = |address: &str| address.parse().unwrap();
    assert!(client.serves_local(to("172.16.2.1:0")));
    assert!(!client.serves_local(to("172.16.1.1:0")));
    assert!(client.serves_remote(to("172.16.1.1:80")));
    assert!(!client.serves_remote(to("127.0.0.1:80")));
    assert!(!client.serves_remote(to("192.0.2.1:80")));
}

#[test]
fn inner_values_are_told() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let bytes = pattern(0, 100_000);
    send_all(&ours, &bytes);
    recv_all(&theirs, bytes.len());
    while ours.unsent_bytes() > 0 {
        std::thread::yield_now();
    }
    let info = ours.info().unwrap();
    assert_eq!((info.state, info.bytes_acked), (1, 100_000));
    assert!(info.snd_mss > 0 && info.snd_cwnd > 0);
}

#[test]
fn options_of_a_stream_hold_without_a_question() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let asked = || world.host.counts().unwrap().questions;
    let before = asked();
    let set = SocketOptions {
        nodelay: true,
        keepalive: true,
        keep_idle: 60,
        keep_interval: 10,
        linger: Some(7),
        tos: 0x10,
        ..SocketOptions::default()
    };
    for socket in [&ours, &theirs] {
        socket.set_options(&SocketOptions { cork: true, ..set }).unwrap();
        socket.set_options(&set).unwrap();
        socket.set_options(&set).unwrap();
    }
    assert_eq!(asked(), before);
    // Who asks is told of what was said before.
    let inheritor = Client::attach_as_inheritor(config(&world, "", ""), ours.session_fd.as_fd())
        .unwrap()
        .unwrap();
    let inherited = inheritor.inherit_session_fd(ours.session_fd.as_fd()).unwrap().unwrap();
    assert_eq!(inherited.options(), set);
    // What does not fit a message is asked for, behind what did.
    let before = asked();
    let long = SocketOptions { user_timeout: u32::MAX, nodelay: false, ..set };
    theirs.set_options(&long).unwrap();
    assert_eq!(asked(), before + 1);
    // What bounds the next write holds when the call returns, so the answer is waited for.
    for bound in [
        SocketOptions { notsent_lowat: 32_768, ..long },
        SocketOptions { send_buffer: 32_768, ..long },
    ] {
        let before = asked();
        theirs.set_options(&bound).unwrap();
        assert_eq!(asked(), before + 1, "{bound:?}");
    }
}

#[test]
fn a_cork_that_is_taken_off_by_a_message_lets_out_what_it_held() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    ours.set_options(&SocketOptions { cork: true, ..SocketOptions::default() }).unwrap();
    send_all(&ours, b"held");
    ours.set_options(&SocketOptions::default()).unwrap();
    assert_eq!(recv_all(&theirs, 4), b"held");
}

#[test]
fn connections_that_are_closed_by_a_message_make_no_descriptor_and_hardly_a_question() {
    const MANY: u32 = 400;
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    let round = || {
        let (ours, theirs) = (connect(&client, listener.local()), accept(&listener));
        send_all(&theirs, b"answer");
        let closed = theirs.close_by_message(theirs.session_fd.as_fd());
        drop(theirs);
        assert_eq!(recv_all(&ours, 7), b"answer");
        closed & ours.close_by_message(ours.session_fd.as_fd())
    };
    // So many that there are some ahead.
    for _ in 0..100 {
        round();
    }
    let before = world.host.counts().unwrap();
    assert_eq!((0..MANY).filter(|_| round()).count(), MANY as usize);
    let after = world.host.counts().unwrap();
    assert!(
        after.session_fds <= before.session_fds,
        "{} after {}",
        after.session_fds,
        before.session_fds
    );
    // A connect is asked for, and streams by the dozen.
    let asked = after.questions - before.questions;
    assert!(asked <= u64::from(MANY) * 9 / 8, "{asked} questions for {MANY} connections");
    // Many that are open at once, and closed at once.
    let wave = || {
        let pairs: Vec<_> =
            (0..40).map(|_| (connect(&client, listener.local()), accept(&listener))).collect();
        let closed = pairs.iter().flat_map(|(ours, theirs)| [theirs, ours]);
        closed.filter(|socket| socket.close_by_message(socket.session_fd.as_fd())).count()
    };
    for _ in 0..5 {
        assert_eq!(wave(), 80);
    }
    let (ours, theirs) = (connect(&client, listener.local()), accept(&listener));
    for (client, socket) in [(&client, &ours), (&server, &theirs)] {
        // Somebody else may have a copy by now.
        client.session_fds_are_copied();
        assert!(!socket.close_by_message(socket.session_fd.as_fd()));
    }
}

#[test]
fn an_option_that_was_set_right_before_the_close_holds_for_it() {
    let world = World::new();
    for _ in 0..20 {
        let (ours, theirs) = pair(&world);
        theirs.set_options(&SocketOptions { linger: Some(0), ..SocketOptions::default() }).unwrap();
        // Nothing wakes the worker for it but the session fd that hangs up.
        drop(theirs);
        assert_eq!(recv(&ours, 1, 0), Err(Errno::CONNRESET));
    }
}
