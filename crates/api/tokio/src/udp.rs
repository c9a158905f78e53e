//! Datagram sockets.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use clearway_client::{Errno, Kind, Received, SendTo, Socket, SocketOptions};
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};

use crate::io::Io;
use crate::net::Net;
use crate::ready::{READ, WRITE};
use crate::tcp::{fill, for_each_address};

/// A datagram socket. Any number of tasks may send and receive at once.
pub struct UdpSocket {
    io: Io,
}

impl Net {
    /// A datagram socket here.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENFILE` at a limit.
    pub async fn udp(&self, at: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        for_each_address!(at, |address| self.udp_at(address))
    }

    fn udp_at(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        let options = SocketOptions::default();
        let (socket, session_fd) =
            self.client().open_for_port(Kind::Datagram, at.is_ipv6(), &options, at.port())?;
        socket.bind(at)?;
        Ok(UdpSocket { io: Io::new(self, socket, session_fd)? })
    }
}

fn send(socket: &Socket, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
    let how = SendTo { to, ..SendTo::default() };
    socket.send_to(&[IoSlice::new(bytes)], &how, libc::MSG_DONTWAIT)
}

fn receive(socket: &Socket, into: &mut [u8], flags: i32) -> Result<Received, Errno> {
    socket.recv(&mut [IoSliceMut::new(into)], flags | libc::MSG_DONTWAIT)
}

/// Who sent it. Without one it is the end that a shutdown makes.
fn with_sender(received: Received) -> Result<(usize, SocketAddr), Errno> {
    match received.datagram {
        Some(datagram) => Ok((received.len, datagram.from)),
        None => Err(Errno::NOTCONN),
    }
}

impl UdpSocket {
    /// A socket with this address in the net of the process ([`Net::of_process`]).
    ///
    /// # Errors
    /// As [`Net::udp`] and [`Net::of_process`].
    pub async fn bind(at: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        Net::of_process()?.udp(at).await
    }

    /// From now on it sends to this peer, and receives from it alone.
    ///
    /// # Errors
    /// `ENETUNREACH`.
    pub async fn connect(&self, to: impl ToSocketAddrs) -> io::Result<()> {
        for_each_address!(to, |address| {
            self.io.socket.connect(Some(address)).map_err(io::Error::from)
        })
    }

    /// Its own address.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.io.socket.local())
    }

    /// The peer's address.
    ///
    /// # Errors
    /// `ENOTCONN` without a peer.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.socket.remote().ok_or_else(|| Errno::NOTCONN.into())
    }

    /// SO_ERROR.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Waits until it is ready for something of the interest.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io.ready(interest).await
    }

    /// Waits until a datagram is there.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until there is room to send.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Sends to the peer.
    ///
    /// # Errors
    /// `EDESTADDRREQ` without a peer, `EMSGSIZE`, `ECONNREFUSED` of a datagram before.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.call(WRITE, |socket| send(socket, bytes, None)).await
    }

    /// Sends there.
    ///
    /// # Errors
    /// `EMSGSIZE`, `ENETUNREACH`.
    pub async fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let mut addresses = lookup_host(to).await?;
        let to = addresses.next().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")
        })?;
        self.io.call(WRITE, |socket| send(socket, bytes, Some(to))).await
    }

    /// Sends there if there is room.
    ///
    /// # Errors
    /// `EAGAIN`, and as [`UdpSocket::send_to`].
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.io.try_call(WRITE, |socket| send(socket, bytes, Some(to)))
    }

    /// Sends to the peer if there is room.
    ///
    /// # Errors
    /// `EAGAIN`, and as [`UdpSocket::send`].
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.try_call(WRITE, |socket| send(socket, bytes, None))
    }

    /// As [`UdpSocket::send_to`]; the task that polls last is woken.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`].
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll(cx, WRITE, |socket| send(socket, bytes, Some(to)))
    }

    /// The next datagram, cut to the buffer.
    ///
    /// # Errors
    /// `ECONNREFUSED` of a datagram that was sent.
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.call(READ, |socket| Ok(receive(socket, into, 0)?.len)).await
    }

    /// The same, and who sent it.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.call(READ, |socket| with_sender(receive(socket, into, 0)?)).await
    }

    /// The same without taking it.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub async fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.call(READ, |socket| with_sender(receive(socket, into, libc::MSG_PEEK)?)).await
    }

    /// The next datagram if there is one.
    ///
    /// # Errors
    /// `EAGAIN`, and as [`UdpSocket::recv`].
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.try_call(READ, |socket| Ok(receive(socket, into, 0)?.len))
    }

    /// The same, and who sent it.
    ///
    /// # Errors
    /// `EAGAIN`, and as [`UdpSocket::recv`].
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_call(READ, |socket| with_sender(receive(socket, into, 0)?))
    }

    /// As [`UdpSocket::recv_from`]; the task that polls last is woken.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.io.poll(cx, READ, |socket| {
            let mut from = None;
            fill(buf, |free| {
                let (len, sender) = with_sender(receive(socket, free, 0)?)?;
                from = Some(sender);
                Ok(len)
            })?;
            from.ok_or(Errno::NOTCONN)
        })
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local", &self.io.socket.local()).finish()
    }
}
