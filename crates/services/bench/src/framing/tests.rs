use proptest::prelude::*;

use super::*;

fn answers(framing: Framing, pieces: &[&[u8]]) -> Result<(u32, u32), Unreadable> {
    let (mut reader, mut reading) = (AnswerReader::new(framing), Reading::default());
    let mut sum = (0, 0);
    for piece in pieces {
        let found = reader.read(&mut reading, piece)?;
        assert_eq!(found.used, piece.len());
        sum = (sum.0 + found.ended, sum.1 + found.refused);
    }
    Ok(sum)
}

#[test]
fn messages_of_one_length_end_wherever_they_are_cut() {
    assert_eq!(
        answers(Framing::Fixed(4), &[b"aaaa", b"bb", b"bbcccc", b"dddde", b"eee"]),
        Ok((5, 0))
    );
    let mut partial = Partial(3);
    let found = Framing::Fixed(4).requests(&mut partial, b"abbbbccccd", 2);
    assert_eq!((found, partial), (Found { ended: 2, used: 5, refused: 0 }, Partial(0)));
    assert_eq!(Framing::Fixed(4).requests(&mut partial, b"aaaa", 0), Found::default());
}

#[test]
fn an_http_request_ends_with_an_empty_line() {
    let mut partial = Partial::default();
    let two = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    assert_eq!(Framing::HttpRequest.requests(&mut partial, two, 9).ended, 2);
    assert_eq!(
        Framing::HttpRequest.requests(&mut partial, two, 1),
        Found { ended: 1, used: 27, refused: 0 }
    );
    for cut in 0..two.len() {
        let first = Framing::HttpRequest.requests(&mut partial, &two[..cut], 9).ended;
        assert_eq!(
            first + Framing::HttpRequest.requests(&mut partial, &two[cut..], 9).ended,
            2,
            "cut at {cut}"
        );
        assert_eq!(partial, Partial::default());
    }
    assert_eq!(Framing::HttpRequest.requests(&mut partial, b"a\r\r\n\r\n", 9).ended, 1);
}

#[test]
fn an_http_answer_ends_where_its_length_says() {
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length:  3\r\n\r\nabc".as_slice();
    let not_found = b"HTTP/1.1 404 Not Found\r\nX: y\r\nContent-Length: 0\r\n\r\n".as_slice();
    let all = [ok, ok, not_found, ok].concat();
    assert_eq!(answers(Framing::HttpAnswer, &[&all]), Ok((4, 1)));
    for cut in 0..all.len() {
        assert_eq!(
            answers(Framing::HttpAnswer, &[&all[..cut], &all[cut..]]),
            Ok((4, 1)),
            "cut at {cut}"
        );
    }
    let bytes: Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(answers(Framing::HttpAnswer, &bytes), Ok((4, 1)));
}

#[test]
fn an_answer_whose_end_cannot_be_told_is_unreadable() {
    for (bytes, why) in [
        (b"SSH-2.0-OpenSSH\r\n\r\n".as_slice(), "no HTTP/1 answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "no Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no number"),
    ] {
        assert!(answers(Framing::HttpAnswer, &[bytes]).unwrap_err().0.contains(why));
    }
    let endless = vec![b'x'; MAX_HEAD + 1];
    assert!(answers(Framing::HttpAnswer, &[&endless]).unwrap_err().0.contains("16 KiB"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        for framing in [Framing::Fixed(7), Framing::Any, Framing::HttpRequest,
            Framing::HttpAnswer] {
            let _ = answers(framing, &pieces);
        }
    }
}
