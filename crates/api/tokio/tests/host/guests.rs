//! Programs to test with.

use std::future::Future;
use std::io;

use clearway_client::AppConfig;
use clearway_shm::attach_socket::Secret;
use clearway_tokio::{Net, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::World;

pub(crate) fn config(world: &World, namespace: &str, secret: &str) -> AppConfig {
    AppConfig {
        socket: Some(world.attach_socket()),
        namespace: namespace.into(),
        secret: Some(Secret(secret.into())),
        ..AppConfig::default()
    }
}

pub(crate) fn server(world: &World) -> Net {
    Net::attach(config(world, "server", "1234")).expect("the server's namespace")
}

pub(crate) fn client(world: &World) -> Net {
    Net::attach(config(world, "client", "5678")).expect("the client's namespace")
}

/// A connection from the client's program to the server's: their ends in this order.
pub(crate) async fn pair(world: &World) -> (TcpStream, TcpStream) {
    let listener = server(world).listen("172.16.1.1:0").await.unwrap();
    pair_at(&client(world), &listener).await
}

pub(crate) async fn pair_at(client: &Net, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let to = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(client.connect(to), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

/// Runs it on so many worker threads.
pub(crate) fn on_threads<R>(threads: usize, work: impl Future<Output = R>) -> R {
    let mut runtime = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.worker_threads(threads.max(1)).enable_all().build().unwrap().block_on(work)
}

/// Bytes that are different at every place.
pub(crate) fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// Sends back what comes until the peer ends.
pub(crate) async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; 50_000];
    loop {
        match stream.read(&mut bytes).await? {
            0 => return stream.shutdown().await,
            len => stream.write_all(&bytes[..len]).await?,
        }
    }
}

pub(crate) fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("an error").raw_os_error()
}
