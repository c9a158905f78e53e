//! Sockets as programs know them, over the verbs of the core: numbers, blocking, errors that are
//! told once.

use std::collections::BTreeMap;

use clearway_base::{Duration, Instant};
use clearway_options::{Field, How, SocketOptions};
use clearway_proto::{
    ConnId, ConnOptions, ConnectError, ConnectSpec, Event, Failure, FastOpenConnect,
    FastOpenListener, ListenError, ListenSpec, ListenerId, RecvError, SendError, Stack, State,
    Table, UdpError, UdpId, UdpSpec, Unreachable,
};
use clearway_wire::{Addr, Endpoint};

use super::ScriptEnv;
use crate::backend::{
    Fd, How as Side, Net, Op, OptionValue, ReadFlags, Reply, SetOption, Told, WriteFlags, poll,
};
use crate::errno::Errno;
use crate::settings::IpVersion;

/// A call on its way.
pub(super) struct Progress {
    op: Op,
    /// When it ends at the latest.
    pub(super) deadline: Instant,
    /// It was tried before.
    begun: bool,
    /// Bytes that a write has put into the socket so far.
    written: usize,
}

impl Progress {
    pub(super) fn new(op: Op, now: Instant) -> Progress {
        let deadline = match &op {
            Op::Poll(_, Some(ms)) | Op::Edges(_, Some(ms)) => {
                now + Duration::from_millis(u64::from(*ms))
            }
            _ => Instant::NEVER,
        };
        Progress { op, deadline, begun: false, written: 0 }
    }
}

enum Kind {
    Fresh { stream: bool },
    Listener { id: ListenerId, incoming: bool },
    Conn { id: ConnId, connecting: bool },
    Udp(UdpId),
}

struct Socket {
    kind: Kind,
    blocks: bool,
    bound: Option<Endpoint>,
    options: SocketOptions,
    /// The failure of the connection was told.
    told: bool,
    deaf: bool,
    /// The program has ended its side.
    mute: bool,
    /// Connections that came to a listener, and writes that were cut short for want of room.
    arrivals: u64,
    shorts: u64,
}

/// All sockets of the program.
pub(super) struct Sockets {
    net: Net,
    all: BTreeMap<Fd, Socket>,
    next: Fd,
    /// What a socket begins with.
    pub(super) first: SocketOptions,
}

/// What a try came to: Err means that it would block.
type Tried = Result<Reply, WouldBlock>;
struct WouldBlock;

fn ok(value: usize) -> Tried {
    Ok(Reply::of(Ok(value as i64)))
}

fn fail(errno: Errno) -> Tried {
    Ok(Reply::of(Err(errno)))
}

/// A script's socket keeps urgent data in the stream until it says otherwise, as the core does.
fn options_at_first() -> SocketOptions {
    SocketOptions { oob_inline: true, ..SocketOptions::default() }
}

fn of_core(stack: &Stack<ScriptEnv>, options: &SocketOptions) -> ConnOptions {
    ConnOptions::of_socket(options, stack.defaults())
}

impl Sockets {
    pub(super) fn new(net: Net) -> Sockets {
        Sockets { net, all: BTreeMap::new(), next: 1, first: options_at_first() }
    }

    /// The connection behind a socket.
    pub(super) fn conn(&self, fd: Fd) -> Option<ConnId> {
        match self.all.get(&fd)?.kind {
            Kind::Conn { id, .. } => Some(id),
            _ => None,
        }
    }

    /// What the stack tells.
    pub(super) fn event(&mut self, event: Event) {
        let Event::Incoming { listener, .. } = event else { return };
        for socket in self.all.values_mut() {
            if let Kind::Listener { id, incoming } = &mut socket.kind {
                *incoming |= *id == listener;
                socket.arrivals += u64::from(*id == listener);
            }
        }
    }

