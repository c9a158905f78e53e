use super::told::{grouped, span};
use super::*;

#[test]
fn rates_are_read() {
    for (text, rate) in [("500", 500.0), ("20k", 20e3), ("1.5M", 1.5e6), ("0.5", 0.5)] {
        assert_eq!(text.parse(), Ok(Rate(rate)));
    }
    for text in ["", "k", "-1", "0", "1G", "NaN", "1e99"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn numbers_are_written_for_people() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(
        [1, 1_500, 12_345, 123_456, 2_000_000, 3_500_000_000].map(span),
        ["1 ns", "1.50 us", "12.3 us", "123 us", "2.00 ms", "3.50 s"]
    );
}

#[test]
fn a_message_is_a_text_or_so_many_bytes() {
    assert_eq!(message(Some(r"GET \x41\r\n"), Some(5)).unwrap(), b"GET A\r\n");
    assert_eq!(message(None, Some(100)).unwrap().len(), 100);
    assert_eq!(message(None, None).unwrap().len(), 64);
    for (text, length) in
        [(Some(""), None), (Some("\\q"), None), (None, Some(0)), (None, Some(1 << 30))]
    {
        assert!(message(text, length).unwrap_err().is::<WrongUse>());
    }
}
