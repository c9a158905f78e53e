//! Hosts and runtimes that end while tasks wait.

use clearway_tokio::Net;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::guests::*;
use crate::world::World;

#[test]
fn whoever_waits_is_told_when_the_host_goes_and_listeners_come_back() {
    let mut world = World::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (net, ours_net) = (server(&world), client(&world));
    let (mut ours, theirs, listener, datagrams) = runtime.block_on(async {
        let listener = net.listen("172.16.1.1:0").await.unwrap();
        let (ours, mut theirs) = pair_at(&ours_net, &listener).await;
        theirs.write_all(b"before the end").await.unwrap();
        let datagrams = net.udp("172.16.1.1:0").await.unwrap();
        ours.readable().await.unwrap();
        (ours, theirs, std::sync::Arc::new(listener), datagrams)
    });
    let at = listener.local_addr().unwrap();
    let (mut reader, writer) = theirs.into_split();
    let waiting = runtime.spawn(async move { reader.read(&mut [0; 4]).await });
    let accepting = runtime.spawn({
        let listener = listener.clone();
        async move {
            let told = listener.accept().await.map(|_| ());
            // From now on it has nothing to accept, until there is a host again.
            (told, listener.accept().await)
        }
    });
    let receiving = runtime.spawn(async move {
        let told = datagrams.recv(&mut [0; 4]).await;
        (told, datagrams)
    });
    world.stop().unwrap();
    assert_eq!(errno(runtime.block_on(waiting).unwrap()), Some(libc::ECONNRESET));
    drop(writer);
    let (told, datagrams) = runtime.block_on(receiving).unwrap();
    assert!(told.is_err(), "a datagram socket is told once");
    runtime.block_on(async {
        let mut heard = [0; 14];
        ours.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"before the end", "what was there can be read");
        assert_eq!(errno(ours.read(&mut heard).await), Some(libc::ECONNRESET));
        assert_eq!(ours.read(&mut heard).await.unwrap(), 0, "the error is told once");
        assert_eq!(errno(ours.write(b"x").await), Some(libc::EPIPE));
    });
    world.start_again();
    runtime.block_on(async {
        // The new host has no listener before the program found it.
        let mut ours = loop {
            match ours_net.connect(at).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        let (told, again) = accepting.await.unwrap();
        assert_eq!(errno(told), Some(libc::ECONNABORTED));
        let (mut theirs, _) = again.unwrap();
        theirs.write_all(b"y").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'y');
        let sender = ours_net.udp("172.16.2.1:0").await.unwrap();
        let to = datagrams.local_addr().unwrap();
        // The listener may be back before this socket is: what comes earlier finds nobody.
        let sending = async {
            loop {
                let _ = sender.send_to(b"here", to).await;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let mut bytes = [0; 4];
        let received = tokio::select! {
            received = datagrams.recv(&mut bytes) => received,
            () = sending => unreachable!("it sends until this is over"),
        };
        assert_eq!((received.unwrap(), &bytes), (4, b"here"));
    });
}

#[test]
fn a_socket_outlives_its_runtime_without_anybody_waiting_for_ever() {
    let world = World::new();
    let net = server(&world);
    let first =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = first.block_on(net.listen("172.16.1.1:0")).unwrap();
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // While the first runtime is there, a task of another may wait for its sockets.
    let to = listener.local_addr().unwrap();
    let ours = client(&world);
    let accepted = second.block_on(async { tokio::join!(listener.accept(), ours.connect(to)) });
    accepted.0.unwrap();
    accepted.1.unwrap();
    drop(first);
    let error = second.block_on(listener.accept()).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    // New sockets of the same net belong to the runtime that is there.
    second.block_on(async {
        let listener = net.listen("172.16.1.1:0").await.unwrap();
        let (mut ours, mut theirs) = pair_at(&ours, &listener).await;
        ours.write_all(b"z").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'z');
    });
}

#[test]
fn without_a_host_it_is_said_where_none_is() {
    let config = clearway_client::AppConfig {
        socket: Some("/nonexistent/host.sock".into()),
        ..clearway_client::AppConfig::default()
    };
    let error = Net::attach(config).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/host.sock"), "{error}");
}

#[test]
fn no_session_is_left_when_a_runtime_and_its_sockets_are_dropped() {
    let world = World::new();
    on_threads(2, async {
        let (mut ours, theirs) = pair(&world).await;
        ours.write_all(b"bye").await.unwrap();
        let waiting = tokio::spawn(echo(theirs));
        drop(ours);
        let _ = waiting.await.unwrap();
    });
    // The process stays attached, as any that has used the client library.
    let left = |worker: &mut clearway_host::Worker| {
        (worker.sessions().count(), worker.stack().population().connections)
    };
    crate::eventually::eventually("all sessions and connections are gone", || {
        world.host.ask(0, left).unwrap() == (0, 0)
    });
}
