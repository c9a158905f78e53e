//! `if_nameindex`: an array whose parts the C library frees one by one, so they are made as it
//! makes them.

use std::ptr;

use libc::if_nameindex as Entry;

use super::{c_name, kernels_too, ours, shown};
use crate::export::guarded;
use crate::real;

/// `if_nameindex(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn if_nameindex() -> *mut Entry {
    let list = guarded(ours);
    let kernels = match list.is_empty() || guarded(kernels_too) {
        // SAFETY: takes nothing.
        true => unsafe { real::if_nameindex() },
        false => ptr::null_mut(),
    };
    if list.is_empty() {
        return kernels;
    }
    guarded(|| {
        let mut known = 0;
        // SAFETY: the kernel's array ends with an entry of zeros; the new one has room for all
        // entries and such an end, and names are allocated as the C library does it, since it gives
        // them back.
        unsafe {
            while !kernels.is_null() && (*kernels.add(known)).if_index != 0 {
                known += 1;
            }
            let out = libc::calloc(known + list.len() + 1, size_of::<Entry>()).cast::<Entry>();
            if out.is_null() {
                return kernels;
            }
            if known > 0 {
                ptr::copy_nonoverlapping(kernels, out, known);
            }
            for (at, one) in list.iter().enumerate() {
                let entry = out.add(known + at);
                (*entry).if_index = shown(one.number);
                (*entry).if_name = libc::strdup(c_name(&one.name).as_ptr().cast());
            }
            // The names went over into the new array.
            libc::free(kernels.cast());
            out
        }
    })
}
