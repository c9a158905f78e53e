//! What a stack is told at start, and what a connection may be told of its own.

use clearway_base::Duration;
use clearway_options::SocketOptions;

use crate::limits::Limits;

/// A stack's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many of each thing.
    pub limits: Limits,
    /// TCP, for all connections.
    pub tcp: TcpConfig,
    /// Secret key for initial sequence numbers, SYN cookies, port choice and table hashes (RFC
    /// 6528, 6056, 4987). Must come from the system's random source; a simulator may fix it.
    pub secret: [u8; 32],
}

/// TCP's settings for the whole stack. Times are as Linux has them unless the field says otherwise.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// What each new connection starts with.
    pub defaults: ConnOptions,
    /// Offer and accept window scaling (RFC 7323 2).
    pub window_scaling: bool,
    /// Offer and accept timestamps (RFC 7323 3).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Report segments that came twice (RFC 2883), where SACK is in use.
    pub dsack: bool,
    /// Begin with the first congestion window again after a pause of a retransmission timeout (RFC
    /// 5681 4.1).
    pub slow_start_after_idle: bool,
    /// Probe for the loss of the last segments before the retransmission timer runs out (RFC 8985
    /// 7).
    pub tail_loss_probe: bool,
    /// With [`Congestion::Prague`], a mark is answered as with NewReno where the queue that marks
    /// seems to be one of RFC 3168 (RFC 9331 4.3).
    pub prague_fallback: bool,
    /// The step of the clock that the stack is told: nothing is taken to be late that is so by
    /// less.
    pub clock_step: Duration,
    /// Lower bound of the retransmission timeout. RFC 6298 2.4 says one second; 200 ms is what the
    /// Internet runs on.
    pub rto_min: Duration,
    /// Upper bound of the retransmission timeout (RFC 6298 2.5: at least 60 s), four minutes at
    /// most.
    pub rto_max: Duration,
    /// Retransmission timeout before the first round-trip sample (RFC 6298 2.1).
    pub rto_initial: Duration,
    /// Retransmissions of a SYN before connect fails.
    pub syn_retries: u8,
    /// Retransmissions of a SYN-ACK before a handshake that a stranger began is forgotten.
    pub syn_ack_retries: u8,
    /// Retransmissions of data before the connection fails, unless its user timeout says otherwise
    /// (RFC 9293 3.8.3, R2).
    pub retries: u8,
    /// How long an acknowledgement may wait for company (RFC 9293 3.8.6.3: below 500 ms).
    pub delayed_ack: Duration,
    /// Length of TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// How long a connection without owner stays in FIN-WAIT-2.
    pub fin_wait_2: Duration,
    /// How long a connection without owner may go on with less than a few kilobytes acknowledged,
    /// although its peer answers.
    pub orphan: Duration,
    /// Send SYN cookies when the table of half-open connections or a listener's backlog is full
    /// (RFC 4987 3.6).
    pub syn_cookies: bool,
    /// Initial congestion window in segments (RFC 6928).
    pub initial_window: u8,
    /// Range of ephemeral ports, both ends included (RFC 6056 3.2).
    pub ephemeral_ports: (u16, u16),
    /// Largest receive window offered, in bytes; decides the window scale. A window grows up to it
    /// as its owner reads.
    pub max_receive_window: u32,
    /// The receive window that a connection begins with, in bytes.
    pub initial_receive_window: u32,
    /// Bytes that an owner may have written and that were not acknowledged, however small the
    /// congestion window.
    pub initial_send_buffer: u32,
    /// The same, however large it is: up to this they are twice the congestion window.
    pub max_send_buffer: u32,
    /// Bytes that one connection may send before the next one's turn comes.
    pub quantum: u32,
    /// What becomes of a stranger's connection when every place for connections is taken.
    pub when_full: WhenFull,
    /// What becomes of a stranger's SYN for a listener.
    pub admission: Admission,
    /// Whether it is found out what paths carry where ICMP does not say (RFC 4821).
    pub mtu_probing: MtuProbing,
    /// Who may use Fast Open.
    pub fast_open: FastOpenMode,
    /// Keys of the cookies that listeners give and take (RFC 7413 4.1.2): the present one, and the
    /// one before, whose cookies are still taken while there is one. Without a present one it is
    /// derived from [`Config::secret`].
    pub fast_open_keys: FastOpenKeys,
}

