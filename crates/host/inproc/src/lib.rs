//! The stack inside of a program's own process: a host of one worker without a thread, which the
//! program's threads drive.
//!
//! The preload library loads this one when `clearway run --inproc` says so. Threads that wait in a
//! call of the program turn the stack ([`drive`]); one thread of ours ([`helper`]) sleeps, and
//! turns only when nobody else does. What both libraries say to each other is
//! [`clearway_shm::in_process`].
//!
//! It is loaded so that its own calls of the C library reach the C library, and not the functions
//! of the same names that the preload library stands in for.

mod begin;
mod calls;
mod drive;
mod helper;
