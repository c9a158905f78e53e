//! Cut-through: bytes of two programs that both ask for it go round the stack, and everything else
//! is as with the stack between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clearway_base::Rng;
use clearway_engine::App;
use clearway_host::Worker;
use clearway_shm::attach_socket::Request;
use clearway_shm::layout::{flags, request, state};
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, hello};
use crate::minute::StillHost;
use crate::world::World;

fn guest(world: &World, namespace: &str, cut_through: bool) -> Guest {
    let secret = if namespace == "server" { "1234" } else { "5678" };
    let mut hello = hello(namespace, Some(secret));
    hello.cut_through = cut_through;
    Guest::attach(&world.attach_socket(), hello).unwrap()
}

/// Both programs, and a connection between them: server, its socket, client, its socket.
struct Pair {
    server: Guest,
    theirs: Sock,
    client: Guest,
    ours: Sock,
}

fn pair(world: &World, asks: (bool, bool)) -> Pair {
    let (server, client) = (guest(world, "server", asks.0), guest(world, "client", asks.1));
    let mut listener = server.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    let theirs = server.accept(&mut listener);
    Pair { server, theirs, client, ours }
}

fn passed(world: &World) -> u64 {
    world.host.ask(0, |worker: &mut Worker| worker.sessions().report().passed).unwrap()
}

fn data_segments(world: &World) -> u64 {
    world.host.ask(0, |worker: &mut Worker| worker.stack().counters().tcp.segs_in).unwrap()
}

