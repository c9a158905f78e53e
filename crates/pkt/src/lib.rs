//! Packet buffers: owned buffers, bursts, receive and transmit metadata, the transmit sink, preallocated pools.

#![no_std]
#![forbid(unsafe_code)]
