//! The highest of what was seen lately.

/// A maximum over the last `N` slots of time. Whoever holds it says when a slot is over.
#[derive(Clone, Debug)]
pub(super) struct Highest<T, const N: usize> {
    /// The slot of now first.
    slots: [T; N],
}

impl<T: Copy + Ord + Default, const N: usize> Highest<T, N> {
    pub(super) fn new() -> Highest<T, N> {
        Highest { slots: [T::default(); N] }
    }

    /// Of all slots.
    pub(super) fn get(&self) -> T {
        self.slots.iter().copied().max().unwrap_or_default()
    }

    pub(super) fn take(&mut self, value: T) {
        if let Some(this) = self.slots.first_mut() {
            *this = value.max(*this);
        }
    }

    /// Another slot begins, and the oldest is forgotten.
    pub(super) fn advance(&mut self) {
        self.slots.rotate_right(1);
        if let Some(this) = self.slots.first_mut() {
            *this = T::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_last_slots_is_forgotten() {
        let mut highest = Highest::<u64, 3>::new();
        for (value, most) in [(7, 7), (5, 7), (3, 7), (2, 5), (1, 3), (0, 2)] {
            highest.take(value);
            assert_eq!(highest.get(), most);
            highest.advance();
        }
    }
}
