//! The easy layer: an engine over ports that are named, which calls the program back.

pub mod calls;
pub mod conns;
pub mod datagrams;

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{CString, c_char};
use std::io::Read;
use std::rc::Rc;

use clearway_base::{Duration, Instant};
use clearway_dev::{FramePool, PoolBudget, PortSpec};
use clearway_engine::{Engine, Memory, Mode, PortOptions, Seat, Step, Stores, Team, cores};
use clearway_pkt::Iface;
use clearway_ports::{Port, Wrap, open_one};
use clearway_proto::{NextHop, Stack, Table};
use clearway_wire::{Addr, Cidr};

use crate::config::clw_config;
use crate::count::{clw_counters, counted};
use crate::memory::{is_there, put, text};
use crate::status::{answer, clw_status};
use calls::{Calls, Shared};

/// An engine with ports, a stack, and the program's callbacks.
pub struct clw_host {
    shared: Rc<Shared>,
    engine: UnsafeCell<Engine<Stores, Port, Calls>>,
    /// A call uses the engine.
    busy: Cell<bool>,
    life: Cell<Life>,
    error: RefCell<CString>,
    // The only field that other threads touch.
    team: Team<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    New,
    Started,
    Finished,
}

/// Text that a port's name, an address or a route may be long.
const LONGEST_TEXT: usize = 4_096;

/// How long to look for more packets before sleeping, when there is more than one core.
const SPIN: Duration = Duration::from_micros(100);

/// Runs a call on the stack of a host, out of a callback or from outside.
///
/// # Safety
/// `host` is null or came from `clw_host_new`, was not freed, and no other thread uses it now.
pub(crate) unsafe fn on_stack(
    host: *const clw_host,
    call: impl FnOnce(&Shared, Instant, &mut Stack<Stores>) -> Result<(), clw_status>,
) -> clw_status {
    let Some(this) = host.as_ref() else { return clw_status::CLW_NULL };
    if let Some(stack) = this.shared.stack.get() {
        // Out of a callback: the engine lent the stack to its application, which waits for the
        // callback.
        return answer(call(&this.shared, this.shared.now.get(), &mut *stack.as_ptr()));
    }
    on_engine(host, |engine| {
        let now = engine.time().now;
        call(&this.shared, now, engine.stack())
    })
}

/// As [`on_stack`], for what only a host that goes on can do: one that was stopped calls nobody
/// back any more.
///
/// # Safety
/// As for [`on_stack`].
pub(crate) unsafe fn on_live_stack(
    host: *const clw_host,
    call: impl FnOnce(&Shared, Instant, &mut Stack<Stores>) -> Result<(), clw_status>,
) -> clw_status {
    match host.as_ref() {
        Some(this) if this.life.get() == Life::Finished => clw_status::CLW_STOPPED,
        _ => on_stack(host, call),
    }
}

/// As [`on_stack`], for what leaves in this turn or never: it may be done in the last callbacks,
/// and not behind them.
///
/// # Safety
/// As for [`on_stack`].
pub(crate) unsafe fn on_sending_stack(
    host: *const clw_host,
    call: impl FnOnce(&Shared, Instant, &mut Stack<Stores>) -> Result<(), clw_status>,
) -> clw_status {
    match host.as_ref() {
        Some(this) if this.life.get() == Life::Finished && this.shared.stack.get().is_none() => {
            clw_status::CLW_STOPPED
        }
        _ => on_stack(host, call),
    }
}

/// Runs a call on the engine of a host.
///
/// # Safety
/// As for [`on_stack`].
unsafe fn on_engine(
    host: *const clw_host,
    call: impl FnOnce(&mut Engine<Stores, Port, Calls>) -> Result<(), clw_status>,
) -> clw_status {
    let Some(this) = host.as_ref() else { return clw_status::CLW_NULL };
    if this.busy.replace(true) {
        return clw_status::CLW_BUSY;
    }
    // Whoever is `busy` is the only one to use the engine.
    let result = call(&mut *this.engine.get());
    this.busy.set(false);
    answer(result)
}

