#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]
//! TCP and UDP over a Clearway host, with tokio's traits and, as far as that goes, its names.
//!
//! ```no_run
//! use clearway_tokio::TcpListener;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> std::io::Result<()> {
//! let listener = TcpListener::bind("10.0.0.2:7").await?;
//! loop {
//!     let (mut stream, _) = listener.accept().await?;
//!     tokio::spawn(async move {
//!         let mut bytes = [0; 4096];
//!         while let Ok(1..) = stream.read(&mut bytes).await.inspect(|_| ()) {
//!             stream.write_all(b"heard\n").await?;
//!         }
//!         Ok::<_, std::io::Error>(())
//!     });
//! }
//! # }
//! ```
//!
//! Which host, which namespace and with which secret is said by the environment, as for any program
//! ([`AppConfig::from_env`]), or by the program itself, with a [`Net`].
//!
//! Sockets belong to the runtime in which they were made: a task of it waits, with a descriptor of
//! the kernel, for all of them. The runtime needs its I/O driver (`enable_io` or `enable_all`).
//! What asks the host and waits for its answer (attach, bind, connect's beginning, options of a
//! datagram socket) does so on the calling thread, as a system call does.
//!
//! Errors are those of Linux: [`std::io::Error::raw_os_error`] has the number.

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/tokio.md")]
struct Page;

mod driver;
mod io;
mod net;
mod ready;
mod split;
mod tcp;
mod udp;

pub use clearway_client::{AppConfig, AttachError};
pub use net::Net;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use tcp::{TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
