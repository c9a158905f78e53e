//! A house, and processes that speak to it over its socket and its memory as a program's library does.

mod ahead;
mod back;
mod child;
mod datagrams;
mod death;
mod doors;
mod echo;
mod guest;
mod idle;
mod joints;
mod memory;
mod minute;
mod partings;
mod refusals;
mod trust;
mod turns;
mod world;