impl clw_host {
    fn device(&self, why: impl ToString) -> clw_status {
        // A sentence with a zero byte in it has none to show.
        *self.error.borrow_mut() = CString::new(why.to_string()).unwrap_or_default();
        clw_status::CLW_DEVICE
    }
}

/// Makes a host without ports. NULL `config`: the defaults. A secret of all zero is filled from the
/// system's random source. `copy_buffers` and `copy_buffer_len` mean nothing here. `clw_host_free`
/// ends it.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_new(
    config: *const clw_config,
    host: *mut *mut clw_host,
) -> clw_status {
    answer((|| {
        is_there(host)?;
        let mut config =
            if config.is_null() { clw_config::default() } else { clw_config::from_caller(config)? };
        if config.secret == [0; 32] {
            let random = std::fs::File::open("/dev/urandom")
                .and_then(|mut file| file.read_exact(&mut config.secret));
            random.map_err(|_| clw_status::CLW_SECRET)?;
        }
        let (team, seats) = Team::new(1).map_err(|_| clw_status::CLW_NO_MEMORY)?;
        let seat = seats.into_iter().next().ok_or(clw_status::CLW_BROKEN)?;
        let made = Box::into_raw(Box::new(make(&config, team, seat)?));
        let shared = &(*made).shared;
        shared.host.set(made);
        put(host, made);
        Ok(())
    })())
}

fn make(config: &clw_config, team: Team<()>, seat: Seat<()>) -> Result<clw_host, clw_status> {
    let pool = FramePool::new(PoolBudget::default());
    let core = config.to_core();
    let memory = Memory {
        send_chunks: config.send_chunks,
        send_chunk_len: config.send_chunk_len,
        send_limit: config.send_limit,
        receive_limit: config.receive_limit,
        ..Memory::of(core.limits.connections)
    };
    let (rx, tx) = memory.stores(&pool);
    let stack = Stack::new(core, rx, tx);
    let shared = Rc::new(Shared::new(config));
    let mode = if cores::available() < 2 { Mode::Interrupt } else { Mode::Adaptive(SPIN) };
    let app = Calls::new(Rc::clone(&shared));
    let engine = Engine::new(stack, Vec::new(), pool, app, mode, seat)
        .map_err(|_| clw_status::CLW_BROKEN)?;
    Ok(clw_host {
        shared,
        engine: UnsafeCell::new(engine),
        busy: Cell::new(false),
        life: Cell::new(Life::New),
        error: RefCell::default(),
        team,
    })
}

/// Ends a host: the `closed` callbacks of all connections are called with `CLW_STOPPED`, goodbyes
/// are sent, ports are closed. NULL will do.
///
/// # Safety
/// Pointers as the rules at the top say; the host is not used any more, by no thread.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_free(host: *mut clw_host) -> clw_status {
    let Some(this) = host.as_ref() else { return clw_status::CLW_OK };
    if this.busy.get() || this.shared.stack.get().is_some() {
        return clw_status::CLW_BUSY;
    }
    if this.life.get() != Life::Finished {
        finish(host);
    }
    drop(Box::from_raw(host));
    clw_status::CLW_OK
}

/// What went wrong last with a port, as a sentence that ends with a zero byte; it stays until the
/// next call that fails with `CLW_DEVICE`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_error(host: *const clw_host) -> *const c_char {
    host.as_ref().map_or(c"there is no host".as_ptr(), |this| this.error.borrow().as_ptr())
}

/// Opens a port and makes it an interface, whose number goes to `iface`. Ports: `tap:NAME`,
/// `tun:NAME`, `loop`, `pcap:FILE` (docs/ports.md).
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_add_port(
    host: *mut clw_host,
    port: *const c_char,
    iface: *mut u16,
) -> clw_status {
    on_engine(host, |engine| {
        is_there(iface)?;
        let this = &*host;
        if this.life.get() == Life::Finished {
            return Err(clw_status::CLW_STOPPED);
        }
        let name = text(port, LONGEST_TEXT)?;
        let spec: PortSpec = name.parse().map_err(|why| this.device(why))?;
        let opened = open_one(&spec, &Wrap::default(), 1).map_err(|why| this.device(why))?;
        let port = opened.into_iter().next().ok_or_else(|| this.device("there is no such port"))?;
        let port = port.into_port(engine.pool()).map_err(|why| this.device(why))?;
        let options = PortOptions { name: name.to_owned(), ..PortOptions::default() };
        let added = engine.add_port(port, options).map_err(|why| this.device(why))?;
        put(iface, added.0);
        Ok(())
    })
}