    /// Tries to end a call; None when it has to wait.
    pub(super) fn step(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        now: Instant,
        progress: &mut Progress,
    ) -> Option<Reply> {
        let op = progress.op.clone();
        let fd = fd_of(&op);
        let waits = match fd.map(|fd| self.all.get(&fd)) {
            Some(None) => return Some(Reply::of(Err(Errno::BAD_FD))),
            Some(Some(socket)) => {
                socket.blocks
                    && !matches!(
                        op,
                        Op::Read(_, _, ReadFlags { dont_wait: true, .. })
                            | Op::Write(_, _, WriteFlags { dont_wait: true, .. })
                            | Op::WriteFirst(_, _, _, WriteFlags { dont_wait: true, .. })
                    )
            }
            None => true,
        };
        let first = !std::mem::replace(&mut progress.begun, true);
        let tried = match op {
            Op::Connect(fd, to) => self.connect(stack, now, fd, to, first),
            Op::Write(fd, ref bytes, flags) => self.write(stack, fd, bytes, flags, progress, waits),
            Op::WriteFirst(fd, ref bytes, to, flags) => {
                self.write_first(stack, now, (fd, to), (bytes, flags), progress, first)
            }
            Op::Poll(ref wanted, _) => self.poll(stack, wanted, now >= progress.deadline),
            Op::Edges(ref wanted, _) => self.poll_edges(stack, wanted, now >= progress.deadline),
            other => self.simple(stack, other),
        };
        match tried {
            Ok(reply) => Some(reply),
            Err(WouldBlock) if waits => None,
            Err(WouldBlock)
                if matches!(progress.op, Op::Connect(..) | Op::WriteFirst(..))
                    && progress.written == 0 =>
            {
                Some(Reply::of(Err(Errno::IN_PROGRESS)))
            }
            Err(WouldBlock) if progress.written > 0 => Some(Reply::of(Ok(progress.written as i64))),
            Err(WouldBlock) => Some(Reply::of(Err(Errno::AGAIN))),
        }
    }

    fn simple(&mut self, stack: &mut Stack<ScriptEnv>, op: Op) -> Tried {
        match op {
            Op::Socket(stream) => ok(self.add(Kind::Fresh { stream }, self.first) as usize),
            Op::Bind(fd, port) => self.bind(stack, fd, port),
            Op::Listen(fd, backlog) => self.listen(stack, fd, backlog),
            Op::Accept(fd) => self.accept(stack, fd),
            Op::Read(fd, len, flags) => self.read(stack, fd, len, flags),
            Op::SendTo(fd, bytes, to) => self.send_to(stack, fd, &bytes, Some(to)),
            Op::Shutdown(fd, how) => self.shutdown(stack, fd, how),
            Op::Close(fd) => self.close(stack, fd),
            Op::Set(fd, option) => self.set(stack, fd, option),
            Op::TakeError(fd) => self.take_error(stack, fd),
            Op::Block(fd, block) => self.with(fd, |socket| socket.blocks = block),
            Op::Connect(..) | Op::Write(..) | Op::WriteFirst(..) | Op::Poll(..) | Op::Edges(..) => {
                fail(Errno::INVALID)
            }
        }
    }

    fn add(&mut self, kind: Kind, options: SocketOptions) -> Fd {
        let fd = self.next;
        self.next += 1;
        let socket = Socket {
            kind,
            blocks: true,
            bound: None,
            options,
            told: false,
            deaf: false,
            mute: false,
            arrivals: 0,
            shorts: 0,
        };
        self.all.insert(fd, socket);
        fd
    }

    fn get(&mut self, fd: Fd) -> &mut Socket {
        self.all.get_mut(&fd).expect("step has looked whether the socket is there")
    }

    fn with(&mut self, fd: Fd, change: impl FnOnce(&mut Socket)) -> Tried {
        change(self.get(fd));
        ok(0)
    }

    fn bind(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd, port: u16) -> Tried {
        let mapped = self.net.version == IpVersion::V4Mapped;
        let addr = if mapped { Addr::ANY_V6 } else { self.net.local };
        let local = Endpoint::new(addr, port);
        let socket = self.get(fd);
        match socket.kind {
            Kind::Fresh { stream: true } => socket.bound = Some(local),
            Kind::Fresh { stream: false } => {
                return match stack.udp_bind(UdpSpec {
                    table: Table(0),
                    local,
                    token: u64::from(fd),
                    v6_only: false,
                }) {
                    Ok(id) => self.with(fd, |socket| socket.kind = Kind::Udp(id)),
                    Err(error) => fail(udp_errno(error)),
                };
            }
            _ => return fail(Errno::INVALID),
        }
        ok(0)
    }

