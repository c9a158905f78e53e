//! UDP sockets of a host.

use clearway_base::Handle;
use clearway_proto::{Table, UdpSpec};

use super::calls::{Post, clw_handlers};
use super::{clw_host, on_live_stack, on_sending_stack, on_stack};
use crate::memory::{is_there, items, put, read, read_or};
use crate::status::clw_status;
use crate::types::clw_endpoint;
use crate::verbs;

/// Makes a UDP socket; of its functions `readable` and `writable` are called.
///
/// # Safety
/// Pointers as the rules at the top say; so the functions in `handlers`.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_udp_bind(
    host: *mut clw_host,
    local: *const clw_endpoint,
    handlers: *const clw_handlers,
    socket: *mut u64,
) -> clw_status {
    on_live_stack(host, |shared, _, stack| {
        is_there(socket)?;
        let (local, handlers) = (read(local)?.into(), read(handlers)?);
        let posted = shared
            .sockets
            .borrow_mut()
            .insert(Post { id: None, handlers })
            .ok_or(clw_status::CLW_FULL)?;
        let token = posted.to_bits();
        match stack.udp_bind(UdpSpec { table: Table(0), local, token, v6_only: false }) {
            Ok(id) => {
                if let Some(post) = shared.sockets.borrow_mut().get_mut(posted) {
                    post.id = Some(id);
                }
                put(socket, token);
                Ok(())
            }
            Err(why) => {
                shared.sockets.borrow_mut().remove(posted);
                Err(why.into())
            }
        }
    })
}

/// As `clw_udp_send`; `to` must be there.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_udp_send(
    host: *mut clw_host,
    socket: u64,
    to: *const clw_endpoint,
    data: *const u8,
    len: usize,
) -> clw_status {
    on_sending_stack(host, |shared, _, stack| {
        let to = read_or(to).ok_or(clw_status::CLW_NULL)?;
        Ok(stack.udp_send(shared.socket(socket)?, Some(to.into()), None, items(data, len)?)?)
    })
}

/// As `clw_udp_recv`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_udp_recv(
    host: *mut clw_host,
    socket: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    from: *mut clw_endpoint,
) -> clw_status {
    on_stack(host, |shared, _, stack| {
        verbs::udp_recv(stack, shared.socket(socket)?, (out, capacity), len, from)
    })
}

/// As `clw_udp_close`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_host_udp_close(host: *mut clw_host, socket: u64) -> clw_status {
    on_stack(host, |shared, _, stack| {
        let id = shared.socket(socket)?;
        Handle::from_bits(socket).and_then(|handle| shared.sockets.borrow_mut().remove(handle));
        stack.udp_close(id);
        Ok(())
    })
}
