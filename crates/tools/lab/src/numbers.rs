//! Numbers as people read them.

/// Three digits and a letter for thousands, millions and so on: `1.23M`.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    // Counts have no digits behind the point.
    if size < 999.5 && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let (scaled, letter) = match size {
        _ if size >= 999.5e6 => (value / 1e9, "G"),
        _ if size >= 999.5e3 => (value / 1e6, "M"),
        _ if size >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let size = scaled.abs();
    // Beyond three digits before the point nothing is left out, so that 1448 stays what it is.
    let decimals = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{scaled:.decimals$}{letter}")
}

/// The same for a metric: a share is said in percent, and long times in units of their own.
pub(crate) fn measured(value: f64, unit: &str) -> String {
    match unit {
        "share" => format!("{:.0} %", value * 100.0),
        "us" if value >= 999.5e3 => format!("{} s", figure(value / 1e6)),
        "us" if value >= 9_999.5 => format!("{} ms", figure(value / 1e3)),
        _ => figure(value),
    }
}

/// How often one thing is in another: `12.3`, `0.98`, `0.004`.
pub(crate) fn ratio(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 || value == 0.0 => format!("{value:.2}"),
        size if size >= 0.00095 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A time in words: `1 h 20 min`, `2 min 5 s`, `40 s`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::{figure, measured, ratio, span};

    #[test]
    fn three_digits_are_told_and_their_size() {
        let cases = [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.999, "0.999"),
            (1.0, "1"),
            (1.004, "1.00"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_448.0, "1448"),
            (9_999.0, "9999"),
            (10_000.0, "10.0k"),
            (123_456.0, "123k"),
            (999_499.0, "999k"),
            (999_600.0, "1.00M"),
            (1_234_567.0, "1.23M"),
            (2.5e9, "2.50G"),
            (-20_000.0, "-20.0k"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!(measured(0.973, "share"), "97 %");
        assert_eq!(
            [99.34, 4_653.0, 12_345.0, 2.97e6].map(|us| measured(us, "us")),
            ["99.3", "4653", "12.3 ms", "2.97 s"]
        );
    }

    #[test]
    fn ratios_and_times_are_short() {
        assert_eq!(
            [120.4, 12.34, 1.0, 0.5, 0.01234, 3.54e-5].map(ratio),
            ["120", "12.3", "1.00", "0.50", "0.0123", "3.5e-5"]
        );
        assert_eq!([0.4, 59.6, 3_725.0].map(span), ["0 s", "1 min 0 s", "1 h 2 min"]);
    }
}