    fn listen(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd, backlog: u32) -> Tried {
        let socket = self.get(fd);
        let (Kind::Fresh { stream: true }, Some(local)) = (&socket.kind, socket.bound) else {
            return fail(Errno::INVALID);
        };
        let options = of_core(stack, &socket.options);
        let spec = ListenSpec {
            table: Table(0),
            local,
            v6_only: false,
            backlog,
            token: u64::from(fd),
            options,
        };
        match stack.listen(spec) {
            Ok(id) => {
                stack.set_fast_open(id, FastOpenListener::of_socket(&self.get(fd).options));
                self.with(fd, |socket| socket.kind = Kind::Listener { id, incoming: false })
            }
            Err(ListenError::InUse) => fail(Errno::IN_USE),
            Err(ListenError::BadAddress) => fail(Errno::NOT_AVAILABLE),
            Err(_) => fail(Errno::NO_MEMORY),
        }
    }

    fn accept(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd) -> Tried {
        let socket = self.get(fd);
        let Kind::Listener { id, incoming } = &mut socket.kind else { return fail(Errno::INVALID) };
        let Some(conn) = stack.accept(*id) else {
            *incoming = false;
            return Err(WouldBlock);
        };
        let options = socket.options;
        let new = self.add(Kind::Conn { id: conn, connecting: false }, options);
        stack.set_token(conn, u64::from(new));
        ok(new as usize)
    }

    fn connect(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        now: Instant,
        fd: Fd,
        to: Endpoint,
        first: bool,
    ) -> Tried {
        let mapped = self.net.version == IpVersion::V4Mapped;
        let any = if self.net.v6() || mapped { Addr::ANY_V6 } else { Addr::ANY_V4 };
        let socket = self.get(fd);
        match socket.kind {
            Kind::Fresh { stream: true } => {
                // A mapped socket that was bound to every address takes the one of the route.
                let local = socket.bound.map(|local| {
                    if mapped { Endpoint::new(Addr::ANY_V4, local.port) } else { local }
                });
                let options = of_core(stack, &socket.options);
                let spec = ConnectSpec {
                    table: Table(0),
                    local,
                    remote: to,
                    token: u64::from(fd),
                    options,
                };
                let how = FastOpenConnect {
                    waits_for_data: true,
                    without_cookie: socket.options.fast_open_no_cookie,
                };
                let early = socket.options.fast_open_connect;
                match stack.connect(now, spec) {
                    // As on Linux the program goes on as if it were connected.
                    Ok(id) if early && stack.begin_fast_open(now, id, how) => {
                        socket.kind = Kind::Conn { id, connecting: false };
                        return ok(0);
                    }
                    Ok(id) => socket.kind = Kind::Conn { id, connecting: true },
                    Err(ConnectError::NoRoute) => return fail(Errno::NET_UNREACHABLE),
                    Err(ConnectError::BadAddress) => return fail(Errno::NET_UNREACHABLE),
                    Err(ConnectError::InUse | ConnectError::NoPorts) => {
                        return fail(Errno::NOT_AVAILABLE);
                    }
                    Err(_) => return fail(Errno::NO_MEMORY),
                }
                Err(WouldBlock)
            }
            Kind::Fresh { stream: false } => {
                let spec = UdpSpec {
                    table: Table(0),
                    local: Endpoint::new(any, 0),
                    token: u64::from(fd),
                    v6_only: false,
                };
                match stack.udp_bind(spec).and_then(|id| stack.udp_connect(id, to).map(|()| id)) {
                    Ok(id) => self.with(fd, |socket| socket.kind = Kind::Udp(id)),
                    Err(error) => fail(udp_errno(error)),
                }
            }
            Kind::Udp(id) => match stack.udp_connect(id, to) {
                Ok(()) => ok(0),
                Err(error) => fail(udp_errno(error)),
            },
            Kind::Conn { id, ref mut connecting } => match (stack.failure(id), stack.state(id)) {
                (Some(failure), _) if !socket.told => {
                    socket.told = true;
                    fail(failure_errno(failure))
                }
                (Some(_), _) => fail(Errno::REFUSED),
                (None, State::SynSent | State::SynReceived) if first && !socket.blocks => {
                    fail(Errno::ALREADY)
                }
                (None, State::SynSent | State::SynReceived) => Err(WouldBlock),
                (None, _) if *connecting => {
                    *connecting = false;
                    ok(0)
                }
                (None, _) => fail(Errno::CONNECTED),
            },
            Kind::Listener { .. } => fail(Errno::CONNECTED),
        }
    }

