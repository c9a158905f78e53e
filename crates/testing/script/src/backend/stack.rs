//! Clearway's core as the stack under test, in virtual time: nothing takes time but waiting, and
//! waiting takes none.

mod sockets;

use std::collections::VecDeque;

use clearway_base::{Duration, Instant};
use clearway_options::SocketOptions;
use clearway_pkt::{Burst, Iface, Offloads, Pool, PoolBuf, RxMeta, Sink, TxMeta};
use clearway_proto::store::{RingRx, RingTx};
use clearway_proto::{
    Config, Congestion, EcnMode, Env, FastOpenMode, InterfaceSpec, Link, MtuProbing, NextHop,
    Stack, Table, TcpConfig, fast_open_keys,
};
use clearway_wire::{Addr, Cidr, Endpoint};

use super::{Backend, Fd, Info, Net, Op, Reply, Sent};
use crate::ast::{Arg, Micros, Script, What};
use crate::settings::{knobs, only_knobs};
use sockets::{Progress, Sockets};

/// The types that the core is built over here.
pub struct ScriptEnv;

impl Env for ScriptEnv {
    type Buf = PoolBuf;
    type Rx = RingRx;
    type Tx = RingTx;
}

/// The instant at which scripts begin: not zero, so that nothing rests on that.
const BEGIN: Instant = Instant::from_millis(1_000_000);
/// Time goes on at least this much when a deadline that is due does not go away.
const TICK: Duration = Duration::from_micros(50);
/// The buffers of connections, unless the script sets others.
const RECEIVE_BUFFER: u32 = 4 * 1024 * 1024;
const SEND_BUFFER: u32 = 256 * 1024;
/// The memory of all connections each way, and the chunks that it is taken in. What is never
/// touched costs nothing.
const ARENA: u32 = 64 * 1024 * 1024;
const CHUNK: u32 = 4096;
/// Rounds of sending and looking at calls at one instant, before something must be wrong.
const ROUNDS: usize = 10_000;

/// The core under test.
pub struct Core {
    stack: Stack<ScriptEnv>,
    pool: Pool,
    now: Instant,
    sink: Collected,
    sockets: Sockets,
    pending: Option<Progress>,
    reply: Option<(Reply, Micros)>,
    /// Commands that were heeded when the stack was built.
    heeded: Vec<String>,
}

#[derive(Default)]
struct Collected {
    now: Micros,
    room: Vec<u8>,
    sent: VecDeque<Sent>,
}

impl Sink for Collected {
    fn reserve(&mut self, _iface: Iface, len: usize) -> Option<&mut [u8]> {
        self.room.clear();
        // Whatever was here before must not matter.
        self.room.resize(len, 0xa5);
        Some(&mut self.room)
    }

    fn commit(&mut self, _iface: Iface, len: usize, _meta: TxMeta) {
        self.sent.push_back(Sent { at: self.now, bytes: self.room[..len].to_vec() });
    }
}

