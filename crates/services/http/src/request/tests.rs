use proptest::prelude::*;

use super::*;

fn whole(bytes: &[u8]) -> Result<Option<Head>, Reject> {
    Parser::default().advance(bytes)
}

fn head(text: &str) -> Head {
    whole(text.as_bytes()).expect("accepted").expect("complete")
}

fn refused(text: &str) -> Reject {
    whole(text.as_bytes()).expect_err("refused")
}

#[test]
fn a_plain_get_is_read() {
    let text = "GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\nrest";
    let head = head(text);
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.target.of(text.as_bytes()), b"/a?b=c");
    assert!(head.http11 && head.keep_alive);
    assert_eq!(head.content_length, None);
    assert_eq!(head.len, text.len() - 4);
}

#[test]
fn lone_line_feeds_and_leading_empty_lines_are_taken() {
    let text = "\r\n\nGET / HTTP/1.1\nHost: x\n\n";
    assert_eq!(head(text).len, text.len());
}

#[test]
fn persistence_follows_version_and_connection() {
    assert!(head("GET / HTTP/1.1\r\nHost: x\r\n\r\n").keep_alive);
    assert!(!head("GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n").keep_alive);
    assert!(!head("GET / HTTP/1.0\r\n\r\n").keep_alive);
    assert!(head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
    assert!(
        !head("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n").keep_alive
    );
}

#[test]
fn a_later_minor_version_is_served_and_another_major_version_is_not() {
    assert!(head("GET / HTTP/1.7\r\nHost: x\r\n\r\n").http11);
    assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), Reject::Version);
    assert_eq!(refused("GET / HTTP/1.10\r\n\r\n"), Reject::Malformed);
    assert_eq!(refused("GET / http/1.1\r\n\r\n"), Reject::Malformed);
}

#[test]
fn broken_request_lines_are_malformed() {
    for line in [
        "GET",
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 x",
        " GET / HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET /\u{7f} HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
    ] {
        assert_eq!(refused(&format!("{line}\r\nHost: x\r\n\r\n")), Reject::Malformed, "{line:?}");
    }
}

#[test]
fn broken_fields_are_malformed() {
    for field in ["NoColon", ": empty", "A b: c", "A : b", " folded: x", "A: b\0c", "A: b\rc"] {
        assert_eq!(
            refused(&format!("GET / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n")),
            Reject::Malformed,
            "{field:?}"
        );
    }
}

#[test]
fn host_is_wanted_exactly_once() {
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Reject::Malformed);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), Reject::Malformed);
    assert_eq!(refused("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), Reject::Malformed);
}

#[test]
fn content_length_is_digits_that_agree() {
    let with =
        |fields: &str| whole(format!("PUT / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n").as_bytes());
    let length = |fields: &str| with(fields).unwrap().unwrap().content_length;
    assert_eq!(length("Content-Length: 12"), Some(12));
    assert_eq!(length("Content-Length: 18446744073709551615"), Some(u64::MAX));
    assert_eq!(length("Content-Length: 5\r\nContent-Length: 5"), Some(5));
    for bad in ["", "-1", "+1", "0x10", "1,1", "1 1", "18446744073709551616"] {
        assert_eq!(with(&format!("Content-Length: {bad}")), Err(Reject::Malformed), "{bad:?}");
    }
    assert_eq!(with("Content-Length: 5\r\nContent-Length: 6"), Err(Reject::Malformed));
}

#[test]
fn transfer_codings_are_refused_and_smuggling_is_malformed() {
    let with = |version: &str, fields: &str| {
        whole(format!("POST / HTTP/{version}\r\nHost: x\r\n{fields}\r\n\r\n").as_bytes())
    };
    assert_eq!(with("1.1", "Transfer-Encoding: chunked"), Err(Reject::LengthRequired));
    assert_eq!(with("1.1", "Transfer-Encoding: gzip, chunked"), Err(Reject::NotImplemented));
    assert_eq!(
        with("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 3"),
        Err(Reject::Malformed)
    );
    assert_eq!(with("1.0", "Transfer-Encoding: chunked"), Err(Reject::Malformed));
}

#[test]
fn unknown_methods_and_expectations_are_told_apart_from_malformed_ones() {
    assert_eq!(refused("BREW / HTTP/1.1\r\nHost: x\r\n\r\n"), Reject::NotImplemented);
    assert_eq!(head("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n").method, Method::Other);
    assert_eq!(
        refused("PUT / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n"),
        Reject::ExpectationFailed
    );
    assert!(head("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n\r\n").expect_continue);
    assert!(!head("PUT / HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\n\r\n").expect_continue);
}

#[test]
fn the_limits_name_what_was_too_long() {
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(MAX_HEAD));
    assert_eq!(refused(&long_target), Reject::TargetTooLong);
    let long_field = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(MAX_HEAD));
    assert_eq!(refused(&long_field), Reject::HeadTooLarge);
    let many =
        format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(usize::from(MAX_FIELDS)));
    assert_eq!(refused(&many), Reject::HeadTooLarge);
    let fits = MAX_HEAD - "GET / HTTP/1.1\r\nHost: x\r\nA: \r\n\r\n".len() - 1;
    let longest = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(fits));
    assert_eq!(head(&longest).len, MAX_HEAD - 1);
}

#[test]
fn what_is_not_http_is_told_at_once() {
    assert_eq!(whole(b"\x16\x03\x01\x02"), Err(Reject::Malformed));
    assert_eq!(whole(b"GET"), Ok(None));
    assert_eq!(whole(b"\r"), Ok(None));
    assert_eq!(whole(b""), Ok(None));
}

// Feeds `bytes` in the pieces that `cuts` say and answers what a single call would have to answer
// too.
fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Option<Head>, Reject> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut parser = Parser::default();
    for end in ends {
        let answer = parser.advance(&bytes[..end]);
        if answer != Ok(None) {
            return answer;
        }
    }
    Ok(None)
}

fn almost_http() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "GET",
        "HEAD",
        "POST",
        "BREW",
        " ",
        " ",
        "/",
        "/index.html",
        "HTTP/1.1",
        "HTTP/1.0",
        "HTTP/2.0",
        "\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "Host: x",
        "Host: x\r\n",
        "Content-Length: 4",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "Expect: 100-continue",
        "Range: bytes=1-",
        ":",
        "\0",
        "\t",
        "\u{e9}",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn cutting_a_request_anywhere_changes_nothing(bytes in almost_http(),
        cuts in prop::collection::vec(any::<usize>(), 0..8)) {
        prop_assert_eq!(in_pieces(&bytes, &cuts), whole(&bytes));
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_cuts_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..9000), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        prop_assert_eq!(in_pieces(&bytes, &cuts), whole(&bytes));
    }

    #[test]
    fn long_lines_hit_the_same_limit_however_cut(len in 8000usize..8400, in_target: bool,
        cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        let filler = "a".repeat(len);
        let text = if in_target { format!("GET /{filler} HTTP/1.1\r\nHost: x\r\n\r\n") } else { format!("GET / HTTP/1.1\r\nHost: x\r\nA: {filler}\r\n\r\n") };
        prop_assert_eq!(in_pieces(text.as_bytes(), &cuts), whole(text.as_bytes()));
    }
}