    /// `sendto` with MSG_FASTOPEN: connects; what is written leaves with the SYN where it may, and
    /// behind the handshake where it may not.
    fn write_first(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        now: Instant,
        (fd, to): (Fd, Endpoint),
        (bytes, flags): (&[u8], WriteFlags),
        progress: &mut Progress,
        first: bool,
    ) -> Tried {
        let socket = self.get(fd);
        let waits = socket.blocks && !flags.dont_wait;
        if let Kind::Fresh { stream: true } = socket.kind {
            let asked = std::mem::replace(&mut socket.options.fast_open_connect, true);
            let begun = self.connect(stack, now, fd, to, first);
            self.get(fd).options.fast_open_connect = asked;
            match begun {
                // Data goes with the SYN.
                Ok(reply) if reply.value.is_ok() => {
                    self.get(fd).kind = match self.get(fd).kind {
                        Kind::Conn { id, .. } => Kind::Conn { id, connecting: true },
                        _ => return fail(Errno::INVALID),
                    };
                    let written = self.write(stack, fd, bytes, flags, progress, waits)?;
                    return if waits { Err(WouldBlock) } else { Ok(written) };
                }
                Ok(failed) => return Ok(failed),
                Err(WouldBlock) => return Err(WouldBlock),
            }
        }
        if let Kind::Conn { connecting: true, .. } = self.get(fd).kind {
            let done = self.connect(stack, now, fd, to, first)?;
            if done.value.is_err() {
                return Ok(done);
            }
        }
        self.write(stack, fd, bytes, flags, progress, waits)
    }

    /// The failure of a connection, the first time that it is asked for.
    fn failure(&mut self, stack: &Stack<ScriptEnv>, fd: Fd) -> Option<Errno> {
        let socket = self.get(fd);
        let Kind::Conn { id, .. } = socket.kind else { return None };
        let failure = stack.failure(id)?;
        // As in Linux: to who still writes a peer that has ended is one who reads no more.
        let in_close_wait = stack.peer_closed(id) && !socket.mute;
        let errno = match failure {
            Failure::Reset if in_close_wait => Errno::PIPE,
            failure => failure_errno(failure),
        };
        (!std::mem::replace(&mut socket.told, true)).then_some(errno)
    }

    fn read(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd, len: u32, flags: ReadFlags) -> Tried {
        let id = match self.get(fd).kind {
            Kind::Conn { id, .. } => id,
            Kind::Udp(id) => return self.read_datagram(stack, id, len),
            _ => return fail(Errno::NOT_CONNECTED),
        };
        // A read ends before the urgent byte, so that the program can tell where it is.
        let ahead = stack.urgent(id).map_or(len, |mark| mark.saturating_sub(1));
        let len = if ahead == 0 { len } else { len.min(ahead) };
        let mut data = Vec::new();
        while data.len() < len as usize {
            match stack.recv(id) {
                Ok([]) => break,
                Ok(bytes) => {
                    let count = bytes.len().min(len as usize - data.len());
                    data.extend_from_slice(&bytes[..count]);
                    if flags.peek {
                        break;
                    }
                    stack.consumed(id, count as u32);
                }
                // Behind the end of the stream there is no error to read.
                Err(RecvError::Failed(_)) if data.is_empty() && !stack.peer_closed(id) => {
                    return self.failure(stack, fd).map_or_else(|| ok(0), fail);
                }
                Err(_) => break,
            }
        }
        if data.is_empty() && len > 0 && !stack.peer_closed(id) && !self.get(fd).deaf {
            return Err(WouldBlock);
        }
        Ok(Reply { value: Ok(data.len() as i64), data, ready: Vec::new() })
    }

    fn read_datagram(&mut self, stack: &mut Stack<ScriptEnv>, id: UdpId, len: u32) -> Tried {
        if let Some(error) = stack.udp_error(id) {
            return fail(unreachable_errno(error));
        }
        let Some(datagram) = stack.udp_recv(id) else { return Err(WouldBlock) };
        let data = datagram.payload[..datagram.payload.len().min(len as usize)].to_vec();
        Ok(Reply { value: Ok(data.len() as i64), data, ready: Vec::new() })
    }

