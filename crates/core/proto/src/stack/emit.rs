//! Everything that was marked leaves, in this order.

use clearway_base::Instant;
use clearway_pkt::Sink;

use super::Stack;
use crate::net;
use crate::net::output::IpOut;
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// Sends what was marked: link addresses first, for others wait for them, then answers without
    /// state, memberships, UDP, then TCP. True when something is left that could not leave: call
    /// again soon.
    pub fn emit(&mut self, now: Instant, sink: &mut impl Sink) -> bool {
        let Stack { config, counters, ip, replies, udp, tcp, .. } = self;
        let mut out = IpOut { now, counters, ip, sink, via: None };
        let mut left = !net::emit::emit(replies, &mut out);
        if udp.wants_emit() {
            left |= !udp.emit(&mut out);
        }
        if udp.wants_rest() {
            udp.plan_rest(now);
        }
        left |= tcp.emit(now, config, &mut out);
        left |= !net::emit::emit_late_requests(&mut out);
        left
    }
}
