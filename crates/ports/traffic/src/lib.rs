//! Frames without a stack: a reflector that sends back what it gets, an answerer of requests over
//! TCP that remembers nothing, and a generator that sends numbered frames and keeps account of what
//! comes back.
//!
//! All are driven like the stack: whoever owns them calls [`Reflector::turn`], [`Answerer::turn`] or
//! [`Generator::turn`] with the time and one queue of a port. Nothing here reads a clock, sleeps,
//! or allocates after it was made.

#![forbid(unsafe_code)]

pub mod account;
pub mod answer;
pub mod flow;
pub mod frame;
pub mod generate;
pub mod pace;
pub mod rate;
pub mod reflect;

pub use account::{Account, Came};
pub use answer::{Answerer, Requests};
pub use flow::{FlowTable, Order};
pub use frame::{Look, Shape};
pub use frame::{Template, TooShort, Trace};
pub use generate::{Generator, Plan, Sent};
pub use pace::Pace;
pub use rate::{FramesPerSecond, Rate, RateError, WIRE_EXTRA};
pub use reflect::{Mirror, Reflected, Reflector};
