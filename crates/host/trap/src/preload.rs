//! The variable by which the loader learns of the library, in a program that has a loader of its own.
//!
//! That loader must not load the library once more, so the program does not see it in LD_PRELOAD.
//! It stands in another variable, which goes along with the environment into what the program
//! executes, and becomes LD_PRELOAD again on the way.

use std::ffi::{CStr, CString, c_char};

use clearway_program::{PRELOAD, libraries, value_of};

use crate::PRELOAD_VARIABLE;

/// Splits a value of LD_PRELOAD: this library, and all others.
pub(crate) fn split(list: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let own = own_file();
    let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = libraries(list).partition(|name| *name == own);
    (ours.first().copied().unwrap_or_default().to_vec(), others.join(&b':'))
}

/// The file in which this code lies, by the name under which it was loaded.
fn own_file() -> &'static [u8] {
    // SAFETY: nulls are a value of it; the address is in this code; a name of what is loaded stays.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = own_file as *const () as *const _;
        if libc::dladdr(here, &mut info) == 0 || info.dli_fname.is_null() {
            return &[];
        }
        CStr::from_ptr(info.dli_fname).to_bytes()
    }
}

/// The variable that stands for LD_PRELOAD in the program. None: there is nothing to be hidden.
pub(crate) fn hidden(library: &[u8]) -> Option<CString> {
    named([PRELOAD_VARIABLE.as_bytes(), b"="].concat(), library)
}

/// LD_PRELOAD with these libraries. None: with none.
pub(crate) fn line(libraries: &[u8]) -> Option<CString> {
    named(PRELOAD.to_vec(), libraries)
}

fn named(mut name: Vec<u8>, value: &[u8]) -> Option<CString> {
    name.extend_from_slice(value);
    CString::new(name).ok().filter(|_| !value.is_empty())
}

/// Whether an environment names libraries to be loaded.
///
/// # Safety
/// C strings.
pub(crate) unsafe fn is_in(environment: &[*const c_char]) -> bool {
    // SAFETY: as the caller says.
    environment.iter().any(|at| unsafe { CStr::from_ptr(*at) }.to_bytes().starts_with(PRELOAD))
}

/// Has an environment for another program name the library as it did before it was hidden. What it
/// answers has to live as long as the environment.
///
/// # Safety
/// C strings.
pub(crate) unsafe fn show(environment: &mut Vec<*const c_char>) -> Option<CString> {
    // SAFETY: as the caller says.
    let line_of = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_bytes();
    let library = |at: &*const c_char| value_of(line_of(*at), PRELOAD_VARIABLE).map(<[u8]>::to_vec);
    let ours = environment.iter().find_map(library)?;
    environment.retain(|at| library(at).is_none());
    let theirs = environment.iter().find_map(|at| line_of(*at).strip_prefix(PRELOAD));
    let list = match theirs.filter(|list| !list.is_empty()) {
        // The program knows of the library after all.
        Some(list) if libraries(list).any(|name| *name == *ours) => return None,
        Some(list) => [&ours[..], list].join(&b':'),
        None => ours,
    };
    let shown = line(&list)?;
    environment.retain(|at| !line_of(*at).starts_with(PRELOAD));
    environment.push(shown.as_ptr());
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> Vec<String> {
        let lines: Vec<CString> = lines.iter().map(|line| CString::new(*line).unwrap()).collect();
        let mut environment: Vec<*const c_char> = lines.iter().map(|line| line.as_ptr()).collect();
        // SAFETY: C strings that live.
        let _line = unsafe { show(&mut environment) };
        let text = |at: &*const c_char| {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(*at) }.to_str().unwrap().to_owned()
        };
        environment.iter().map(text).collect()
    }

    #[test]
    fn what_was_hidden_is_shown_again_before_other_libraries() {
        assert_eq!(shown(&["A=1", "B=2"]), ["A=1", "B=2"]);
        assert_eq!(shown(&["CLEARWAY_TRAP_PRELOAD=/l.so", "A=1"]), ["A=1", "LD_PRELOAD=/l.so"]);
        assert_eq!(
            shown(&["LD_PRELOAD=/x.so", "CLEARWAY_TRAP_PRELOAD=/l.so"]),
            ["LD_PRELOAD=/l.so:/x.so"]
        );
        assert_eq!(
            shown(&["LD_PRELOAD=/x.so:/l.so", "CLEARWAY_TRAP_PRELOAD=/l.so"]),
            ["LD_PRELOAD=/x.so:/l.so"]
        );
        assert_eq!(shown(&["CLEARWAY_TRAP_PRELOAD=/l.so", "LD_PRELOAD="]), ["LD_PRELOAD=/l.so"]);
    }

    #[test]
    fn only_this_code_is_hidden() {
        let own = std::str::from_utf8(own_file()).unwrap();
        let list = format!("/a.so {own}:/b.so");
        assert_eq!(split(list.as_bytes()), (own.into(), b"/a.so:/b.so".to_vec()));
        assert_eq!(split(b"/a.so"), (Vec::new(), b"/a.so".to_vec()));
    }
}
