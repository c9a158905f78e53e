//! Memory for one frame that is written before it goes anywhere.

/// What a port lends out where it has no room of its own to write into.
pub(crate) struct Staging {
    frame: Box<[u8]>,
    /// How much of it was reserved; 0 when nothing is.
    reserved: usize,
}

impl Staging {
    /// Room for a frame of `len` bytes.
    pub(crate) fn new(len: usize) -> Staging {
        Staging { frame: vec![0; len].into_boxed_slice(), reserved: 0 }
    }

    /// As [`crate::Transmit::reserve`]; None when there is no room for so many bytes.
    pub(crate) fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.reserved = if len <= self.frame.len() { self.frame.len() } else { 0 };
        (self.reserved > 0).then_some(&mut *self.frame)
    }

    /// The same, with as much memory as that takes.
    pub(crate) fn reserve_grown(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.frame.len() {
            self.frame = vec![0; len].into_boxed_slice();
        }
        self.reserve(len)
    }

    /// What was reserved is given back.
    pub(crate) fn forget(&mut self) {
        self.reserved = 0;
    }

    /// The frame that is committed; None when so much was not reserved.
    pub(crate) fn commit(&mut self, len: usize) -> Option<&[u8]> {
        (len <= std::mem::take(&mut self.reserved)).then(|| &self.frame[..len])
    }

    /// As [`crate::Transmit::reserved`].
    pub(crate) fn reserved(&self) -> &[u8] {
        &self.frame[..self.reserved]
    }
}
