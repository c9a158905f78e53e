//! A router of axum: `axum 10.0.0.2:8080`, then `curl http://10.0.0.2:8080/hello/you`.
//!
//! Which host is entered is said by the environment: CLEARWAY_SOCKET, CLEARWAY_NS, CLEARWAY_SECRET.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use clearway_tokio::{TcpListener, TcpStream};

/// What axum asks of a listener.
struct Listener(TcpListener);

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok(accepted) => return accepted,
                // Out of descriptors, or the host is being started again: both pass.
                Err(error) => {
                    eprintln!("accept: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:8080".into());
    let hello = |Path(name): Path<String>| async move { format!("hello {name}\n") };
    let router = Router::new().route("/hello/{name}", get(hello));
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(Listener(listener), router).await
}
