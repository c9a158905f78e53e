//! Several threads of one program at once.

use std::sync::Arc;
use std::time::Duration;

use clearway_client::{EpollEvent, EpollSet, Errno, PollEntry, Target, poll};
use rustix::event::epoll as kernel;
use std::os::fd::AsRawFd;

use crate::guests::*;
use crate::world::World;

const ROUNDS: u32 = 2000;

#[test]
fn eight_threads_with_a_connection_each() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = Arc::new(listener(&server, "172.16.1.1:80"));
    std::thread::scope(|scope| {
        for number in 0..8u32 {
            let (client, listener) = (client.clone(), listener.clone());
            let at = listener.local();
            scope.spawn(move || {
                let theirs = accept(&listener);
                loop {
                    let bytes = recv(&theirs, 64, 0).unwrap();
                    if bytes.is_empty() {
                        break;
                    }
                    send_all(&theirs, &bytes);
                }
            });
            scope.spawn(move || {
                let ours = connect(&client, at);
                for round in 0..ROUNDS {
                    let bytes = (u64::from(number) << 32 | u64::from(round)).to_ne_bytes();
                    send_all(&ours, &bytes);
                    assert_eq!(recv_all(&ours, 8), bytes);
                }
            });
        }
    });
}

/// How often this thread has slept.
fn times_asleep() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("Linux tells").trim().parse().expect("a number")
}

#[test]
fn of_threads_that_are_blocked_in_accept_one_is_woken_for_each_connection() {
    const THREADS: u64 = 16;
    const CONNECTIONS: u64 = 100;
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = Arc::new(listener(&server, "172.16.1.1:80"));
    let serve = |listener: Arc<Own>| {
        let mut accepted = 0;
        let before = times_asleep();
        while let Ok((socket, session_fd, _)) = listener.accept() {
            send_all(&socket, b"x");
            accepted += 1;
            drop((socket, session_fd));
        }
        (accepted, times_asleep() - before)
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let listener = listener.clone();
            std::thread::spawn(move || serve(listener))
        })
        .collect();
    for _ in 0..CONNECTIONS {
        let ours = connect(&client, listener.local());
        assert_eq!(recv_all(&ours, 1), b"x");
    }
    listener.shutdown(clearway_client::How::Read).unwrap();
    let served: Vec<(u64, u64)> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(served.iter().map(|(accepted, _)| accepted).sum::<u64>(), CONNECTIONS);
    let asleep: u64 = served.iter().map(|(_, asleep)| asleep).sum();
    assert!(asleep < CONNECTIONS * THREADS / 2, "all were woken for each: {served:?}");
}

#[test]
fn as_many_threads_come_out_of_accept_as_there_are_connections() {
    const THREADS: usize = 8;
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = Arc::new(listener(&server, "172.16.1.1:80"));
    for _ in 0..30 {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| accept(&listener))).collect();
            let ours: Vec<_> = (0..THREADS).map(|_| connect(&client, listener.local())).collect();
            let theirs: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!((ours.len(), theirs.len()), (THREADS, THREADS));
        });
    }
}

#[test]
fn one_sends_and_another_receives_on_one_socket() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let total = 8 << 20;
    let echo = std::thread::spawn(move || {
        let mut at = 0;
        while at < total {
            let bytes = recv(&theirs, 100_000, 0).unwrap();
            send_all(&theirs, &bytes);
            at += bytes.len();
        }
    });
    let socket = ours.socket.clone();
    let sender = std::thread::spawn(move || {
        let mut at = 0;
        while at < total {
            send_all(&socket, &pattern(at as u64, 1 << 16));
            at += 1 << 16;
        }
    });
    let mut at = 0;
    while at < total {
        let bytes = recv(&ours, 1 << 17, 0).unwrap();
        assert!(bytes == pattern(at as u64, bytes.len()));
        at += bytes.len();
    }
    sender.join().unwrap();
    echo.join().unwrap();
}

#[test]
fn closing_from_another_thread_waits_for_who_is_inside() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    let inside = theirs.socket.clone();
    let reader = std::thread::spawn(move || recv(&inside, 10, 0));
    std::thread::sleep(Duration::from_millis(20));
    // As close does it when another thread is inside a call.
    theirs.hold(std::os::fd::AsFd::as_fd(&theirs.session_fd));
    drop(theirs);
    send_all(&ours, b"still here");
    assert_eq!(reader.join().unwrap().unwrap(), b"still here");
    assert_eq!(recv(&ours, 1, 0).unwrap(), b"", "the last one out closes");
}

#[test]
fn shutting_down_wakes_who_reads() {
    let world = World::new();
    let (ours, _theirs) = pair(&world);
    let socket = ours.socket.clone();
    let reader = std::thread::spawn(move || recv(&socket, 10, 0));
    std::thread::sleep(Duration::from_millis(20));
    ours.shutdown(clearway_client::How::Read).unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), b"");
}

#[test]
fn threads_share_a_set_and_nothing_is_lost() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(&server, epfd.as_raw_fd()).unwrap();
    let pairs: Vec<_> = (0..16u64)
        .map(|data| {
            let (ours, theirs) = (connect(&client, listener.local()), accept(&listener));
            let events = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLONESHOT) as u32;
            set.add(theirs.session_fd.as_raw_fd(), &theirs.socket, EpollEvent { events, data })
                .unwrap();
            (ours, theirs)
        })
        .collect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut out = [EpollEvent::default(); 4];
                    let limit = Some(Duration::from_millis(50));
                    let filled = match set.wait(epfd.as_raw_fd(), &mut out, limit, None) {
                        // A child of another test has ended.
                        Err(Errno::INTR) => 0,
                        filled => filled.unwrap(),
                    };
                    for event in &out[..filled] {
                        let theirs = &pairs[{ event.data } as usize].1;
                        while let Ok(bytes) = recv(theirs, 8, libc::MSG_DONTWAIT) {
                            send_all(theirs, &bytes);
                        }
                        set.modify(
                            theirs.session_fd.as_raw_fd(),
                            EpollEvent {
                                events: (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLONESHOT) as u32,
                                data: event.data,
                            },
                        )
                        .unwrap();
                    }
                }
            });
        }
        let senders: Vec<_> = pairs
            .iter()
            .map(|(ours, _)| {
                scope.spawn(move || {
                    for round in 0..500u64 {
                        send_all(ours, &round.to_ne_bytes());
                        assert_eq!(recv_all(ours, 8), round.to_ne_bytes());
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn polling_threads_do_not_take_each_others_wake_ups() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (ours, theirs) = (connect(&client, listener.local()), accept(&listener));
            let server = &server;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut entries = [PollEntry {
                        target: Target::Ours(&theirs),
                        events: libc::POLLIN as u16,
                        found: 0,
                    }];
                    assert_eq!(poll(server, &mut entries, None, None), Ok(1));
                    let bytes = recv(&theirs, 8, libc::MSG_DONTWAIT).unwrap();
                    send_all(&theirs, &bytes);
                }
            });
            scope.spawn(move || {
                for round in 0..u64::from(ROUNDS) {
                    send_all(&ours, &round.to_ne_bytes());
                    assert_eq!(recv_all(&ours, 8), round.to_ne_bytes());
                }
            });
        }
    });
}
