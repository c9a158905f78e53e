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
//! A cookie is a keyed hash of both addresses, so the server remembers nothing. It is the hash that
//! Linux makes, so who moves a service between the two and keeps the key keeps its clients' cookies.
//! What is remembered lies here: the cookies that servers gave us, and which of our listeners'
//! connections were opened by a cookie and have not finished their handshakes.

use alloc::vec::Vec;

use clearway_base::sip::sip_2_4_bytes;
use clearway_base::{Duration, Instant};
use clearway_options::SocketOptions;
use clearway_wire::Addr;
use clearway_wire::tcp::FastOpenCookie;

use crate::config::{Config, FastOpenKeys, FastOpenMode};
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

/// How a listener has Fast Open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastOpenListener {
    /// Connections whose data came with a SYN and whose handshakes are not complete, at most; 0:
    /// cookies are neither given nor taken.
    pub pending: u32,
    /// Data is taken without a cookie too (TCP_FASTOPEN_NO_COOKIE of Linux).
    pub without_cookie: bool,
    /// Keys of its own (TCP_FASTOPEN_KEY of Linux). Without a present one it has those of
    /// [`TcpConfig::fast_open_keys`](crate::TcpConfig::fast_open_keys).
    pub keys: FastOpenKeys,
}

impl FastOpenListener {
    /// As the options of a listening socket say.
    pub fn of_socket(options: &SocketOptions) -> FastOpenListener {
        FastOpenListener {
            pending: options.fast_open,
            without_cookie: options.fast_open_no_cookie,
            keys: options.fast_open_keys(),
        }
    }

    /// Connections that may be pending where the configuration is `mode`.
    pub(crate) fn limit(&self, mode: FastOpenMode, backlog: u32) -> u32 {
        match mode {
            FastOpenMode { server: false, .. } => 0,
            FastOpenMode { every_listener: true, .. } if self.pending == 0 => backlog,
            _ => self.pending,
        }
    }
}

/// How a connection that we begin has Fast Open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastOpenConnect {
    /// Where data may leave with the SYN, that leaves when the first bytes are written
    /// (TCP_FASTOPEN_CONNECT of Linux).
    pub waits_for_data: bool,
    /// Data leaves although the server gave no cookie (TCP_FASTOPEN_NO_COOKIE of Linux).
    pub without_cookie: bool,
}

/// The cookie for the peer at `remote`, made with one of the keys: 0 is the present one. None:
/// there is no such key. `own` are the listener's keys, if it has some.
fn cookie(
    config: &Config,
    own: &FastOpenKeys,
    index: usize,
    local: Addr,
    remote: Addr,
) -> Option<FastOpenCookie> {
    let keys = if own[0].is_some() { own } else { &config.tcp.fast_open_keys };
    let key = match keys.get(index)? {
        Some(key) => *key,
        None if index == 0 => derived_key(config),
        None => return None,
    };
    let parts: [&[u8]; 2] = match (remote.is_v6(), local.is_v6()) {
        (false, false) => [&remote.v4_octets(), &local.v4_octets()],
        _ => [remote.octets(), local.octets()],
    };
    FastOpenCookie::new(&sip_2_4_bytes(&key, parts).to_le_bytes())
}

/// The key of who configured none. The secret serves other purposes too, so it is not used itself.
fn derived_key(config: &Config) -> [u8; 16] {
    let mut secret = [0; 16];
    secret.copy_from_slice(&config.secret[..16]);
    let mut key = [0; 16];
    for (half, which) in key.chunks_exact_mut(8).zip([b"0", b"1"]) {
        let parts: [&[u8]; 2] = [b"fast open key", which];
        half.copy_from_slice(&sip_2_4_bytes(&secret, parts).to_le_bytes());
    }
    key
}

/// The cookie that a peer is given.
pub(crate) fn fresh_cookie(
    config: &Config,
    own: &FastOpenKeys,
    key: &FlowKey,
) -> Option<FastOpenCookie> {
    cookie(config, own, 0, key.local, key.remote)
}

/// Whether the cookie that a peer brings is one that it was given.
pub(crate) fn judge(
    config: &Config,
    own: &FastOpenKeys,
    key: &FlowKey,
    brought: &FastOpenCookie,
) -> Judged {
    let made_with = |index| {
        cookie(config, own, index, key.local, key.remote).is_some_and(|cookie| cookie == *brought)
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
    /// Connections that a cookie opened, and whose handshakes are not complete.
    pending: Vec<Pending>,
}

/// A connection whose data came with its SYN, and whose handshake is not complete.
struct Pending {
    key: FlowKey,
    listener: ListenerId,
    /// What it brought was made with the key before: its SYN-ACK has this one.
    renewed: Option<FastOpenCookie>,
}

impl FastOpen {
    /// Nothing.
    pub(crate) fn new() -> FastOpen {
        FastOpen {
            peers: Vec::with_capacity(FAST_OPEN_PEERS),
            pending: Vec::with_capacity(FAST_OPEN_PENDING),
        }
    }

    /// What our SYN says to `remote`: the cookie, and the largest segment that its owner takes, as
    /// far as that is known. None while the path swallows such SYNs.
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

    /// Whether data may leave with a SYN to `remote`: its owner gave us a cookie or none is wanted,
    /// and the path does not swallow such SYNs.
    pub(crate) fn may_carry(
        &mut self,
        now: Instant,
        (local, remote): (Addr, Addr),
        without_cookie: bool,
    ) -> bool {
        match self.peer(local, remote) {
            Some(peer) => peer.not_before <= now && (without_cookie || !peer.cookie.is_request()),
            None => without_cookie,
        }
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
                    (peer.mss, peer.losses) = (mss, 0);
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
        let of_listener =
            self.pending.iter().filter(|pending| pending.listener == listener).count();
        self.pending.len() < FAST_OPEN_PENDING && of_listener < limit as usize
    }

    /// A connection of the listener was opened by its SYN, whose answer has the cookie `renewed`.
    pub(crate) fn opened(
        &mut self,
        key: FlowKey,
        listener: ListenerId,
        renewed: Option<FastOpenCookie>,
    ) {
        if self.pending.len() < FAST_OPEN_PENDING {
            self.pending.push(Pending { key, listener, renewed });
        }
    }

    /// The cookie that the SYN-ACK of a connection has.
    pub(crate) fn renewed(&self, key: &FlowKey) -> Option<FastOpenCookie> {
        self.pending.iter().find(|pending| pending.key == *key)?.renewed
    }

    /// Its handshake is complete, or it is gone.
    #[inline]
    pub(crate) fn done(&mut self, key: &FlowKey) {
        if !self.pending.is_empty() {
            self.pending.retain(|pending| pending.key != *key);
        }
    }
}
