//! One process of a program: its attachment to the host, and what it asks there.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use clearway_shm::attach_socket::{
    self, Dns, FifoPlace, Interface, Kind, Place, Reply, Request, SocketOptions, SocketTable,
    TablePlace, Token,
};
use clearway_shm::layout::{Message, request};
use clearway_shm::socket::AttachSocketError;
use clearway_shm::{FifoMem, Segment, SessionView};

use crate::attach::{
    self, AttachError, AttachSocket, Attachment, ControlChannel, Entered, WayBack,
};
use crate::back::Back;
use crate::core::{Core, Fifos};
use crate::hub::sleep_set::Inlets;
use crate::hub::{Held, Hub, QueuePair, Watched};
use crate::inside::Inside;
use crate::routes::Routes;
use crate::spin::Spin;
use crate::{AppConfig, DnsOf, Errno, Socket, internal};

/// One process of a program, attached to the host.
pub struct Client {
    config: AppConfig,
    pub(crate) shared: &'static Shared,
    /// The attachment in use, or the last one.
    current: ArcSwapOption<Attachment>,
    /// How often this process, or one that it comes from, was forked.
    forks: AtomicU32,
    /// How often descriptors of this process may have got into another.
    copies: AtomicU32,
    /// When a busy process last looked whether the host is there.
    looked: AtomicU64,
    pub(crate) spin: Spin,
    pub(crate) back: Back,
    /// The process changed its user, its root or what it sees since it entered: who is forked from
    /// it may not reach the attach socket.
    changed: AtomicBool,
    /// Why the host did not let it in as a part of the program that it comes from, until that was
    /// asked for.
    left_out: Mutex<Option<AttachError>>,
    /// The stack, when it is inside of this process.
    pub(crate) inside: Option<Inside>,
}

/// What is locked over a fork, and therefore never goes away.
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    pub(crate) attach_socket: Mutex<Entrance>,
}

/// The attach socket, and what was learned there.
#[derive(Default)]
pub(crate) struct Entrance {
    pub(crate) channel: Option<Box<dyn ControlChannel>>,
    /// What lets a forked child in.
    pub(crate) token: Option<Token>,
    /// How the host, or another in its place, is reached when its attach socket is not.
    pub(crate) way_back: Option<WayBack>,
    /// Programs that handed sockets to this process, its own aside: their numbers, and what lets it
    /// use what is theirs.
    pub(crate) joined: Vec<(u32, Token)>,
    /// For the child of a fork that is just going on.
    pub(crate) for_child: Option<AttachSocket>,
}

impl Client {
    /// Enters the host.
    ///
    /// # Errors
    /// Nobody listens, this user may not come in, the host refuses, or another version is there:
    /// [`AttachError`] says which.
    pub fn attach(config: AppConfig) -> Result<Arc<Client>, AttachError> {
        let client = Client::new(config, None);
        client.enter()?;
        Ok(client)
    }

    pub(crate) fn new(config: AppConfig, inside: Option<Inside>) -> Arc<Client> {
        Arc::new(Client {
            spin: Spin::new(config.spin_us),
            config,
            shared: Box::leak(Box::new(Shared {
                hub: Hub::new(),
                attach_socket: Mutex::default(),
            })),
            current: ArcSwapOption::empty(),
            forks: AtomicU32::new(0),
            copies: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            back: Back::default(),
            changed: AtomicBool::new(false),
            left_out: Mutex::default(),
            inside,
        })
    }

    /// Enters the host as a part of the program that a session fd belongs to which this process
    /// came by otherwise than by [`Client::open`]: by `exec`. None: it is no session fd of this
    /// host's.
    ///
    /// # Errors
    /// As [`Client::attach`], of the host that the session fd belongs to.
    pub fn attach_as_inheritor(
        config: AppConfig,
        session_fd: BorrowedFd<'_>,
    ) -> Result<Option<Arc<Client>>, AttachError> {
        if !clearway_shm::socket::may_be_session_fd(session_fd) {
            return Ok(None);
        }
        let Some(handoff) = attach::handoff_at(&config.attach_socket(), session_fd)? else {
            return Ok(None);
        };
        let client = Client::new(config, None);
        client.entrance().token = Some(handoff.token);
        client.enter()?;
        Ok(Some(client))
    }

