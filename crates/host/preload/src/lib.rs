//! Unmodified programs over the host: the socket calls of libc, taken over.
//!
//! The library is loaded before the C library (`LD_PRELOAD`) and defines the functions by which
//! programs use sockets. Each looks its descriptor up in a table; what is not there, which is
//! nearly everything, goes to the C library's own function unchanged.
//!
//! A socket stays the kernel's until its first address says that it is Clearway's (`decide`); then
//! a session of the host takes its place behind the same descriptor. What is done to it from then
//! on is done by `clearway-client`; this crate only translates.
//!
//! The functions hold nothing of Rust's while the C library runs in them, so a thread may be
//! cancelled there; a panic inside ends the process.

#![cfg_attr(test, allow(dead_code, reason = "without the C names nobody calls the functions"))]

mod addr;
mod aliases;
mod answered;
mod cancel;
mod composed;
mod control;
mod copies;
mod decide;
mod epoll;
mod errno;
mod exec;
mod export;
mod files;
mod formatted;
mod fortified;
mod given;
mod inheritors;
mod inside;
mod interfaces;
mod lock;
mod modules;
mod names;
mod object;
mod options;
mod parts;
mod process;
mod real;
mod received;
mod reused;
mod rights;
mod secure;
mod sendfile;
mod sigio;
mod signals;
mod sockets;
mod start;
mod stdio;
mod syscalls;
mod table;
mod transfer;
mod trap;
mod undecided;
mod vectors;
mod wait;
