//! Streams and listeners.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use clearway_client::{Errno, How, Info, Kind, Socket, SocketOptions, flags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};

use crate::io::Io;
use crate::net::Net;
use crate::ready::{READ, WRITE};
use crate::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};

/// Connections that wait to be accepted, when nobody says otherwise: as tokio has it.
const BACKLOG: u32 = 1024;

/// Does it for each address until it is done for one.
macro_rules! for_each_address {
    ($addresses:expr, |$address:ident| $work:expr) => {{
        let mut failed = None;
        for $address in lookup_host($addresses).await? {
            match $work {
                Ok(done) => return Ok(done),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")
        }))
    }};
}
pub(crate) use for_each_address;

/// A TCP socket that neither listens nor is connected.
pub struct TcpSocket {
    net: Net,
    v6: bool,
    options: SocketOptions,
    local: Option<SocketAddr>,
}

/// A listener.
pub struct TcpListener {
    io: Io,
}

/// A connection.
pub struct TcpStream {
    pub(crate) io: Io,
}

impl TcpSocket {
    /// For IPv4, in the net of the process ([`Net::of_process`]).
    ///
    /// # Errors
    /// As [`Net::of_process`].
    pub fn new_v4() -> io::Result<TcpSocket> {
        Ok(Net::of_process()?.tcp_socket(false))
    }

    /// For IPv6.
    ///
    /// # Errors
    /// As [`Net::of_process`].
    pub fn new_v6() -> io::Result<TcpSocket> {
        Ok(Net::of_process()?.tcp_socket(true))
    }

    /// All options, as they will be when it listens or connects.
    pub fn options(&mut self) -> &mut SocketOptions {
        &mut self.options
    }

    /// SO_REUSEADDR.
    pub fn set_reuseaddr(&mut self, on: bool) {
        self.options.reuse_address = on;
    }

    /// SO_REUSEPORT.
    pub fn set_reuseport(&mut self, on: bool) {
        self.options.reuse_port = on;
    }

    /// SO_RCVBUF.
    pub fn set_recv_buffer_size(&mut self, bytes: u32) {
        self.options.receive_buffer = bytes;
    }

    /// SO_SNDBUF.
    pub fn set_send_buffer_size(&mut self, bytes: u32) {
        self.options.send_buffer = bytes;
    }

    /// TCP_NODELAY.
    pub fn set_nodelay(&mut self, on: bool) {
        self.options.nodelay = on;
    }

    /// Its own address, taken when it listens or connects.
    pub fn bind(&mut self, local: SocketAddr) {
        self.local = Some(local);
    }

    fn make(&self) -> Result<crate::net::Parts, Errno> {
        let port = self.local.map_or(0, |local| local.port());
        let made = self.net.client().open_for_port(Kind::Stream, self.v6, &self.options, port)?;
        if let Some(local) = self.local {
            made.0.bind(local)?;
        }
        Ok(made)
    }

    /// Listens.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENFILE` at a limit.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let (socket, session_fd) = self.make()?;
        // Only `accept` asks this; no copy of the session fd is anybody else's.
        socket.set_flag(flags::NONBLOCK, true);
        socket.listen(backlog)?;
        Ok(TcpListener { io: Io::new(&self.net, socket, session_fd)? })
    }

    /// Connects. Dropped before it is done, it connects no more.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `ETIMEDOUT`, `ENETUNREACH`, `EADDRNOTAVAIL`.
    pub async fn connect(self, remote: SocketAddr) -> io::Result<TcpStream> {
        let (socket, session_fd) = self.make()?;
        let connect = |socket: &Socket| match socket.connect_with(Some(remote), libc::MSG_DONTWAIT)
        {
            Err(Errno::INPROGRESS | Errno::ALREADY) => Err(Errno::AGAIN),
            done => done,
        };
        let begun = connect(&socket);
        let io = Io::new(&self.net, socket, session_fd)?;
        match begun {
            Err(Errno::AGAIN) => io.call(WRITE, connect).await?,
            begun => begun?,
        }
        Ok(TcpStream { io })
    }
}

impl Net {
    /// A socket to be configured before it listens or connects.
    pub fn tcp_socket(&self, v6: bool) -> TcpSocket {
        TcpSocket { net: self.clone(), v6, options: SocketOptions::default(), local: None }
    }

    /// A listener here.
    ///
    /// # Errors
    /// As [`TcpSocket::listen`].
    pub async fn listen(&self, at: impl ToSocketAddrs) -> io::Result<TcpListener> {
        for_each_address!(at, |address| {
            let mut socket = self.tcp_socket(address.is_ipv6());
            socket.set_reuseaddr(true);
            socket.bind(address);
            socket.listen(BACKLOG)
        })
    }

    /// A connection from here.
    ///
    /// # Errors
    /// As [`TcpSocket::connect`].
    pub async fn connect(&self, to: impl ToSocketAddrs) -> io::Result<TcpStream> {
        for_each_address!(to, |address| {
            self.tcp_socket(address.is_ipv6()).connect(address).await
        })
    }
}

impl TcpListener {
    /// Listens in the net of the process ([`Net::of_process`]).
    ///
    /// # Errors
    /// As [`TcpSocket::listen`] and [`Net::of_process`].
    pub async fn bind(at: impl ToSocketAddrs) -> io::Result<TcpListener> {
        Net::of_process()?.listen(at).await
    }

