//! Programs to test with.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use clearway_client::{AppConfig, Client, Errno, Kind, Socket, SocketOptions, flags};
use clearway_shm::attach_socket::Secret;

use crate::world::World;

/// A socket with its session fd. Dropping it is close(2).
pub(crate) struct Own {
    pub(crate) socket: Arc<Socket>,
    pub(crate) session_fd: OwnedFd,
}

impl std::ops::Deref for Own {
    type Target = Arc<Socket>;

    fn deref(&self) -> &Arc<Socket> {
        &self.socket
    }
}

pub(crate) fn config(world: &World, namespace: &str, secret: &str) -> AppConfig {
    AppConfig {
        socket: Some(world.attach_socket()),
        namespace: namespace.into(),
        secret: Some(Secret(secret.into())),
        ..AppConfig::default()
    }
}

pub(crate) fn server(world: &World) -> Arc<Client> {
    Client::attach(config(world, "server", "1234")).expect("the server's namespace")
}

pub(crate) fn client(world: &World) -> Arc<Client> {
    Client::attach(config(world, "client", "5678")).expect("the client's namespace")
}

pub(crate) fn open(client: &Arc<Client>, kind: Kind) -> Own {
    let (socket, session_fd) =
        client.open(kind, false, &SocketOptions::default()).expect("a socket");
    Own { socket, session_fd }
}

pub(crate) fn listener(client: &Arc<Client>, at: &str) -> Own {
    let socket = open(client, Kind::Stream);
    socket.bind(at.parse().unwrap()).expect("bind");
    socket.listen(16).expect("listen");
    socket
}

pub(crate) fn connect(client: &Arc<Client>, to: SocketAddr) -> Own {
    let socket = open(client, Kind::Stream);
    socket.connect(Some(to)).expect("connect");
    socket
}

pub(crate) fn accept(listener: &Own) -> Own {
    let (socket, session_fd, _) = listener.accept().expect("accept");
    Own { socket, session_fd }
}

/// A connection from the client's program to the server's: their ends in this order.
pub(crate) fn pair(world: &World) -> (Own, Own) {
    let (client, server) = (client(world), server(world));
    let listener = listener(&server, "172.16.1.1:0");
    let ours = connect(&client, listener.local());
    let theirs = accept(&listener);
    (ours, theirs)
}

pub(crate) fn send(socket: &Socket, bytes: &[u8]) -> Result<usize, Errno> {
    socket.send(&[IoSlice::new(bytes)], 0)
}

pub(crate) fn send_all(socket: &Socket, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let sent = send(socket, bytes).expect("send");
        bytes = &bytes[sent..];
    }
}

pub(crate) fn recv(socket: &Socket, len: usize, flags: i32) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let received = socket.recv(&mut [IoSliceMut::new(&mut bytes)], flags)?;
    bytes.truncate(received.len);
    Ok(bytes)
}

pub(crate) fn recv_all(socket: &Socket, len: usize) -> Vec<u8> {
    recv(socket, len, libc::MSG_WAITALL).expect("recv")
}

pub(crate) fn nonblocking(socket: &Socket) {
    socket.set_flag(flags::NONBLOCK, true);
}

/// Bytes that are different at every place.
pub(crate) fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..).take(len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}
