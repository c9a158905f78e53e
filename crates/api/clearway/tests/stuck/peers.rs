//! Peers of the kernel's at a server that gives back what it is sent: stuck ones, which send what
//! is taken of them and read nothing, and honest ones.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes here; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Stuck peers: each could hold a mebibyte to be sent, so that all of them could hold more than
/// there is.
pub(crate) const STUCK: usize = 300;

/// Bytes that a stuck peer sends at most.
const MOST: usize = 1_500_000;

/// Rounds in which no peer was rid of anything, after which they are stuck.
const QUIET_ROUNDS: u32 = 20;

/// Peers that have sent what is taken of them. Some may have been reset by then: that is the
/// server's right.
pub(crate) fn stuck(at: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&at, TIME_LIMIT).expect("a place");
        stream.set_nonblocking(true).expect("a socket");
        stream
    };
    let mut peers: Vec<TcpStream> = (0..STUCK).map(connect).collect();
    let mut left = [MOST; STUCK];
    let (end, mut quiet) = (Instant::now() + TIME_LIMIT, 0);
    while quiet < QUIET_ROUNDS && Instant::now() < end {
        quiet += 1;
        for (peer, left) in peers.iter_mut().zip(&mut left).filter(|(_, left)| **left > 0) {
            match peer.write(&[7; 65_536]) {
                Ok(sent) => (*left, quiet) = (left.saturating_sub(sent), 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *left = 0,
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    peers
}

/// One after the other, so many that have what they sent back.
pub(crate) fn honest(at: SocketAddr, count: u32) {
    let sent: Vec<u8> =
        (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..count {
        let mut stream = TcpStream::connect_timeout(&at, TIME_LIMIT)
            .unwrap_or_else(|why| panic!("{number}: {why}"));
        stream.set_read_timeout(Some(TIME_LIMIT)).expect("a socket");
        stream.set_write_timeout(Some(TIME_LIMIT)).expect("a socket");
        stream.write_all(&sent).unwrap_or_else(|why| panic!("{number}: {why}"));
        stream.shutdown(Shutdown::Write).unwrap_or_else(|why| panic!("{number}: {why}"));
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap_or_else(|why| panic!("{number}: {why}"));
        assert!(came == sent, "{number}: {} bytes came back of {}", came.len(), sent.len());
    }
}
