use super::{COLOURS, Plot, Scale, Series, WIDTH, tick_name};

fn series(count: usize, points: usize, value: impl Fn(usize, usize) -> Option<f64>) -> Vec<Series> {
    let spread = |value: f64| (value, value * 0.8, value * 1.3);
    let one = |number| Series {
        number,
        label: format!("a-system-called-{number}"),
        values: (0..points).map(|point| value(number, point).map(spread)).collect(),
    };
    (0..count).map(one).collect()
}

fn plot(names: &[&str], ordered: bool, series: Vec<Series>) -> Plot {
    let points = names.iter().map(|name| (*name).to_string()).collect();
    Plot {
        across: "connections".into(),
        up: "requests, requests/s".into(),
        points,
        ordered,
        series,
    }
}

const CONNECTIONS: &[&str] = &["1", "8", "32", "64", "128", "512", "1024"];

#[test]
fn no_text_lies_on_another_or_leaves_the_picture() {
    let names: [&[&str]; 5] = [
        &["64"],
        CONNECTIONS,
        &["to-server", "from-server"],
        &[
            "a rather long name of a point",
            "another rather long name",
            "and one more of that length",
            "the last of these points",
        ],
        &[
            "10", "1k", "10k", "100k", "1M", "10M", "100M", "1G", "10G", "100G", "1T", "10T",
            "100T", "1P",
        ],
    ];
    for points in names {
        for count in [1, 2, 7, 12] {
            for ordered in [true, false] {
                for size in [1e-4, 0.7, 3.0, 999.0, 54_321.0, 1.6e6, 4e10] {
                    for spread in [1.0, 40.0, 1e6] {
                        let value = |number: usize, point: usize| {
                            (number != 1 || point != 0).then_some(if point % 2 == 0 {
                                size
                            } else {
                                size * spread
                            })
                        };
                        let svg = plot(points, ordered, series(count, points.len(), value)).draw();
                        assert_eq!(
                            svg.faults(),
                            [""; 0],
                            "{points:?} {count} {ordered} {size} {spread}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_fault_is_found() {
    let mut svg = plot(CONNECTIONS, true, series(2, 7, |_, _| Some(1.0))).draw();
    svg.text(100.0, 100.0, super::Anchor::Start, "one");
    svg.text(110.0, 104.0, super::Anchor::Middle, "other");
    svg.text(WIDTH, 50.0, super::Anchor::Start, "out");
    let faults = svg.faults();
    assert!(faults.iter().any(|fault| fault == "`other` lies on `one`"), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.starts_with("`out` leaves the picture")), "{faults:?}");
}

#[test]
fn every_axis_has_its_name_and_unit_and_every_system_its_place_in_the_legend() {
    let svg = plot(CONNECTIONS, true, series(3, 7, |n, p| Some((n + p + 1) as f64 * 1e5))).draw();
    let texts = svg.texts();
    for wanted in ["connections", "requests, requests/s", "64", "500k", "a-system-called-2"] {
        assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
    }
    let text = svg.finish("what it shows");
    assert_eq!(text.matches("<polyline").count(), 3);
    assert!(
        text.starts_with("<svg viewBox=")
            && text.ends_with("</svg>\n")
            && text.contains(r#"aria-label="what it shows""#)
    );
}

#[test]
fn large_spans_get_a_logarithmic_scale_and_bars_never_do() {
    let svg = plot(CONNECTIONS, true, series(2, 7, |n, _| Some([1e3, 1e6][n]))).draw();
    assert!(svg.texts().contains(&"requests, requests/s (logarithmic)"));
    let svg = plot(&["one"], true, series(2, 1, |n, _| Some([1e3, 1e6][n]))).draw();
    assert!(svg.texts().contains(&"0") && svg.texts().contains(&"requests, requests/s"));
}

#[test]
fn values_lie_between_the_ticks_around_them() {
    for (least, most) in
        [(0.0, 1.0), (0.0, 1_234.0), (5.0, 1e7), (-3.0, 8.0), (2.0, 70.0), (0.0, 0.0)]
    {
        let scale = Scale::of([least, most].into_iter(), false);
        let (low, high) = (scale.place(least), scale.place(most));
        assert!(
            (0.0..=1.0).contains(&low) && low <= high && high <= 1.0,
            "{least} {most}: {low} {high}"
        );
        assert!(
            scale.ticks.len() >= 2 && scale.ticks.len() <= 12,
            "{least} {most}: {:?}",
            scale.ticks
        );
        assert!(scale.ticks.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", scale.ticks);
    }
}

#[test]
fn ticks_say_no_more_than_they_must() {
    let names = [0.0, 0.25, 0.5, 2.5, 20.0, 150.0, 2_000.0, 1.5e5, 2e6, 1e9].map(tick_name);
    assert_eq!(names, ["0", "0.25", "0.5", "2.5", "20", "150", "2k", "150k", "2M", "1G"]);
}

#[test]
fn more_systems_than_colours_are_told_apart_by_dashes() {
    let text = plot(CONNECTIONS, true, series(COLOURS + 1, 7, |n, _| Some(n as f64 + 1.0)))
        .draw()
        .finish("");
    assert!(text.contains(r#"class="c0 l""#) && text.contains(r#"class="c0 dash l""#));
}
