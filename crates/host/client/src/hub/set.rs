//! Epoll sets in the hub: members, and the list of those that may be ready.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use clearway_shm::layout::state;
use clearway_shm::wait::{self, EpollEvent, PollFd};
use rustix::event::epoll::{self, CreateFlags};
use slab::Slab;
use std::time::Duration;

use crate::Errno;
use crate::hub::sleep_set::SleepSet;
use crate::hub::{Inner, Watch, forget};
use crate::internal::Internal;
use crate::ready::{ALWAYS, IN, OUT, READ, WRITE};

pub(crate) const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
pub(crate) const ET: u32 = libc::EPOLLET as u32;
pub(crate) const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// How deep sets may lie in each other, as in Linux.
const MAX_NESTING: usize = 4;

/// A set.
pub(crate) struct Set {
    /// The program's descriptor of it.
    pub(crate) epfd: i32,
    members: Slab<Member>,
    by_fd: HashMap<i32, usize>,
    /// Members that may be ready. Each is in it once at most.
    ready: VecDeque<usize>,
    pub(crate) watches: Vec<Watch>,
    /// Wakes one of those that wait for the set. Never emptied: who waits for it sees its edges,
    /// also in a child of this process, which has it too.
    pub(crate) kick: Arc<Internal>,
    /// Threads that wait in the program's set, because there is no member here.
    pub(crate) waiting: u32,
    /// Threads that sleep on the set, and how many of them were kicked.
    pub(crate) sleeping: u32,
    pub(crate) kicked: u32,
    /// Threads that have slept on the set, drain the rings, and take what is ready next.
    pub(crate) looking: u32,
    /// Who took what was ready when it was last looked at, and will look again.
    served_by: Option<ThreadMark>,
    /// What they sleep on, and the attachment whose notifier is in it.
    pub(crate) sleep: Option<(u32, Arc<SleepSet>)>,
    /// The kernel's set has members too.
    pub(crate) kernel: bool,
    /// How many members are sets.
    inner: usize,
    /// The kernel's sets of those of them that are asked for by their edges.
    edges: Option<Arc<Internal>>,
}

/// A member.
#[derive(Clone, Copy)]
struct Member {
    what: What,
    fd: i32,
    events: u32,
    data: u64,
    queued: bool,
    /// One-shot, and it has fired.
    disabled: bool,
}

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Socket(usize),
    Set(usize),
}

/// Tells threads that live from each other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ThreadMark(usize);

impl ThreadMark {
    fn own() -> ThreadMark {
        thread_local! {
            static PLACE: u8 = const { 0 };
        }
        ThreadMark(PLACE.with(|place| std::ptr::from_ref(place).addr()))
    }
}

impl Member {
    fn interest(&self) -> u32 {
        match self.disabled {
            true => 0,
            false => self.events & (READ | WRITE) | ALWAYS,
        }
    }
}

impl Set {
    pub(crate) fn new(epfd: i32, kick: Internal) -> Set {
        Set {
            epfd,
            members: Slab::new(),
            by_fd: HashMap::new(),
            ready: VecDeque::new(),
            watches: Vec::new(),
            waiting: 0,
            kick: Arc::new(kick),
            sleeping: 0,
            kicked: 0,
            looking: 0,
            served_by: None,
            sleep: None,
            kernel: false,
            inner: 0,
            edges: None,
        }
    }

    pub(crate) fn contains(&self, fd: i32) -> bool {
        self.by_fd.contains_key(&fd)
    }