/// Who may use Fast Open (RFC 7413), and how: the bits of Linux's `tcp_fastopen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpenMode {
    /// Connections that we begin, when they ask for it: 1 there.
    pub client: bool,
    /// Listeners, when they ask for it: 2 there.
    pub server: bool,
    /// Data leaves with the SYN although the server gave no cookie: 4 there. For networks of one's
    /// own (RFC 7413 6.3 has what a cookie is for).
    pub client_without_cookie: bool,
    /// Data is taken with a SYN that brings no cookie: 0x200 there.
    pub server_without_cookie: bool,
    /// Every listener takes data with a SYN, as many as its backlog, whether it asked or not: 0x400
    /// there.
    pub every_listener: bool,
}

impl FastOpenMode {
    /// The bits of Linux's `tcp_fastopen` that mean something here.
    pub const BITS: u32 = 0x607;

    /// The mode that Linux's `tcp_fastopen` calls by this number; bits beyond
    /// [`FastOpenMode::BITS`] say nothing.
    pub const fn of(number: u32) -> FastOpenMode {
        FastOpenMode {
            client: number & 1 != 0,
            server: number & 2 != 0,
            client_without_cookie: number & 4 != 0,
            server_without_cookie: number & 0x200 != 0,
            every_listener: number & 0x400 != 0,
        }
    }
}

impl Default for FastOpenMode {
    /// As on Linux: clients.
    fn default() -> FastOpenMode {
        FastOpenMode::of(1)
    }
}

/// Keys of Fast Open cookies: the present one, and the one before.
pub type FastOpenKeys = [Option<[u8; 16]>; 2];

/// Keys in the words of Linux's `tcp_fastopen_key`: four groups of hexadecimal digits with hyphens
/// between them, and the same once more behind a comma for the key before. None: it is not like
/// that.
pub fn fast_open_keys(text: &str) -> Option<FastOpenKeys> {
    let key = |text: &str| {
        let mut key = [0; 16];
        let mut groups = text.trim().split('-');
        for bytes in key.chunks_exact_mut(4) {
            let group = groups.next().filter(|group| (1..=8).contains(&group.len()))?;
            bytes.copy_from_slice(&u32::from_str_radix(group, 16).ok()?.to_le_bytes());
        }
        groups.next().is_none().then_some(key)
    };
    match text.split_once(',') {
        Some((present, before)) => Some([Some(key(present)?), Some(key(before)?)]),
        None => Some([Some(key(text)?), None]),
    }
}

/// When a connection looks for the longest packet that its path carries (`tcp_mtu_probing` of
/// Linux: 0, 1, 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MtuProbing {
    /// Never: what the link and ICMP say.
    Never,
    /// When full segments are not acknowledged for three timeouts in a row.
    #[default]
    BlackHoles,
    /// Always, from small segments on.
    Always,
}

/// What becomes of a stranger's connection when every place for connections is taken and none is
/// without owner. None waits in silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// A connection of the source that has most of them makes room: the one that has been idle
    /// longest, a second at least, as far as a random sample shows. It is reset. When there is
    /// none, the new one is reset.
    #[default]
    MakeRoom,
    /// The SYN is answered with a reset.
    Reset,
    /// The SYN is dropped and counted; its sender tries again, and then gives up.
    Drop,
}

/// What becomes of a stranger's SYN for a listener, when new connections shall go to another
/// machine. What is connected, handshakes in progress, and connections that both begin and end in
/// this stack go on as ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    /// It begins a connection.
    #[default]
    Open,
    /// It is answered with a reset: its sender learns at once that it must try elsewhere.
    Reset,
    /// It is dropped: its sender repeats it, and by then the network may lead it elsewhere.
    Drop,
}