/// Gives an interface an address with its prefix length, such as `10.0.0.2/24`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_add_address(
    host: *mut clw_host,
    iface: u16,
    cidr: *const c_char,
) -> clw_status {
    on_stack(host, |_, now, stack| {
        let cidr: Cidr = text(cidr, LONGEST_TEXT)?.parse().map_err(|_| clw_status::CLW_INVALID)?;
        Ok(stack.add_address(now, Iface(iface), cidr)?)
    })
}

/// Adds a route to a prefix, such as `0.0.0.0/0`, over a gateway.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_add_route(
    host: *mut clw_host,
    cidr: *const c_char,
    gateway: *const c_char,
) -> clw_status {
    on_stack(host, |_, _, stack| {
        let cidr: Cidr = text(cidr, LONGEST_TEXT)?.parse().map_err(|_| clw_status::CLW_INVALID)?;
        let gateway: Addr =
            text(gateway, LONGEST_TEXT)?.parse().map_err(|_| clw_status::CLW_INVALID)?;
        Ok(stack.add_route(Table(0), cidr, NextHop::Gateway(gateway))?)
    })
}

/// One round: packets in, timers, callbacks, packets out, and a sleep of at most `wait_ms`
/// milliseconds when there was nothing to do. `CLW_STOPPED` after `clw_host_stop`: every connection
/// has heard `closed`, whatever would begin something answers `CLW_STOPPED`, and only
/// `clw_host_free` is left to do.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_step(host: *mut clw_host, wait_ms: u32) -> clw_status {
    let Some(this) = host.as_ref() else { return clw_status::CLW_NULL };
    if this.life.get() == Life::Finished {
        return clw_status::CLW_STOPPED;
    }
    let mut stopped = false;
    let status = on_engine(host, |engine| {
        if this.life.replace(Life::Started) == Life::New {
            engine.start().map_err(|why| this.device(why))?;
        }
        this.shared.wake_at.set(engine.time().now + Duration::from_millis(wait_ms.into()));
        stopped = engine.step().map_err(|why| this.device(why))? == Step::Stop;
        Ok(())
    });
    if stopped {
        let goodbye = finish(host);
        return if goodbye == clw_status::CLW_OK { clw_status::CLW_STOPPED } else { goodbye };
    }
    status
}

/// The last round: everybody hears that it is over.
///
/// # Safety
/// As for [`on_stack`], and the host is there.
unsafe fn finish(host: *const clw_host) -> clw_status {
    let this = &*host;
    this.life.set(Life::Finished);
    on_engine(host, |engine| engine.finish(true).map_err(|why| this.device(why)))
}

/// Runs until `clw_host_stop` is called, and then answers `CLW_OK`. Every connection has heard
/// `closed` then, and only `clw_host_free` is left to do.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_run(host: *mut clw_host) -> clw_status {
    loop {
        // It is woken when something happens; how long it sleeps does not matter.
        match clw_host_step(host, 3_600_000) {
            clw_status::CLW_OK => {}
            clw_status::CLW_STOPPED => return clw_status::CLW_OK,
            other => return other,
        }
    }
}

/// Makes `clw_host_run` and `clw_host_step` come back, for good. May be called out of a callback,
/// by any thread, and by a signal handler.
///
/// # Safety
/// Pointers as the rules at the top say; the host is not being freed.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_stop(host: *const clw_host) -> clw_status {
    if host.is_null() {
        return clw_status::CLW_NULL;
    }
    // Only this field may be looked at by several threads at a time.
    let team = &(*host).team;
    team.stop();
    clw_status::CLW_OK
}

/// Everything that was counted.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_counters_get(
    host: *mut clw_host,
    counters: *mut clw_counters,
) -> clw_status {
    on_stack(host, |_, _, stack| {
        is_there(counters)?;
        put(counters, counted(stack.counters(), 0));
        Ok(())
    })
}

#[cfg(test)]
mod tests;
