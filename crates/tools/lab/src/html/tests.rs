use crate::placement::Placement;
use crate::report::{Failure, Report};
use crate::testing::{blank, sample};

/// A report with everything in it that a page shows.
fn report() -> Report {
    let mut report = blank(&["ours", "ours-2cores", "kernel", "floor"], &["1", "8", "64", "1024"]);
    for round in 1..=3 {
        for (index, system) in ["ours", "ours-2cores", "kernel", "floor"].iter().enumerate() {
            for (at, point) in ["1", "8", "64", "1024"].iter().enumerate() {
                let rps = [160e3, 300e3, 20e3, 2e6][index]
                    * (at + 1) as f64
                    * (1.0 + f64::from(round) / 20.0);
                let mut sample = sample(system, point, round, rps);
                let far = if at == 3 { 10.0 } else { 1.0 };
                sample.placement =
                    Placement { before_ns: Some(100.0 * far), after_ns: Some(110.0 * far) };
                sample.values.insert("cycles".into(), 3_000.0 - 100.0 * at as f64);
                report.samples.push(sample);
            }
        }
    }
    report.programs.insert("ours".into(), vec!["clearway bench server -m 'a <b> & c'".into()]);
    report.failures.push(Failure {
        system: "kernel".into(),
        point: "8".into(),
        round: 1,
        error: "<it> broke".into(),
    });
    report.compute("kernel");
    report
}

#[test]
fn the_page_needs_nothing_else() {
    let page = super::page(&[report(), blank(&["ours"], &["1"])]);
    for foreign in ["http://", "https://", "<script", "<link", "<img", "url(", "@import", "src="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains(r##"<a href="#trial">"##));
}

#[test]
fn what_is_opened_is_closed_and_nothing_of_a_program_is_taken_for_the_pages_own() {
    let page = super::page(&[report()]);
    for tag in [
        "html", "head", "body", "section", "table", "thead", "tbody", "tr", "td", "th", "figure",
        "svg", "dl", "details", "pre", "text", "small",
    ] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        assert!(opened > 0, "{tag}");
    }
    assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("&lt;it&gt; broke"));
}

#[test]
fn words_of_a_program_look_like_it() {
    assert_eq!(super::prose("`a<b` and `c`."), "<code>a&lt;b</code> and <code>c</code>.");
    assert_eq!(super::prose("no word, and a single `"), "no word, and a single `");
}

#[test]
fn every_figure_stands_in_a_table_too() {
    let report = report();
    let page = super::page(std::slice::from_ref(&report));
    for cell in &report.cells {
        let metric = report.metrics.iter().find(|metric| metric.key == cell.metric).unwrap();
        assert!(page.contains(&super::entry(metric, cell)), "{cell:?}");
    }
    // One for each metric that was measured, and one for the distance of the cores.
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("other group") && page.contains("rounds with a round trip of 1049 ns"));
}

#[test]
fn no_text_of_any_plot_lies_on_another() {
    let report = report();
    for metric in &report.metrics {
        assert_eq!(super::plot(&report, metric).faults(), [""; 0], "{}", metric.key);
    }
}

#[test]
fn all_colours_can_be_read_on_their_page() {
    // Relative luminance and contrast as WCAG defines them; 3 is what it asks of graphics.
    let luminance = |colour: &str| {
        let part = |at: usize| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    for (page, colours) in [("#ffffff", super::LIGHT), ("#14171b", super::DARK)] {
        assert!(super::STYLE.contains(&format!("--page: {page}")));
        for colour in colours {
            let (a, b) = (luminance(page), luminance(colour));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            assert!(contrast >= 4.5, "{colour} on {page}: {contrast:.2}");
        }
    }
}

#[test]
fn a_chart_stands_alone_on_a_light_ground_and_on_a_dark_one() {
    let report = report();
    let [light, dark] = [false, true].map(|dark| super::chart(&report, dark).unwrap());
    for (chart, ground) in [(&light, "#ffffff"), (&dark, "#14171b")] {
        assert!(chart.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{chart}");
        assert!(
            chart.contains(&format!(".page {{ fill: {ground}; }}")) && !chart.contains("var("),
            "{chart}"
        );
        for foreign in ["https://", "<script", "url(", "@import", "href"] {
            assert!(!chart.contains(foreign), "{foreign}");
        }
        assert_eq!(chart.matches("<polyline").count(), 4, "a line for each system");
    }
    assert_ne!(light, dark);
    assert!(super::chart(&blank(&["ours"], &["1"]), true).is_none());
}
