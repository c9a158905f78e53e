use super::*;

#[test]
fn sizes_have_units_of_1024() {
    for (text, bytes) in
        [("0", 0), ("64", 64), ("16k", 16_384), ("1M", 1 << 20), ("4G", 4 << 30), ("2t", 2 << 40)]
    {
        assert_eq!(text.parse(), Ok(Size(bytes)));
    }
    for text in ["", "k", "-1", "1.5M", "1x", "99999999999999999999", "99999999999G"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
}

#[test]
fn times_are_seconds() {
    assert_eq!(seconds("0.5"), Ok(std::time::Duration::from_millis(500)));
    for text in ["", "x", "-1", "inf", "nan", "1e99"] {
        assert!(seconds(text).is_err(), "{text}");
    }
}

#[test]
fn rates_of_no_time_are_zero() {
    assert_eq!(per_second(5, 0.0), 0.0);
    assert_eq!(gbit(125_000_000, 1.0), 1.0);
}
