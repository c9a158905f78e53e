//! Clearway for Rust programs: a TCP/IP host stack that lives inside of the program.
//!
//! A [`Net`] is a stack with ports and addresses; it runs an application *inside of its turn*: no
//! queue, no second thread and no copy stand between the application and its packets. Applications
//! come in three sizes:
//!
//! - a closure for each step of a conversation: [`serve`], [`connect`], [`answer_datagrams`];
//! - a [`Service`], when conversations have timeouts and figures of their own: [`http::Server`] is
//!   one;
//! - an [`App`], which uses the verbs of the [`Stack`] itself.
//!
//! [`Services`] are several of them, with outgoing connections, on one stack.
//!
//! A [`Pair`] joins two stacks by a cable in memory, with faults when wanted, in virtual time: the
//! examples below and the tests of programs run on it without devices, root, or luck.
//!
//! # Echo
//!
//! What the closure gets is the connection; what it answers is what to do next. Bytes that it does
//! not take stay in the stack, whose window makes the peer wait.
//!
//! ```
//! use clearway::{Endpoint, Next, Pair, connect, serve};
//!
//! let server = serve(7, |_: &mut (), io| {
//!     while !io.recv().is_empty() {
//!         let bytes = io.recv().to_vec();
//!         let sent = io.send(&bytes);
//!         io.consumed(sent);
//!         if sent < bytes.len() {
//!             return Next::Wait; // It is called again when there is room.
//!         }
//!     }
//!     if io.peer_closed() { Next::Close } else { Next::Wait }
//! });
//!
//! // The state of a conversation is of any type that has a default; here, what has come back.
//! let remote: Endpoint = "10.0.0.1:7".parse::<std::net::SocketAddr>()?.into();
//! let mut asked = false;
//! let client = connect(remote, 1, move |came: &mut Vec<u8>, io| {
//!     if !std::mem::replace(&mut asked, true) {
//!         io.send(b"hello, clearway");
//!         io.shutdown();
//!     }
//!     came.extend_from_slice(io.recv());
//!     io.consumed(io.recv().len());
//!     if !io.peer_closed() {
//!         return Next::Wait;
//!     }
//!     assert_eq!(came, b"hello, clearway");
//!     Next::Close
//! });
//!
//! let (served, asked) = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client))?.run()?;
//! assert_eq!((served.begun, asked.ended, asked.failed), (1, 1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same server on a device, until somebody calls [`Stopper::stop`]:
//!
//! ```no_run
//! # use clearway::{Net, Next, serve};
//! # let server = serve(7, |_: &mut (), _| Next::Close);
//! let mut net = Net::builder()
//!     .port("tap:cw0")
//!     .address("10.0.0.2/24")
//!     .address("2001:db8::2/64")
//!     .gateway("10.0.0.1")
//!     .open()?;
//! net.run(server)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # HTTP
//!
//! [`http::Server`] is a [`Service`]; [`Talks`] runs it. The link loses packets here, and nobody
//! notices but the clock, which is virtual.
//!
//! ```
//! use clearway::{Endpoint, Next, Pair, Source, Talks, connect, http};
//!
//! let config = http::Config { page_len: 100_000, ..http::Config::default() };
//! let server = Talks::new(http::Server::new(config)?, Source::Listen(80), 64);
//! let remote: Endpoint = "[2001:db8::1]:80".parse::<std::net::SocketAddr>()?.into();
//! let client = connect(remote, 1, |answer: &mut Vec<u8>, io| {
//!     if answer.is_empty() && io.recv().is_empty() {
//!         io.send(b"GET / HTTP/1.1\r\nHost: example\r\nConnection: close\r\n\r\n");
//!     }
//!     while !io.recv().is_empty() {
//!         answer.extend_from_slice(io.recv());
//!         io.consumed(io.recv().len());
//!     }
//!     if !io.peer_closed() {
//!         return Next::Wait;
//!     }
//!     let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
//!     assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
//!     assert_eq!(answer.len() - head - 4, 100_000);
//!     Next::Close
//! });
//! let ends = (("2001:db8::1/64", server), ("2001:db8::2/64", client));
//! let mut pair = Pair::new(ends.0, ends.1)?.fault("loss=2%,delay=5ms", 1)?;
//! let (stats, asked) = pair.run()?;
//! assert_eq!((stats.accepted, asked.ended, asked.failed), (1, 1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # UDP
//!
//! [`answer_datagrams`] for servers; the client here is an [`App`] and shows the verbs of the
//! [`Stack`].
//!
//! ```
//! use clearway::{
//!     Addr, App, Endpoint, Event, Pair, Stack, Stores, Time, UdpId, UdpSpec, answer_datagrams,
//! };
//!
//! struct Client {
//!     remote: Endpoint,
//!     socket: Option<UdpId>,
//!     answer: Option<Vec<u8>>,
//! }
//!
//! impl App<Stores> for Client {
//!     type Report = Option<Vec<u8>>;
//!
//!     fn start(&mut self, _: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
//!         let local = Endpoint::new(Addr::ANY_V4, 0);
//!         let spec = UdpSpec { table: Default::default(), local, token: 0, v6_only: false };
//!         let socket = stack.udp_bind(spec).map_err(|why| format!("{why:?}"))?;
//!         let sent = stack.udp_send(socket, self.remote, None, b"reverse me");
//!         sent.map_err(|why| format!("{why:?}"))?;
//!         self.socket = Some(socket);
//!         Ok(())
//!     }
//!
//!     fn on_events(&mut self, _: Time, stack: &mut Stack<Stores>) {
//!         while let Some(event) = stack.next_event() {
//!             if let Event::Udp { socket, .. } = event {
//!                 self.answer = stack.udp_recv(socket).map(|datagram| datagram.payload.to_vec());
//!             }
//!         }
//!     }
//!
//!     fn is_finished(&self) -> bool {
//!         self.answer.is_some()
//!     }
//!
//!     fn stop(&mut self, _: Time, stack: &mut Stack<Stores>) {
//!         if let Some(socket) = self.socket.take() {
//!             stack.udp_close(socket);
//!         }
//!     }
//!
//!     fn report(&self) -> Self::Report {
//!         self.answer.clone()
//!     }
//! }
//!
//! let server = answer_datagrams(9, |datagram, answer| {
//!     answer.extend(datagram.payload.iter().rev());
//!     true
//! });
//! let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 9);
//! let client = Client { remote, socket: None, answer: None };
//! let (answered, answer) = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client))?.run()?;
//! assert_eq!((answered.answered, answer.as_deref()), (1, Some(&b"em esrever"[..])));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Many connections
//!
//! Ten thousand at a time, each with a request and an answer. Memory is reserved for as many
//! connections as [`Builder::connections`] and [`Pair::new`] are for, and an idle one costs a few
//! hundred bytes.
//!
//! ```
//! use clearway::{Endpoint, Next, Pair, connect, serve};
//!
//! let server = serve(7, |_: &mut (), io| {
//!     if !io.recv().is_empty() {
//!         io.consumed(io.recv().len());
//!         io.send(b"pong");
//!     }
//!     if io.peer_closed() { Next::Close } else { Next::Wait }
//! });
//! let remote: Endpoint = "10.0.0.1:7".parse::<std::net::SocketAddr>()?.into();
//! let client = connect(remote, 10_000, |asked: &mut bool, io| {
//!     if !*asked {
//!         *asked = io.send(b"ping") == 4;
//!     }
//!     if io.recv() == b"pong" { Next::Close } else { Next::Wait }
//! });
//! let (served, asked) = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client))?.run()?;
//! assert_eq!((served.begun, asked.ended, asked.failed), (10_000, 10_000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The core alone
//!
//! [`core`] is the stack without clock, device or thread: `no_std`, no unsafe code, driven by three
//! verbs. Whoever has packets, time and a loop of their own takes it. Here two of them talk, with
//! vectors for packets and a clock that stands still:
//!
//! ```
//! use clearway::core::store::{ChainRx, RingTx};
//! use clearway::core::*;
//! use clearway::{Addr, Endpoint, Instant};
//!
//! struct Packet(Vec<u8>);
//!
//! impl Buf for Packet {
//!     fn bytes(&self) -> &[u8] {
//!         &self.0
//!     }
//!     fn bytes_mut(&mut self) -> &mut [u8] {
//!         &mut self.0
//!     }
//!     fn trim_front(&mut self, n: usize) {
//!         self.0.drain(..n);
//!     }
//!     fn truncate(&mut self, len: usize) {
//!         self.0.truncate(len);
//!     }
//! }
//!
//! /// What the stacks are made of: packets, and where bytes wait to be read and to be
//! /// acknowledged.
//! struct Types;
//!
//! impl Env for Types {
//!     type Buf = Packet;
//!     type Rx = ChainRx<Packet>;
//!     type Tx = RingTx;
//! }
//!
//! /// Takes what a stack sends.
//! #[derive(Default)]
//! struct Wire {
//!     room: Vec<u8>,
//!     sent: Vec<Vec<u8>>,
//! }
//!
//! impl Sink for Wire {
//!     fn reserve(&mut self, _: Iface, len: usize) -> Option<&mut [u8]> {
//!         self.room = vec![0; len];
//!         Some(&mut self.room)
//!     }
//!     fn commit(&mut self, _: Iface, len: usize, _: TxMeta) {
//!         self.sent.push(self.room[..len].to_vec());
//!     }
//! }
//!
//! fn stack(address: &str, secret: u8) -> Stack<Types> {
//!     // From the system's random source, where it is not an example.
//!     let config = Config::new([secret; 32]);
//!     let (rx, tx) = (ChainRx::new(64, 1 << 16), RingTx::new(64, 4096, 1 << 16));
//!     let mut stack = Stack::new(config, rx, tx);
//!     let offloads = Offloads::default();
//!     let link = InterfaceSpec { link: Link::Raw, mtu: 1500, offloads, table: Table(0) };
//!     let iface = stack.add_interface(link).unwrap();
//!     stack.add_address(Instant::ZERO, iface, address.parse().unwrap()).unwrap();
//!     stack
//! }
//!
//! /// The three verbs: timers, what leaves, what arrives.
//! fn carry(now: Instant, from: &mut Stack<Types>, to: &mut Stack<Types>) {
//!     let (mut wire, mut burst) = (Wire::default(), Burst::new());
//!     from.expire(now);
//!     from.emit(now, &mut wire);
//!     for packet in wire.sent {
//!         assert!(burst.push(Packet(packet), RxMeta::default()).is_ok(), "more than a burst");
//!     }
//!     to.ingest(now, &mut burst);
//! }
//!
//! let now = Instant::from_millis(1_000);
//! let (mut server, mut client) = (stack("10.0.0.1/24", 1), stack("10.0.0.2/24", 2));
//! let (table, options) = (Table(0), ConnOptions::default());
//! let local = Endpoint::new(Addr::v4([10, 0, 0, 1]), 7);
//! let spec = ListenSpec { table, local, v6_only: false, backlog: 8, token: 0, options };
//! let listener = server.listen(spec)?;
//! let spec = ConnectSpec { table, local: None, remote: local, token: 0, options };
//! let asks = client.connect(now, spec)?;
//! client.send(asks, b"ping")?;
//! for _ in 0..2 {
//!     carry(now, &mut client, &mut server);
//!     carry(now, &mut server, &mut client);
//! }
//!
//! let answers = server.accept(listener).expect("a finished handshake");
//! assert_eq!(server.recv(answers)?, b"ping");
//! server.consumed(answers, 4);
//! server.send(answers, b"pong")?;
//! server.close(answers);
//! carry(now, &mut server, &mut client);
//! assert_eq!(client.recv(asks)?, b"pong");
//! assert!(client.peer_closed(asks));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
#[doc = include_str!("../../../../docs/rust.md")]
struct Pages;

