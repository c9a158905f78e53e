//! The client over the kernel's sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use clearway_base::{Handle, Instant, Slab};
use clearway_engine::Seat;
use clearway_wire::Endpoint;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown, SocketType, sockopt};

use super::{NOTIFIER, SCRATCH, Watch, socket};
use crate::client::{Client, ClientReport, Ending};
use crate::net::{Net, OpenError, Token};
use crate::plan::{ClientPlan, Protocol, Start};
use crate::source::Sources;

struct Socket {
    fd: OwnedFd,
    token: Token,
    /// Its handshake is not known to be over.
    connecting: bool,
    /// Datagrams: a send was refused, and room is waited for.
    wants_room: bool,
}

type Id = Handle<Socket>;

struct Sockets {
    epoll: OwnedFd,
    server: SocketAddr,
    protocol: Protocol,
    /// How long a handshake may take, in milliseconds.
    connect_ms: u32,
    all: Slab<Socket>,
    /// Sockets that a send has found to be broken.
    broken: Vec<(Id, Errno)>,
}

impl Sockets {
    fn try_open(&mut self, token: Token, from: Option<Endpoint>) -> io::Result<Id> {
        let tcp = self.protocol == Protocol::Tcp;
        let fd = socket(&self.server, if tcp { SocketType::STREAM } else { SocketType::DGRAM })?;
        if let Some(from) = from {
            if tcp {
                // A port whose last connection is in TIME-WAIT may be used for another server.
                sockopt::set_socket_reuseaddr(&fd, true)?;
            }
            net::bind(&fd, &SocketAddr::from(from))?;
        }
        if tcp {
            sockopt::set_tcp_user_timeout(&fd, self.connect_ms)?;
        }
        let connecting = match net::connect(&fd, &self.server) {
            Ok(()) => false,
            Err(Errno::INPROGRESS) => true,
            Err(errno) => return Err(errno.into()),
        };
        let place = self.all.insert_with(|_| Socket {
            fd,
            token,
            connecting: connecting || tcp,
            wants_room: false,
        });
        let id = place.ok_or_else(|| {
            io::Error::other("there are more sockets than connections were asked for")
        })?;
        let flags = if tcp {
            EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
        } else {
            EventFlags::IN
        };
        if let Some(socket) = self.all.get(id) {
            if let Err(errno) =
                epoll::add(&self.epoll, &socket.fd, epoll::EventData::new_u64(id.to_bits()), flags)
            {
                self.all.remove(id);
                return Err(errno.into());
            }
        }
        Ok(id)
    }
}

impl Net for Sockets {
    type Id = Id;

    fn open(
        &mut self,
        _now: Instant,
        token: Token,
        from: Option<Endpoint>,
    ) -> Result<Id, OpenError> {
        self.try_open(token, from).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) if from.is_some() => OpenError::Taken,
            Some(Errno::ADDRNOTAVAIL) => OpenError::Failed(format!(
                "no source port is free towards {}; name source addresses with -a, or end \
                 connections with --reset",
                self.server
            )),
            _ => OpenError::Failed(format!("cannot connect to {}: {error}", self.server)),
        })
    }

    fn send(&mut self, _token: Token, id: Id, bytes: &[u8]) -> usize {
        let Some(socket) = self.all.get_mut(id) else { return 0 };
        match net::send(&socket.fd, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                if self.protocol == Protocol::Udp && !socket.wants_room {
                    socket.wants_room = true;
                    let flags = EventFlags::IN | EventFlags::OUT;
                    // The socket is in the set as long as it is open.
                    let _ = epoll::modify(
                        &self.epoll,
                        &socket.fd,
                        epoll::EventData::new_u64(id.to_bits()),
                        flags,
                    );
                }
                0
            }
            Err(Errno::INTR) => 0,
            Err(errno) => {
                self.broken.push((id, errno));
                0
            }
        }
    }

    fn shutdown(&mut self, id: Id) {
        if let Some(socket) = self.all.get(id) {
            // One that is gone already needs no end.
            let _ = net::shutdown(&socket.fd, Shutdown::Write);
        }
    }

    fn close(&mut self, id: Id) {
        // Closing the descriptor takes it out of the epoll set.
        self.all.remove(id);
    }

    fn abort(&mut self, id: Id) {
        if let Some(socket) = self.all.remove(id) {
            let _ = sockopt::set_socket_linger(&socket.fd, Some(std::time::Duration::ZERO));
        }
    }
}

fn in_words(errno: Errno) -> &'static str {
    match errno {
        Errno::CONNREFUSED => "refused by the server; is it listening there?",
        Errno::CONNRESET | Errno::PIPE => "reset by the server",
        Errno::TIMEDOUT => "the server does not answer",
        Errno::HOSTUNREACH | Errno::NETUNREACH => {
            "the network says that the server cannot be reached"
        }
        Errno::ADDRNOTAVAIL => "no source port is free",
        _ => "the system says that the connection broke",
    }
}

