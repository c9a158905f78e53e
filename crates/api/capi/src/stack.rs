//! The bare layer: a stack that the program drives with three verbs, `clw_ingest`, `clw_expire` and
//! `clw_emit`.

use alloc::boxed::Box;
use core::cell::{Cell, UnsafeCell};

use clearway_base::Instant;
use clearway_pkt::{Burst, Pool};
use clearway_proto::store::{ChainRx, Minimum, RingTx};
use clearway_proto::{Event, Stack};

use crate::buf::{Bare, CallerBuf, CallerSink, Lent, clw_packet, clw_sink};
use crate::config::clw_config;
use crate::memory::{is_there, items, put, read};
use crate::status::{answer, clw_status};

/// A whole TCP/IP stack for one core. One thread uses it at a time.
pub struct clw_stack {
    /// A call is in progress: another one can only come out of one of its callbacks.
    busy: Cell<bool>,
    // None only while the stack is being freed.
    inner: UnsafeCell<Option<Inner>>,
}

pub(crate) struct Inner {
    pub(crate) stack: Stack<Bare>,
    pub(crate) pool: Pool,
    burst: Burst<CallerBuf>,
    /// The latest time that was told.
    now: Instant,
    /// Packets that were to be copied and found no buffer.
    pub(crate) not_copied: u64,
}

/// The listener `handle` has a finished handshake for `clw_accept`.
pub const CLW_EVENT_INCOMING: u32 = 1;
/// Something happened to the connection `handle`: bits `CLW_CONN_…`.
pub const CLW_EVENT_CONN: u32 = 2;
/// Something happened to the UDP socket `handle`: bits `CLW_UDP_…`.
pub const CLW_EVENT_UDP: u32 = 3;

/// The handshake that the program began is done.
pub const CLW_CONN_CONNECTED: u32 = 1;
/// Bytes can be read.
pub const CLW_CONN_READABLE: u32 = 2;
/// Bytes can be written again after a write was cut short.
pub const CLW_CONN_WRITABLE: u32 = 4;
/// The peer has finished; after the bytes that wait, there are no more.
pub const CLW_CONN_PEER_CLOSED: u32 = 8;
/// The connection failed, `clw_failure` says why. Only `clw_close` is left to do.
pub const CLW_CONN_FAILED: u32 = 16;
/// Both sides are done and everything was acknowledged. Only to read what waits, and `clw_close`,
/// are left to do.
pub const CLW_CONN_CLOSED: u32 = 32;
/// Urgent data was announced.
pub const CLW_CONN_URGENT: u32 = 64;

/// A datagram can be read.
pub const CLW_UDP_READABLE: u32 = 1;
/// There is room for datagrams again after a send was refused.
pub const CLW_UDP_WRITABLE: u32 = 2;
/// An ICMP error came back.
pub const CLW_UDP_ERROR: u32 = 4;

/// Something for the program to look at. Events are marks: however often a thing happens before the
/// program looks, it is told once.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct clw_event {
    /// One of `CLW_EVENT_…`.
    pub kind: u32,
    /// What happened, as bits; 0 for `CLW_EVENT_INCOMING`.
    pub what: u32,
    /// The listener, connection or socket.
    pub handle: u64,
    /// The word that the program gave with it.
    pub token: u64,
}

/// Runs a call on a stack, unless it comes out of another one's callback.
///
/// # Safety
/// `stack` is null or came from `clw_stack_new`, was not freed, and no other thread uses it now.
pub(crate) unsafe fn enter(
    stack: *const clw_stack,
    call: impl FnOnce(&mut Inner) -> Result<(), clw_status>,
) -> clw_status {
    let Some(this) = stack.as_ref() else { return clw_status::CLW_NULL };
    if this.busy.replace(true) {
        return clw_status::CLW_BUSY;
    }
    // Whoever is `busy` is the only one to look inside: `clw_stack_free` refuses as well.
    let result = (*this.inner.get()).as_mut().map_or(Err(clw_status::CLW_STALE), call);
    this.busy.set(false);
    answer(result)
}

impl Inner {
    fn new(config: &clw_config) -> Inner {
        let core = config.to_core();
        let minimum = Minimum::of(core.limits.connections);
        let rx = ChainRx::shared(config.receive_packets, config.receive_limit, minimum, None);
        let tx =
            RingTx::shared(config.send_chunks, config.send_chunk_len, config.send_limit, minimum);
        let mut stack = Stack::new(core, rx, tx);
        let pool = Pool::new(config.copy_buffers as usize, config.copy_buffer_len as usize);
        let spare = pool.clone();
        stack.set_buffer_maker(Box::new(move |bytes| spare.copy_of(bytes).map(CallerBuf::Copied)));
        Inner { stack, pool, burst: Burst::new(), now: Instant::ZERO, not_copied: 0 }
    }

    /// The caller's time. It never runs backwards here, and never reaches the end of time.
    #[inline]
    pub(crate) fn at(&mut self, now_ns: u64) -> Instant {
        self.now = self.now.max(Instant::from_nanos(now_ns.min(u64::MAX / 2)));
        self.now
    }

