//! The halves of a stream.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use crate::TcpStream;

/// The half of a borrowed stream that reads.
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a TcpStream);

/// The half of a borrowed stream that writes.
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a TcpStream);

/// The half of a stream that reads.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The half of a stream that writes. Dropped, it ends writing, unless it was forgotten.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    ends: bool,
}

/// The halves are not of one stream. They come back with it.
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Debug for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReuniteError")
    }
}

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of one stream")
    }
}

impl std::error::Error for ReuniteError {}

pub(crate) fn borrowed(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

pub(crate) fn owned(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(stream.clone()), OwnedWriteHalf { stream, ends: true })
}

impl OwnedReadHalf {
    /// The whole stream again.
    ///
    /// # Errors
    /// The halves are of two streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        Ok(Arc::into_inner(self.0).expect("there are two halves of a stream"))
    }
}

impl OwnedWriteHalf {
    /// Drops it without an end of writing.
    pub fn forget(mut self) {
        self.ends = false;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.ends {
            // A connection that is over needs no end; one without a host has nobody to tell.
            let _ = self.stream.end_writing();
        }
    }
}

impl AsRef<TcpStream> for ReadHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

impl AsRef<TcpStream> for WriteHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

impl AsRef<TcpStream> for OwnedReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsRef<TcpStream> for OwnedWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

/// What both halves know of their stream.
macro_rules! facts {
    ($($half:ty),*) => {$(
        impl $half {
            /// The peer's address.
            ///
            /// # Errors
            /// As [`TcpStream::peer_addr`].
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.as_ref().peer_addr()
            }

            /// Its own address.
            ///
            /// # Errors
            /// As [`TcpStream::local_addr`].
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.as_ref().local_addr()
            }

            /// As [`TcpStream::ready`].
            ///
            /// # Errors
            /// As [`TcpStream::ready`].
            pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                self.as_ref().ready(interest).await
            }
        }
    )*};
}
facts!(ReadHalf<'_>, WriteHalf<'_>, OwnedReadHalf, OwnedWriteHalf);

macro_rules! reads {
    ($($half:ty),*) => {$(
        impl $half {
            /// As [`TcpStream::peek`].
            ///
            /// # Errors
            /// As [`TcpStream::peek`].
            pub async fn peek(&mut self, into: &mut [u8]) -> io::Result<usize> {
                (*self).as_ref().peek(into).await
            }

            /// As [`TcpStream::try_read`].
            ///
            /// # Errors
            /// As [`TcpStream::try_read`].
            pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
                self.as_ref().try_read(into)
            }

            /// As [`TcpStream::readable`].
            ///
            /// # Errors
            /// As [`TcpStream::readable`].
            pub async fn readable(&self) -> io::Result<()> {
                self.as_ref().readable().await
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                (*self).as_ref().poll_receive(cx, buf, 0)
            }
        }
    )*};
}
reads!(ReadHalf<'_>, OwnedReadHalf);

macro_rules! writes {
    ($($half:ty),*) => {$(
        impl $half {
            /// As [`TcpStream::try_write`].
            ///
            /// # Errors
            /// As [`TcpStream::try_write`].
            pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                self.as_ref().try_write(bytes)
            }

            /// As [`TcpStream::writable`].
            ///
            /// # Errors
            /// As [`TcpStream::writable`].
            pub async fn writable(&self) -> io::Result<()> {
                self.as_ref().writable().await
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                (*self).as_ref().poll_send(cx, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                (*self).as_ref().poll_send(cx, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready((*self).as_ref().end_writing())
            }
        }
    )*};
}
writes!(WriteHalf<'_>, OwnedWriteHalf);