impl Core {
    /// A stack as the script wants it, with one interface.
    pub fn new(net: Net, script: &Script) -> Core {
        let mut config = Config::new(*b"packet scripts need no true luck");
        // As Linux's knobs stand beside it (`kernel/namespace.rs`).
        config.tcp.tail_loss_probe = false;
        config.tcp.defaults.ecn = EcnMode::Off;
        config.tcp.fast_open = FastOpenMode::of(0);
        let commands = script.settings.commands.clone();
        for (name, value) in commands.iter().flat_map(|command| knobs(command)) {
            turn_knob(&mut config.tcp, &name, &value);
        }
        let limits = &mut config.limits;
        (limits.connections, limits.half_open, limits.time_wait, limits.orphans) = (64, 64, 64, 64);
        (limits.reassembly_maps, limits.sack_maps, limits.listeners, limits.udp_sockets) =
            (64, 64, 8, 8);
        let of_knob = |wanted: &str| {
            let mut found = commands
                .iter()
                .flat_map(|command| knobs(command))
                .filter(|(name, _)| name.ends_with(wanted));
            found.next_back().and_then(|(_, value)| largest(&value))
        };
        let receive =
            buffer_size(script, "SO_RCVBUF").or(of_knob(".tcp_rmem")).unwrap_or(RECEIVE_BUFFER);
        let send = buffer_size(script, "SO_SNDBUF").or(of_knob(".tcp_wmem")).unwrap_or(SEND_BUFFER);
        config.tcp.max_receive_window = receive;
        let rx = RingRx::new(ARENA / CHUNK, CHUNK, receive);
        let tx = RingTx::new(ARENA / CHUNK, CHUNK, send);
        let mut stack = Stack::new(config, rx, tx);
        let pool = Pool::new(64, 65_536);
        let spare = pool.clone();
        stack.set_buffer_maker(Box::new(move |bytes| spare.copy_of(bytes)));
        let spec = InterfaceSpec {
            link: Link::Raw,
            mtu: net.mtu,
            offloads: Offloads::default(),
            table: Table(0),
        };
        let iface = stack.add_interface(spec).expect("a new stack takes an interface");
        stack.set_up(iface, true);
        let (prefix_len, any) = if net.v6() { (64, Addr::ANY_V6) } else { (24, Addr::ANY_V4) };
        let own =
            Cidr::new(net.local, prefix_len).expect("the prefix is no longer than the address");
        stack.add_address(BEGIN, iface, own).expect("a new interface takes an address");
        let all = Cidr::new(any, 0).expect("a prefix of nothing is one");
        stack
            .add_route(Table(0), all, NextHop::Interface(iface))
            .expect("a new stack takes a route");
        let mut sockets = Sockets::new(net);
        for (name, value) in commands.iter().flat_map(|command| knobs(command)) {
            turn_socket_knob(&mut sockets.first, &name, &value);
        }
        Core {
            stack,
            pool,
            now: BEGIN,
            sink: Collected::default(),
            sockets,
            pending: None,
            reply: None,
            heeded: commands,
        }
    }

    /// The peer of a connection.
    pub fn remote(&self, fd: Fd) -> Option<Endpoint> {
        self.stack.remote(self.sockets.conn(fd)?)
    }

    /// Bytes of a connection that wait to be read, and bytes that were written and not
    /// acknowledged.
    pub fn queued(&self, fd: Fd) -> Option<(u32, u32)> {
        let conn = self.sockets.conn(fd)?;
        Some((self.stack.unread(conn), self.stack.queued(conn)))
    }

    /// Heeds knobs that were turned while the stack runs, given as the commands that do so. The
    /// stores stay as they are.
    pub fn turn(&mut self, commands: &[String]) {
        let turned = || commands.iter().flat_map(|command| knobs(command));
        for (name, value) in turned() {
            turn_socket_knob(&mut self.sockets.first, &name, &value);
        }
        self.stack.reconfigure_tcp(|tcp| {
            for (name, value) in turned() {
                turn_knob(tcp, &name, &value);
            }
        });
    }

    /// Whether the peer has sent all that it will.
    pub fn is_at_end(&self, fd: Fd) -> bool {
        self.sockets.conn(fd).is_some_and(|conn| self.stack.peer_closed(conn))
    }

    /// What changes whenever `EPOLLET` would tell of something to read, and of room to write.
    pub fn edges(&self, fd: Fd) -> (u64, u64) {
        self.sockets.edges(&self.stack, fd)
    }

    /// Forgets the call in progress: nobody waits for its reply any more.
    pub fn abandon(&mut self) {
        (self.pending, self.reply) = (None, None);
    }

    fn micros(&self) -> Micros {
        (self.now.as_nanos() - BEGIN.as_nanos()) as Micros / 1000
    }