/// Runs one thread's client until it is finished or the team is told to stop. An error is a
/// sentence.
pub fn run_client(
    seat: Seat<ClientReport>,
    plan: ClientPlan,
    server: SocketAddr,
    sources: Option<Sources>,
    start: Arc<Start>,
) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot wait for sockets: {error}");
    let mut watch = Watch::new(seat).map_err(told)?;
    let mut sockets = Sockets {
        epoll: watch.epoll.try_clone().map_err(told)?,
        server,
        protocol: plan.protocol,
        connect_ms: u32::try_from(plan.timeout.as_millis()).unwrap_or(u32::MAX).max(1_000),
        all: Slab::new(plan.connections.saturating_add(1)),
        broken: Vec::new(),
    };
    let depth = plan.depth;
    let mut client = Client::new(plan, sources, start, watch.now);
    let mut scratch = vec![0; SCRATCH];
    client.pump(&mut sockets, watch.now);
    while !client.is_finished() {
        if !watch.wait(client.next_deadline()).map_err(told)? {
            break;
        }
        client.set_busy(watch.busy);
        let now = watch.now;
        for event in &watch.events {
            let name = event.data.u64();
            if name == NOTIFIER {
                watch.seat.notifier().clear();
            } else if let Some(id) = Handle::from_bits(name) {
                on_socket(&mut client, &mut sockets, &mut scratch, now, id, event.flags, depth);
            }
        }
        while let Some((id, errno)) = sockets.broken.pop() {
            if let Some(token) = sockets.all.get(id).map(|socket| socket.token) {
                client.on_ended(&mut sockets, now, token, Ending::Failed(in_words(errno)));
            }
        }
        client.pump(&mut sockets, now);
        if watch.wants_report() {
            watch.look_at_cpu();
            watch.publish(client.report());
        }
    }
    watch.look_at_cpu();
    client.set_busy(watch.busy);
    client.stop(&mut sockets);
    watch.publish(client.report());
    Ok(())
}

fn on_socket(
    client: &mut Client<Id>,
    sockets: &mut Sockets,
    scratch: &mut [u8],
    now: Instant,
    id: Id,
    flags: EventFlags,
    depth: u32,
) {
    let Some(socket) = sockets.all.get_mut(id) else { return };
    let token = socket.token;
    let over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
    if socket.connecting {
        if let Ok(Err(errno)) = sockopt::socket_error(&socket.fd) {
            return client.on_ended(sockets, now, token, Ending::Failed(in_words(errno)));
        }
        if flags.contains(EventFlags::OUT) {
            socket.connecting = false;
            client.on_connected(sockets, now, token);
        }
    }
    let mut ending = None;
    if flags.contains(EventFlags::IN) || over {
        ending = if sockets.protocol == Protocol::Udp {
            read_datagrams(client, sockets, scratch, now, id, depth)
        } else {
            read_stream(client, sockets, scratch, now, id, over)
        };
    }
    if let Some(why) = ending {
        client.on_ended(sockets, now, token, why);
    }
    client.go_on(sockets, now, token);
    if ending.is_none() && flags.contains(EventFlags::OUT) {
        on_room(client, sockets, id, token);
    }
}

fn on_room(client: &mut Client<Id>, sockets: &mut Sockets, id: Id, token: Token) {
    if let Some(socket) = sockets.all.get_mut(id).filter(|socket| socket.wants_room) {
        socket.wants_room = false;
        let data = epoll::EventData::new_u64(id.to_bits());
        let _ = epoll::modify(&sockets.epoll, &socket.fd, data, EventFlags::IN);
    }
    client.on_writable(sockets, token);
}

/// Reads until there is no more; how the connection ended when it did.
fn read_stream(
    client: &mut Client<Id>,
    sockets: &mut Sockets,
    scratch: &mut [u8],
    now: Instant,
    id: Id,
    over: bool,
) -> Option<Ending> {
    loop {
        let socket = sockets.all.get(id)?;
        let token = socket.token;
        match net::recv(socket.fd.as_fd(), &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => return Some(Ending::PeerClosed),
            Ok((_, len)) => {
                if let Err(why) = client.on_bytes(now, token, &scratch[..len]) {
                    client.give_up(why.0.into());
                    return None;
                }
                // A read that was not filled has read all there was; what comes later is an edge of
                // its own.
                if len < scratch.len() && !over {
                    return None;
                }
            }
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {}
            Err(errno) => return Some(Ending::Failed(in_words(errno))),
        }
    }
}

/// Reads as many datagrams as answers can be waited for: what is left is told again.
fn read_datagrams(
    client: &mut Client<Id>,
    sockets: &mut Sockets,
    scratch: &mut [u8],
    now: Instant,
    id: Id,
    depth: u32,
) -> Option<Ending> {
    for _ in 0..depth {
        let socket = sockets.all.get(id)?;
        let token = socket.token;
        match net::recv(socket.fd.as_fd(), &mut *scratch, RecvFlags::empty()) {
            Ok((_, len)) => {
                // One datagram is one answer, whatever it says.
                let _ = client.on_bytes(now, token, &scratch[..len]);
            }
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(errno) => return Some(Ending::Failed(in_words(errno))),
        }
    }
    None
}
