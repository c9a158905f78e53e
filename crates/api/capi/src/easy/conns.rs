//! Listeners and connections of a host.

use std::ffi::c_void;

use clearway_base::Handle;
use clearway_proto::{ConnectSpec, ListenSpec, Table};

use super::calls::{Place, Post, clw_handlers};
use super::{clw_host, on_live_stack, on_stack};
use crate::config::clw_options;
use crate::memory::{is_there, put, read, read_or};
use crate::status::clw_status;
use crate::tcp::clw_conn_info;
use crate::types::clw_endpoint;
use crate::verbs;

/// Listens. What it accepts gets the same functions and the same `ctx`; `clw_host_set_ctx` changes
/// that. NULL `options` are the defaults.
///
/// # Safety
/// Pointers as the rules at the top say; so the functions in `handlers`.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_listen(
    host: *mut clw_host,
    local: *const clw_endpoint,
    backlog: u32,
    options: *const clw_options,
    handlers: *const clw_handlers,
    listener: *mut u64,
) -> clw_status {
    on_live_stack(host, |shared, _, stack| {
        is_there(listener)?;
        let options = clw_options::from_caller(options)?;
        let (local, handlers) = (read(local)?.into(), read(handlers)?);
        let posted = shared
            .listeners
            .borrow_mut()
            .insert(Post { id: None, handlers })
            .ok_or(clw_status::CLW_FULL)?;
        let token = posted.to_bits();
        match stack.listen(ListenSpec {
            table: Table(0),
            local,
            v6_only: false,
            backlog,
            token,
            options,
        }) {
            Ok(id) => {
                if let Some(post) = shared.listeners.borrow_mut().get_mut(posted) {
                    post.id = Some(id);
                }
                put(listener, token);
                Ok(())
            }
            Err(why) => {
                shared.listeners.borrow_mut().remove(posted);
                Err(why.into())
            }
        }
    })
}

/// Stops listening. Connections that were accepted stay.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_unlisten(host: *mut clw_host, listener: u64) -> clw_status {
    on_stack(host, |shared, _, stack| {
        let handle = Handle::from_bits(listener).ok_or(clw_status::CLW_STALE)?;
        let post = shared.listeners.borrow_mut().remove(handle).ok_or(clw_status::CLW_STALE)?;
        post.id.into_iter().for_each(|id| stack.unlisten(id));
        Ok(())
    })
}

/// Begins a connection; `connected` or `closed` tells how it went, always. `CLW_STOPPED` when the
/// host was stopped. NULL `options` are the defaults.
///
/// # Safety
/// Pointers as the rules at the top say; so the functions in `handlers`.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_connect(
    host: *mut clw_host,
    local: *const clw_endpoint,
    remote: *const clw_endpoint,
    options: *const clw_options,
    handlers: *const clw_handlers,
    conn: *mut u64,
) -> clw_status {
    on_live_stack(host, |shared, now, stack| {
        is_there(conn)?;
        let options = clw_options::from_caller(options)?;
        let (local, remote) = (read_or(local).map(Into::into), read(remote)?.into());
        let handlers = read(handlers)?;
        let place = shared
            .conns
            .borrow_mut()
            .insert(Place { conn: None, handlers })
            .ok_or(clw_status::CLW_FULL)?;
        let token = place.to_bits();
        match stack.connect(now, ConnectSpec { table: Table(0), local, remote, token, options }) {
            Ok(id) => {
                if let Some(place) = shared.conns.borrow_mut().get_mut(place) {
                    place.conn = Some(id);
                }
                put(conn, token);
                Ok(())
            }
            Err(why) => {
                shared.conns.borrow_mut().remove(place);
                Err(why.into())
            }
        }
    })
}

/// Gives a connection a `ctx` of its own for its functions.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_set_ctx(
    host: *mut clw_host,
    conn: u64,
    ctx: *mut c_void,
) -> clw_status {
    on_stack(host, |shared, _, _| {
        let handle = Handle::from_bits(conn).ok_or(clw_status::CLW_STALE)?;
        let mut conns = shared.conns.borrow_mut();
        conns.get_mut(handle).ok_or(clw_status::CLW_STALE)?.handlers.ctx = ctx;
        Ok(())
    })
}

/// As `clw_send`; `writable` is called when there is room again.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_send(
    host: *mut clw_host,
    conn: u64,
    data: *const u8,
    len: usize,
    sent: *mut usize,
) -> clw_status {
    on_stack(host, |shared, _, stack| {
        verbs::send(stack, shared.conn(conn)?, (data, len, false), sent)
    })
}

/// As `clw_send_more`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_send_more(
    host: *mut clw_host,
    conn: u64,
    data: *const u8,
    len: usize,
    sent: *mut usize,
) -> clw_status {
    on_stack(host, |shared, _, stack| {
        verbs::send(stack, shared.conn(conn)?, (data, len, true), sent)
    })
}

/// As `clw_recv`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_recv(
    host: *mut clw_host,
    conn: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> clw_status {
    on_stack(host, |shared, _, stack| verbs::recv(stack, shared.conn(conn)?, out, capacity, len))
}

/// As `clw_peek`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_peek(
    host: *mut clw_host,
    conn: u64,
    data: *mut *const u8,
    len: *mut usize,
) -> clw_status {
    on_stack(host, |shared, _, stack| verbs::peek(stack, shared.conn(conn)?, data, len))
}

/// As `clw_consumed`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_consumed(
    host: *mut clw_host,
    conn: u64,
    len: usize,
) -> clw_status {
    on_stack(host, |shared, _, stack| verbs::consumed(stack, shared.conn(conn)?, len))
}

/// As `clw_shutdown`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_shutdown(host: *mut clw_host, conn: u64) -> clw_status {
    on_stack(host, |shared, _, stack| verbs::shutdown(stack, shared.conn(conn)?))
}

/// Lets go; the handle is dead, and `closed` is not called. What was written still goes out.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_close(host: *mut clw_host, conn: u64) -> clw_status {
    on_stack(host, |shared, _, stack| {
        let id = shared.conn(conn)?;
        shared.forget(conn);
        stack.close(id);
        Ok(())
    })
}

/// Resets the connection; the handle is dead, and `closed` is not called.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_abort(host: *mut clw_host, conn: u64) -> clw_status {
    on_stack(host, |shared, _, stack| {
        let id = shared.conn(conn)?;
        shared.forget(conn);
        stack.abort(id);
        Ok(())
    })
}

/// As `clw_set_options`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_set_options(
    host: *mut clw_host,
    conn: u64,
    options: *const clw_options,
) -> clw_status {
    on_stack(host, |shared, _, stack| {
        is_there(options)?;
        let options = clw_options::from_caller(options)?;
        stack.set_options(shared.conn(conn)?, options);
        Ok(())
    })
}

/// As `clw_conn_info_get`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_conn_info_get(
    host: *mut clw_host,
    conn: u64,
    info: *mut clw_conn_info,
) -> clw_status {
    on_stack(host, |shared, _, stack| {
        is_there(info)?;
        put(info, verbs::info(stack, shared.conn(conn)?)?);
        Ok(())
    })
}
