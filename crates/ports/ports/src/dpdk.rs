//! What can be asked of DPDK as a whole. Without it, there is no answer.

/// The memory that DPDK has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Whether it is in huge pages.
    pub huge: bool,
    /// All of it, in bytes; in huge pages it grows and shrinks with what is used.
    pub bytes: u64,
    /// What nobody has.
    pub free: u64,
}

/// The version that was built in, such as `DPDK 22.11.11`.
pub fn version() -> Option<String> {
    #[cfg(feature = "dpdk")]
    return Some(clearway_dpdk::version());
    #[cfg(not(feature = "dpdk"))]
    None
}

/// Its memory, once it runs.
pub fn memory() -> Option<Memory> {
    #[cfg(feature = "dpdk")]
    return clearway_dpdk::memory().map(|(huge, bytes, free)| Memory { huge, bytes, free });
    #[cfg(not(feature = "dpdk"))]
    None
}