    fn write(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        fd: Fd,
        bytes: &[u8],
        flags: WriteFlags,
        progress: &mut Progress,
        waits: bool,
    ) -> Tried {
        let id = match self.get(fd).kind {
            Kind::Conn { id, .. } => id,
            Kind::Udp(_) => return self.send_to(stack, fd, bytes, None),
            _ => return fail(Errno::PIPE),
        };
        if !has_room_to_write(stack, id, &self.get(fd).options, 1) {
            self.get(fd).shorts += 1;
            return Err(WouldBlock);
        }
        let rest = &bytes[progress.written..];
        let taken = match flags {
            WriteFlags { urgent: true, .. } => stack.send_urgent(id, rest),
            WriteFlags { ends_record: true, .. } => stack.send_record(id, rest),
            WriteFlags { more: true, .. } => stack.send_more(id, rest),
            _ => stack.send(id, rest),
        };
        match taken {
            Ok(count) => progress.written += count,
            Err(SendError::Failed(_)) => {
                return fail(self.failure(stack, fd).unwrap_or(Errno::PIPE));
            }
            Err(_) => return fail(Errno::PIPE),
        }
        self.get(fd).shorts += u64::from(progress.written < bytes.len());
        let enough = progress.written == bytes.len() || (!waits && progress.written > 0);
        if enough { ok(progress.written) } else { Err(WouldBlock) }
    }

    fn send_to(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        fd: Fd,
        bytes: &[u8],
        to: Option<Endpoint>,
    ) -> Tried {
        if let Kind::Fresh { stream: false } = self.get(fd).kind {
            let any = if self.net.v6() { Addr::ANY_V6 } else { Addr::ANY_V4 };
            let spec = UdpSpec {
                table: Table(0),
                local: Endpoint::new(any, 0),
                token: u64::from(fd),
                v6_only: false,
            };
            match stack.udp_bind(spec) {
                Ok(id) => self.get(fd).kind = Kind::Udp(id),
                Err(error) => return fail(udp_errno(error)),
            }
        }
        let Kind::Udp(id) = self.get(fd).kind else { return fail(Errno::INVALID) };
        if let Some(error) = stack.udp_error(id) {
            return fail(unreachable_errno(error));
        }
        match stack.udp_send(id, to, None, bytes) {
            Ok(()) => ok(bytes.len()),
            Err(UdpError::Full) => Err(WouldBlock),
            Err(error) => fail(udp_errno(error)),
        }
    }

    fn shutdown(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd, how: Side) -> Tried {
        let socket = self.get(fd);
        let Kind::Conn { id, .. } = socket.kind else { return fail(Errno::NOT_CONNECTED) };
        socket.deaf |= how != Side::Write;
        if how == Side::Read {
            return ok(0);
        }
        socket.mute = true;
        match stack.shutdown(id) {
            Ok(()) | Err(SendError::Closed) => ok(0),
            Err(_) => fail(Errno::NOT_CONNECTED),
        }
    }

    fn close(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd) -> Tried {
        if let Some(socket) = self.all.remove(&fd) {
            match socket.kind {
                Kind::Conn { id, .. } if socket.options.linger == Some(0) => stack.abort(id),
                Kind::Conn { id, .. } => stack.close(id),
                Kind::Listener { id, .. } => stack.unlisten(id),
                Kind::Udp(id) => stack.udp_close(id),
                Kind::Fresh { .. } => {}
            }
        }
        ok(0)
    }

    fn set(
        &mut self,
        stack: &mut Stack<ScriptEnv>,
        fd: Fd,
        SetOption { option, value }: SetOption,
    ) -> Tried {
        let socket = self.get(fd);
        let options = &mut socket.options;
        match (option.how, value) {
            (_, OptionValue::Linger(wait)) => {
                options.linger = wait.map(|s| u16::try_from(s).unwrap_or(u16::MAX))
            }
            (_, OptionValue::Name(name)) => {
                match clearway_options::Congestion::named(name.as_bytes()) {
                    Some(congestion) => options.congestion = congestion,
                    None => return fail(Errno::NO_ENTRY),
                }
            }
            (How::Shaped(Field::Tos), OptionValue::Number(number)) => options.tos = number as u8,
            (How::Shaped(Field::ReceiveBuffer), OptionValue::Number(number)) => {
                options.receive_buffer = number.max(0) as u32;
            }
            (How::Shaped(Field::SendBuffer), OptionValue::Number(number)) => {
                options.send_buffer = number.max(0) as u32
            }
            (_, OptionValue::Bytes(keys)) => {
                if !options.set_fast_open_keys(&keys) {
                    return fail(Errno::INVALID);
                }
            }
            // As on Linux these are for sockets that did not begin, and for listeners.
            (
                How::Shaped(Field::FastOpen | Field::FastOpenConnect | Field::FastOpenNoCookie),
                OptionValue::Number(_),
            ) if matches!(socket.kind, Kind::Conn { .. }) => return fail(Errno::INVALID),
            (How::Shaped(field), OptionValue::Number(number)) => {
                if let Err(errno) = set_shaped(options, field, number) {
                    return fail(errno);
                }
            }
            (_, OptionValue::Number(number)) => {
                if let Err(errno) = option.set(options, number) {
                    return fail(Errno(errno));
                }
            }
        }
        let (quick_ack, all) = (options.quick_ack, of_core(stack, options));
        if let Kind::Listener { id, .. } = socket.kind {
            stack.set_listener_options(id, all);
            stack.set_fast_open(id, FastOpenListener::of_socket(options));
        }
        if let Kind::Conn { id, .. } = socket.kind {
            stack.set_options(id, all);
            if option.field() == Some(Field::QuickAck) {
                stack.set_quick_ack(id, quick_ack);
            }
        }
        ok(0)
    }

