//! Prefetch behind a safe function, which tells the processor that memory will be read soon, and
//! the processor's own counter of time.
//!
//! A hint changes no value and cannot fail. Where the processor is not known it does nothing, and
//! the counter stands still.

#![no_std]

/// Asks for the first cache line of `value`.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(value: &T) {
    prefetch(core::ptr::from_ref(value).cast());
}

/// Asks for the first cache line of `items[index]`, without reading it; nothing happens when there
/// is no such item.
#[inline(always)]
pub fn prefetch_slice_at<T>(items: &[T], index: usize) {
    if let Some(item) = items.get(index) {
        prefetch(core::ptr::from_ref(item).cast());
    }
}

/// Asks for every cache line of `items[index]`, without reading it; nothing happens when there is
/// no such item.
#[inline(always)]
pub fn prefetch_all_at<T>(items: &[T], index: usize) {
    let Some(item) = items.get(index) else { return };
    let at = core::ptr::from_ref(item).cast::<i8>();
    let mut offset = 0;
    while offset < size_of::<T>() {
        prefetch(at.wrapping_add(offset));
        offset += LINE;
    }
    // An item that does not begin with a line ends in one more.
    prefetch(at.wrapping_add(size_of::<T>().saturating_sub(1)));
}

/// Bytes of a cache line, of nearly every processor.
const LINE: usize = 64;

#[inline(always)]
fn prefetch(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is in every x86-64 processor, and it neither faults nor changes
    // memory whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction neither faults nor changes memory, registers or flags, whatever the
    // address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// The counter of the processor that runs at a constant rate: the time stamp counter on x86-64.
/// Zero where the processor is not known.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is in every x86-64 processor, and Linux lets every program use it; it
    // changes nothing.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_does_not_go_back() {
        let before = super::cycles();
        assert!(super::cycles() >= before);
    }

    #[test]
    fn any_item_or_none_may_be_asked_for() {
        let items = [[0_u8; 100]; 3];
        super::prefetch_read(&items[2]);
        super::prefetch_read::<[u8]>(&[]);
        [0, 2, 3, usize::MAX].into_iter().for_each(|index| super::prefetch_slice_at(&items, index));
        super::prefetch_slice_at::<u8>(&[], 0);
        [0, 2, 3, usize::MAX].into_iter().for_each(|index| super::prefetch_all_at(&items, index));
        super::prefetch_all_at(&[(), ()], 1);
    }
}