    /// The socket of a session fd that this process came by otherwise than by [`Client::open`].
    /// None: it is no session fd of this host's.
    ///
    /// # Errors
    /// It is another program's, or this one may not have it.
    pub fn inherit_session_fd(
        self: &Arc<Client>,
        session_fd: BorrowedFd<'_>,
    ) -> Result<Option<Arc<Socket>>, Errno> {
        if !clearway_shm::socket::may_be_session_fd(session_fd) {
            return Ok(None);
        }
        let Ok(attachment) = self.enter() else { return Ok(None) };
        let mut refused = None;
        for _ in 0..STALE_HANDOFFS {
            let handoff = {
                let entrance = self.entrance();
                entrance
                    .channel
                    .as_ref()
                    .and_then(|channel| attach::handoff(&**channel, session_fd))
            };
            let Some(handoff) = handoff else { return refused.map_or(Ok(None), Err) };
            let app = self.join(&attachment, handoff.token)?;
            let request = Request::Subscribe { session: handoff.session };
            let _subscribing = self.shared.hub.subscribing();
            match self.ask_session(&attachment, &request) {
                Ok((session, _)) => {
                    return self.adopt(&attachment, app, &session, session.options).map(Some);
                }
                // Somebody asked for it when the session fd stood for another session, and did not
                // take it.
                Err(Errno::BADF) => refused = Some(Errno::BADF),
                Err(errno) => return Err(errno),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// How the program was configured.
    pub fn config(&self) -> &AppConfig {
        &self.config
    }

    /// The host is there.
    pub fn is_attached(&self) -> bool {
        self.current.load().as_ref().is_some_and(|attachment| attachment.is_alive())
    }

    /// Binding to this address makes a socket Clearway's. The wildcard address is as the
    /// configuration says.
    pub fn serves_local(&self, local: SocketAddr) -> bool {
        self.routes().serves_local(&self.config, local)
    }

    /// Connecting or sending to this address makes a socket Clearway's.
    pub fn serves_remote(&self, remote: SocketAddr) -> bool {
        self.routes().serves_remote(&self.config, remote)
    }

    /// Whether this address is one of the namespace's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.routes().owns(address.to_canonical())
    }

    /// The namespace's interfaces with their addresses, as they are now.
    ///
    /// # Errors
    /// `ENOTCONN` and its like when there is no host.
    pub fn interfaces(&self) -> Result<Vec<Interface>, Errno> {
        let attachment = self.enter().map_err(|error| error.errno())?;
        match self.ask(&attachment, &Request::Interfaces)?.0 {
            Reply::Interfaces(list) => Ok(list),
            _ => Err(Errno::PROTO),
        }
    }

    /// A table of the sockets of the namespace's programs, as the kernel has it below /proc/net.
    ///
    /// # Errors
    /// What attaching says when there is no host.
    pub fn socket_table(&self, table: SocketTable) -> Result<String, Errno> {
        let attachment = self.enter().map_err(|error| error.errno())?;
        let (mut text, mut next) = (String::new(), Some(TablePlace::default()));
        while let Some(from) = next {
            match self.ask(&attachment, &Request::SocketLines { table, from })?.0 {
                Reply::SocketLines { text: lines, next: after } => {
                    text.push_str(&lines);
                    next = after;
                }
                _ => return Err(Errno::PROTO),
            }
        }
        Ok(text)
    }

    /// Whom the program asks for names. None: whom the system's settings say.
    pub fn dns(&self) -> Option<Dns> {
        if self.config().dns == DnsOf::System {
            return None;
        }
        Some(self.routes().dns().clone()).filter(|dns| !dns.servers.is_empty())
    }

    /// Makes a socket. The descriptor is its session fd: while any copy of it is open in any
    /// process, the session lives. Close-on-exec is set on it. When the host went away and another
    /// one is there, this enters that one.
    ///
    /// # Errors
    /// `ENFILE` or `ENOBUFS` at a limit of the program, the namespace or the host, `EMFILE` when
    /// the process has no descriptors left, and what attaching says when there is no host.
    pub fn open(
        self: &Arc<Client>,
        kind: Kind,
        v6: bool,
        options: &SocketOptions,
    ) -> Result<(Arc<Socket>, OwnedFd), Errno> {
        self.open_for_port(kind, v6, options, 0)
    }

    /// As [`Client::open`], for a socket that will be bound to this port next, or, a datagram
    /// socket, that sends to it on this host; 0: to none, or to any.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open_for_port(
        self: &Arc<Client>,
        kind: Kind,
        v6: bool,
        options: &SocketOptions,
        port: u16,
    ) -> Result<(Arc<Socket>, OwnedFd), Errno> {
        let attachment = self.enter().map_err(|error| error.errno())?;
        if kind == Kind::Stream && *options == SocketOptions::default() && port == 0 {
            if let Some((session, session_fd, line)) = self.opened_ahead(&attachment, v6) {
                let socket = self.adopt(&attachment, attachment.program.1, &session, *options)?;
                socket.has_line(line);
                return Ok((socket, session_fd));
            }
        }
        let request = Request::Open { kind, v6, options: *options, port };
        let (session, session_fd) = self.ask_session(&attachment, &request)?;
        let socket = self.adopt(&attachment, attachment.program.1, &session, *options)?;
        Ok((socket, session_fd.ok_or(Errno::PROTO)?))
    }

    /// Tells the host that a socket stays with the kernel, and why; for `explain`. Failure is of no
    /// consequence.
    pub fn stayed(&self, what: &str, why: &str) {
        let request = Request::Stayed { what: what.into(), why: why.into() };
        if let Some(attachment) = self.alive() {
            let _ = self.ask(&attachment, &request);
        }
    }

    pub(crate) fn hub(&self) -> Held<'_> {
        self.shared.hub.lock()
    }

