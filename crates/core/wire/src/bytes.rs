//! Big-endian numbers in arrays of known length. With the length in the type the compiler drops
//! every bounds check.

#[inline(always)]
pub(crate) fn u16_at<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[inline(always)]
pub(crate) fn u32_at<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[inline(always)]
pub(crate) fn put16<const N: usize>(b: &mut [u8; N], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put32<const N: usize>(b: &mut [u8; N], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_be_bytes());
}

/// The first `N` bytes to write a header into.
///
/// Every `emit` documents how many bytes it needs; a shorter buffer is a mistake of the caller,
/// never of the peer.
#[inline(always)]
#[track_caller]
pub(crate) fn head<const N: usize>(out: &mut [u8]) -> &mut [u8; N] {
    out.first_chunk_mut().expect("the buffer is shorter than the header to be emitted")
}