    /// # Safety
    /// The packets are as [`clw_packet`] says.
    unsafe fn ingest(&mut self, now: Instant, packets: &[clw_packet]) -> Result<(), clw_status> {
        for packet in packets {
            packet.check()?;
        }
        for packet in packets {
            let buf = match packet.release {
                Some(release) => CallerBuf::Lent(Lent::take(packet, release)),
                None => match self.pool.copy_of(items(packet.data, packet.len as usize)?) {
                    Some(copy) => CallerBuf::Copied(copy),
                    None => {
                        self.not_copied += 1;
                        continue;
                    }
                },
            };
            if self.burst.room() == 0 {
                self.stack.ingest(now, &mut self.burst);
            }
            // There is room now, and what finds none is given back to its owner by being dropped.
            let _ = self.burst.push(buf, packet.rx_meta()?);
        }
        self.stack.ingest(now, &mut self.burst);
        Ok(())
    }
}

/// Makes a stack; all its memory is taken now. `clw_stack_free` ends it.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_stack_new(
    config: *const clw_config,
    stack: *mut *mut clw_stack,
) -> clw_status {
    answer((|| {
        is_there(stack)?;
        let config = clw_config::from_caller(config)?;
        if config.secret == [0; 32] {
            return Err(clw_status::CLW_SECRET);
        }
        let inner = UnsafeCell::new(Some(Inner::new(&config)));
        put(stack, Box::into_raw(Box::new(clw_stack { busy: Cell::new(false), inner })));
        Ok(())
    })())
}

/// Ends a stack: nothing more is sent, and every packet that it holds is released. NULL will do.
///
/// # Safety
/// Pointers as the rules at the top say; the stack is not used any more.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_stack_free(stack: *mut clw_stack) -> clw_status {
    let Some(this) = stack.as_ref() else { return clw_status::CLW_OK };
    if this.busy.replace(true) {
        return clw_status::CLW_BUSY;
    }
    // The release functions that are called now find the stack busy; only then its memory goes.
    drop((*this.inner.get()).take());
    drop(Box::from_raw(stack));
    clw_status::CLW_OK
}

/// Takes packets in, all of them or none: none when the answer is not `CLW_OK`. What they ask for
/// is only marked; `clw_emit` sends.
///
/// # Safety
/// Pointers as the rules at the top say, and the packets as `clw_packet` says.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_ingest(
    stack: *mut clw_stack,
    now_ns: u64,
    packets: *const clw_packet,
    count: usize,
) -> clw_status {
    enter(stack, |inner| {
        let now = inner.at(now_ns);
        inner.ingest(now, items(packets, count)?)
    })
}

/// Looks at all timers that are due. What they ask for is only marked; `clw_emit` sends.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_expire(stack: *mut clw_stack, now_ns: u64) -> clw_status {
    enter(stack, |inner| {
        let now = inner.at(now_ns);
        inner.stack.expire(now);
        Ok(())
    })
}

/// Sends what is marked. `CLW_AGAIN`: something is left that could not leave, because the sink has
/// no room or others had their turn first; call again soon.
///
/// # Safety
/// Pointers as the rules at the top say, and the functions of `sink` do what `clw_sink` says.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_emit(
    stack: *mut clw_stack,
    now_ns: u64,
    sink: *const clw_sink,
) -> clw_status {
    enter(stack, |inner| {
        let mut sink = CallerSink::new(read(sink)?)?;
        let now = inner.at(now_ns);
        if inner.stack.emit(now, &mut sink) { Err(clw_status::CLW_AGAIN) } else { Ok(()) }
    })
}

/// When `clw_expire` must be called next, on the clock of `now_ns`; UINT64_MAX when no timer runs.
/// May be early, never late.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_next_deadline(
    stack: *mut clw_stack,
    deadline_ns: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        is_there(deadline_ns)?;
        put(deadline_ns, inner.stack.next_deadline().as_nanos());
        Ok(())
    })
}

/// Whether `clw_emit` has something to send: `CLW_OK` when it has, `CLW_AGAIN` when not.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_wants_emit(stack: *mut clw_stack) -> clw_status {
    enter(stack, |inner| if inner.stack.wants_emit() { Ok(()) } else { Err(clw_status::CLW_AGAIN) })
}

/// The next thing for the program to look at; `CLW_AGAIN` when there is none.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_next_event(
    stack: *mut clw_stack,
    event: *mut clw_event,
) -> clw_status {
    enter(stack, |inner| {
        is_there(event)?;
        let next = inner.stack.next_event().ok_or(clw_status::CLW_AGAIN)?;
        put(event, clw_event::from(next));
        Ok(())
    })
}

impl From<Event> for clw_event {
    fn from(event: Event) -> clw_event {
        match event {
            Event::Incoming { listener, token } => {
                clw_event { kind: CLW_EVENT_INCOMING, what: 0, handle: listener.to_bits(), token }
            }
            Event::Conn { conn, token, what } => clw_event {
                kind: CLW_EVENT_CONN,
                what: what.0.into(),
                handle: conn.to_bits(),
                token,
            },
            Event::Udp { socket, token, what } => clw_event {
                kind: CLW_EVENT_UDP,
                what: what.0.into(),
                handle: socket.to_bits(),
                token,
            },
        }
    }
}
