//! Whose a socket is: the kernel's, until its first address says otherwise.
//!
//! A socket becomes Clearway's when it is bound to an address of the namespace, or to the wildcard
//! address, or connects or sends to where the namespace's routes lead. Then a session of the host
//! takes the place of the kernel's socket behind the same descriptors, and the options that were
//! set before are set again. Whatever else stays the kernel's, and the host is told why, for
//! `explain`.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use clearway_client::{Client, Kind, destination, flags};

use crate::errno::{Answer, check, fail};
use crate::interfaces::scope::{self, Scope};
use crate::object::{self, Mine, Object, Ours, Pending, PendingState, TABLE, ours};
use crate::options::{self, Extra, Told};
use crate::process::{Host, host};
use crate::real;
use crate::sigio;
use crate::sockets::set_nonblocking;
use crate::table::Held;
use crate::wait::replaced;

/// What was decided for a pending socket.
pub(crate) enum Verdict {
    /// It is Clearway's now: go on with this.
    Ours(Mine),
    /// It is the kernel's: go on with the C library's function.
    Kernels,
}

/// What a program does with an address, for the message of `explain`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    Bind,
    Listen,
    Receive,
    Connect,
    Send,
}

impl Deed {
    fn word(self) -> &'static str {
        match self {
            Deed::Bind => "bind",
            Deed::Listen => "listen",
            Deed::Receive => "recv",
            Deed::Connect => "connect",
            Deed::Send => "sendto",
        }
    }

    /// How a call fails when there is no host that lets us in, and the kernel is not to be used
    /// instead.
    fn closed(self) -> c_int {
        match self {
            Deed::Bind | Deed::Listen | Deed::Receive => libc::EACCES,
            Deed::Connect | Deed::Send => libc::ECONNREFUSED,
        }
    }
}

