//! Sessions as `show` tells them.

use std::net::SocketAddr;

use clearway_proto::{ConnId, UdpId};
use clearway_shm::attach_socket::{Kind, SessionId};

use super::state::{Session, Sessions, What};
use crate::env::HostStack;

/// What a session is just now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionKind {
    /// A stream that neither listens nor is connected.
    Fresh,
    /// A stream that listens.
    Listener,
    /// A connection, or one that begins or has ended.
    Stream,
    /// Datagrams.
    Datagram,
}

/// A session as `show` tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// The worker that it lives on.
    pub worker: usize,
    /// The program whose it is.
    pub app: u32,
    /// The user who began that program.
    pub owner: u32,
    /// It was opened as IPv6.
    pub v6: bool,
    /// How many processes hear of it; 0: a connection that waits to be accepted.
    pub processes: usize,
    /// What it is.
    pub kind: SessionKind,
    /// Our side.
    pub local: Option<SocketAddr>,
    /// The peer's.
    pub remote: Option<SocketAddr>,
    /// The state in a word, as netstat has it.
    pub state: &'static str,
    /// Bytes in the receive FIFO, and how many may be.
    pub rx: (u32, u32),
    /// Bytes in the transmit FIFO, and how many may be.
    pub tx: (u32, u32),
    /// Datagrams that found the receive FIFO full.
    pub drops: u64,
    /// Bytes of payload that came from the peer and that went to it, as far as the session counts
    /// them itself: all of datagrams, and of a connection those that went round the stack.
    pub bytes: (u64, u64),
    /// What its process writes goes round the stack.
    pub cut_through: bool,
    /// The stack's name of the connection, to ask for its inner values.
    pub conn: Option<ConnId>,
    /// The stack's name of the UDP socket.
    pub udp: Option<UdpId>,
}

impl Sessions {
    /// Every session.
    pub fn iter<'a>(&'a self, stack: &'a HostStack) -> impl Iterator<Item = SessionInfo> + 'a {
        self.table.iter().map(move |(_, session)| self.info(stack, session))
    }

    /// How many slots there are to look at with [`Sessions::at`].
    pub fn slots(&self) -> u32 {
        self.table.entries().len() as u32
    }

    /// The session in a slot, if there is one, and of this namespace when one is named.
    pub fn at(&self, stack: &HostStack, slot: u32, namespace: Option<&str>) -> Option<SessionInfo> {
        let session = self.table.by_index(slot)?;
        let is_in = namespace.is_none_or(|namespace| session.program.namespace == namespace);
        is_in.then(|| self.info(stack, session))
    }

    fn info(&self, stack: &HostStack, session: &Session) -> SessionInfo {
        let mut info = SessionInfo {
            id: session.id,
            worker: self.index,
            app: session.program.number,
            owner: session.program.owner,
            v6: session.v6,
            processes: session.subscribers.len(),
            kind: SessionKind::Fresh,
            local: session.local,
            remote: session.remote,
            state: "CLOSED",
            rx: (0, 0),
            tx: (0, 0),
            drops: 0,
            bytes: session.passed,
            cut_through: false,
            conn: None,
            udp: None,
        };
        match &session.what {
            What::Fresh if session.kind == Kind::Datagram => info.kind = SessionKind::Datagram,
            What::Fresh => {}
            What::Listener(listening) => {
                info.kind = SessionKind::Listener;
                info.state = "LISTEN";
                info.rx = listening.fill();
            }
            What::Conn(conn) => {
                info.kind = SessionKind::Stream;
                info.state = stack.state(*conn).name();
                info.conn = Some(*conn);
                if let Some((rx, tx)) = stack.queues(*conn) {
                    info.rx = (rx.fill(), rx.place().limit);
                    info.tx = (tx.fill(), tx.place().limit);
                    info.cut_through = session.cut_through.is_some() && tx.is_direct();
                }
            }
            What::Datagrams(datagrams) => {
                info.kind = SessionKind::Datagram;
                info.udp = datagrams.socket;
                info.state = if session.remote.is_some() { "ESTABLISHED" } else { "UNCONNECTED" };
                (info.rx, info.tx) = datagrams.fill();
                info.drops =
                    datagrams.socket.and_then(|socket| stack.udp_dropped(socket)).unwrap_or(0);
                info.drops += datagrams.road.lost();
                info.bytes = datagrams.bytes;
            }
        }
        info
    }
}
