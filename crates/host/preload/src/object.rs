//! What a descriptor of the program can be, when it is not simply the kernel's.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use clearway_client::{EpollSet, Kind, Socket};

use crate::epoll::Set;
use crate::interfaces::netlink::RouteSocket;
use crate::options::{Extra, Told, stamps};
use crate::parts::Parts;
use crate::signals::faults;
use crate::stdio;
use crate::table::{Held, Table};

/// The descriptors of this process.
pub(crate) static TABLE: Table<Object> = Table::new();

/// Says what a descriptor is from now on, and gives what it was.
pub(crate) fn put(fd: c_int, object: Option<Held<Object>>) -> Option<Held<Object>> {
    if object.as_deref().is_some_and(|object| matches!(object, Object::Ours(_))) {
        stdio::serve();
    }
    if object.is_some() {
        faults::catch();
    }
    let old = TABLE.put(fd, object);
    stdio::follow(fd);
    old
}

/// Gives what a descriptor was that is about to be closed or replaced. Other threads' calls on it
/// wait until [`end_close`] or [`put`]: the kernel still has a descriptor of ours there.
pub(crate) fn begin_close(fd: c_int) -> Option<Held<Object>> {
    TABLE.begin_close(fd)
}

/// It is closed.
pub(crate) fn end_close(fd: c_int) {
    TABLE.end_close(fd);
    stdio::follow(fd);
}

/// What a descriptor is.
pub(crate) enum Object {
    /// A socket of the internet that is still the kernel's, and may become Clearway's.
    Pending(Pending),
    /// A socket of Clearway.
    Ours(Ours),
    /// An epoll set of the kernel, which may have members of Clearway.
    Set(Set),
    /// A socket of the kernel's by which programs ask for interfaces.
    Route(RouteSocket),
}

/// A kernel socket whose first address decides whose it will be.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) v6: bool,
    state: Mutex<PendingState>,
}

/// What happened to a pending socket so far.
#[derive(Default)]
pub(crate) struct PendingState {
    /// Options in the order in which they were set, as the kernel took them.
    pub(crate) told: Vec<Told>,
    /// It was bound to the wildcard address and port 0, or to a group.
    pub(crate) bound: bool,
    /// The group that it was bound to, with its port.
    pub(crate) group: Option<SocketAddr>,
    /// The program has asked which port it became (getsockname), and may have told others.
    pub(crate) port_was_asked: bool,
    /// Epoll sets that it is a member of: the set's descriptor, its own, and what for.
    pub(crate) sets: Vec<(c_int, c_int, clearway_client::EpollEvent)>,
    /// The program may have said whom it sends signals (F_SETOWN and the like).
    pub(crate) asks_for_signals: bool,
    /// It is Clearway's or the kernel's by now; the table tells.
    pub(crate) decided: bool,
}

impl Pending {
    pub(crate) fn new(kind: Kind, v6: bool) -> Pending {
        Pending { kind, v6, state: Mutex::default() }
    }

    /// A call on it is under way.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket of Clearway.
pub(crate) struct Ours {
    pub(crate) socket: Arc<Socket>,
    /// UDP_SEGMENT: asked for at each send, so not behind the lock.
    segment_size: AtomicU16,
    /// When the last datagram came, for SIOCGSTAMP; 0: nobody has noted it.
    last_stamp: AtomicU64,
    /// It is Clearway's because it waits for datagrams, and none of the kernel's has been sent to.
    may_go_back: AtomicBool,
    /// The urgent byte that the owner was told of last.
    urgent_told: AtomicU32,
    /// A datagram that is being put together.
    pub(crate) parts: Parts,
    extra: Mutex<Extra>,
    /// Epoll sets that it is a member of, by its descriptor there.
    sets: Mutex<Vec<(c_int, Weak<EpollSet>)>>,
}

impl Ours {
    pub(crate) fn new(socket: Arc<Socket>, extra: Extra) -> Ours {
        Ours {
            socket,
            segment_size: AtomicU16::new(0),
            last_stamp: AtomicU64::new(stamps::NEVER),
            may_go_back: AtomicBool::new(false),
            urgent_told: AtomicU32::new(0),
            parts: Parts::default(),
            extra: Mutex::new(extra),
            sets: Mutex::default(),
        }
    }

    /// UDP_SEGMENT; 0: off.
    pub(crate) fn segment_size(&self) -> u16 {
        self.segment_size.load(Ordering::Relaxed)
    }

    pub(crate) fn set_segment_size(&self, size: u16) {
        self.segment_size.store(size, Ordering::Relaxed);
    }

    /// When the last datagram came, in nanoseconds since the start of 1970; 0: that was not noted;
    /// [`stamps::NEVER`]: none came.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.last_stamp.load(Ordering::Relaxed)
    }

    pub(crate) fn set_last_stamp(&self, at: u64) {
        self.last_stamp.store(at, Ordering::Relaxed);
    }

    /// It is Clearway's for no other reason than that it waits for datagrams, and nothing came or
    /// was sent yet.
    pub(crate) fn may_go_back(&self) -> bool {
        self.may_go_back.load(Ordering::Relaxed) && self.last_stamp() == stamps::NEVER
    }

    pub(crate) fn set_may_go_back(&self, may: bool) {
        self.may_go_back.store(may, Ordering::Relaxed);
    }

    /// An urgent byte came since this was asked last.
    pub(crate) fn take_urgent_news(&self) -> bool {
        let now = self.socket.urgents();
        self.urgent_told.swap(now, Ordering::Relaxed) != now
    }

    /// Options that only this library knows.
    pub(crate) fn extra(&self) -> MutexGuard<'_, Extra> {
        self.extra.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is a member of this set by that descriptor.
    pub(crate) fn join_set(&self, fd: c_int, set: &Arc<EpollSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|(_, set)| set.strong_count() > 0);
        sets.push((fd, Arc::downgrade(set)));
    }

    /// The sets that it is a member of by this descriptor, which it is no more from now on.
    pub(crate) fn take_sets(&self, fd: c_int) -> Vec<Arc<EpollSet>> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, left): (Vec<_>, _) =
            std::mem::take(&mut *sets).into_iter().partition(|set| set.0 == fd);
        *sets = left;
        taken.into_iter().filter_map(|(_, set)| set.upgrade()).collect()
    }

    /// It is no longer a member of this set.
    pub(crate) fn leave_set(&self, fd: c_int, set: &Arc<EpollSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|(at, other)| *at != fd || !std::ptr::eq(other.as_ptr(), Arc::as_ptr(set)));
    }

    /// The descriptor is closed: it leaves all sets.
    pub(crate) fn leave_sets(&self, fd: c_int) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|(at, set)| {
            if *at != fd {
                return true;
            }
            if let Some(set) = set.upgrade() {
                // The program may have taken it out already.
                let _ = set.remove(fd);
            }
            false
        });
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.socket.kind() == Kind::Stream
    }
}

/// A socket of Clearway in use.
pub(crate) struct Mine(Held<Object>);

impl Deref for Mine {
    type Target = Ours;

    fn deref(&self) -> &Ours {
        match &*self.0 {
            Object::Ours(ours) => ours,
            Object::Pending(_) | Object::Set(_) | Object::Route(_) => {
                unreachable!("only `ours` makes this")
            }
        }
    }
}

/// The socket of Clearway at this descriptor.
#[inline]
pub(crate) fn ours(fd: c_int) -> Option<Mine> {
    let held = TABLE.get(fd)?;
    matches!(&*held, Object::Ours(_)).then(|| Mine(held))
}