/// Options of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnOptions {
    /// No waiting for more data behind unacknowledged small segments (TCP_NODELAY; RFC 9293 3.7.4
    /// otherwise).
    pub nodelay: bool,
    /// Only full segments leave until this is taken back (TCP_CORK).
    pub cork: bool,
    /// Probe a silent peer (RFC 9293 3.8.4). Its times are kept in whole milliseconds up to 32.767
    /// seconds, beyond that in whole seconds, 32,767 at most, as on Linux.
    pub keepalive: Option<Keepalive>,
    /// Give up when data stays unacknowledged this long (RFC 5482); zero: retransmission count
    /// decides.
    pub user_timeout: Duration,
    /// Upper bound of the segment size, in payload bytes; zero: the link decides.
    pub max_segment: u16,
    /// Bytes that may be offered and unread (SO_RCVBUF), rounded up by a quarter at most; zero: as
    /// many as the connection is worth. What was offered before it became less is not taken back.
    pub receive_buffer: u32,
    /// Bytes that may be written and not acknowledged (SO_SNDBUF), rounded likewise; zero: twice
    /// the congestion window.
    pub send_buffer: u32,
    /// Congestion control.
    pub congestion: Congestion,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// Urgent data stays in the stream (SO_OOBINLINE; RFC 6093 recommends it and this is the
    /// default here).
    pub urgent_inline: bool,
    /// Retransmissions of our SYN before connect fails (TCP_SYNCNT); zero:
    /// [`TcpConfig::syn_retries`].
    pub syn_retries: u8,
    /// How long the connection stays in FIN-WAIT-2 without owner (TCP_LINGER2); None:
    /// [`TcpConfig::fin_wait_2`].
    pub fin_wait_2: Option<Duration>,
    /// The first timeouts of a connection with little in flight do not double
    /// (TCP_THIN_LINEAR_TIMEOUTS).
    pub linear_timeouts: bool,
    /// Explicit congestion notification, as the handshake agrees on it. Of a connection that is
    /// asked for its options this is the default.
    pub ecn: EcnMode,
    /// Bytes in a second that leave at most (SO_MAX_PACING_RATE); None: as fast as windows and
    /// congestion control let them.
    pub max_pacing_rate: Option<u64>,
}

/// Which explicit congestion notification a connection asks for, and which a listener agrees to, at
/// most. The numbers are those of Linux's `tcp_ecn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum EcnMode {
    /// None.
    Off = 0,
    /// That of RFC 3168, both ways.
    On = 1,
    /// That of RFC 3168 when the peer asks for it.
    #[default]
    Accept = 2,
    /// AccECN (RFC 9768), both ways; with a peer that does not know it, that of RFC 3168.
    Accurate = 3,
    /// AccECN when the peer asks for it; that of RFC 3168 is asked for.
    AcceptAccurateAskClassic = 4,
    /// AccECN when the peer asks for it.
    AcceptAccurate = 5,
}

impl EcnMode {
    /// All of them, each in the place that is its number; the default in front would be another
    /// one's.
    pub const ALL: [EcnMode; 6] = [
        EcnMode::Off,
        EcnMode::On,
        EcnMode::Accept,
        EcnMode::Accurate,
        EcnMode::AcceptAccurateAskClassic,
        EcnMode::AcceptAccurate,
    ];

    /// The one with this number.
    pub fn of(number: u64) -> Option<EcnMode> {
        EcnMode::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// When and how often to probe a silent peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Probes without answer before the connection fails; 127 at most, which is Linux's bound.
    pub count: u8,
}

/// A congestion control algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// NewReno (RFC 5681, 6582).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBRv3 (draft-ietf-ccwg-bbr).
    Bbr,
    /// BBR's first version (draft-cardwell-iccrg-bbr-congestion-control-00), which takes no loss for
    /// a sign: what Linux names "bbr".
    Bbr1,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control), with a peer that agrees on AccECN;
    /// with others CUBIC.
    Prague,
}

impl Congestion {
    /// All of them, in the order of their numbers in a record ([`crate::export`]), to whose end a
    /// new one goes.
    pub(crate) const ALL: [Congestion; 5] = [
        Congestion::Cubic,
        Congestion::Reno,
        Congestion::Bbr,
        Congestion::Prague,
        Congestion::Bbr1,
    ];

    /// Whether it needs measured rates, and paces.
    pub(crate) fn goes_by_rates(self) -> bool {
        matches!(self, Congestion::Bbr | Congestion::Bbr1 | Congestion::Prague)
    }

    /// Whether it is one of the versions of BBR.
    pub(crate) fn is_bbr(self) -> bool {
        matches!(self, Congestion::Bbr | Congestion::Bbr1)
    }
}

impl ConnOptions {
    /// What handshakes ask for and agree to: Prague needs AccECN, unless there shall be no ECN.
    pub(crate) fn ecn_of_handshake(&self) -> EcnMode {
        match (self.congestion, self.ecn) {
            (_, EcnMode::Off) => EcnMode::Off,
            (Congestion::Prague, _) => EcnMode::Accurate,
            (_, mode) => mode,
        }
    }
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), count: 9 }
    }
}

impl Default for ConnOptions {
    fn default() -> ConnOptions {
        ConnOptions {
            nodelay: false,
            cork: false,
            keepalive: None,
            user_timeout: Duration::ZERO,
            max_segment: 0,
            receive_buffer: 0,
            send_buffer: 0,
            congestion: Congestion::Cubic,
            tos: 0,
            ttl: 64,
            urgent_inline: true,
            syn_retries: 0,
            fin_wait_2: None,
            linear_timeouts: false,
            ecn: EcnMode::default(),
            max_pacing_rate: None,
        }
    }
}