    /// What a member was told to be waited for.
    pub(crate) fn event_of(&self, fd: i32) -> Option<EpollEvent> {
        let member = self.members.get(*self.by_fd.get(&fd)?)?;
        Some(EpollEvent { events: member.events, data: member.data })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Some member may be ready.
    pub(crate) fn is_promising(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The sockets in it.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().filter_map(|(_, member)| match member.what {
            What::Socket(key) => Some(key),
            What::Set(_) => None,
        })
    }

    /// The sets in it.
    pub(crate) fn sets(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().filter_map(|(_, member)| match member.what {
            What::Socket(_) => None,
            What::Set(key) => Some(key),
        })
    }

    pub(crate) fn forget_threads(&mut self) {
        (self.waiting, self.sleeping, self.kicked) = (0, 0, 0);
        (self.looking, self.served_by, self.sleep) = (0, None, None);
        self.watches.retain(|watch| matches!(watch, Watch::Member { .. }));
    }

    /// A set among the members is asked for by its edges. Those of its kernel's members come
    /// together in a set of their own, where each is found once.
    fn heed_edges(&mut self, key: usize, epfd: i32) -> Result<(), Errno> {
        let edges = match &self.edges {
            Some(edges) => edges.clone(),
            None => {
                self.sleep = None;
                let made = Arc::new(Internal::new(epoll::create(CreateFlags::CLOEXEC)?));
                self.edges.insert(made).clone()
            }
        };
        let event = EpollEvent { events: IN | ET, data: key as u64 };
        match wait::epoll_add(edges.as_fd().as_raw_fd(), epfd, event) {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What those who sleep on the set learn of these edges by.
    pub(crate) fn edges(&self) -> Option<i32> {
        self.edges.as_ref().map(|edges| edges.as_fd().as_raw_fd())
    }

    /// The sets among the members that had an edge since this was asked last.
    fn take_edges(&self) -> Vec<usize> {
        let Some(edges) = self.edges() else { return Vec::new() };
        let mut found = vec![EpollEvent::default(); self.inner];
        let there = wait::epoll(edges, &mut found, Some(Duration::ZERO), None).unwrap_or(0);
        found[..there].iter().map(|event| event.data as usize).collect()
    }

    fn queue(&mut self, member: usize) {
        if let Some(entry) = self.members.get_mut(member).filter(|entry| !entry.queued) {
            entry.queued = true;
            self.ready.push_back(member);
        }
    }
}

impl Inner {
    /// EPOLL_CTL_ADD.
    pub(crate) fn add_member(
        &mut self,
        set: usize,
        fd: i32,
        what: What,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let EpollEvent { events, data } = event;
        if events & EXCLUSIVE != 0 && (matches!(what, What::Set(_)) || events & ONESHOT != 0) {
            return Err(Errno::INVAL);
        }
        let entry = self.sets.get_mut(set).ok_or(Errno::BADF)?;
        if entry.contains(fd) {
            return Err(Errno::EXIST);
        }
        // What happened to it before says nothing of when it becomes ready as a member.
        self.drain();
        self.heed_member(set, what, events)?;
        let entry = self.sets.get_mut(set).ok_or(Errno::BADF)?;
        let member =
            entry.members.insert(Member { what, fd, events, data, queued: false, disabled: false });
        entry.by_fd.insert(fd, member);
        entry.inner += usize::from(matches!(what, What::Set(_)));
        let watch = Watch::Member { set, member };
        match what {
            What::Socket(key) => self.watch_socket(key, watch),
            What::Set(key) => self.sets.get_mut(key).ok_or(Errno::BADF)?.watches.push(watch),
        }
        self.look_at_member(set, member);
        Ok(())
    }

    fn heed_member(&mut self, set: usize, what: What, events: u32) -> Result<(), Errno> {
        let What::Set(key) = what else { return Ok(()) };
        let inner = self.sets.get(key).ok_or(Errno::BADF)?.epfd;
        match self.sets.get_mut(set) {
            Some(entry) if events & ET != 0 => entry.heed_edges(key, inner),
            _ => Ok(()),
        }
    }

    /// EPOLL_CTL_MOD.
    pub(crate) fn modify_member(
        &mut self,
        set: usize,
        fd: i32,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let EpollEvent { events, data } = event;
        let entry = self.sets.get_mut(set).ok_or(Errno::BADF)?;
        let index = *entry.by_fd.get(&fd).ok_or(Errno::NOENT)?;
        let member = &mut entry.members[index];
        if (events | member.events) & EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        (member.events, member.data, member.disabled) = (events, data, false);
        let what = member.what;
        self.heed_member(set, what, events)?;
        self.look_at_member(set, index);
        Ok(())
    }

    /// EPOLL_CTL_DEL.
    pub(crate) fn remove_member(&mut self, set: usize, fd: i32) -> Result<(), Errno> {
        let entry = self.sets.get(set).ok_or(Errno::BADF)?;
        let index = *entry.by_fd.get(&fd).ok_or(Errno::NOENT)?;
        let watch = Watch::Member { set, member: index };
        match entry.members[index].what {
            What::Socket(key) => self.unwatch_socket(key, watch),
            What::Set(key) => {
                if let Some(inner) = self.sets.get_mut(key) {
                    forget(&mut inner.watches, watch);
                }
            }
        }
        self.forget_member(set, index);
        Ok(())
    }

    /// A member is gone.
    pub(crate) fn forget_member(&mut self, set: usize, member: usize) {
        let Some(entry) = self.sets.get_mut(set) else { return };
        let Some(gone) = entry.members.try_remove(member) else { return };
        entry.by_fd.remove(&gone.fd);
        entry.inner -= usize::from(matches!(gone.what, What::Set(_)));
        if gone.queued {
            // The place can be another member's soon.
            entry.ready.retain(|queued| *queued != member);
        }
    }

    /// A set is gone.
    pub(crate) fn remove_set(&mut self, set: usize) {
        let Some(entry) = self.sets.try_remove(set) else { return };
        for (member, gone) in &entry.members {
            let watch = Watch::Member { set, member };
            match gone.what {
                What::Socket(key) => self.unwatch_socket(key, watch),
                What::Set(key) => {
                    if let Some(inner) = self.sets.get_mut(key) {
                        forget(&mut inner.watches, watch);
                    }
                }
            }
        }
        for watch in entry.watches {
            if let Watch::Member { set, member } = watch {
                self.forget_member(set, member);
            }
        }
    }

    /// A set that lies so deep in others, or holds such, is refused.
    pub(crate) fn may_nest(&self, outer: usize, inner: usize) -> Result<(), Errno> {
        if outer == inner
            || self.holds(inner, outer, MAX_NESTING)
            || self.depth(inner, MAX_NESTING) >= MAX_NESTING
        {
            return Err(Errno::LOOP);
        }
        Ok(())
    }

    fn holds(&self, set: usize, sought: usize, fuel: usize) -> bool {
        let Some(entry) = self.sets.get(set).filter(|_| fuel > 0) else { return false };
        entry.sets().any(|inner| inner == sought || self.holds(inner, sought, fuel - 1))
    }

    fn depth(&self, set: usize, fuel: usize) -> usize {
        let Some(entry) = self.sets.get(set).filter(|_| fuel > 0) else { return 0 };
        1 + entry.sets().map(|inner| self.depth(inner, fuel - 1)).max().unwrap_or(0)
    }

    /// A thread watches a set.
    pub(crate) fn watch_set(&mut self, set: usize, watch: Watch) {
        let accepting = self.accepting_of(set);
        if let Some(set) = self.sets.get_mut(set) {
            set.watches.push(watch);
        }
        if let Watch::Thread { waiter, .. } = watch {
            self.waits_for(waiter, accepting);
        }
    }

    /// The member asks for what there is to read.
    pub(crate) fn reads(&self, set: usize, member: usize) -> bool {
        let member = self.sets.get(set).and_then(|set| set.members.get(member));
        member.is_some_and(|member| member.interest() & IN != 0)
    }

    /// It watches it no more.
    pub(crate) fn unwatch_set(&mut self, set: usize, watch: Watch) {
        if let Some(set) = self.sets.get_mut(set) {
            forget(&mut set.watches, watch);
        }
    }

    /// The program's descriptors of the sets in a set, and in those.
    pub(crate) fn sets_within(&self, set: usize) -> Vec<i32> {
        let mut found = Vec::new();
        let mut next = vec![set];
        while let Some(set) = next.pop() {
            for inner in self.sets.get(set).into_iter().flat_map(Set::sets) {
                found.extend(self.sets.get(inner).map(|inner| inner.epfd));
                next.push(inner);
            }
        }
        found
    }

    /// Sets among the members may be ready by what only the kernel knows.
    pub(crate) fn look_at_inner_sets(&mut self, set: usize) {
        let Some(entry) = self.sets.get(set).filter(|entry| entry.inner > 0) else { return };
        let edges = entry.take_edges();
        // What the kernel knows of the sets within a member has no edge here.
        let holds_sets = |key| self.sets.get(key).is_some_and(|set: &Set| set.inner > 0);
        let may_be_ready = |member: &Member| match member.what {
            What::Socket(_) => false,
            What::Set(key) => member.events & ET == 0 || holds_sets(key) || edges.contains(&key),
        };
        let inner =
            entry.members.iter().filter(|(_, member)| !member.queued && may_be_ready(member));
        for member in inner.map(|(index, _)| index).collect::<Vec<_>>() {
            self.look_at_member(set, member);
        }
    }

    /// A member that is ready now is put into the list, behind those that became so before it:
    /// their events lie in the rings by now, for a worker leaves the event of one before it makes
    /// the next one ready.
    fn look_at_member(&mut self, set: usize, member: usize) {
        let Some(&entry) = self.sets.get(set).and_then(|set| set.members.get(member)) else {
            return;
        };
        if self.found(&entry) != 0 {
            self.drain();
            self.enqueue(set, member);
        }
    }

    /// What a member is ready for, of what it is asked for. A socket that is not ready tells when
    /// it is.
    fn found(&self, member: &Member) -> u32 {
        let interest = member.interest();
        match member.what {
            What::Socket(key) => {
                let Some(socket) = self.sockets.get(key) else { return 0 };
                let mut ready = self.readiness(&socket.core);
                if ready & OUT == 0 && socket.core.is_unlearnt() {
                    let is_known = self.learn(&socket.core);
                    if !is_known && socket.core.state() & state::CONNECTED != 0 {
                        // The call that comes next asks the host, which cannot be done here.
                        return (IN | OUT) & interest;
                    }
                    ready = self.readiness(&socket.core);
                }
                let found = ready & interest;
                if found & !ALWAYS != 0 && member.events & ET == 0 {
                    return found;
                }
                socket.core.arm(interest);
                self.readiness(&socket.core) & interest
            }
            What::Set(key) if self.is_set_ready(key, MAX_NESTING) => IN & interest,
            What::Set(_) => 0,
        }
    }

    /// `poll` of the set would find it readable.
    pub(crate) fn is_set_ready(&self, set: usize, fuel: usize) -> bool {
        let Some(entry) = self.sets.get(set) else { return false };
        let any =
            entry.ready.iter().filter_map(|member| entry.members.get(*member)).any(|member| {
                match member.what {
                    What::Set(inner) => fuel > 0 && self.is_set_ready(inner, fuel - 1),
                    What::Socket(_) => self.found(member) != 0,
                }
            });
        any || entry.kernel && kernel_is_ready(entry.epfd)
    }

    /// The next arrival at what is ready in a set is told too, which is an edge for the set that
    /// this one lies in: sockets that stay ready are not asked to tell otherwise.
    fn arm_ready(&self, set: usize, fuel: usize) {
        let Some(entry) = self.sets.get(set).filter(|_| fuel > 0) else { return };
        for member in entry.ready.iter().filter_map(|member| entry.members.get(*member)) {
            match member.what {
                What::Set(inner) => self.arm_ready(inner, fuel - 1),
                What::Socket(key) => {
                    if let Some(socket) = self.sockets.get(key) {
                        socket.core.arm(member.interest());
                    }
                }
            }
        }
    }

    /// An event touched the socket or set that is this member.
    pub(crate) fn mark_member(
        &mut self,
        set: usize,
        member: usize,
        bits: u32,
        exclusive_done: &mut bool,
    ) {
        let Some(entry) = self.sets.get(set) else { return };
        let Some(&touched) = entry.members.get(member) else { return };
        if touched.interest() & bits == 0 {
            return;
        }
        if touched.events & EXCLUSIVE != 0 {
            // One set of those that want it so is enough, if somebody there takes it.
            if *exclusive_done {
                return;
            }
            *exclusive_done = entry.looking > 0 || entry.sleeping > entry.kicked;
        }
        self.enqueue(set, member);
    }

    /// Some set must hear of every arrival: it is edge-triggered, or was passed over for another
    /// that asked for it exclusively.
    pub(crate) fn wants_each_arrival(&self, key: usize) -> bool {
        let Some(socket) = self.sockets.get(key) else { return false };
        socket.watches.iter().any(|watch| match watch {
            Watch::Member { set, member } => {
                let member = self.sets.get(*set).and_then(|set| set.members.get(*member));
                member.is_some_and(|member| {
                    member.events & (ET | EXCLUSIVE) != 0 && member.interest() & READ != 0
                })
            }
            Watch::Thread { .. } | Watch::Acceptor { .. } => false,
        })
    }

    /// Puts a member into the list and tells those who wait for the set.
    fn enqueue(&mut self, set: usize, member: usize) {
        let entry = &mut self.sets[set];
        entry.queue(member);
        self.wake_set(set);
    }

    /// Wakes one of those who sleep on the set, and tells those for whom it is a member.
    pub(crate) fn wake_set(&mut self, set: usize) {
        let entry = &mut self.sets[set];
        if entry.sleeping > entry.kicked {
            entry.kicked += 1;
            let kick = entry.kick.clone();
            self.concerns_others = true;
            self.kick_set(kick);
        } else {
            self.concerns_others |= entry.served_by.is_some_and(|mark| mark != ThreadMark::own());
        }
        let mut index = 0;
        while let Some(&watch) = self.sets.get(set).and_then(|set| set.watches.get(index)) {
            self.mark_watch(watch, IN, &mut false);
            index += 1;
        }
    }

    /// Fills `out` with members that are ready, in the order in which they became so. Those that
    /// stay ready go to the end of the list.
    pub(crate) fn harvest(&mut self, set: usize, out: &mut [EpollEvent]) -> usize {
        let mut filled = 0;
        let candidates = self.sets.get(set).map_or(0, |set| set.ready.len());
        for _ in 0..candidates {
            if filled == out.len() {
                break;
            }
            let Some(member) = self.sets[set].ready.pop_front() else { break };
            let Some(&entry) = self.sets[set].members.get(member) else { continue };
            let found = self.found(&entry);
            let entry = &mut self.sets[set].members[member];
            entry.queued = false;
            if found == 0 {
                continue;
            }
            out[filled] = EpollEvent { events: found, data: entry.data };
            filled += 1;
            if entry.events & ONESHOT != 0 {
                entry.disabled = true;
            } else if entry.events & ET == 0 {
                self.sets[set].queue(member);
            } else if let What::Set(inner) = entry.what {
                self.arm_ready(inner, MAX_NESTING);
            }
        }
        if let Some(set) = self.sets.get_mut(set) {
            set.served_by = (filled > 0).then(ThreadMark::own);
        }
        filled
    }
}

/// The kernel's part of a set has something.
fn kernel_is_ready(epfd: i32) -> bool {
    let mut fds = [PollFd { fd: epfd, events: libc::POLLIN, found: 0 }];
    matches!(wait::poll(&mut fds, Some(Duration::ZERO), None), Ok(1))
}