    /// Call before something by which descriptors get into another process: a fork, a program that
    /// is executed by a child, descriptors in a message. A session fd that the program has at that
    /// moment is closed with its socket, and serves no other connection.
    pub fn session_fds_are_copied(&self) {
        self.copies.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copies(&self) -> u32 {
        self.copies.load(Ordering::Relaxed)
    }

    /// The program has closed its last descriptor of the socket in this process, and another
    /// process may hold it. This one would be woken for all that happens to it there. Call with the
    /// hub held, so that it comes before whatever else is said of the session.
    pub(crate) fn leave(&self, hub: &Held<'_>, core: &Core) {
        let is_other = |attachment: &Arc<Attachment>| attachment.number != core.attachment();
        if core.kind != Kind::Stream || core.is_listening() || !hub.is_alone_with(core) {
            return;
        }
        let Some(attachment) = self.alive().filter(|attachment| !is_other(attachment)) else {
            return;
        };
        attachment.push_idly(Message { session: core.id(), what: request::LEAVE, aux: 0 });
    }

    pub(crate) fn forks(&self) -> u32 {
        self.forks.load(Ordering::Relaxed)
    }

    pub(crate) fn count_fork(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
        self.current.store(None);
    }

    /// The attachment, when the host is there.
    pub(crate) fn alive(&self) -> Option<Arc<Attachment>> {
        self.current.load_full().filter(|attachment| attachment.is_alive())
    }

    /// The attachment by which the socket's events come, when its host is there. A socket that came
    /// by a fork is made this process's first.
    pub(crate) fn of(&self, core: &Core) -> Option<arc_swap::Guard<Option<Arc<Attachment>>>> {
        let current = self.current.load();
        let fits = |attachment: &Arc<Attachment>| {
            attachment.number == core.attachment() && attachment.is_alive()
        };
        if current.as_ref().is_some_and(fits) {
            return Some(current);
        }
        if core.is_inherited(self.forks()) {
            self.inherit(core);
            let current = self.current.load();
            return current.as_ref().is_some_and(fits).then_some(current);
        }
        None
    }

    /// Whether the host of this socket is there.
    pub(crate) fn is_alive(&self, core: &Core) -> bool {
        self.of(core).is_some()
    }

    /// Subscribes to a session of the process that this one was forked from. Whatever goes wrong,
    /// the socket is this process's afterwards; without a host it is dead.
    fn inherit(&self, core: &Core) {
        let forks = self.forks();
        let _subscribing = self.shared.hub.subscribing();
        let subscribed = self.enter().map_err(|error| error.errno()).and_then(|attachment| {
            let (session, _) =
                self.ask_session(&attachment, &Request::Subscribe { session: core.id() })?;
            let fifos = self.fifos(&attachment, core.app(), &session)?;
            Ok((attachment.number, fifos))
        });
        let subscribed_not = subscribed.is_err();
        let mut hub = self.hub();
        match subscribed {
            Ok((number, fifos)) => {
                core.set_fifos(fifos);
                hub.route(core.id(), core.key);
                core.belong(number, forks);
            }
            Err(_) => core.belong(0, forks),
        }
        if subscribed_not && core.comes_back() {
            self.long_for_host();
        }
        // What happened before there was anybody to tell.
        hub.mark(core.key, crate::ready::ALL);
    }

    /// Enters the host, unless this process has done so and the host is still there.
    pub(crate) fn enter(&self) -> Result<Arc<Attachment>, AttachError> {
        if let Some(attachment) = self.alive() {
            return Ok(attachment);
        }
        let mut entrance = self.entrance();
        if let Some(attachment) = self.alive() {
            return Ok(attachment);
        }
        if let Some(inside) = &self.inside {
            let entered =
                attach::enter_inside(inside.stack().ok_or(AttachError::Left)?, &self.config)?;
            return Ok(self.move_in(&mut entrance, entered));
        }
        let path = self.config.attach_socket();
        let enter = |token| attach::enter(&path, &self.config, token);
        let entered = match (entrance.token, &entrance.way_back) {
            // Where nobody knows the program any more it begins anew; its old sessions are gone
            // then.
            (Some(token), way_back) => match (enter(Some(token)), way_back) {
                (Err(why @ AttachError::Refused { .. }), _) => {
                    *self.left_out.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    enter(None)?
                }
                // The program may have changed its root or its user since.
                (
                    Err(why @ (AttachError::NoHost { .. } | AttachError::Denied { .. })),
                    Some(way_back),
                ) => way_back.enter(&path, &self.config, token).ok_or(why)?,
                (entered, _) => entered?,
            },
            (None, _) => enter(None)?,
        };
        Ok(self.move_in(&mut entrance, entered))
    }

    /// Why this process is no part of the program that it comes from, as it is told once: sockets
    /// that it has from there are dead.
    pub fn left_out(&self) -> Option<AttachError> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Call before the process changes its user, its root or what it sees of the machine.
    pub fn before_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// A connection for a child that is about to be forked, when that may not reach the attach
    /// socket.
    pub(crate) fn connection_for_child(&self, entrance: &Entrance) -> Option<AttachSocket> {
        if self.inside.is_some()
            || !self.changed.load(Ordering::Relaxed)
            || self.back.has_given_up()
            || !self.is_attached()
        {
            return None;
        }
        match entrance.channel.as_ref()?.ask(&Request::Child, 1) {
            Ok((Reply::Done, mut descriptors)) => AttachSocket::of(descriptors.pop()?).ok(),
            // The child tries the attach socket.
            _ => None,
        }
    }

    /// Enters by the connection that the parent had made for it. False: it has none, or is not let
    /// in.
    pub(crate) fn enter_as_child(&self, connection: Option<AttachSocket>) -> bool {
        let mut entrance = self.entrance();
        let (Some(connection), token) = (connection, entrance.token) else { return false };
        match attach::enter_by(connection, &self.config, token) {
            Ok(entered) => {
                self.move_in(&mut entrance, entered);
                true
            }
            Err(_) => false,
        }
    }

    fn move_in(&self, entrance: &mut Entrance, entered: Entered) -> Arc<Attachment> {
        let Entered { attachment, channel, hangup_fd, queue_pair, events, notifier, way_back } =
            entered;
        let mut hub = self.hub();
        if hub.boot != attachment.program.0 {
            hub.boot = attachment.program.0;
            hub.segments.clear();
        }
        hub.routes = None;
        let number = attachment.number;
        let also = self.inside.as_ref().map(|inside| Inlets {
            ports: inside.stack.descriptors(),
            recall: inside.stack.recall_descriptor(),
        });
        hub.set_queue_pair(Some(QueuePair::new(
            number, queue_pair, events, notifier, hangup_fd, also,
        )));
        hub.host_came();
        drop(hub);
        let way_back = way_back.or_else(|| entrance.way_back.take());
        // What was handed to it, or to the process that it was forked from, is its own still, as far
        // as this host knows of it.
        let joined = std::mem::take(&mut entrance.joined).into_iter();
        let joined = joined.filter(|&(app, token)| join(&*channel, token) == Ok(app)).collect();
        *entrance = Entrance {
            channel: Some(channel),
            token: Some(attachment.token),
            way_back,
            joined,
            for_child: None,
        };
        self.current.store(Some(attachment.clone()));
        self.hold_spares(None);
        attachment
    }

    /// Has the sessions of the program that this token names be this process's to use: its own
    /// program, or one that handed it a socket. Answers the program's number.
    fn join(&self, attachment: &Arc<Attachment>, token: Token) -> Result<u32, Errno> {
        if token == attachment.token {
            return Ok(attachment.program.1);
        }
        let known = |entrance: &Entrance| {
            entrance.joined.iter().find(|(_, of)| *of == token).map(|(app, _)| *app)
        };
        if let Some(app) = known(&self.entrance()) {
            return Ok(app);
        }
        let app = joined(self.ask(attachment, &Request::Join { token })?.0)?;
        let mut entrance = self.entrance();
        let mut hub = self.hub();
        // Of programs whose last socket is closed nothing is kept.
        let used: HashSet<u32> =
            hub.sockets.iter().map(|(_, socket)| socket.core.app()).chain([app]).collect();
        hub.segments.retain(|(of, _), _| *of == attachment.program.1 || used.contains(of));
        entrance.joined.retain(|(of, known)| used.contains(of) && *known != token);
        entrance.joined.push((app, token));
        Ok(app)
    }

    /// Holds descriptors for when the process has no other left, as long as there are some. Call
    /// before it is limited to so many, which they have to be among.
    pub fn hold_spares(&self, limit: Option<u64>) {
        if let Some(queue_pair) = &self.hub().queue_pair {
            internal::hold_spares(queue_pair.hangup_fd.as_fd(), limit);
        }
    }

    pub(crate) fn entrance(&self) -> MutexGuard<'static, Entrance> {
        self.shared.attach_socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the host; its refusal is an error.
    pub(crate) fn ask(
        &self,
        attachment: &Arc<Attachment>,
        request: &Request,
    ) -> Result<(Reply, Option<OwnedFd>), Errno> {
        let (reply, mut descriptors) = self.ask_for(attachment, request, 1)?;
        Ok((reply, descriptors.pop()))
    }

    /// The same, with an answer that may bring so many descriptors.
    pub(crate) fn ask_for(
        &self,
        attachment: &Arc<Attachment>,
        request: &Request,
        most: usize,
    ) -> Result<(Reply, Vec<OwnedFd>), Errno> {
        // Where there was no room the host has seen what it made close, and makes another.
        internal::with_spares(|| self.ask_once(attachment, request, most))
    }

    fn ask_once(
        &self,
        attachment: &Arc<Attachment>,
        request: &Request,
        most: usize,
    ) -> Result<(Reply, Vec<OwnedFd>), Errno> {
        let entrance = self.entrance();
        // The one who asks may come after the host went, and another was entered.
        let ours =
            self.current.load().as_ref().is_some_and(|current| current.number == attachment.number);
        let channel = entrance
            .channel
            .as_ref()
            .filter(|_| ours && attachment.is_alive())
            .ok_or(Errno::CONNRESET)?;
        let answer = channel.ask(request, most);
        if self.inside.is_some() {
            // This thread turned the stack meanwhile.
            self.hub().drain();
        }
        match answer {
            Ok((Reply::Error { errno, .. }, _)) => Err(Errno(errno)),
            Ok(answer) => Ok(answer),
            // This process has no room for descriptors. The host sees the session fd close.
            Err(AttachSocketError::TooManyDescriptors) => Err(Errno::MFILE),
            Err(_) => {
                drop(entrance);
                self.host_died(attachment);
                Err(Errno::CONNRESET)
            }
        }
    }

    pub(crate) fn ask_session(
        &self,
        attachment: &Arc<Attachment>,
        request: &Request,
    ) -> Result<(attach_socket::Session, Option<OwnedFd>), Errno> {
        match self.ask(attachment, request)? {
            (Reply::Opened(session), session_fd) => Ok((session, session_fd)),
            _ => Err(Errno::PROTO),
        }
    }

    /// Makes a socket of a session of the program with this number.
    pub(crate) fn adopt(
        self: &Arc<Client>,
        attachment: &Arc<Attachment>,
        app: u32,
        session: &attach_socket::Session,
        options: SocketOptions,
    ) -> Result<Arc<Socket>, Errno> {
        let words = self.words_at(attachment, app, session.head)?;
        let fifos = self.fifos(attachment, app, session)?;
        let forks = self.forks();
        let core = self.hub().add_socket(session.id, |key| {
            let core = Core::new(session, (attachment.program.0, app), words, key, forks);
            core.set_fifos(fifos);
            core.belong(attachment.number, forks);
            Watched {
                core: Arc::new(core),
                watches: Vec::new(),
                local: session.local,
                bound: None,
                remote: session.remote,
                options,
                connecting: false,
                session_fd: None,
            }
        });
        Ok(Arc::new(Socket::new(self.clone(), core)))
    }

    /// The words of a session that lie there, in that program's memory.
    pub(crate) fn words_at(
        &self,
        attachment: &Arc<Attachment>,
        app: u32,
        head: Place,
    ) -> Result<SessionView, Errno> {
        let segment = self.segment(attachment, app, head.segment)?;
        segment.session(head.offset).map_err(|_| Errno::PROTO)
    }

    /// Where a session's FIFOs lie, of those that it has.
    pub(crate) fn fifos(
        &self,
        attachment: &Arc<Attachment>,
        app: u32,
        session: &attach_socket::Session,
    ) -> Result<Fifos, Errno> {
        let fifo = |place: FifoPlace| self.fifo(attachment, app, place).map(|mem| (place, mem));
        Ok(Fifos { rx: session.rx.map(fifo).transpose()?, tx: session.tx.map(fifo).transpose()? })
    }

    /// The FIFO that lies there.
    pub(crate) fn fifo(
        &self,
        attachment: &Arc<Attachment>,
        app: u32,
        place: FifoPlace,
    ) -> Result<FifoMem, Errno> {
        let head = self.segment(attachment, app, place.head.segment)?;
        let data = self.segment(attachment, app, place.data.segment)?;
        FifoMem::new(&head, &data, &place).map_err(|_| Errno::PROTO)
    }

    /// A segment of a program's memory, mapped when it is first needed.
    fn segment(
        &self,
        attachment: &Arc<Attachment>,
        app: u32,
        number: u32,
    ) -> Result<Arc<Segment>, Errno> {
        if let Some(segment) = self.hub().segments.get(&(app, number)) {
            return Ok(segment.clone());
        }
        let (Reply::Segment { len }, Some(memory)) =
            self.ask(attachment, &Request::Segment { app, segment: number })?
        else {
            return Err(Errno::PROTO);
        };
        let segment = Segment::map(std::os::fd::AsFd::as_fd(&memory), len as usize)
            .map_err(|_| Errno::PROTO)?;
        let mut hub = self.hub();
        // Another thread may have been quicker.
        Ok(hub.segments.entry((app, number)).or_insert_with(|| Arc::new(segment)).clone())
    }

    /// What the namespace reaches now. Without a host, what it reached last: an address that is
    /// Clearway's does not become the kernel's by that.
    fn routes(&self) -> Arc<Routes> {
        let attachment = self.enter().ok();
        let generation = attachment.as_ref().map(|attachment| attachment.host.routes());
        let known = self.hub().routes.clone();
        if let Some(known) = &known {
            if generation.is_none_or(|generation| generation == known.generation()) {
                return known.clone();
            }
        }
        let asked =
            attachment.and_then(|attachment| self.ask(&attachment, &Request::Prefixes).ok());
        let Some((Reply::Prefixes(prefixes), _)) = asked else { return known.unwrap_or_default() };
        let routes = Arc::new(Routes::new(prefixes));
        self.hub().routes = Some(routes.clone());
        routes
    }

    /// The host is gone: everybody who waits for something of it is told.
    pub(crate) fn host_died(&self, attachment: &Attachment) {
        attachment.mark_dead();
        let mut hub = self.hub();
        hub.host_died(attachment.number);
        let some_come_back = hub.sockets.iter().any(|(_, socket)| socket.core.comes_back());
        drop(hub);
        if some_come_back {
            self.long_for_host();
        }
    }

    /// This thread is about to sleep: workers hear first of what was left for them quietly.
    pub(crate) fn notify_owed_workers(&self) {
        if let Some(attachment) = self.current.load().as_ref() {
            attachment.notify_owed_workers();
        }
    }

    /// For calls that found nothing and do not sleep: looks now and then whether the host is there
    /// at all.
    pub(crate) fn poll_once(&self) {
        self.turn_inside();
        self.come_back();
        let Some(attachment) = self.alive() else { return };
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let now = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
        if now.wrapping_sub(self.looked.load(Ordering::Relaxed)) < GLANCE_MS {
            return;
        }
        self.looked.store(now, Ordering::Relaxed);
        if self.hub().has_lost_pulse() {
            self.host_died(&attachment);
        }
    }
}

/// Joins a program by a channel that nobody else asks at.
fn join(channel: &dyn ControlChannel, token: Token) -> Result<u32, Errno> {
    let (reply, _) = channel.ask(&Request::Join { token }, 0).map_err(|_| Errno::CONNRESET)?;
    joined(reply)
}

fn joined(reply: Reply) -> Result<u32, Errno> {
    match reply {
        Reply::Joined { app } => Ok(app),
        Reply::Error { errno, .. } => Err(Errno(errno)),
        _ => Err(Errno::PROTO),
    }
}

/// Exec handoffs that may lie in a session fd from before; the host lets no more than a handful lie
/// there.
const STALE_HANDOFFS: usize = 64;

/// How often a busy process looks whether its host is there.
const GLANCE_MS: u64 = 10;