/// IPv6's header and TCP's.
const HEADERS: u16 = 60;

impl ConnOptions {
    /// What a program set on a socket. `default` says what holds where it set nothing.
    pub fn of_socket(options: &SocketOptions, default: &ConnOptions) -> ConnOptions {
        let keepalive = Keepalive {
            idle: Duration::from_secs(options.keep_idle.max(1).into()),
            interval: Duration::from_secs(options.keep_interval.max(1).into()),
            count: options.keep_count.max(1),
        };
        ConnOptions {
            nodelay: options.nodelay || default.nodelay,
            cork: options.cork,
            keepalive: options.keepalive.then_some(keepalive),
            user_timeout: Duration::from_millis(options.user_timeout.into()),
            max_segment: segment_within(options, default.max_segment),
            receive_buffer: least_of([options.receive_buffer, options.window_clamp]),
            send_buffer: options.send_buffer,
            congestion: match options.congestion {
                clearway_options::Congestion::Default => default.congestion,
                clearway_options::Congestion::Reno => Congestion::Reno,
                clearway_options::Congestion::Cubic => Congestion::Cubic,
                clearway_options::Congestion::Bbr => Congestion::Bbr,
                clearway_options::Congestion::Bbr1 => Congestion::Bbr1,
                clearway_options::Congestion::Prague => Congestion::Prague,
            },
            tos: options.tos,
            ttl: if options.ttl == 0 { 64 } else { options.ttl },
            urgent_inline: options.oob_inline,
            syn_retries: options.syn_count,
            fin_wait_2: options.fin_wait_2.map(|seconds| Duration::from_secs(seconds.into())),
            linear_timeouts: options.linear_timeouts,
            ecn: default.ecn,
            // A rate of nothing bounds nothing on Linux either.
            max_pacing_rate: Some(options.max_pacing_rate)
                .filter(|rate| !matches!(*rate, 0 | u64::MAX)),
        }
    }
}

/// The smaller of two bounds, of which zero is none.
fn least_of(bounds: [u32; 2]) -> u32 {
    bounds.into_iter().filter(|&most| most != 0).min().unwrap_or(0)
}

/// Payload bytes of a segment at most, as TCP_MAXSEG, IPV6_MTU and the defaults say it; 0: as the
/// path says.
fn segment_within(options: &SocketOptions, default: u16) -> u16 {
    let of_mtu = if options.mtu == 0 { 0 } else { options.mtu.saturating_sub(HEADERS).max(1) };
    [options.max_segment, of_mtu, default].into_iter().filter(|&most| most != 0).min().unwrap_or(0)
}

impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            defaults: ConnOptions::default(),
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            slow_start_after_idle: true,
            tail_loss_probe: true,
            prague_fallback: true,
            clock_step: Duration::from_millis(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            rto_initial: Duration::from_secs(1),
            syn_retries: 6,
            syn_ack_retries: 5,
            retries: 15,
            delayed_ack: Duration::from_millis(40),
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            orphan: Duration::from_secs(60),
            syn_cookies: true,
            initial_window: 10,
            ephemeral_ports: (32_768, 60_999),
            max_receive_window: 32 * 1024 * 1024,
            initial_receive_window: 512 * 1024,
            initial_send_buffer: 256 * 1024,
            max_send_buffer: 4 * 1024 * 1024,
            quantum: 256 * 1024,
            when_full: WhenFull::MakeRoom,
            admission: Admission::Open,
            mtu_probing: MtuProbing::BlackHoles,
            fast_open: FastOpenMode::default(),
            fast_open_keys: [None; 2],
        }
    }
}

impl Config {
    /// The defaults, with the caller's secret.
    pub fn new(secret: [u8; 32]) -> Config {
        Config { limits: Limits::default(), tcp: TcpConfig::default(), secret }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_told_nothing_has_the_defaults() {
        let defaults = ConnOptions {
            nodelay: true,
            congestion: Congestion::Reno,
            max_segment: 900,
            ..ConnOptions::default()
        };
        assert_eq!(
            ConnOptions::of_socket(&SocketOptions::default(), &defaults),
            ConnOptions { urgent_inline: false, ..defaults }
        );
        let told = SocketOptions {
            congestion: clearway_options::Congestion::Cubic,
            mtu: 800,
            ..SocketOptions::default()
        };
        let options = ConnOptions::of_socket(&told, &defaults);
        assert_eq!((options.congestion, options.max_segment), (Congestion::Cubic, 740));
    }
}