/// Who gets an address.
enum Owner {
    Clearway(&'static Arc<Client>),
    Kernel(Option<(&'static Arc<Client>, &'static str)>),
}

/// Who gets an address, when the socket was told this before.
fn owner(deed: Deed, addr: SocketAddr, told: &[Told]) -> Answer<Owner> {
    let client = match host() {
        Host::Here(client) => client,
        Host::Absent => return Ok(Owner::Kernel(None)),
        Host::Closed if addr.ip().is_loopback() => return Ok(Owner::Kernel(None)),
        Host::Closed => return fail(deed.closed()),
    };
    let local = matches!(deed, Deed::Bind | Deed::Listen | Deed::Receive);
    if options::means_our_device(told)
        || addr.ip().is_multicast() && options::means_our_groups(told)
    {
        return Ok(Owner::Clearway(client));
    }
    match scope::of(addr) {
        Scope::Ours(_) => return Ok(Owner::Clearway(client)),
        Scope::Kernels => {
            return Ok(Owner::Kernel(Some((
                client,
                "the interface beside the address is the kernel's",
            ))));
        }
        Scope::None => {}
    }
    let serves = if local { client.serves_local(addr) } else { client.serves_remote(addr) };
    Ok(match (serves, local) {
        (true, _) => Owner::Clearway(client),
        (false, true) if addr.ip().is_unspecified() => Owner::Kernel(Some((
            client,
            "the configuration leaves the wildcard address to the kernel",
        ))),
        (false, true) => Owner::Kernel(Some((client, "the address is not the namespace's"))),
        (false, false) => Owner::Kernel(Some((
            client,
            "the namespace has no route there, or the configuration leaves it to the kernel",
        ))),
    })
}

/// Decides for a socket that is about to use an address.
pub(crate) fn decide(fd: c_int, deed: Deed, addr: SocketAddr) -> Answer<Option<Verdict>> {
    let Some(held) = TABLE.get(fd) else { return Ok(None) };
    let Object::Pending(pending) = &*held else { return Ok(ours(fd).map(Verdict::Ours)) };
    let mut state = pending.state();
    if state.decided {
        drop(state);
        return Ok(Some(ours(fd).map_or(Verdict::Kernels, Verdict::Ours)));
    }
    let addr = match deed {
        Deed::Bind | Deed::Listen | Deed::Receive => addr,
        // It is bound to no address but a wildcard, or it were decided.
        Deed::Connect | Deed::Send => destination(addr, || local_of(fd, pending, &state).ip()),
    };
    let is_any = addr.ip().is_unspecified() && addr.port() == 0;
    if deed == Deed::Bind && is_any && !options::means_our_device(&state.told) {
        // The kernel's port holds for now; what the socket does next decides.
        state.bound = true;
        return Ok(Some(Verdict::Kernels));
    }
    let owner = owner(deed, addr, &state.told)?;
    let is_group = addr.ip().is_multicast() && pending.kind == Kind::Datagram;
    if deed == Deed::Bind && is_group && matches!(owner, Owner::Kernel(Some(_))) {
        // Where the group is joined decides.
        (state.bound, state.group) = (true, Some(addr));
        return Ok(Some(Verdict::Kernels));
    }
    let (client, why) = match owner {
        Owner::Clearway(client) => match options::only_the_kernels(&state.told) {
            None => match take_over(fd, (deed, addr), &held, pending, &mut state, client)? {
                Ok(mine) => return Ok(Some(Verdict::Ours(mine))),
                Err(why) => (Some(client), why),
            },
            Some(option) => (Some(client), format!("{option} was set, which only the kernel has")),
        },
        Owner::Kernel(Some((client, why))) => (Some(client), why.to_owned()),
        Owner::Kernel(None) => (None, String::new()),
    };
    state.decided = true;
    drop(state);
    leave(&held);
    if let Some(client) = client {
        client.stayed(&format!("{} {addr}", deed.word()), &why);
    }
    Ok(Some(Verdict::Kernels))
}

/// A socket that was bound to the wildcard address and port 0 becomes Clearway's, as one is that
/// names its port: the program asks which it became, and whom it tells that may come before it
/// listens or waits; or the descriptor is about to get into another process, which knows nothing of
/// what is undecided here. But a program may ask before it connects, or sends, to somebody: then the
/// socket goes back to the kernel if that is where it leads ([`give_back`]). One that was bound to a
/// group does when it joins on an interface of Clearway's. None: it is as it was.
pub(crate) fn settle(fd: c_int) -> Option<Mine> {
    let held = TABLE.get(fd)?;
    let Object::Pending(pending) = &*held else { return None };
    before_port_is_told(fd, &held, pending);
    let mut state = pending.state();
    if state.decided || !state.bound {
        drop(state);
        return ours(fd);
    }
    let deed = if pending.kind == Kind::Stream { Deed::Listen } else { Deed::Receive };
    let local = state.group.unwrap_or(SocketAddr::new(wildcard(pending.v6), 0));
    let Ok(Owner::Clearway(client)) = owner(deed, local, &state.told) else { return None };
    if options::only_the_kernels(&state.told).is_some() {
        return None;
    }
    // What goes wrong leaves it with the kernel, where the next call may find it another way.
    let mine = take_over(fd, (deed, local), &held, pending, &mut state, client).ok()?.ok()?;
    mine.set_may_go_back(deed == Deed::Receive);
    Some(mine)
}

/// Does so with all descriptors that another process gets: a forked one, or one that executes a
/// program and by that loses some of them.
pub(crate) fn settle_all(executes: bool) {
    let is_bound = |fd: &c_int| match TABLE.get(*fd).as_deref() {
        Some(Object::Pending(pending)) => pending.state().bound,
        _ => false,
    };
    let goes = |fd: &c_int| !executes || closes_on_exec(*fd) == Ok(false);
    for fd in TABLE.range(0, c_int::MAX).filter(|fd| is_bound(fd) && goes(fd)).collect::<Vec<_>>() {
        settle(fd);
    }
}

/// The descriptors of this process that are this object.
fn descriptors(held: &Held<Object>) -> Vec<c_int> {
    TABLE
        .range(0, c_int::MAX)
        .filter(|&fd| TABLE.get(fd).is_some_and(|other| other.same(held)))
        .collect()
}

/// The socket is the kernel's for good.
fn leave(held: &Held<Object>) {
    for fd in descriptors(held) {
        object::put(fd, None);
    }
}

/// Makes a pending socket Clearway's. `Err` inside: it stays with the kernel, and why.
fn take_over(
    fd: c_int,
    (deed, addr): (Deed, SocketAddr),
    held: &Held<Object>,
    pending: &Pending,
    state: &mut PendingState,
    client: &'static Arc<Client>,
) -> Answer<Result<Mine, String>> {
    // Nobody knows the port of a stream that connects and was never asked for it: so the stack
    // chooses one that is good towards this peer. The kernel, which chose its port, knows nothing
    // of connections here.
    let is_unknown = deed == Deed::Connect && pending.kind == Kind::Stream && !state.port_was_asked;
    let local = local_of(fd, pending, state);
    let port = match deed {
        Deed::Bind => addr.port(),
        _ if is_unknown => 0,
        _ => local.port(),
    };
    let sends_here = matches!(deed, Deed::Connect | Deed::Send)
        && pending.kind == Kind::Datagram
        && client.is_own(addr.ip());
    let options = clearway_client::SocketOptions {
        reuse_port: deed == Deed::Bind && options::shares_port(&state.told),
        ..clearway_client::SocketOptions::default()
    };
    let near = if port == 0 && sends_here { addr.port() } else { port };
    let (socket, session_fd) = client.open_for_port(pending.kind, pending.v6, &options, near)?;
    let made = Ours::new(socket, Extra::default());
    match options::replay(&made, &state.told) {
        Ok(left_out) => {
            for option in left_out {
                client.stayed(
                    &format!("setsockopt {option}"),
                    "Clearway has no such tuning; the socket went over without it",
                );
            }
        }
        Err(why) => return Ok(Err(why)),
    }
    if state.bound && (!is_unknown || local.is_ipv4() && pending.v6) {
        // Nobody who was told of a server finds it at another port.
        let is_told = matches!(deed, Deed::Listen | Deed::Receive) && state.port_was_asked;
        bind_as_before(&made, local.ip(), port, is_told)?;
    }
    // SAFETY: reads a flag.
    let status = check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    let nonblocking = status & libc::O_NONBLOCK != 0;
    made.socket.set_flag(flags::NONBLOCK, nonblocking);
    if nonblocking != made.socket.session_fd_is_nonblocking() {
        set_nonblocking(session_fd.as_fd(), nonblocking)?;
    }
    let members = std::mem::take(&mut state.sets);
    for &(set, member, _) in &members {
        // SAFETY: takes a member out of a set; it fails when either is closed by now, and that is
        // well.
        unsafe { real::epoll_ctl(set, libc::EPOLL_CTL_DEL, member, std::ptr::null_mut()) };
    }
    let made = TABLE.make(Object::Ours(made));
    let asked = state.asks_for_signals.then(|| sigio::Asked::of(fd));
    for fd in descriptors(held) {
        replace(fd, session_fd.as_fd())?;
        object::put(fd, Some(made.clone()));
    }
    if let Some(asked) = asked {
        asked.ask(fd);
    }
    drop(session_fd);
    client.hold_spares(None);
    state.decided = true;
    for (set, member, event) in members {
        crate::epoll::rejoin(set, member, event);
    }
    replaced::wake(held);
    ours(fd).map_or_else(|| fail(libc::EBADF), |mine| Ok(Ok(mine)))
}

/// A socket came back with another session fd: that is what the program's descriptors of it are
/// from now on, with the flags that they had.
pub(crate) fn renew(key: usize, session_fd: BorrowedFd<'_>) {
    let of_the_socket = |fd: &c_int| ours(*fd).is_some_and(|mine| mine.socket.key() == key);
    for fd in TABLE.range(0, c_int::MAX).filter(of_the_socket).collect::<Vec<_>>() {
        if ours(fd).is_some_and(|mine| mine.socket.flag(flags::NONBLOCK)) {
            // SAFETY: sets a flag of a descriptor that is ours.
            unsafe { real::fcntl(session_fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK.into()) };
        }
        // Only a descriptor that is closed at this moment cannot be replaced.
        let _ = replace(fd, session_fd);
    }
}

/// An executed program does not get the descriptor.
pub(crate) fn closes_on_exec(fd: c_int) -> Answer<bool> {
    // SAFETY: reads a flag.
    Ok(check(unsafe { real::fcntl(fd, libc::F_GETFD, 0) })? & libc::FD_CLOEXEC != 0)
}

/// Puts another open file behind a descriptor; its own close-on-exec stays as it was.
fn replace(fd: c_int, with: BorrowedFd<'_>) -> Answer<()> {
    let flags = if closes_on_exec(fd)? { libc::O_CLOEXEC } else { 0 };
    // SAFETY: replaces a descriptor whose object is replaced in the table as well.
    check(unsafe { real::dup3(with.as_raw_fd(), fd, flags) })?;
    Ok(())
}

/// How many ports of the kernel's are looked at for one that the namespace has free as well.
const PORTS_LOOKED_AT: usize = 64;

/// The program bound the socket to port 0: the port that the kernel gave, if the namespace has it
/// free, and else another one unless it has to stay.
fn bind_as_before(made: &Ours, local: IpAddr, port: u16, stays: bool) -> Answer<()> {
    let bind = |port| made.socket.bind(SocketAddr::new(local, port));
    match bind(port) {
        Err(_) if !stays => bind(0),
        bound => bound,
    }
}

/// The program is about to learn which port its pending socket has, and may tell others. The kernel
/// knows nothing of the namespace's ports: one that is taken there would be another as soon as the
/// socket is Clearway's. So the kernel gives others until one is free on both sides.
fn before_port_is_told(fd: c_int, held: &Held<Object>, pending: &Pending) {
    let mut state = pending.state();
    let was_asked = std::mem::replace(&mut state.port_was_asked, true);
    if was_asked || !state.bound || state.group.is_some() || state.decided {
        return;
    }
    let wildcard = SocketAddr::new(local_of(fd, pending, &state).ip(), 0);
    let Ok(Owner::Clearway(client)) = owner(Deed::Bind, wildcard, &state.told) else { return };
    for _ in 0..PORTS_LOOKED_AT {
        let is_taken = kernel_address(fd)
            .is_some_and(|local| is_taken_in_namespace(client, pending, &state, local));
        if !is_taken || other_port_of_kernel(fd, held, pending, &state, wildcard).is_err() {
            return;
        }
    }
}

/// Whether a socket of these options cannot have the address because another has its port.
fn is_taken_in_namespace(
    client: &'static Arc<Client>,
    pending: &Pending,
    state: &PendingState,
    local: SocketAddr,
) -> bool {
    let options = clearway_client::SocketOptions::default();
    let opened = client.open_for_port(pending.kind, pending.v6, &options, local.port());
    let Ok((socket, _session)) = opened else { return false };
    let asks = Ours::new(socket, Extra::default());
    let told = options::replay(&asks, &state.told);
    told.is_ok() && asks.socket.bind(local) == fail(libc::EADDRINUSE)
}

/// Puts another kernel socket of the same options in the place of a pending one; it has another
/// port.
fn other_port_of_kernel(
    fd: c_int,
    held: &Held<Object>,
    pending: &Pending,
    state: &PendingState,
    wildcard: SocketAddr,
) -> Answer<()> {
    // SAFETY: reads a flag.
    let status = check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    let other = kernels_socket(
        (pending.kind, pending.v6),
        status & libc::O_NONBLOCK != 0,
        &state.told,
        Some(wildcard),
    )?;
    for fd in descriptors(held) {
        replace(fd, other.as_fd())?;
    }
    for &(set, member, event) in &state.sets {
        let mut event = libc::epoll_event { events: event.events, u64: event.data };
        // The set forgot the socket that is gone.
        // SAFETY: the event is valid for the call; it fails when either is closed by now, and that
        // is well.
        unsafe { real::epoll_ctl(set, libc::EPOLL_CTL_ADD, member, &raw mut event) };
    }
    replaced::wake(held);
    Ok(())
}

/// A socket of the kernel's that was told the same as another, bound if there is an address.
pub(crate) fn kernels_socket(
    (kind, v6): (Kind, bool),
    nonblocking: bool,
    told: &[Told],
    local: Option<SocketAddr>,
) -> Answer<OwnedFd> {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = if kind == Kind::Stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    let nonblocking = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: makes a socket.
    let raw = check(unsafe { real::socket(family, kind | libc::SOCK_CLOEXEC | nonblocking, 0) })?;
    // SAFETY: it was just made, and nobody else knows it.
    let socket = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(raw) };
    for one in told {
        tell_kernel(raw, one);
    }
    if let Some(local) = local {
        let (addr, len) = crate::addr::Raw::new(local, v6);
        // SAFETY: the address is that long.
        check(unsafe { real::bind(raw, addr.as_ptr(), len) })?;
    }
    Ok(socket)
}

