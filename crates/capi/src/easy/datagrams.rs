//! UDP sockets of a host.

use clearway_base::Handle;
use clearway_proto::{Table, UdpSpec};

use super::calls::{Post, cw_handlers};
use super::{cw_host, on_stack};
use crate::memory::{is_there, items, put, read, read_or};
use crate::status::cw_status;
use crate::types::cw_endpoint;
use crate::verbs;

/// Makes a UDP socket; of its functions `readable` and `writable` are called.
///
/// # Safety
/// Pointers as the rules at the top say; so the functions in `handlers`.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_host_udp_bind(
    host: *mut cw_host,
    local: *const cw_endpoint,
    handlers: *const cw_handlers,
    socket: *mut u64,
) -> cw_status {
    on_stack(host, |shared, _, stack| {
        is_there(socket)?;
        let (local, handlers) = (read(local)?.into(), read(handlers)?);
        let posted = shared.sockets.borrow_mut().insert(Post { id: None, handlers }).ok_or(cw_status::CW_FULL)?;
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

/// As `cw_udp_send`; `to` must be there.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_host_udp_send(
    host: *mut cw_host,
    socket: u64,
    to: *const cw_endpoint,
    data: *const u8,
    len: usize,
) -> cw_status {
    on_stack(host, |shared, _, stack| {
        let to = read_or(to).ok_or(cw_status::CW_NULL)?;
        Ok(stack.udp_send(shared.socket(socket)?, Some(to.into()), None, items(data, len)?)?)
    })
}

/// As `cw_udp_recv`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_host_udp_recv(
    host: *mut cw_host,
    socket: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    from: *mut cw_endpoint,
) -> cw_status {
    on_stack(host, |shared, _, stack| verbs::udp_recv(stack, shared.socket(socket)?, (out, capacity), len, from))
}

/// As `cw_udp_close`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_host_udp_close(host: *mut cw_host, socket: u64) -> cw_status {
    on_stack(host, |shared, _, stack| {
        let id = shared.socket(socket)?;
        Handle::from_bits(socket).and_then(|handle| shared.sockets.borrow_mut().remove(handle));
        stack.udp_close(id);
        Ok(())
    })
}