    fn made(&self, (socket, session_fd, remote): Accepted) -> io::Result<(TcpStream, SocketAddr)> {
        Ok((TcpStream { io: self.io.beside(socket, session_fd)? }, remote))
    }

    /// The next connection. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// `EMFILE`; `ECONNABORTED` once when the host went away: the listener is there again when the
    /// host is.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.io.call(READ, Socket::accept).await?;
        self.made(accepted)
    }

    /// As [`TcpListener::accept`]; the task that polls last is woken.
    ///
    /// # Errors
    /// As [`TcpListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = ready!(self.io.poll(cx, READ, Socket::accept))?;
        Poll::Ready(self.made(accepted))
    }

    /// Its own address.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.io.socket.local())
    }

    /// SO_ERROR.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }
}

type Accepted = (std::sync::Arc<Socket>, std::os::fd::OwnedFd, SocketAddr);

/// Reads into what is there.
pub(crate) fn receive(
    socket: &Socket,
    into: &mut [IoSliceMut<'_>],
    flags: i32,
) -> Result<usize, Errno> {
    if into.iter().all(|part| part.is_empty()) {
        // As of a file: whether there is anything is not asked.
        return Ok(0);
    }
    Ok(socket.recv(into, flags | libc::MSG_DONTWAIT)?.len)
}

/// Writes what there is room for.
pub(crate) fn send(socket: &Socket, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    socket.send(parts, libc::MSG_DONTWAIT)
}

/// Reads into the part of a buffer that is not filled.
pub(crate) fn fill(
    buf: &mut ReadBuf<'_>,
    receive: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let len = receive(buf.initialize_unfilled())?;
    buf.advance(len);
    Ok(())
}

impl TcpStream {
    /// Connects in the net of the process ([`Net::of_process`]).
    ///
    /// # Errors
    /// As [`TcpSocket::connect`] and [`Net::of_process`].
    pub async fn connect(to: impl ToSocketAddrs) -> io::Result<TcpStream> {
        Net::of_process()?.connect(to).await
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
    /// `ENOTCONN` when the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.socket.remote().ok_or_else(|| Errno::NOTCONN.into())
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.io.socket.options().nodelay)
    }

    /// Sets TCP_NODELAY.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        let options = SocketOptions { nodelay: on, ..self.io.socket.options() };
        Ok(self.io.socket.set_options(&options)?)
    }

    /// SO_LINGER.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.io.socket.options().linger.map(|seconds| Duration::from_secs(seconds.into())))
    }

    /// Sets SO_LINGER in whole seconds. With zero, dropping the stream resets the connection.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        let linger = time.map(|time| u16::try_from(time.as_secs()).unwrap_or(u16::MAX));
        let options = SocketOptions { linger, ..self.io.socket.options() };
        Ok(self.io.socket.set_options(&options)?)
    }

    /// TCP_INFO.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn info(&self) -> io::Result<Info> {
        Ok(self.io.socket.info()?)
    }

    /// SO_ERROR.
    ///
    /// # Errors
    /// None; tokio's has some.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Waits until there is something to read, or the end.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until there is room to write, or an error.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Waits until it is ready for something of the interest.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io.ready(interest).await
    }

    /// As [`TcpStream::readable`]; the task that polls last is woken.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, READ)
    }

    /// As [`TcpStream::writable`]; the task that polls last is woken.
    ///
    /// # Errors
    /// When its runtime is gone.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, WRITE)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// `EAGAIN`; the connection's own error.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.try_read_vectored(&mut [IoSliceMut::new(into)])
    }

    /// The same, into several parts.
    ///
    /// # Errors
    /// As [`TcpStream::try_read`].
    pub fn try_read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_call(READ, |socket| receive(socket, into, 0))
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// `EAGAIN`, `EPIPE`; the connection's own error.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    /// The same, from several parts.
    ///
    /// # Errors
    /// As [`TcpStream::try_write`].
    pub fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_call(WRITE, |socket| send(socket, parts))
    }

    /// Reads without taking.
    ///
    /// # Errors
    /// The connection's own error.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io
            .call(READ, |socket| receive(socket, &mut [IoSliceMut::new(into)], libc::MSG_PEEK))
            .await
    }

    /// As [`TcpStream::peek`]; the task that polls last is woken.
    ///
    /// # Errors
    /// As [`TcpStream::peek`].
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        ready!(self.poll_receive(cx, buf, libc::MSG_PEEK))?;
        Poll::Ready(Ok(buf.filled().len() - before))
    }

    /// Halves that borrow it.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::borrowed(self)
    }

    /// Halves that own it together. Dropping the writing one ends writing.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::owned(self)
    }

    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        flags: i32,
    ) -> Poll<io::Result<()>> {
        self.io.poll(cx, READ, |socket| {
            fill(buf, |free| receive(socket, &mut [IoSliceMut::new(free)], flags))
        })
    }

    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll(cx, WRITE, |socket| send(socket, parts))
    }

    /// Ends writing. What is over already needs no end.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        match self.io.socket.shutdown(How::Write) {
            Err(Errno::NOTCONN) => Ok(()),
            done => Ok(done?),
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_receive(cx, buf, 0)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What was written is the host's already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end_writing())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = &self.io.socket;
        f.debug_struct("TcpStream")
            .field("local", &socket.local())
            .field("peer", &socket.remote())
            .finish()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local", &self.io.socket.local()).finish()
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket").field("v6", &self.v6).field("local", &self.local).finish()
    }
}
