//! One connection's turn to send: on the fast path if that is open, else by what the plan says.

use clearway_pkt::Sink;

use super::conn::Conn;
use super::marks::Marks;
use super::output::{EmitCx, Turn, emit_any, end_turn, fast_path};
use crate::net::output::OutError;
use crate::store::Env;

/// One connection's turn to send. It has no [`Marks::EMIT`] afterwards unless something gave it a
/// new one.
#[inline(always)]
pub(crate) fn emit_conn<E: Env, S: Sink>(c: &mut Conn<E>, mut cx: EmitCx<'_, '_, E, S>) -> Turn {
    match fast_path::emit(c, &mut cx) {
        Some(Ok(())) => Turn::Done,
        Some(Err(why)) => cannot(c, &mut cx.again(), why),
        None => emit_any(c, &mut cx.again()),
    }
}

/// The fast path was shut.
#[cold]
#[inline(never)]
fn cannot<E: Env, S: Sink>(c: &mut Conn<E>, cx: &mut EmitCx<'_, '_, E, S>, why: OutError) -> Turn {
    c.marks.clear(Marks::EMIT);
    end_turn(c, cx, Err(why))
}
