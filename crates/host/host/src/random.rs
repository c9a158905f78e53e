//! The system's random source.

use std::io;

/// Fills `bytes` from the system's random source.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