/// What a pending socket is bound to, or would be when it listens. An IPv6 socket may be bound to
/// the wildcard address of IPv4 (::ffff:0.0.0.0), and leaves IPv6 to others then.
fn local_of(fd: c_int, pending: &Pending, state: &PendingState) -> SocketAddr {
    let bound = if state.bound { kernel_address(fd) } else { None };
    bound.unwrap_or(SocketAddr::new(wildcard(pending.v6), 0))
}

/// Where the kernel has a socket bound.
pub(crate) fn kernel_address(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: the storage is as long as the length says.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of_val(&storage) as libc::socklen_t;
        check(real::getsockname(fd, (&raw mut storage).cast(), &mut len)).ok()?;
        match crate::addr::read((&raw const storage).cast(), len) {
            crate::addr::Given::Inet { addr, .. } => Some(addr),
            _ => None,
        }
    }
}

/// A stream of Clearway's that was only bound to the wildcard address connects to where Clearway
/// does not lead, or a socket that waits for datagrams sends there before any came: the kernel
/// takes it (back). True: go on with the C library's function.
pub(crate) fn give_back(fd: c_int, mine: &Mine, remote: SocketAddr) -> Answer<bool> {
    let socket = &mine.socket;
    let remote = destination(remote, || socket.local().ip());
    let deed = if mine.is_stream() { Deed::Connect } else { Deed::Send };
    let is_ours = || matches!(owner(deed, remote, &mine.extra().told), Ok(Owner::Clearway(_)));
    if !is_only_bound(mine) || is_ours() {
        mine.set_may_go_back(false);
        return Ok(false);
    }
    go_back(fd, mine)?;
    socket.client().stayed(
        &format!("{} {remote}", deed.word()),
        "the namespace has no route there; the socket went back to the kernel",
    );
    Ok(true)
}

