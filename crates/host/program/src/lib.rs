//! What a program's file says of how it is started: the headers of an ELF file, or the first line of
//! a script. By it is decided whether a library can be put into the program, or its system calls
//! have to be trapped.

#![forbid(unsafe_code)]

mod elf;
mod find;
mod preload;
mod script;

pub use elf::{Elf, Kind, PAGE, Segment};
pub use find::find;
pub use preload::{PRELOAD, libraries};
pub use script::{Script, script};