    /// Everything that can happen at this instant happens.
    fn settle(&mut self) {
        self.sink.now = self.micros();
        for _ in 0..ROUNDS {
            let more = self.stack.emit(self.now, &mut self.sink);
            while let Some(event) = self.stack.next_event() {
                self.sockets.event(event);
            }
            if let Some(progress) = &mut self.pending {
                if let Some(reply) = self.sockets.step(&mut self.stack, self.now, progress) {
                    self.reply = Some((reply, self.micros()));
                    self.pending = None;
                    continue;
                }
            }
            if !more && !self.stack.wants_emit() {
                return;
            }
        }
        panic!("the stack always wants to send and never stops");
    }
}

/// The value that the script sets a buffer to, anywhere: the core's stores are as large from the
/// start.
fn buffer_size(script: &Script, option: &str) -> Option<u32> {
    script.events.iter().find_map(|event| match &event.what {
        What::Call(call)
            if call.name == "setsockopt"
                && call.args.get(2) == Some(&Arg::Names(vec![option.into()])) =>
        {
            match call.args.get(3) {
                Some(Arg::List(items)) => match items.first() {
                    Some(Arg::Number(value)) => u32::try_from(*value).ok(),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    })
}

/// The last of three sizes, the largest that a buffer may grow to, as `tcp_rmem` and `tcp_wmem`
/// name them.
fn largest(value: &str) -> Option<u32> {
    value.split_whitespace().nth(2)?.parse().ok()
}

/// Linux's knobs below `net.ipv4` that the core has too.
pub const KNOBS: &[&str] = &[
    "tcp_timestamps",
    "tcp_sack",
    "tcp_dsack",
    "tcp_early_retrans",
    "tcp_ecn",
    "tcp_slow_start_after_idle",
    "tcp_window_scaling",
    "tcp_syncookies",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_retries2",
    "tcp_fin_timeout",
    "tcp_rto_min_us",
    "tcp_rto_max_ms",
    "tcp_rmem",
    "tcp_wmem",
    "tcp_mtu_probing",
    "tcp_congestion_control",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_notsent_lowat",
    "tcp_keepalive_time",
    "tcp_keepalive_intvl",
    "tcp_keepalive_probes",
];

/// What a socket begins with by those of [`KNOBS`] that Linux reads for each socket.
fn turn_socket_knob(options: &mut SocketOptions, name: &str, value: &str) {
    let Some(number) = number_of(value) else { return };
    let short = u32::try_from(number).unwrap_or(u32::MAX);
    match name.rsplit('.').next().unwrap_or_default() {
        "tcp_notsent_lowat" => options.notsent_lowat = short,
        "tcp_keepalive_time" => options.keep_idle = short,
        "tcp_keepalive_intvl" => options.keep_interval = short,
        "tcp_keepalive_probes" => options.keep_count = number.min(255) as u8,
        _ => {}
    }
}

/// The first number of a value, decimal or, with `0x`, hexadecimal.
fn number_of(value: &str) -> Option<u64> {
    let word = value.split_whitespace().next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Turns one of [`KNOBS`]; the script's other commands do nothing here.
fn turn_knob(tcp: &mut TcpConfig, name: &str, value: &str) {
    let number = number_of(value).unwrap_or(0);
    let small = number.min(255) as u8;
    match name.rsplit('.').next().unwrap_or_default() {
        "tcp_timestamps" => tcp.timestamps = number != 0,
        "tcp_sack" => tcp.sack = number != 0,
        "tcp_dsack" => tcp.dsack = number != 0,
        "tcp_slow_start_after_idle" => tcp.slow_start_after_idle = number != 0,
        "tcp_early_retrans" => tcp.tail_loss_probe = number >= 3,
        "tcp_window_scaling" => tcp.window_scaling = number != 0,
        "tcp_syncookies" => tcp.syn_cookies = number != 0,
        "tcp_syn_retries" => tcp.syn_retries = small,
        "tcp_synack_retries" => tcp.syn_ack_retries = small,
        "tcp_retries2" => tcp.retries = small,
        "tcp_fin_timeout" => tcp.fin_wait_2 = Duration::from_secs(number),
        "tcp_rto_min_us" => tcp.rto_min = Duration::from_micros(number),
        "tcp_rto_max_ms" => tcp.rto_max = Duration::from_millis(number),
        // Linux chooses the scale by the largest buffer; what a window may be at most is the
        // store's matter, which was made with it.
        "tcp_rmem" => tcp.max_receive_window = largest(value).unwrap_or(tcp.max_receive_window),
        "tcp_ecn" => tcp.defaults.ecn = EcnMode::of(number).unwrap_or_default(),
        "tcp_fastopen" => tcp.fast_open = FastOpenMode::of(number as u32),
        // Linux shows zeros until it has made a key for itself.
        "tcp_fastopen_key" => {
            tcp.fast_open_keys = fast_open_keys(value)
                .map(|keys| keys.map(|key| key.filter(|key| *key != [0; 16])))
                .unwrap_or_default();
        }
        "tcp_wmem" => tcp.max_send_buffer = largest(value).unwrap_or(tcp.max_send_buffer),
        "tcp_mtu_probing" => {
            tcp.mtu_probing = match number {
                0 => MtuProbing::Never,
                1 => MtuProbing::BlackHoles,
                _ => MtuProbing::Always,
            }
        }
        "tcp_congestion_control" => {
            tcp.defaults.congestion = match value {
                "reno" => Congestion::Reno,
                "bbr" => Congestion::Bbr,
                "bbr1" => Congestion::Bbr1,
                "prague" => Congestion::Prague,
                _ => Congestion::Cubic,
            };
        }
        _ => {}
    }
}

impl Backend for Core {
    fn now(&self) -> Micros {
        self.micros()
    }

    fn advance(&mut self, until: Micros) -> Result<(), String> {
        let target = BEGIN + Duration::from_micros(until.max(0) as u64);
        self.settle();
        while self.sink.sent.is_empty() && self.reply.is_none() && self.now < target {
            let wake = self.pending.as_ref().map_or(Instant::NEVER, |progress| progress.deadline);
            let due = self.stack.next_deadline().min(wake);
            let next = if due > self.now { due } else { self.now + TICK };
            self.now = next.min(target);
            self.stack.expire(self.now);
            self.settle();
        }
        Ok(())
    }

    fn inject(&mut self, packet: &[u8]) -> Result<(), String> {
        let mut burst = Burst::new();
        let buf = self.pool.copy_of(packet).ok_or("the stack keeps all buffers")?;
        burst.push(buf, RxMeta::default()).map_err(|_| "a new burst is full")?;
        self.stack.ingest(self.now, &mut burst);
        self.settle();
        Ok(())
    }

    fn sent(&mut self) -> Option<Sent> {
        self.sink.sent.pop_front()
    }

    fn call(&mut self, op: Op) -> Result<(), String> {
        let mut progress = Progress::new(op, self.now);
        match self.sockets.step(&mut self.stack, self.now, &mut progress) {
            Some(reply) => self.reply = Some((reply, self.micros())),
            None => self.pending = Some(progress),
        }
        self.settle();
        Ok(())
    }

    fn reply(&mut self) -> Option<(Reply, Micros)> {
        self.reply.take()
    }

    fn info(&mut self, fd: Fd) -> Result<Info, String> {
        let conn = self.sockets.conn(fd).ok_or("that is no connection")?;
        self.stack
            .info(conn)
            .map(|info| super::told(&info.to_linux()))
            .ok_or("the connection is over".into())
    }

    fn command(&mut self, command: &str) -> Result<(), String> {
        if self.heeded.iter().any(|known| known == command) {
            return Ok(());
        }
        if !only_knobs(command) {
            return Err("the core takes no commands but sysctl".into());
        }
        self.turn(&[command.to_owned()]);
        Ok(())
    }

    fn tolerance(&self) -> Micros {
        4_000
    }

    fn call_limit(&self) -> Micros {
        0
    }
}