    fn take_error(&mut self, stack: &mut Stack<ScriptEnv>, fd: Fd) -> Tried {
        if let Kind::Udp(id) = self.get(fd).kind {
            let error = stack.udp_error(id).map_or(0, |error| unreachable_errno(error).0);
            return ok(error as usize);
        }
        let error = self.failure(stack, fd);
        ok(error.map_or(0, |errno| errno.0 as usize))
    }

    fn poll(&mut self, stack: &Stack<ScriptEnv>, wanted: &[(Fd, i16)], over: bool) -> Tried {
        let ready = wanted
            .iter()
            .map(|(fd, bits)| self.ready(stack, *fd) & (bits | poll::ERR | poll::HUP))
            .collect();
        Self::found(ready, over)
    }

    fn poll_edges(
        &mut self,
        stack: &Stack<ScriptEnv>,
        wanted: &[(Fd, i16, Told)],
        over: bool,
    ) -> Tried {
        let new_bits = |&(fd, bits, mut told): &(Fd, i16, Told)| {
            let ready = self.ready(stack, fd) & (bits | poll::ERR | poll::HUP);
            told.take_new(ready, self.edges(stack, fd))
        };
        let ready = wanted.iter().map(new_bits).collect();
        Self::found(ready, over)
    }

    fn found(ready: Vec<i16>, over: bool) -> Tried {
        let count = ready.iter().filter(|bits| **bits != 0).count();
        if count == 0 && !over {
            return Err(WouldBlock);
        }
        Ok(Reply { value: Ok(count as i64), data: Vec::new(), ready })
    }

    /// What changes with each thing to read, and with each occasion to wait for room: epoll's
    /// edges.
    pub(super) fn edges(&self, stack: &Stack<ScriptEnv>, fd: Fd) -> (u64, u64) {
        let Some(socket) = self.all.get(&fd) else { return (0, 0) };
        let Kind::Conn { id, .. } = socket.kind else { return (socket.arrivals, socket.shorts) };
        let bytes = stack.info(id).map_or(0, |info| info.bytes_received);
        let failed = u64::from(stack.failure(id).is_some());
        (bytes * 4 + u64::from(stack.peer_closed(id)) * 2 + failed, socket.shorts * 2 + failed)
    }

    fn ready(&self, stack: &Stack<ScriptEnv>, fd: Fd) -> i16 {
        let Some(socket) = self.all.get(&fd) else { return 0 };
        let mut bits = 0;
        let mut set = |when: bool, bit: i16| {
            if when {
                bits |= bit;
            }
        };
        match socket.kind {
            Kind::Listener { incoming, .. } => set(incoming, poll::IN),
            Kind::Conn { id, .. } => {
                let (failed, state) = (stack.failure(id).is_some(), stack.state(id));
                let ended = stack.peer_closed(id);
                set(failed && !socket.told, poll::ERR);
                set(failed || state == State::Closed, poll::HUP);
                set(stack.unread(id) > 0 || ended || failed || socket.deaf, poll::IN);
                set(ended || failed, poll::RDHUP);
                let opening = matches!(state, State::SynSent | State::SynReceived);
                let room = has_room_to_write(stack, id, &socket.options, 2);
                set(failed || (!opening && stack.send_room(id) > 0 && room), poll::OUT);
                set(stack.urgent(id).is_some(), poll::PRI);
            }
            Kind::Udp(_) => set(true, poll::OUT),
            Kind::Fresh { .. } => set(true, poll::HUP | poll::OUT),
        }
        bits
    }
}

