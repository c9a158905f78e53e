use super::*;

/// As `clearway run` starts a program.
const STARTED: [&str; 3] =
    ["LD_PRELOAD=/lib/libclearway_preload.so:/lib/other.so", "CLEARWAY_RUN=1", "CLEARWAY_NS=a"];

fn is_lost_of(started: &[&str], given: &[&str]) -> bool {
    let strings = |lines: &[&str]| -> Vec<CString> {
        lines.iter().map(|line| CString::new(*line).unwrap()).collect()
    };
    let given = strings(given);
    let lines: Vec<*const c_char> = given.iter().map(|line| line.as_ptr()).collect();
    // SAFETY: C strings.
    unsafe { is_lost(&strings(started), &lines) }
}

#[test]
fn an_environment_that_was_emptied_has_lost_the_library() {
    assert!(is_lost_of(&STARTED, &[]));
    assert!(is_lost_of(&STARTED, &["PATH=/bin", "HOME=/"]));
    assert!(is_lost_of(&STARTED, &["PATH=/bin", "CLEARWAY_TRAP_PROGRAM=/bin/static"]));
}

#[test]
fn one_in_which_others_took_its_place_has_lost_it_too() {
    for list in ["/lib/libjemalloc.so", "/lib/a.so:/lib/other.so", "/lib/a.so /lib/b.so"] {
        let line = format!("LD_PRELOAD={list}");
        assert!(is_lost_of(&STARTED, &[&line, "CLEARWAY_RUN=1"]), "{list}");
        assert!(is_lost_of(&STARTED, &[&line]), "{list}");
    }
    for list in ["/lib/libclearway_preload.so", "/lib/a.so:/lib/libclearway_preload.so"] {
        assert!(!is_lost_of(&STARTED, &[&format!("LD_PRELOAD={list}")]), "{list}");
    }
}

#[test]
fn one_from_which_only_the_library_was_taken_was_meant_so() {
    assert!(!is_lost_of(&STARTED, &["PATH=/bin", "CLEARWAY_RUN=1", "CLEARWAY_NS=a"]));
    assert!(!is_lost_of(&STARTED, &["LD_PRELOAD=", "CLEARWAY_RUN=1"]));
    assert!(!is_lost_of(&STARTED, &["LD_PRELOAD="]));
}

#[test]
fn what_was_not_started_by_our_words_or_has_the_stack_inside_is_left_alone() {
    assert!(!is_lost_of(&[], &[]));
    assert!(!is_lost_of(&["LD_PRELOAD=/lib/libclearway_preload.so"], &[]));
    assert!(!is_lost_of(&["CLEARWAY_INPROC=x", STARTED[0], "CLEARWAY_RUN=1"], &["PATH=/bin"]));
}
