//! What the fuzz targets do with their bytes. The targets themselves are in `fuzz/` and need
//! cargo-fuzz; these functions run anywhere, and `tests/fuzz_replay.rs` replays the corpora with
//! them.
//!
//! Each function is a property. `frame` and `segments`: whatever the bytes are, the stack must not
//! panic, must send nothing but well-formed packets, and must come to rest with every buffer given
//! back. `import`: the same of a state that somebody else has written. `peer`: whatever a program
//! does, the host and its other programs go on. The others: no text makes its reader panic.

mod frame;
mod import;
mod peer;
mod rig;
mod segments;
mod texts;

pub use frame::frame;
pub use import::{exports, import};
pub use peer::peer;
pub use segments::segments;
pub use texts::{command, config, script, vcl};