/// A socket that was only bound, to the wildcard address, and that nobody came to.
fn is_only_bound(mine: &Mine) -> bool {
    let socket = &mine.socket;
    (mine.is_stream() || mine.may_go_back())
        && socket.remote().is_none()
        && !socket.is_listener()
        && socket.local().ip().to_canonical().is_unspecified()
}

/// An option is set that only the kernel has: a socket that was only bound goes back, as one that
/// was told so sooner would have stayed. True: the kernel judges.
pub(crate) fn give_back_for(fd: c_int, mine: &Mine, told: &Told) -> Answer<bool> {
    let only = options::only_the_kernels(std::slice::from_ref(told));
    let Some(option) = only.filter(|_| is_only_bound(mine)) else {
        return Ok(false);
    };
    go_back(fd, mine)?;
    let why = "only the kernel has it; the socket went back to the kernel";
    mine.socket.client().stayed(&format!("setsockopt {option}"), why);
    Ok(true)
}

/// Puts a socket of the kernel's in the place of one of Clearway's that is not connected.
fn go_back(fd: c_int, mine: &Mine) -> Answer<()> {
    let socket = &mine.socket;
    let local = socket.local();
    let told = mine.extra().told.clone();
    let bound = Some(local).filter(|local| local.port() != 0);
    let kernels = kernels_socket(
        (socket.kind(), socket.is_v6()),
        socket.flag(flags::NONBLOCK),
        &told,
        bound,
    )?;
    let Some(held) = TABLE.get(fd) else { return fail(libc::EBADF) };
    let asked = sigio::Asked::of(fd);
    for fd in descriptors(&held) {
        let sets = mine.take_sets(fd).into_iter();
        let members = sets.filter_map(|set| {
            let event = set.event_of(fd)?;
            set.remove(fd).ok().map(|()| (set, event))
        });
        let members: Vec<_> = members.collect();
        let was_ours = object::begin_close(fd);
        let replaced = replace(fd, kernels.as_fd());
        object::end_close(fd);
        drop(was_ours);
        replaced?;
        crate::epoll::rejoin_kernels(fd, members);
    }
    asked.ask(fd);
    replaced::wake(&held);
    Ok(())
}

fn tell_kernel(fd: c_int, told: &Told) {
    let (level, name, value) = told.parts();
    // SAFETY: the value is that long. What the kernel does not take of an option that Clearway took
    // changes nothing for this program.
    unsafe {
        real::setsockopt(
            fd,
            level,
            name,
            value.as_ptr().cast::<c_void>(),
            value.len() as libc::socklen_t,
        )
    };
}

/// The wildcard address of a stream that is still undecided: what `listen` binds it to, when it was
/// not bound.
pub(crate) fn wildcard_of_stream(fd: c_int) -> Option<SocketAddr> {
    match &*TABLE.get(fd)? {
        Object::Pending(pending) if pending.kind == Kind::Stream => {
            Some(SocketAddr::new(wildcard(pending.v6), 0))
        }
        _ => None,
    }
}

fn wildcard(v6: bool) -> IpAddr {
    if v6 { [0u16; 8].into() } else { [0u8; 4].into() }
}
