//! A host, and processes that speak to it over its socket and its memory as a program's library
//! does.

mod ahead;
mod attach_sockets;
mod back;
mod connect_message;
mod cut_throughs;
mod datagrams;
mod death;
mod echo;
mod eventually;
mod guest;
mod idle;
mod joined;
mod memory;
mod minute;
mod partings;
mod refusals;
mod trust;
mod turns;
mod world;
