use super::*;

#[test]
fn escapes_stand_for_one_byte_each() {
    assert_eq!(unescape(r"a\r\n\t\0\\\x41\xfF").unwrap(), b"a\r\n\t\0\\A\xff");
    assert_eq!(unescape("plain ä").unwrap(), "plain ä".as_bytes());
    assert_eq!(unescape("").unwrap(), b"");
}

#[test]
fn a_wrong_escape_is_refused_with_a_sentence() {
    for text in ["a\\", "\\q", "\\x", "\\x1", "\\xg0", "\\x1é"] {
        let why = unescape(text).unwrap_err();
        assert!(why.contains('\\'), "{text}: {why}");
    }
}

#[test]
fn http_is_known_by_its_first_word() {
    assert!(
        is_http_request(b"GET / HTTP/1.1\r\n\r\n")
            && is_http_request(b"GET ")
            && !is_http_request(b"GETTING")
    );
    assert!(is_http_answer(b"HTTP/1.1 200 OK") && !is_http_answer(b"200"));
    assert_eq!(filler(100).len(), 100);
    assert!(!is_http_request(&filler(64)));
}
