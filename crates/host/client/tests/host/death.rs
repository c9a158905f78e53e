//! What a program sees of a host that goes, that comes again, and that refuses.

use std::time::Duration;

use clearway_client::{AttachError, Client, Errno, Kind, PollEntry, SocketOptions, Target, poll};

use crate::guests::*;
use crate::world::World;

#[test]
fn a_wrong_secret_is_refused_in_words() {
    let world = World::new();
    let refused = |namespace, secret| match Client::attach(config(&world, namespace, secret)) {
        Err(AttachError::Refused { errno, why, .. }) => (errno, why),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("let in"),
    };
    let (errno, why) = refused("server", "12345");
    assert!(errno == Errno(libc::EACCES) || errno == Errno(libc::EPERM), "{errno}");
    assert!(!why.contains("1234"), "no secret is shown: {why}");
    refused("nobody", "1234");
}

#[test]
fn no_host_is_said_with_its_place() {
    let config = clearway_client::AppConfig {
        socket: Some("/nonexistent/host.sock".into()),
        ..clearway_client::AppConfig::default()
    };
    let error = Client::attach(config).err().expect("nobody is there");
    assert!(error.to_string().starts_with("no host at /nonexistent/host.sock: ENOENT"), "{error}");
}

#[test]
fn whoever_waits_is_told_when_the_host_goes() {
    let mut world = World::new();
    let (ours, theirs) = pair(&world);
    let client = ours.client().clone();
    assert!(client.serves_remote("172.16.1.1:80".parse().unwrap()));
    send_all(&theirs, b"before the end");
    while ours.readable_bytes() < 14 {
        std::thread::yield_now();
    }
    // A listener that nobody comes to.
    let idle = listener(&client, "172.16.2.1:99");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| recv(&theirs, 1, 0));
        let poller = scope.spawn(|| {
            let events = libc::POLLIN as u16;
            let mut entries = [PollEntry { target: Target::Ours(&idle), events, found: 0 }];
            let ready = poll(&client, &mut entries, None, None);
            (ready, entries[0].found)
        });
        std::thread::sleep(Duration::from_millis(50));
        world.stop().unwrap();
        assert_eq!(reader.join().unwrap(), Err(Errno::CONNRESET));
        let (ready, found) = poller.join().unwrap();
        assert_eq!(ready, Ok(1));
        assert_eq!(found, libc::POLLIN as u16);
    });
    // As a connection that went before it was accepted, and once: nothing more is ready, and
    // nothing can be accepted.
    assert_eq!(idle.accept().err(), Some(Errno::CONNABORTED));
    idle.set_flag(clearway_client::flags::NONBLOCK, true);
    assert_eq!(idle.accept().err(), Some(Errno::AGAIN));
    assert_eq!(idle.readiness(), 0);
    assert_eq!(recv(&theirs, 1, 0).unwrap(), b"", "the error is told once");
    assert_eq!(send(&theirs, b"x"), Err(Errno::PIPE));
    assert_eq!(recv(&ours, 20, 0).unwrap(), b"before the end", "what was there can be read");
    assert_eq!(recv(&ours, 20, 0), Err(Errno::CONNRESET));
    assert!(client.open(Kind::Stream, false, &SocketOptions::default()).is_err());
    assert!(
        client.serves_remote("172.16.1.1:80".parse().unwrap()),
        "an address stays Clearway's without its host"
    );
}

#[test]
fn who_only_polls_learns_it_too() {
    let mut world = World::new();
    let (ours, _theirs) = pair(&world);
    world.stop().unwrap();
    let mut tries = 0;
    loop {
        match recv(&ours, 1, libc::MSG_DONTWAIT) {
            Err(Errno::AGAIN) if tries < 100 => std::thread::sleep(Duration::from_millis(5)),
            other => break assert_eq!(other, Err(Errno::CONNRESET)),
        }
        tries += 1;
    }
}
