use super::*;

#[test]
fn units_are_read_and_printed() {
    for (text, rate, shown) in [
        ("max", Rate::Max, "max"),
        ("10%", Rate::Percent(10.0), "10%"),
        ("0.5 %", Rate::Percent(0.5), "0.5%"),
        ("1000pps", Rate::Frames(1e3), "1kpps"),
        ("1.5Mpps", Rate::Frames(1.5e6), "1.5Mpps"),
        ("100M", Rate::Bits(1e8), "100Mbit/s"),
        ("2.5Gbit/s", Rate::Bits(2.5e9), "2.5Gbit/s"),
        ("800bit", Rate::Bits(800.0), "800bit/s"),
        ("64kbps", Rate::Bits(64e3), "64kbit/s"),
    ] {
        let read: Rate = text.parse().unwrap();
        assert_eq!(read, rate, "{text}");
        assert_eq!(read.to_string(), shown);
        assert_eq!(shown.parse::<Rate>(), Ok(rate));
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for text in
        ["", "fast", "10", "0pps", "-1%", "101%", "1..2M", "5Tpps", "1e9pps", "%", "9999999999G"]
    {
        let error = text.parse::<Rate>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("`{text}` is no rate: ")), "{error}");
    }
}

#[test]
fn bits_become_frames_of_a_size() {
    let frames = |rate: &str, size, extra| {
        rate.parse::<Rate>().unwrap().frames(size, 10_000_000_000, extra).unwrap()
    };
    assert_eq!(frames("512kbit/s", 64, 0).as_f64(), 1000.0);
    assert_eq!(frames("1000pps", 64, 0).as_f64(), 1000.0);
    // The line rate of 10 Gbit/s Ethernet: 14.88 Mpps of frames that have 60 bytes before the check
    // sequence.
    assert_eq!(frames("100%", 60, 0).as_f64().round(), 14_880_952.0);
    assert_eq!(frames("10G", 60, WIRE_EXTRA).as_f64().round(), 14_880_952.0);
    assert_eq!(frames("1000pps", 64, 0).split(4).as_f64(), 250.0);
    assert_eq!(Rate::Max.frames(64, 1, 0), None);
}
