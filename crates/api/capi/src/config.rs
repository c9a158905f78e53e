//! What a stack is told at start.

use clearway_base::Duration;
use clearway_proto::limits::MOST;
use clearway_proto::{Config, Congestion, ConnOptions, EcnMode, Keepalive, WhenFull};

use crate::memory::{is_there, put, read};
use crate::status::{answer, clw_status};

/// How many of each thing, and the settings of TCP. All memory is taken when the stack is made;
/// pages that were never used cost nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_config {
    /// `sizeof(clw_config)` of the header that the program was compiled with.
    pub size: u32,
    /// Connections that the program opened or accepted.
    pub connections: u32,
    /// Handshakes that strangers began; beyond this, SYN cookies.
    pub half_open: u32,
    /// Connections in TIME-WAIT; beyond this the oldest ends early.
    pub time_wait: u32,
    /// Connections that were closed and still wait for the peer.
    pub orphans: u32,
    /// Listeners.
    pub listeners: u32,
    /// UDP sockets.
    pub udp_sockets: u32,
    /// Bytes that wait in one UDP socket, each way.
    pub udp_queue_bytes: u32,
    /// Interfaces.
    pub interfaces: u32,
    /// Addresses over all interfaces.
    pub addresses: u32,
    /// Routes.
    pub routes: u32,
    /// Neighbours (ARP and NDP).
    pub neighbours: u32,
    /// Packets whose bytes wait to be read, over all connections.
    pub receive_packets: u32,
    /// Bytes of memory that the unread packets of one connection may hold on to. Windows grow up to
    /// half of it, as far as the connection is worth it.
    pub receive_limit: u32,
    /// Pieces of memory for bytes that were sent and not acknowledged, over all connections.
    pub send_chunks: u32,
    /// Bytes of each of them.
    pub send_chunk_len: u32,
    /// Bytes that one connection may have sent and not acknowledged, at most. It may have twice its
    /// congestion window.
    pub send_limit: u32,
    /// Buffers of the stack's own: for packets that are handed in to be copied, and for what
    /// arrives in fragments.
    pub copy_buffers: u32,
    /// Bytes of each of them.
    pub copy_buffer_len: u32,
    /// Milliseconds that a connection stays in TIME-WAIT.
    pub time_wait_ms: u32,
    /// Lower bound of the retransmission timeout in milliseconds.
    pub rto_min_ms: u32,
    /// Milliseconds that an acknowledgement may wait for company.
    pub delayed_ack_ms: u32,
    /// First port of those that are chosen for connections.
    pub first_port: u16,
    /// Last one.
    pub last_port: u16,
    /// 0: no timestamps (RFC 7323).
    pub timestamps: u8,
    /// 0: no selective acknowledgements (RFC 2018).
    pub sack: u8,
    /// 0: no window scaling (RFC 7323).
    pub window_scaling: u8,
    /// 0: no SYN cookies (RFC 4987).
    pub syn_cookies: u8,
    /// What becomes of a new connection when every place is taken: one of `CLW_FULL_…`.
    pub when_full: u8,
    /// The key of sequence numbers, ports and tables: 32 bytes from the system's random source. All
    /// zero is refused by the bare layer; the easy layer fills it.
    pub secret: [u8; 32],
}

/// The connection that has been idle longest of the source that has most makes room; the default.
pub const CLW_FULL_MAKE_ROOM: u8 = 0;
/// The new connection is reset.
pub const CLW_FULL_RESET: u8 = 1;
/// The SYN is dropped, and its sender tries again.
pub const CLW_FULL_DROP: u8 = 2;

/// NewReno.
pub const CLW_CONGESTION_RENO: u8 = 0;
/// CUBIC, the default.
pub const CLW_CONGESTION_CUBIC: u8 = 1;
/// BBRv3, which paces its data.
pub const CLW_CONGESTION_BBR: u8 = 2;
/// Prague, which heeds the marks of L4S queues, with a peer that agrees on AccECN; with others CUBIC.
pub const CLW_CONGESTION_PRAGUE: u8 = 3;
/// BBR's first version, which takes no loss for a sign: what Linux names "bbr".
pub const CLW_CONGESTION_BBR1: u8 = 4;

/// Options of one connection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_options {
    /// 1: small segments do not wait for acknowledgements.
    pub nodelay: u8,
    /// 1: only full segments leave until this is taken back.
    pub cork: u8,
    /// One of `CLW_CONGESTION_…`.
    pub congestion: u8,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit, not 0.
    pub ttl: u8,
    /// Probes without answer before the connection fails.
    pub keepalive_count: u8,
    /// Upper bound of the segment size in payload bytes; 0: the link decides.
    pub max_segment: u16,
    /// Milliseconds of silence before the first probe; 0: none.
    pub keepalive_idle_ms: u32,
    /// Milliseconds between probes.
    pub keepalive_interval_ms: u32,
    /// Explicit congestion notification, by the numbers of Linux's tcp_ecn: 0 none, 1 asked for and
    /// accepted, 2 accepted (the default), 3 AccECN asked for and accepted, 4 AccECN accepted and
    /// ECN asked for, 5 AccECN accepted.
    pub ecn: u32,
    /// Give up when data stays unacknowledged for so many milliseconds; 0: the count of
    /// retransmissions decides.
    pub user_timeout_ms: u32,
    /// Bytes in a second that leave at most; 0: as fast as windows and congestion control let them.
    pub max_pacing_rate: u64,
}

