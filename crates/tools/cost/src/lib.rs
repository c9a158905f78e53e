//! What a request and a connection cost: two stacks coupled back to back in memory, no device, no
//! system call in between.
//!
//! Nothing here asserts a time. Instructions are counted from outside by callgrind
//! (`cargo xtask cost`), which repeats exactly; allocations and bytes are counted inside.

pub mod bulk;
pub mod couple;
pub mod fake_peer;
pub mod memory;
pub mod request;
pub mod short;
pub mod walk;
