//! Futures that are dropped before they are ready.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::guests::*;
use crate::world::World;

/// Polls once; None: it was not ready, and is dropped.
async fn once<R>(work: impl Future<Output = R>) -> Option<R> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        Poll::Ready(match work.as_mut().poll(cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn reads_that_are_given_up_lose_no_bytes() {
    let world = World::new();
    on_threads(2, async {
        let (mut ours, mut theirs) = pair(&world).await;
        const TOTAL: usize = 400_000;
        let writer = tokio::spawn(async move {
            let bytes = pattern(0, TOTAL);
            for part in bytes.chunks(997) {
                theirs.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let (mut seen, mut given_up) = (Vec::new(), 0);
        let mut bytes = [0; 1500];
        loop {
            match once(ours.read(&mut bytes)).await {
                Some(Ok(0)) => break,
                Some(Ok(len)) => seen.extend_from_slice(&bytes[..len]),
                Some(Err(error)) => panic!("{error}"),
                None => {
                    given_up += 1;
                    // Another future waits in its place, and is woken for what the dropped one
                    // asked for.
                    ours.readable().await.unwrap();
                }
            }
        }
        assert!(seen == pattern(0, TOTAL), "after {given_up} reads that were given up");
        writer.await.unwrap();
    });
}

#[test]
fn an_accept_that_is_given_up_takes_no_connection() {
    let world = World::new();
    on_threads(2, async {
        let listener = server(&world).listen("172.16.1.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let net = client(&world);
        assert!(once(listener.accept()).await.is_none());
        let ours = net.connect(to).await.unwrap();
        let (_theirs, from) = loop {
            // Many are dropped on the way.
            match once(listener.accept()).await {
                Some(accepted) => break accepted.unwrap(),
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(from, ours.local_addr().unwrap());
        assert!(once(listener.accept()).await.is_none());
    });
}

#[test]
fn one_that_is_dropped_does_not_keep_the_wake_up_from_another() {
    let world = World::new();
    on_threads(0, async {
        let (ours, mut theirs) = pair(&world).await;
        let ours = std::sync::Arc::new(ours);
        // Registered first, woken first, and dropped without looking.
        let first = tokio::spawn({
            let ours = ours.clone();
            async move { ours.readable().await }
        });
        let second = tokio::spawn({
            let ours = ours.clone();
            async move {
                let mut bytes = [0; 4];
                loop {
                    ours.readable().await.unwrap();
                    if let Ok(len) = ours.try_read(&mut bytes) {
                        return len;
                    }
                }
            }
        });
        tokio::task::yield_now().await;
        first.abort();
        theirs.write_all(b"four").await.unwrap();
        assert_eq!(second.await.unwrap(), 4);
    });
}

#[test]
fn a_connect_that_is_given_up_connects_no_more() {
    let world = World::new();
    on_threads(2, async {
        let listener = server(&world).listen("172.16.1.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let net = client(&world);
        let connected = once(net.connect(to)).await;
        drop(connected);
        // Whether it was accepted or not, the next one works, and the first one's end is seen.
        let mut ours = net.connect(to).await.unwrap();
        loop {
            let (mut theirs, from) = listener.accept().await.unwrap();
            if from == ours.local_addr().unwrap() {
                theirs.write_all(b"x").await.unwrap();
                break;
            }
            let ended = theirs.read(&mut [0; 1]).await;
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        }
        assert_eq!(ours.read_u8().await.unwrap(), b'x');
    });
}
