//! Fast Open (RFC 7413): data on the SYN, for peers that have shown before that they are where they
//! say.
//!
//! ```text
//!   client                      server
//!     SYN, "a cookie?"    ──▶             first connection: as ever, and the SYN-ACK brings a cookie
//!     SYN, cookie, data   ──▶             each later one: the data is taken at once,
//!                         ◀──  SYN-ACK    and the answer leaves behind the SYN-ACK
//! ```
//!
//! A cookie is a keyed hash of both addresses, so the server remembers nothing. What is remembered
//! lies here: the cookies that servers gave us, and which of our listeners' connections were opened
//! by a cookie and have not finished their handshakes.

use alloc::vec::Vec;

use clearway_base::sip::sip_2_4_bytes;
use clearway_base::{Duration, Instant};
use clearway_wire::Addr;
use clearway_wire::tcp::FastOpenCookie;

use crate::config::Config;
use crate::flow::FlowKey;
use crate::ids::ListenerId;
use crate::limits::{FAST_OPEN_PEERS, FAST_OPEN_PENDING};

/// After a SYN with the option was lost and one without was answered, the option is left out for so
/// long; twice as long after each further loss (RFC 7413 4.1.3: paths that swallow it).
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// Doublings of [`FIRST_PAUSE`], at most: a day and more.
const DOUBLINGS: u8 = 11;

/// What is known of a server, from one of our addresses.
#[derive(Clone, Copy)]
struct Peer {
    local: Addr,
    remote: Addr,
    cookie: FastOpenCookie,
    /// The largest segment that it takes; 0 when it never said.
    mss: u16,
    /// SYNs with the option that were lost in a row.
    losses: u8,
    /// The option is left out until then.
    not_before: Instant,
    used: Instant,
}

/// How a cookie stands that came with a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// Made with the present key.
    Good,
    /// Made with the key before.
    Old,
    /// Not ours, or none.
    Wrong,
}

/// The cookie for the peer at `remote`, made with one of the keys: 0 is the present one. None:
/// there is no such key.
fn cookie(config: &Config, key: usize, local: Addr, remote: Addr) -> Option<FastOpenCookie> {
    let mut derived = [0; 16];
    derived.copy_from_slice(&config.secret[..16]);
    let key = match config.tcp.fast_open_keys.get(key)? {
        Some(key) => *key,
        None if key == 0 => derived,
        None => return None,
    };
    let parts: [&[u8]; 3] = [b"fast open", local.octets(), remote.octets()];
    FastOpenCookie::new(&sip_2_4_bytes(&key, parts).to_be_bytes())
}

/// The cookie that a peer is given.
pub(crate) fn fresh_cookie(config: &Config, key: &FlowKey) -> Option<FastOpenCookie> {
    cookie(config, 0, key.local, key.remote)
}

/// Whether the cookie that a peer brings is one that it was given.
pub(crate) fn judge(config: &Config, key: &FlowKey, brought: &FastOpenCookie) -> Judged {
    let made_with = |index| {
        cookie(config, index, key.local, key.remote).is_some_and(|cookie| cookie == *brought)
    };
    match () {
        () if made_with(0) => Judged::Good,
        () if made_with(1) => Judged::Old,
        () => Judged::Wrong,
    }
}

/// What is remembered for all connections.
pub(crate) struct FastOpen {
    peers: Vec<Peer>,
    /// Connections that a cookie opened, and whose listeners: their handshakes are not complete.
    pending: Vec<(FlowKey, ListenerId)>,
}

impl FastOpen {
    /// Nothing.
    pub(crate) fn new() -> FastOpen {
        FastOpen {
            peers: Vec::with_capacity(FAST_OPEN_PEERS),
            pending: Vec::with_capacity(FAST_OPEN_PENDING),
        }
    }

    /// What our SYN says to `remote`: the cookie, and the largest segment that its owner takes.
    /// None while the path swallows such SYNs.
    pub(crate) fn say(
        &mut self,
        now: Instant,
        local: Addr,
        remote: Addr,
    ) -> Option<(FastOpenCookie, u16)> {
        let Some(peer) = self.peer(local, remote) else {
            return Some((FastOpenCookie::REQUEST, 0));
        };
        if peer.not_before > now {
            return None;
        }
        peer.used = now;
        Some((peer.cookie, peer.mss))
    }

    /// Whether data may leave with a SYN to `remote`: its owner gave us a cookie, and the path does
    /// not swallow such SYNs.
    pub(crate) fn knows(&mut self, now: Instant, local: Addr, remote: Addr) -> bool {
        self.peer(local, remote)
            .is_some_and(|peer| peer.not_before <= now && !peer.cookie.is_request())
    }

    /// A SYN with the option was answered; with a new cookie, perhaps.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        key: &FlowKey,
        cookie: Option<FastOpenCookie>,
        mss: u16,
    ) {
        match cookie.filter(|cookie| !cookie.is_request()) {
            Some(cookie) => {
                let peer = self.peer_or_new(now, key.local, key.remote);
                (peer.cookie, peer.mss, peer.losses) = (cookie, mss, 0);
            }
            None => {
                if let Some(peer) = self.peer(key.local, key.remote) {
                    peer.losses = 0;
                }
            }
        }
    }

    /// A SYN with the option was not answered, and one without it was.
    pub(crate) fn lost(&mut self, now: Instant, key: &FlowKey) {
        let peer = self.peer_or_new(now, key.local, key.remote);
        peer.not_before = now + FIRST_PAUSE.times(1 << peer.losses.min(DOUBLINGS));
        peer.losses = peer.losses.saturating_add(1);
    }

    fn peer(&mut self, local: Addr, remote: Addr) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|peer| peer.remote == remote && peer.local == local)
    }

    /// The entry of a peer. When there are too many, the one that was not used for longest makes
    /// room.
    fn peer_or_new(&mut self, now: Instant, local: Addr, remote: Addr) -> &mut Peer {
        let known = self.peers.iter().position(|peer| peer.remote == remote && peer.local == local);
        let index = known.unwrap_or_else(|| {
            let fresh = Peer {
                local,
                remote,
                cookie: FastOpenCookie::REQUEST,
                mss: 0,
                losses: 0,
                not_before: Instant::ZERO,
                used: now,
            };
            if self.peers.len() < FAST_OPEN_PEERS {
                self.peers.push(fresh);
                return self.peers.len() - 1;
            }
            let oldest =
                (0..self.peers.len()).min_by_key(|&index| self.peers[index].used).unwrap_or(0);
            self.peers[oldest] = fresh;
            oldest
        });
        &mut self.peers[index]
    }

    /// Whether one more connection of the listener, which takes `limit`, may be opened by a cookie.
    pub(crate) fn may_open(&self, listener: ListenerId, limit: u32) -> bool {
        let of_listener = self.pending.iter().filter(|(_, of)| *of == listener).count();
        self.pending.len() < FAST_OPEN_PENDING && of_listener < limit as usize
    }

    /// A connection of the listener was opened by a cookie.
    pub(crate) fn opened(&mut self, key: FlowKey, listener: ListenerId) {
        if self.pending.len() < FAST_OPEN_PENDING {
            self.pending.push((key, listener));
        }
    }

    /// Its handshake is complete, or it is gone.
    #[inline]
    pub(crate) fn done(&mut self, key: &FlowKey) {
        if !self.pending.is_empty() {
            self.pending.retain(|(of, _)| of != key);
        }
    }
}
