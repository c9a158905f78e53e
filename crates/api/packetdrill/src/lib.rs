//! An adapter with which packetdrill runs its scripts against the core: `packetdrill
//! --so_filename=libclearway_packetdrill.so --so_flags=…`.
//!
//! packetdrill hands packets in and takes them out, calls the socket functions, and asks what time
//! it is; all of it through one struct of functions (`table`). Behind it is the core in virtual
//! time, as our own script runner has it: the clock moves when packetdrill sleeps or waits for a
//! packet, and a microsecond with every look at it. Two threads come in: one of them may be blocked
//! in a call while the other one goes on.
//!
//! Each socket is an eventfd's number, so that the numbers are real and packetdrill's own cleaning
//! up with `close` finds something. What packetdrill asks the C library about such a number
//! (TCP_INFO inside of `%{ }%`) is answered here: see `asked`.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the whole body of such a function rests on the one promise of its C caller"
)]

mod address;
mod asked;
mod control;
mod copies;
mod data;
mod flags;
mod kernel;
mod options;
mod sockets;
mod stamps;
mod table;
mod waiting;
mod world;

use std::ffi::{CStr, c_char};

use flags::Flags;
use table::Interface;
use world::World;

/// packetdrill's interface: fills its struct of functions. Flags that make no sense are told on the
/// standard error, and end the program, since the interface knows no other way to refuse.
///
/// # Safety
/// `flags` is null or a text; `interface` leads to the struct.
// SAFETY: packetdrill looks for this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let text = if flags.is_null() { "".into() } else { CStr::from_ptr(flags).to_string_lossy() };
    match Flags::parse(&text) {
        Ok(flags) => interface.write(Interface::new(World::new(flags))),
        Err(why) => {
            eprintln!("clearway: --so_flags={text}: {why}");
            std::process::exit(2);
        }
    }
}

#[cfg(test)]
mod tests;
