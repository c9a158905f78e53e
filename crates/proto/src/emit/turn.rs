//! Everything that was marked leaves, in this order.

use clearway_base::Instant;
use clearway_pkt::Sink;

use super::IpOut;
use crate::stack::Stack;
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// Sends what was marked: link addresses first, for others wait for them, then answers without state, memberships, UDP, then TCP.
    /// True when something is left that could not leave: call again soon.
    pub fn emit(&mut self, now: Instant, sink: &mut impl Sink) -> bool {
        let Stack { config, counters, ip, replies, udp, tcp, .. } = self;
        let mut out = IpOut { now, counters, ip, sink, via: None };
        let mut left = false;
        if out.ip.neighbours.wants_emit() {
            left |= !crate::arp::emit_requests(&mut out) || !out.released();
        }
        if !replies.is_empty() {
            left |= !crate::reply::emit(replies, &mut out);
        }
        if out.ip.groups.wants_emit() {
            left |= !crate::groups::emit(&mut out);
        }
        if udp.wants_emit() {
            left |= !udp.emit(&mut out);
        }
        left |= tcp.emit(now, config, &mut out);
        // What was just sent may have met neighbours that nobody knows yet: they are asked at once.
        if out.ip.neighbours.wants_emit() {
            left |= !crate::arp::emit_requests(&mut out);
        }
        left
    }
}