/// Fills a configuration with the defaults, the secret with zeros. Set what you want otherwise,
/// then make the stack.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_config_init(config: *mut clw_config) -> clw_status {
    answer(is_there(config).map(|()| put(config, clw_config::default())))
}

/// Fills options with the defaults.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_options_init(options: *mut clw_options) -> clw_status {
    answer(is_there(options).map(|()| put(options, clw_options::from(ConnOptions::default()))))
}

impl Default for clw_config {
    fn default() -> clw_config {
        let Config { limits, tcp, .. } = Config::new([0; 32]);
        clw_config {
            size: size_of::<clw_config>() as u32,
            connections: limits.connections,
            half_open: limits.half_open,
            time_wait: limits.time_wait,
            orphans: limits.orphans,
            listeners: limits.listeners,
            udp_sockets: limits.udp_sockets,
            udp_queue_bytes: limits.udp_queue_bytes,
            interfaces: limits.interfaces.into(),
            addresses: limits.addresses.into(),
            routes: limits.routes,
            neighbours: limits.neighbours,
            receive_packets: 16_384,
            receive_limit: 64 << 20,
            send_chunks: 16_384,
            send_chunk_len: 4_096,
            send_limit: 4 << 20,
            copy_buffers: 1_024,
            copy_buffer_len: 2_048,
            time_wait_ms: tcp.time_wait.as_millis() as u32,
            rto_min_ms: tcp.rto_min.as_millis() as u32,
            delayed_ack_ms: tcp.delayed_ack.as_millis() as u32,
            first_port: tcp.ephemeral_ports.0,
            last_port: tcp.ephemeral_ports.1,
            timestamps: tcp.timestamps.into(),
            sack: tcp.sack.into(),
            window_scaling: tcp.window_scaling.into(),
            syn_cookies: tcp.syn_cookies.into(),
            when_full: match tcp.when_full {
                WhenFull::MakeRoom => CLW_FULL_MAKE_ROOM,
                WhenFull::Reset => CLW_FULL_RESET,
                WhenFull::Drop => CLW_FULL_DROP,
            },
            secret: [0; 32],
        }
    }
}

/// The most memory of one kind: far above what is useful, far below what overflows.
const MOST_BYTES: u64 = 1 << 40;

impl clw_config {
    /// What the caller wants, if it can be.
    ///
    /// # Safety
    /// As for [`read`].
    pub(crate) unsafe fn from_caller(config: *const clw_config) -> Result<clw_config, clw_status> {
        is_there(config)?;
        // The struct of another version may be shorter: its first word is looked at alone.
        let size = read(config.cast::<u32>())?;
        if size as usize != size_of::<clw_config>() {
            return Err(clw_status::CLW_INVALID);
        }
        let config = read(config)?;
        config.check().map(|()| config)
    }

    fn check(&self) -> Result<(), clw_status> {
        let counts = [
            (self.half_open, 1, MOST),
            (self.time_wait, 1, MOST),
            (self.orphans, 0, MOST),
            (self.listeners, 1, 65_536),
            (self.udp_sockets, 0, 65_536),
            (self.udp_queue_bytes, 4_096, 1 << 26),
            (self.interfaces, 1, 1_024),
            (self.addresses, 1, 65_535),
            (self.routes, 1, 1 << 20),
            (self.neighbours, 1, 1 << 20),
            (self.receive_packets, 1, MOST),
            (self.receive_limit, 2_048, 1 << 30),
            (self.send_chunks, 1, MOST),
            (self.send_chunk_len, 64, 1 << 20),
            (self.send_limit, 64, 1 << 30),
            (self.copy_buffers, 0, MOST),
            (self.copy_buffer_len, 0, 1 << 20),
            (self.time_wait_ms, 1, 600_000),
            (self.rto_min_ms, 1, 10_000),
            (self.delayed_ack_ms, 0, 500),
        ];
        let bytes = |count: u32, each: u32| u64::from(count) * u64::from(each);
        let fits = counts.iter().all(|&(value, least, most)| (least..=most).contains(&value))
            && bytes(self.send_chunks, self.send_chunk_len) <= MOST_BYTES
            && bytes(self.copy_buffers, self.copy_buffer_len) <= MOST_BYTES
            && bytes(self.udp_sockets, self.udp_queue_bytes) <= MOST_BYTES
            && self.first_port > 0
            && self.first_port <= self.last_port
            && self.when_full <= CLW_FULL_DROP;
        // What the tables of the core hold at most is known there.
        if fits && self.to_core().limits.check().is_ok() {
            Ok(())
        } else {
            Err(clw_status::CLW_RANGE)
        }
    }

