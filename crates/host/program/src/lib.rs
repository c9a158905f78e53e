//! What a program's file says of how it is started: the headers of an ELF file, or the first line of
//! a script. By it is decided whether a library can be put into the program, or its system calls
//! have to be trapped. Beside it, where a command is, and the variables by which it is started.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

mod elf;
mod find;
mod script;
mod variables;

pub use elf::{Elf, Kind, PAGE, Segment};
pub use find::find;
pub use script::{MAX_SCRIPTS, Script, script};
pub use variables::{CARRIER_VARIABLE, PRELOAD, TRAPPED_VARIABLE, libraries, value_of};

/// How many bytes of a file's beginning there were. Read at offsets, as no socket is: to a child
/// between `vfork` and `exec` the descriptor's number may be that of a socket of its parent's.
fn read_beginning(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < into.len() {
        match file.read_at(&mut into[len..], len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}
