use super::*;
use crate::error::{code, exit_code};

#[test]
fn what_was_preloaded_before_stays_behind_ours() {
    let ours = Path::new("/a/libclearway_preload.so");
    assert_eq!(preload_list(ours, None), "/a/libclearway_preload.so");
    assert_eq!(preload_list(ours, Some("".into())), "/a/libclearway_preload.so");
    assert_eq!(preload_list(ours, Some("/b.so".into())), "/a/libclearway_preload.so:/b.so");
}

#[test]
fn the_library_is_looked_for_beside_the_program_and_in_the_folders_for_libraries() {
    let places = places(Path::new("/usr/bin"), LIBRARY);
    assert_eq!(places[0], Path::new("/usr/bin/libclearway_preload.so"));
    assert!(places.contains(&PathBuf::from("/usr/lib/libclearway_preload.so")));
}

#[test]
fn a_library_that_the_loader_cannot_name_is_refused() {
    for path in ["/a b/x.so", "/no/such/x.so"] {
        let error = checked(Path::new(path)).unwrap_err();
        assert_eq!((code(&error), exit_code(&error)), (Code::NoLibrary, 2), "{path}");
    }
}