    /// The same as the core has it.
    pub(crate) fn to_core(self) -> Config {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        let mut config = Config::new(self.secret);
        let limits = &mut config.limits;
        limits.connections = self.connections;
        limits.half_open = self.half_open;
        limits.time_wait = self.time_wait;
        limits.orphans = self.orphans;
        limits.listeners = self.listeners;
        limits.udp_sockets = self.udp_sockets;
        limits.udp_queue_bytes = self.udp_queue_bytes;
        // Checked to fit.
        limits.interfaces = self.interfaces as u16;
        limits.addresses = self.addresses as u16;
        limits.routes = self.routes;
        limits.neighbours = self.neighbours;
        let tcp = &mut config.tcp;
        tcp.time_wait = ms(self.time_wait_ms);
        tcp.rto_min = ms(self.rto_min_ms);
        tcp.delayed_ack = ms(self.delayed_ack_ms);
        // Half of the memory is taken to be bytes.
        tcp.max_receive_window = self.receive_limit / 2;
        tcp.max_send_buffer = self.send_limit;
        tcp.ephemeral_ports = (self.first_port, self.last_port);
        tcp.timestamps = self.timestamps != 0;
        tcp.sack = self.sack != 0;
        tcp.window_scaling = self.window_scaling != 0;
        tcp.syn_cookies = self.syn_cookies != 0;
        tcp.when_full = match self.when_full {
            CLW_FULL_RESET => WhenFull::Reset,
            CLW_FULL_DROP => WhenFull::Drop,
            _ => WhenFull::MakeRoom,
        };
        config
    }
}

impl From<ConnOptions> for clw_options {
    fn from(options: ConnOptions) -> clw_options {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let keepalive = options.keepalive.unwrap_or_default();
        clw_options {
            nodelay: options.nodelay.into(),
            cork: options.cork.into(),
            congestion: match options.congestion {
                Congestion::Reno => CLW_CONGESTION_RENO,
                Congestion::Cubic => CLW_CONGESTION_CUBIC,
                Congestion::Bbr => CLW_CONGESTION_BBR,
                Congestion::Bbr1 => CLW_CONGESTION_BBR1,
                Congestion::Prague => CLW_CONGESTION_PRAGUE,
            },
            tos: options.tos,
            ttl: options.ttl,
            keepalive_count: keepalive.count,
            max_segment: options.max_segment,
            keepalive_idle_ms: options.keepalive.map_or(0, |keepalive| ms(keepalive.idle)),
            keepalive_interval_ms: ms(keepalive.interval),
            ecn: options.ecn as u32,
            user_timeout_ms: ms(options.user_timeout),
            max_pacing_rate: options.max_pacing_rate.unwrap_or(0),
        }
    }
}

impl clw_options {
    /// The options that a pointer leads to; null stands for the defaults.
    ///
    /// # Safety
    /// As for [`read`].
    pub(crate) unsafe fn from_caller(
        options: *const clw_options,
    ) -> Result<ConnOptions, clw_status> {
        if options.is_null() { Ok(ConnOptions::default()) } else { read(options)?.to_core() }
    }

    fn to_core(self) -> Result<ConnOptions, clw_status> {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        let congestion = match self.congestion {
            CLW_CONGESTION_RENO => Congestion::Reno,
            CLW_CONGESTION_CUBIC => Congestion::Cubic,
            CLW_CONGESTION_BBR => Congestion::Bbr,
            CLW_CONGESTION_BBR1 => Congestion::Bbr1,
            CLW_CONGESTION_PRAGUE => Congestion::Prague,
            _ => return Err(clw_status::CLW_INVALID),
        };
        let probes = self.keepalive_idle_ms > 0;
        if self.ttl == 0
            || (probes && (self.keepalive_interval_ms == 0 || self.keepalive_count == 0))
        {
            return Err(clw_status::CLW_RANGE);
        }
        let keepalive = probes.then(|| Keepalive {
            idle: ms(self.keepalive_idle_ms),
            interval: ms(self.keepalive_interval_ms),
            count: self.keepalive_count,
        });
        Ok(ConnOptions {
            nodelay: self.nodelay != 0,
            cork: self.cork != 0,
            keepalive,
            user_timeout: ms(self.user_timeout_ms),
            max_segment: self.max_segment,
            congestion,
            tos: self.tos,
            ttl: self.ttl,
            ecn: EcnMode::of(self.ecn.into()).ok_or(clw_status::CLW_INVALID)?,
            max_pacing_rate: Some(self.max_pacing_rate).filter(|rate| *rate > 0),
            ..ConnOptions::default()
        })
    }
}
