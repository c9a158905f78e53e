//! What a program's file says of how it is started: the headers of an ELF file, or the first line of
//! a script. By it is decided whether a library can be put into the program, or its system calls
//! have to be trapped. Beside it, where a command is, and the variables by which it is started.

#![forbid(unsafe_code)]

mod elf;
mod find;
mod script;
mod variables;

pub use elf::{Elf, Kind, PAGE, Segment};
pub use find::find;
pub use script::{Script, script};
pub use variables::{CARRIER_VARIABLE, PRELOAD, TRAPPED_VARIABLE, libraries, value_of};
