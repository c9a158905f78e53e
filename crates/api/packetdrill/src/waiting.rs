//! Waiting for several sockets: `poll`, and sets as `epoll` has them.

use std::collections::BTreeMap;
use std::ffi::c_int;

use clearway_script::backend::{Op, Told};
use libc::{epoll_event, nfds_t, pollfd};

use crate::copies;
use crate::table::{Data, with};
use crate::world::{Errno, World};

/// Descriptors that are waited for at a time, at most.
const MOST: usize = 1_024;

/// A set of sockets with what is wanted of each.
#[derive(Default)]
pub(crate) struct Set {
    members: BTreeMap<c_int, Member>,
}

#[derive(Clone, Copy)]
struct Member {
    events: u32,
    data: u64,
    /// EPOLLONESHOT, and it was told.
    spent: bool,
    /// EPOLLET: what was told.
    told: Option<Told>,
}

const EDGES: u32 = libc::EPOLLET as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Bits that may stand beside `EPOLLEXCLUSIVE`.
const BESIDE: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32
    | libc::EPOLLWAKEUP as u32
    | EDGES
    | EXCLUSIVE;

impl Set {
    /// A descriptor was closed.
    pub(crate) fn forget(&mut self, fd: c_int) {
        self.members.remove(&fd);
    }
}

/// What of the wanted things is so, for each; the sockets must be ours. Of those with [`Told`],
/// what is new.
fn ready(
    world: &World,
    wanted: &[(c_int, i16, Option<Told>)],
    timeout: c_int,
) -> Result<Vec<i16>, Errno> {
    let tells = |fd: c_int| {
        let copied = copies::settle(world, fd);
        copied || world.enter().sockets.get(&fd).is_some_and(|socket| socket.stamps.is_told())
    };
    let copied: Vec<bool> = wanted.iter().map(|&(fd, ..)| tells(fd)).collect();
    // A notification is there already.
    let timeout = if copied.contains(&true) { Some(0) } else { u32::try_from(timeout).ok() };
    let state = world.enter();
    let core = |fd: c_int| state.sockets.get(&fd).map(|socket| socket.core).ok_or(libc::EBADF);
    let op = if wanted.iter().any(|(.., told)| told.is_some()) {
        // What was never told of is always new.
        let each =
            wanted.iter().map(|&(fd, bits, told)| Ok((core(fd)?, bits, told.unwrap_or_default())));
        Op::Edges(each.collect::<Result<_, Errno>>()?, timeout)
    } else {
        Op::Poll(
            wanted
                .iter()
                .map(|&(fd, bits, _)| Ok((core(fd)?, bits)))
                .collect::<Result<_, Errno>>()?,
            timeout,
        )
    };
    drop(state);
    let reply = world.call(op)?;
    reply.value.map_err(|errno| errno.0)?;
    // A wait that ended without anything has nothing for any of them.
    let mut ready = reply.ready;
    ready.resize(copied.len(), 0);
    for (bits, copied) in ready.iter_mut().zip(copied) {
        *bits |= if copied { libc::POLLERR } else { 0 };
    }
    Ok(ready)
}

/// # Safety
/// As for [`with`]; `fds` leads to `count` of them.
pub(crate) unsafe extern "C" fn poll(
    data: Data,
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    with(data, |world| {
        let count = count as usize;
        if count > MOST || (fds.is_null() && count > 0) {
            return Err(libc::EINVAL);
        }
        let fds = if count == 0 { &mut [] } else { std::slice::from_raw_parts_mut(fds, count) };
        let wanted: Vec<_> = fds.iter().map(|fd| (fd.fd, fd.events, None)).collect();
        let found = ready(world, &wanted, timeout)?;
        // A wait that ended without anything has nothing for any of them.
        for (at, fd) in fds.iter_mut().enumerate() {
            fd.revents = found.get(at).copied().unwrap_or(0);
        }
        Ok(fds.iter().filter(|fd| fd.revents != 0).count())
    }) as c_int
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn epoll_create(data: Data, size: c_int) -> c_int {
    with(data, |world| {
        if size <= 0 {
            return Err(libc::EINVAL);
        }
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC);
        if fd < 0 {
            return Err(libc::EMFILE);
        }
        world.enter().sets.insert(fd, Set::default());
        Ok(fd as usize)
    }) as c_int
}

/// # Safety
/// As for [`with`]; `event` is null or leads to an event.
pub(crate) unsafe extern "C" fn epoll_ctl(
    data: Data,
    set: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    with(data, |world| {
        let mut state = world.enter();
        if !state.sockets.contains_key(&fd) {
            return Err(libc::EBADF);
        }
        let members = &mut state.sets.get_mut(&set).ok_or(libc::EINVAL)?.members;
        let known = members.contains_key(&fd);
        if what == libc::EPOLL_CTL_DEL {
            return members.remove(&fd).map(|_| 0).ok_or(libc::ENOENT);
        }
        if event.is_null() {
            return Err(libc::EFAULT);
        }
        let event = event.read_unaligned();
        let edges = event.events & EDGES != 0;
        let was_exclusive = members.get(&fd).is_some_and(|member| member.events & EXCLUSIVE != 0);
        if event.events & EXCLUSIVE != 0
            && (what != libc::EPOLL_CTL_ADD || event.events & !BESIDE != 0)
            || what == libc::EPOLL_CTL_MOD && was_exclusive
        {
            return Err(libc::EINVAL);
        }
        match (what, known) {
            (libc::EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_MOD, false) => return Err(libc::ENOENT),
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _) => {}
            _ => return Err(libc::EINVAL),
        }
        members.insert(
            fd,
            Member {
                events: event.events,
                data: event.u64,
                spent: false,
                told: edges.then(Told::default),
            },
        );
        Ok(0)
    }) as c_int
}

/// # Safety
/// As for [`with`]; `room` leads to room for `most` events.
pub(crate) unsafe extern "C" fn epoll_wait(
    data: Data,
    set: c_int,
    room: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    with(data, |world| {
        let most = usize::try_from(most).ok().filter(|&most| most > 0).ok_or(libc::EINVAL)?;
        if room.is_null() {
            return Err(libc::EFAULT);
        }
        let members: Vec<(c_int, Member)> = {
            let state = world.enter();
            let set = state.sets.get(&set).ok_or(libc::EINVAL)?;
            set.members
                .iter()
                .filter(|(_, member)| !member.spent)
                .map(|(&fd, &member)| (fd, member))
                .collect()
        };
        // The bits of both have the same values.
        let wanted =
            |&(fd, member): &(c_int, Member)| (fd, (member.events & 0x7fff) as i16, member.told);
        let wanted: Vec<_> = members.iter().map(wanted).collect();
        let found = ready(world, &wanted, timeout)?;
        let mut count = 0;
        let mut state = world.enter();
        for ((fd, mut member), bits) in members.into_iter().zip(found) {
            let Some(core) = state.sockets.get(&fd).map(|socket| socket.core).filter(|_| bits != 0)
            else {
                continue;
            };
            if count == most {
                break;
            }
            if let Some(told) = &mut member.told {
                told.take_new(bits, world.core(&mut state).edges(core));
            }
            member.spent = member.events & libc::EPOLLONESHOT as u32 != 0;
            room.add(count)
                .write_unaligned(epoll_event { events: u32::from(bits as u16), u64: member.data });
            count += 1;
            state.sets.get_mut(&set).and_then(|set| set.members.insert(fd, member));
        }
        Ok(count)
    }) as c_int
}
