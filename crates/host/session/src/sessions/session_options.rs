//! A session's options, as the stack has them.

use clearway_options::{PMTU_DISC_DO, PMTU_DISC_PROBE};
use clearway_proto::{ConnId, ConnOptions, MulticastOptions, UdpError, UdpFragmenting, UdpId};
use clearway_shm::attach_socket::SocketOptions;
use clearway_wire::Addr;

use super::membership::iface_of;
use crate::env::HostStack;
use crate::program::MIN_RX_FIFO;

/// A connection's options as the stack has them. `default` says what holds where the program set
/// nothing.
pub(super) fn conn_options(options: &SocketOptions, default: &ConnOptions) -> ConnOptions {
    // Who named a size has it; the FIFO is no smaller.
    let asked = ConnOptions::of_socket(options, default);
    let receive_buffer =
        if asked.receive_buffer == 0 { 0 } else { asked.receive_buffer.max(MIN_RX_FIFO) };
    // Bytes stay where they are in the stream; the process's side takes the urgent one out when it
    // is not to be inline.
    ConnOptions { urgent_inline: true, receive_buffer, ..asked }
}

/// Tells a connection's FIFOs what its options say of them.
pub(super) fn bound_queues(stack: &HostStack, conn: ConnId, options: &SocketOptions) {
    let Some((rx, tx)) = stack.queues(conn) else { return };
    rx.name_limit(receive_bound(ConnOptions::of_socket(options, stack.defaults()).receive_buffer));
    tx.bound_unsent(options.unsent_bound());
}

/// Who named a size has it; the FIFO is no smaller.
fn receive_bound(named: u32) -> u32 {
    if named == 0 { u32::MAX } else { named.max(MIN_RX_FIFO) }
}

/// What IP_MTU_DISCOVER or IPV6_MTU_DISCOVER means, as Linux does it. None: it was never set.
fn fragmenting(discover: Option<u8>, refused: bool) -> UdpFragmenting {
    UdpFragmenting {
        refused,
        dont_fragment: matches!(discover, Some(1 | PMTU_DISC_DO | PMTU_DISC_PROBE)),
        link_mtu_only: discover.is_some_and(|how| how >= PMTU_DISC_PROBE),
    }
}

/// Tells the stack what a session's options say of datagrams that are too long, and of errors.
pub(super) fn about_errors(
    stack: &mut HostStack,
    socket: UdpId,
    options: &SocketOptions,
) -> Result<(), UdpError> {
    let v4 = fragmenting(options.discover_v4, options.refuses_longer(false));
    let v6 = fragmenting(options.discover_v6, options.refuses_longer(true));
    stack.udp_set_fragmenting(socket, v4, v6)?;
    stack.udp_set_reports(socket, options.receive_errors)
}

/// What a process set, as the stack has it.
pub(super) fn multicast_options(set: &SocketOptions) -> MulticastOptions {
    MulticastOptions {
        ttl: set.multicast_ttl,
        loop_back: set.multicast_loop,
        iface: iface_of(set.multicast_iface),
        source: Some(Addr::v4(set.multicast_source.to_be_bytes()))
            .filter(|_| set.multicast_source != 0),
        all: set.multicast_all,
    }
}
