//! Where the stack puts packets that it sends.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::{Iface, TxMeta};

/// Room for outgoing frames. The stack asks for room *before* it changes any state, writes the
/// packet straight into it, and commits. Room that is not committed is as if it had never been
/// asked for.
pub trait Sink {
    /// Room for one frame of up to `len` bytes on `iface`, at least `len` bytes long; None while
    /// the interface takes no more. The bytes may hold anything.
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]>;

    /// Whether `iface` takes no frame of whatever length now.
    #[inline]
    fn is_full(&mut self, iface: Iface) -> bool {
        let _ = iface;
        false
    }

    /// Sends the first `len` bytes of the room that was reserved last on `iface`.
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta);

    /// Whether a frame on `iface` may be committed in pieces now, by [`Sink::commit_gathered`], so
    /// that its bytes need not be copied into the room.
    #[inline]
    fn gathers(&self, iface: Iface) -> bool {
        let _ = iface;
        false
    }

    /// Sends a frame that begins with the first `head` bytes of the room that was reserved last on
    /// `iface`, and goes on with `body`, piece after piece, [`MAX_PIECES`] at most. Only called
    /// where [`Sink::gathers`] has agreed, and the room was asked for for the whole frame.
    fn commit_gathered(&mut self, iface: Iface, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        let _ = (iface, head, body, meta);
        debug_assert!(false, "this sink gathers no pieces");
    }
}

/// Bytes of a frame where they lie.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// In memory of ours, where nobody writes them meanwhile.
    Own(&'a [u8]),
    /// In memory that a program writes at any time. Whoever takes them twice may find two things,
    /// so nothing may be decided by them; a device hands them to who copies them once.
    Shared(&'a [AtomicU8]),
}

impl Piece<'_> {
    /// Nothing.
    pub const EMPTY: Piece<'static> = Piece::Own(&[]);

    /// How many bytes these are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Piece::Own(bytes) => bytes.len(),
            Piece::Shared(bytes) => bytes.len(),
        }
    }

    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where they begin, for a system call that copies them.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        match self {
            Piece::Own(bytes) => bytes.as_ptr(),
            Piece::Shared(bytes) => bytes.as_ptr().cast(),
        }
    }

    /// Each of them as it is now, one after the other. For tests and simulated devices; the compiler
    /// copies shared bytes singly.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.len()).map(|at| match self {
            Piece::Own(bytes) => bytes[at],
            Piece::Shared(bytes) => bytes[at].load(Ordering::Relaxed),
        })
    }
}

impl<'a> From<&'a [u8]> for Piece<'a> {
    fn from(bytes: &'a [u8]) -> Piece<'a> {
        Piece::Own(bytes)
    }
}

/// Pieces of one frame at most: 64 KiB in chunks of 4 KiB, and some to spare.
pub const MAX_PIECES: usize = 20;