fn pattern(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

/// `len` bytes from one to the other, both at work at once, each byte checked.
fn transfer(from: (&Guest, &mut Sock), to: (&Guest, &mut Sock), len: usize) {
    let bytes: Vec<u8> = (0..len).map(pattern).collect();
    let ((writer, tx), (reader, rx)) = (from, to);
    let mut seen = vec![0; len];
    let (mut sent, mut got) = (0, 0);
    while got < len {
        sent += writer.write_some(tx, &bytes[sent..]);
        let most = seen.len().min(got + 100_000);
        let n = reader.read(rx, &mut seen[got..most]);
        assert!(n > 0, "the stream ended after {got} of {len} bytes");
        got += n;
    }
    assert!(seen == bytes, "bytes changed on the way");
}

/// Writes until both FIFOs of a direction are full, 256 KiB each; what was written.
fn fill(writer: &Guest, sock: &mut Sock) -> Vec<u8> {
    let bytes: Vec<u8> = (0..512 << 10).map(pattern).collect();
    let mut sent = 0;
    eventually("both FIFOs are full", || {
        sent += writer.write_some(sock, &bytes[sent..]);
        sent == bytes.len()
    });
    bytes
}

#[test]
fn bytes_go_round_the_stack_when_both_ask_for_it() {
    let world = World::new();
    let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
    let before = data_segments(&world);
    for len in [1, 1_000, 300_000, 5_000_001] {
        transfer((&client, &mut ours), (&server, &mut theirs), len);
        transfer((&server, &mut theirs), (&client, &mut ours), len);
    }
    assert_eq!(passed(&world), 2 * 5_301_002);
    // The end of the handshake at most.
    assert!(data_segments(&world) <= before + 2, "segments came though nothing was to be carried");
    client.say(&ours.session, request::SHUT_WRITE, 0);
    assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
    assert_ne!(theirs.state() & state::PEER_CLOSED, 0);
    // The other direction is open still, and is closed by the end of its holder.
    transfer((&server, &mut theirs), (&client, &mut ours), 100_000);
    drop(theirs);
    assert_eq!(client.read(&mut ours, &mut [0; 10]), 0);
    drop((ours, server, client));
    world.wait_until_empty();
}

#[test]
fn one_who_did_not_ask_has_the_stack_between() {
    for asks in [(true, false), (false, true), (false, false)] {
        let world = World::new();
        let Pair { server, mut theirs, client, mut ours } = pair(&world, asks);
        transfer((&client, &mut ours), (&server, &mut theirs), 100_000);
        transfer((&server, &mut theirs), (&client, &mut ours), 100_000);
        assert_eq!(passed(&world), 0, "{asks:?}");
    }
}

#[test]
fn what_was_written_before_the_end_comes_whole() {
    let world = World::new();
    // Both FIFOs full, and the writer is gone before anybody reads: by close, and by shutdown and
    // close.
    for shut in [false, true] {
        let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
        let bytes = fill(&client, &mut ours);
        if shut {
            client.say(&ours.session, request::SHUT_WRITE, 0);
        }
        drop((ours, client));
        let mut seen = vec![0; bytes.len()];
        assert!(server.read_all(&mut theirs, &mut seen));
        assert!(seen == bytes);
        assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
        assert_eq!(theirs.state() & state::FAILED, 0);
        assert_eq!(passed(&world), bytes.len() as u64 * (1 + u64::from(shut)));
        drop((theirs, server));
        world.wait_until_empty();
    }
}

#[test]
fn a_shutdown_that_is_read_behind_the_close_keeps_nothing_alive() {
    let world = World::new();
    let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
    let bytes = fill(&client, &mut ours);
    let session_fds = || world.host.counts().unwrap().session_fds;
    let before = session_fds();
    ours.session_fd = None;
    eventually("the supervisor has told the worker", || session_fds() < before);
    client.say(&ours.session, request::SHUT_WRITE, 0);
    let mut seen = vec![0; bytes.len()];
    assert!(server.read_all(&mut theirs, &mut seen) && seen == bytes);
    assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
    drop((theirs, server, ours, client));
    world.wait_until_empty();
}

#[test]
fn unread_bytes_and_writing_to_nobody_make_a_reset() {
    let world = World::new();
    let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
    assert!(client.write_all(&mut ours, b"nobody reads this"));
    let rx = theirs.rx.as_mut().unwrap();
    server.wait_for(|| rx.len().unwrap() > 0);
    drop((theirs, server));
    client.wait_for(|| ours.state() & state::FAILED != 0);
    assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    drop((ours, client));
    world.wait_until_empty();
    // A side that has closed in peace and is written to.
    let Pair { server, theirs, client, mut ours } = pair(&world, (true, true));
    drop(theirs);
    client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
    client.write_some(&mut ours, b"anybody?");
    client.wait_for(|| ours.state() & state::FAILED != 0);
    // One whose bytes wait for their reader, and who is written to meanwhile.
    let mut listener = server.listener("172.16.1.1:81");
    let mut ours = client.connect("172.16.1.1:81").unwrap();
    let mut theirs = server.accept(&mut listener);
    fill(&client, &mut ours);
    drop(ours);
    server.write_some(&mut theirs, b"too late");
    server.wait_for(|| theirs.state() & state::FAILED != 0);
}

/// Who has shut both sides and keeps the socket reads nothing that comes afterwards.
#[test]
fn what_comes_to_one_that_is_shut_on_both_sides_makes_a_reset() {
    for asks in [(true, true), (false, false)] {
        let world = World::new();
        let Pair { server, mut theirs, client, mut ours } = pair(&world, asks);
        assert!(client.write_all(&mut ours, b"before"));
        let rx = theirs.rx.as_mut().unwrap();
        server.wait_for(|| rx.len().unwrap() == 6);
        theirs.head.flags.fetch_or(flags::SHUT_READ | flags::SHUT_WRITE, Ordering::AcqRel);
        server.say(&theirs.session, request::SHUT_READ, 0);
        server.say(&theirs.session, request::SHUT_WRITE, 0);
        client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
        client.write_some(&mut ours, b"too late");
        client.wait_for(|| ours.state() & state::FAILED != 0);
        server.wait_for(|| theirs.state() & state::FAILED != 0);
        assert_eq!((ours.error(), theirs.error()), (Errno::EPIPE as i32, Errno::ECONNRESET as i32));
        // What came before may still be read, and nothing of what came later.
        assert_eq!(theirs.rx.as_mut().unwrap().len().unwrap(), 6, "{asks:?}");
        drop((ours, theirs, client, server));
        world.wait_until_empty();
    }
}

#[test]
fn an_urgent_mark_stays_within_reach_of_the_reader() {
    let world = World::new();
    for asks in [(true, true), (false, false)] {
        let Pair { server, mut theirs, client, mut ours } = pair(&world, asks);
        let session = ours.session.id;
        let most = ours.session.tx.unwrap().limit;
        for ahead in [most + 1, 1 << 31, u32::MAX] {
            let refused = client.ask(Request::Urgent { session, ahead }).expect_err("refused");
            assert_eq!(refused.0, Errno::EINVAL as i32, "{}", refused.1);
        }
        client.ask(Request::Urgent { session, ahead: most }).unwrap();
        transfer((&client, &mut ours), (&server, &mut theirs), 100_000);
    }
}

#[test]
fn a_killed_program_leaves_its_last_bytes_and_nothing_else() {
    let world = World::new();
    for round in 0..50 {
        let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
        let mut sent = 0;
        for _ in 0..round {
            sent += client.write_some(&mut ours, &vec![round as u8; 10_000]);
        }
        // All descriptors of the program are closed at once, in whatever order.
        drop((client, ours));
        let mut seen = vec![0; sent];
        assert!(server.read_all(&mut theirs, &mut seen), "round {round}");
        assert!(seen.iter().all(|byte| *byte == round as u8));
        assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
    }
    world.wait_until_empty();
}

#[test]
fn who_lies_is_cut_off_and_the_other_end_is_reset() {
    let world = World::new();
    for liar_is_writer in [true, false] {
        let Pair { server, mut theirs, client, mut ours } = pair(&world, (true, true));
        transfer((&client, &mut ours), (&server, &mut theirs), 10_000);
        if liar_is_writer {
            ours.tx.as_ref().unwrap().mem().head().tail.store(1 << 30, Ordering::Release);
            client.say(&ours.session, request::WROTE, 0);
        } else {
            ours.rx.as_ref().unwrap().mem().head().head.store(1 << 30, Ordering::Release);
            server.write_some(&mut theirs, b"honest");
        }
        assert!(client.is_alone(), "the liar is still served");
        assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
        assert_eq!(theirs.error(), Errno::ECONNRESET as i32);
        // The honest one goes on with others.
        let mut listener = server.listener("172.16.1.1:90");
        let other = guest(&world, "client", true);
        let mut ours = other.connect("172.16.1.1:90").unwrap();
        let mut theirs = server.accept(&mut listener);
        transfer((&other, &mut ours), (&server, &mut theirs), 10_000);
    }
    assert_eq!(world.host.counts().unwrap().cut_off, 2);
    world.wait_until_empty();
}

#[test]
fn many_connections_of_several_workers_find_their_other_ends() {
    let world = World::with(|setup| setup.workers = vec![None, None]);
    let (server, client) = (guest(&world, "server", true), guest(&world, "client", true));
    let mut listener = server.listener("0.0.0.0:80");
    let mut pairs: Vec<_> = (0..20)
        .map(|_| {
            let ours = client.connect("172.16.1.1:80").unwrap();
            (ours, server.accept(&mut listener))
        })
        .collect();
    for (ours, theirs) in &mut pairs {
        transfer((&client, ours), (&server, theirs), 70_000);
    }
    let all = || {
        let count = |worker: &mut Worker| worker.sessions().report().passed;
        world.host.ask_all(count).unwrap().iter().sum::<u64>()
    };
    assert_eq!(all(), 20 * 70_000);
    drop((pairs, listener, server, client));
    let sessions =
        || world.host.ask_all(|worker| worker.sessions().count()).unwrap().iter().sum::<u32>();
    eventually("all sessions are gone", || sessions() == 0);
}

/// Sizes of this transfer's writes and reads.
struct Sizes {
    rng: Rng,
    most: u64,
}

impl Sizes {
    fn next(&mut self) -> usize {
        1 + self.rng.below(self.most) as usize
    }
}

/// Writer and reader sleep whenever they have nothing to do, and a time that stands still ends no
/// sleep: what goes on goes on because somebody was told. Only the last bytes may wait for time, for
/// nobody knows that no more follow.
#[test]
fn a_transfer_past_the_stack_goes_on_though_time_stands_still() {
    const LEN: usize = 6 << 20;
    for (seed, writes, reads) in
        [(1, 200_000, 200_000), (2, 3_000_000, 50_000), (3, 30_000, 2_000_000), (4, 70_000, 70_000)]
    {
        let host = StillHost::new(&format!("past-{seed}"));
        let ([server, client], [_listener, mut theirs, mut ours]) = host.joined_past_the_stack();
        let writer = std::thread::spawn(move || {
            let mut sizes = Sizes { rng: Rng::seed(seed), most: writes };
            let mut sent = 0;
            while sent < LEN {
                let bytes: Vec<u8> = (sent..LEN.min(sent + sizes.next())).map(pattern).collect();
                assert!(client.write_all(&mut ours, &bytes), "stands still at {sent}");
                sent += bytes.len();
            }
            (client, ours)
        });
        let reader = std::thread::spawn(move || {
            let mut sizes = Sizes { rng: Rng::seed(seed + 100), most: reads };
            let (mut got, mut out) = (0, vec![0; reads as usize]);
            while got < LEN {
                let most = sizes.next().min(LEN - got);
                let n = server.read(&mut theirs, &mut out[..most]);
                assert!(n > 0, "stands still at {got}");
                assert!(out[..n].iter().enumerate().all(|(at, byte)| *byte == pattern(got + at)));
                got += n;
            }
        });
        let ends = writer.join().expect("the writer goes on");
        while !reader.is_finished() {
            host.tick(clearway_base::Duration::from_micros(50));
            std::thread::sleep(Duration::from_millis(1));
        }
        reader.join().expect("the reader goes on");
        drop(ends);
    }
}
