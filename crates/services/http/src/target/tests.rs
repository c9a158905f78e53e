use proptest::prelude::*;

use super::*;

#[test]
fn path_and_query_are_split() {
    assert_eq!(split(b"/a/b?c=d&e"), Ok((&b"/a/b"[..], &b"c=d&e"[..])));
    assert_eq!(split(b"/"), Ok((&b"/"[..], &b""[..])));
    assert_eq!(split(b"http://h:80/x?y"), Ok((&b"/x"[..], &b"y"[..])));
    assert_eq!(split(b"HTTP://h"), Ok((&b"/"[..], &b""[..])));
    for bad in [&b"*"[..], b"a/b", b"http://", b"http:///x", b"ftp://h/x", b"/a#b", b"h:443"] {
        assert_eq!(split(bad), Err(BadTarget), "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn paths_are_decoded_and_normalised() {
    assert_eq!(relative_path(b"/").unwrap(), b"");
    assert_eq!(relative_path(b"//a/./b%20c//").unwrap(), b"a/b c");
    assert_eq!(relative_path(b"/%41%2fb").unwrap(), b"A/b");
    assert_eq!(relative_path(b"/..a/b..").unwrap(), b"..a/b..");
}

#[test]
fn escapes_are_refused_in_every_spelling() {
    for bad in [
        "/..",
        "/../x",
        "/a/../../x",
        "/%2e%2e/x",
        "/.%2E/x",
        "/a%2f..%2f..",
        "/%00",
        "/a%00b",
        "/%",
        "/%4",
        "/%zz",
        "/%+1",
    ] {
        assert_eq!(relative_path(bad.as_bytes()), Err(BadTarget), "{bad}");
    }
}

#[test]
fn numbers_are_found_in_a_query() {
    assert_eq!(query_number(b"a=1&seed=77", "seed"), Some(77));
    assert_eq!(query_number(b"seeds=1", "seed"), None);
    assert_eq!(query_number(b"seed=x", "seed"), None);
    assert_eq!(query_number(b"", "seed"), None);
}

#[test]
fn ranges_follow_rfc_9110() {
    assert_eq!(range(b"bytes=0-0", 10), Wanted::Part(0, 1));
    assert_eq!(range(b"bytes=2-", 10), Wanted::Part(2, 10));
    assert_eq!(range(b"bytes=2-100", 10), Wanted::Part(2, 10));
    assert_eq!(range(b"bytes=-3", 10), Wanted::Part(7, 10));
    assert_eq!(range(b"bytes=-30", 10), Wanted::Part(0, 10));
    assert_eq!(
        range(b"bytes=5000000000-5000000001", 6_000_000_000),
        Wanted::Part(5_000_000_000, 5_000_000_002)
    );
    for outside in
        [&b"bytes=10-"[..], b"bytes=10-12", b"bytes=-0", b"bytes=99999999999999999999999-"]
    {
        assert_eq!(range(outside, 10), Wanted::Outside, "{}", String::from_utf8_lossy(outside));
    }
    assert_eq!(range(b"bytes=-1", 0), Wanted::Outside);
    for ignored in [
        &b"bytes=1-2,4-5"[..],
        b"bytes=5-4",
        b"bytes=-",
        b"bytes=x-2",
        b"items=1-2",
        b"",
        b"bytes=+1-2",
    ] {
        assert_eq!(range(ignored, 10), Wanted::All, "{}", String::from_utf8_lossy(ignored));
    }
}

proptest! {
    #[test]
    fn no_path_that_comes_out_can_leave_the_root(path in prop::collection::vec(prop::sample::select(b"/.%2eEfF0a\\".to_vec()), 0..40)) {
        if let Ok(out) = relative_path(&path) {
            prop_assert!(!out.starts_with(b"/") && !out.contains(&0));
            prop_assert!(out.split(|&b| b == b'/').all(|part| part != b".."));
        }
    }

    #[test]
    fn a_part_always_lies_inside(value in "bytes=[0-9]{0,21}-[0-9]{0,21}", len in 0u64..1000) {
        if let Wanted::Part(from, to) = range(value.as_bytes(), len) {
            prop_assert!(from < to && to <= len);
        }
    }
}
