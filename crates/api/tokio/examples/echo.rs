//! Sends back what comes: `echo 10.0.0.2:7`.
//!
//! Which host is entered is said by the environment: CLEARWAY_SOCKET, CLEARWAY_NS, CLEARWAY_SECRET.

use clearway_tokio::TcpListener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:7".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(len @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..len]).await.is_err() {
                    return;
                }
            }
        });
    }
}