mod datagrams;
#[cfg(feature = "dns")]
pub mod dns;
mod drained;
mod error;
mod net;
mod pair;
mod services;
mod talk;

pub use clearway_base::{Duration, Instant};
pub use clearway_engine::{
    App, Cores, Ended, Io, Mode, Next, Service, Source, Stores, Talks, Time,
};
pub use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectError, ConnectSpec, Event, Failure, ListenSpec,
    ListenerId, Stack, State, TcpInfo, UdpError, UdpEvents, UdpId, UdpSpec,
};
pub use clearway_wire::{Addr, Cidr, Endpoint, Mac};

pub use datagrams::{Answered, Datagrams, answer_datagrams};
pub use drained::Left;
pub use error::Error;
pub use net::{Builder, Net, Stopper};
pub use pair::Pair;
pub use services::{Call, Key, Services, Socket};
pub use talk::{Conversation, Tally, connect, serve};

/// The HTTP server that lives inside of the turn.
pub use clearway_http as http;

/// The stack without clock, device or thread, and what it is driven with.
pub mod core {
    pub use clearway_pkt::*;
    pub use clearway_proto::*;
}

/// Devices: how ports are named, what a device must do, captures, faults.
pub mod dev {
    pub use clearway_dev::*;
}

/// The engine: the turn of one core, for programs that want to drive it themselves.
pub mod engine {
    pub use clearway_engine::*;
}