/// Whether more may be written as far as TCP_NOTSENT_LOWAT goes: what was not sent, so many times
/// over, is below it. As on Linux one call may go beyond.
fn has_room_to_write(
    stack: &Stack<ScriptEnv>,
    id: ConnId,
    options: &SocketOptions,
    times: u32,
) -> bool {
    let bound = options.notsent_lowat;
    bound == 0
        || bound == u32::MAX
        || stack.info(id).is_none_or(|info| info.unsent.saturating_mul(times) < bound)
}

/// Sets what has a rule of its own, by Linux's rule.
fn set_shaped(options: &mut SocketOptions, field: Field, number: i32) -> Result<(), Errno> {
    let flag = || if (0..=1).contains(&number) { Ok(number == 1) } else { Err(Errno::INVALID) };
    match field {
        Field::FastOpen if number >= 0 => options.fast_open = number as u32,
        Field::FastOpenConnect => options.fast_open_connect = flag()?,
        Field::FastOpenNoCookie => options.fast_open_no_cookie = flag()?,
        Field::NotsentLowat => options.notsent_lowat = number as u32,
        Field::SynCount if (1..=127).contains(&number) => options.syn_count = number as u8,
        Field::FinWait2 => {
            options.fin_wait_2 = match number {
                0 => None,
                ..0 => Some(0),
                _ => Some(number.min(120) as u8),
            }
        }
        Field::LinearTimeouts => options.linear_timeouts = flag()?,
        Field::MaxPacingRate => {
            let rate = number as u32;
            options.max_pacing_rate = if rate == u32::MAX { u64::MAX } else { rate.into() };
        }
        // IP_PMTUDISC_WANT and IP_PMTUDISC_DO are what streams do.
        Field::Discover4 | Field::Discover6 if (1..=2).contains(&number) => {}
        Field::FastOpen | Field::SynCount => return Err(Errno::INVALID),
        _ => return Err(Errno::NO_PROTOCOL),
    }
    Ok(())
}

/// The socket that a call is about.
fn fd_of(op: &Op) -> Option<Fd> {
    match op {
        Op::Socket(_) | Op::Poll(..) | Op::Edges(..) => None,
        Op::Bind(fd, _)
        | Op::Listen(fd, _)
        | Op::Accept(fd)
        | Op::Connect(fd, _)
        | Op::Read(fd, ..)
        | Op::Write(fd, ..)
        | Op::WriteFirst(fd, ..)
        | Op::SendTo(fd, ..)
        | Op::Shutdown(fd, _)
        | Op::Close(fd)
        | Op::Set(fd, _)
        | Op::TakeError(fd)
        | Op::Block(fd, _) => Some(*fd),
    }
}

fn failure_errno(failure: Failure) -> Errno {
    match failure {
        Failure::Reset => Errno::RESET,
        Failure::Refused => Errno::REFUSED,
        Failure::TimedOut | Failure::UserTimeout | Failure::KeepaliveTimedOut => Errno::TIMED_OUT,
        Failure::Unreachable(why) => unreachable_errno(why),
        Failure::NoMemory | Failure::Broken | Failure::Killed => Errno::NO_MEMORY,
    }
}

fn unreachable_errno(why: Unreachable) -> Errno {
    match why {
        Unreachable::Network => Errno::NET_UNREACHABLE,
        Unreachable::Host | Unreachable::Prohibited | Unreachable::TimeExceeded => {
            Errno::HOST_UNREACHABLE
        }
        Unreachable::Protocol => Errno::NO_PROTOCOL,
        Unreachable::Port => Errno::REFUSED,
        Unreachable::Parameter => Errno::PROTOCOL,
    }
}

fn udp_errno(error: UdpError) -> Errno {
    match error {
        UdpError::InUse | UdpError::NoPorts => Errno::IN_USE,
        UdpError::BadAddress => Errno::NOT_AVAILABLE,
        UdpError::NoRoute => Errno::NET_UNREACHABLE,
        UdpError::TooLong => Errno::TOO_LONG,
        UdpError::BadSegmentSize => Errno::INVALID,
        UdpError::Full => Errno::AGAIN,
        UdpError::Stale | UdpError::TooMany => Errno::NO_MEMORY,
    }
}
