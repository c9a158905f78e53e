//! What the fuzz targets do with their bytes. The targets themselves are in `fuzz/` and need cargo-fuzz; these functions
//! run anywhere, and `tests/fuzz_replay.rs` replays the corpora with them.
//!
//! Each function is a property: whatever the bytes are, the stack must not panic, must send nothing but well-formed packets,
//! and must come to rest with every buffer given back.

mod frame;
mod rig;
mod segments;

pub use frame::frame;
pub use segments::segments;
