//! The same on loom's atomics and cells: the model checker sees each byte, and complains of any two
//! accesses that race.

use std::ops::Deref;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Words of the type `T`.
pub struct Words<T>(Arc<T>);

impl<T: Default> Words<T> {
    pub(crate) fn modelled() -> Words<T> {
        Words(Arc::new(T::default()))
    }
}

impl<T> Clone for Words<T> {
    fn clone(&self) -> Words<T> {
        Words(self.0.clone())
    }
}

impl<T> Deref for Words<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Bytes used in a circle.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<Vec<UnsafeCell<u8>>>);

impl Bytes {
    pub(crate) fn modelled(capacity: u32) -> Bytes {
        Bytes(Arc::new((0..capacity).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn cell(&self, position: u32) -> &UnsafeCell<u8> {
        &self.0[position as usize & (self.0.len() - 1)]
    }

    pub(crate) fn write(&self, position: u32, source: &[u8]) -> bool {
        for (byte, at) in source.iter().zip(0..) {
            // SAFETY: loom fails the test when another thread uses the cell at the same time.
            self.cell(position.wrapping_add(at)).with_mut(|cell| unsafe { *cell = *byte });
        }
        true
    }

    pub(crate) fn read(&self, position: u32, out: &mut [u8]) -> bool {
        for (byte, at) in out.iter_mut().zip(0..) {
            // SAFETY: as in `write`.
            *byte = self.cell(position.wrapping_add(at)).with(|cell| unsafe { *cell });
        }
        true
    }

    pub(crate) fn copy_to(&self, position: u32, to: &Bytes, to_position: u32, len: usize) {
        let mut bytes = vec![0; len];
        self.read(position, &mut bytes);
        to.write(to_position, &bytes);
    }

    pub(crate) fn write_word(&self, position: u32, word: u64) {
        self.write(position & !7, &word.to_ne_bytes());
    }

    pub(crate) fn read_word(&self, position: u32) -> u64 {
        let mut word = [0; 8];
        self.read(position & !7, &mut word);
        u64::from_ne_bytes(word)
    }
}
