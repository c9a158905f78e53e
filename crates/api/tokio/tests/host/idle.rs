//! Who waits sleeps.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::guests::*;
use crate::world::World;

/// Processor time of the threads of this name so far.
fn spent(name: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: std::path::PathBuf| {
        let is_it = std::fs::read_to_string(thread.join("comm")).ok()?.trim() == name;
        // Nanoseconds on a processor, waiting for one, and how often: not sampled by a clock's tick.
        let stat = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        let on_it = stat.split_ascii_whitespace().next()?.parse().ok()?;
        is_it.then(|| Duration::from_nanos(on_it))
    };
    threads.filter_map(|thread| of(thread.ok()?.path())).sum()
}

#[test]
fn a_runtime_whose_tasks_wait_takes_no_processor_time() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("waits-for-it")
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = server(&world).listen("172.16.1.1:0").await.unwrap();
        let net = client(&world);
        let mut pairs = Vec::new();
        for _ in 0..20 {
            pairs.push(pair_at(&net, &listener).await);
        }
        // All of them wait for a byte; one pair has a little to do now and then.
        let (mut busy, theirs) = pairs.pop().unwrap();
        tokio::spawn(echo(theirs));
        let waiting: Vec<_> = pairs
            .iter_mut()
            .map(|(ours, _)| ours)
            .map(|ours| async { ours.read_u8().await })
            .collect();
        let waiting: Vec<_> = waiting.into_iter().map(Box::pin).collect();
        let before = spent("waits-for-it");
        let work = async {
            for _ in 0..20 {
                busy.write_all(b"x").await.unwrap();
                busy.read_u8().await.unwrap();
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = any_of(waiting) => panic!("nobody sent anything"),
        }
        let spent = spent("waits-for-it") - before;
        // Half a second went by at least: a thread that does not sleep takes all that it is given.
        assert!(spent < Duration::from_millis(150), "{spent:?}");
        assert!(!before.is_zero(), "the threads were found");
    });
}

/// Ready when one of them is.
async fn any_of<F: Future + Unpin>(mut futures: Vec<F>) {
    std::future::poll_fn(|cx| {
        let ready = futures.iter_mut().any(|future| std::pin::Pin::new(future).poll(cx).is_ready());
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await
}
