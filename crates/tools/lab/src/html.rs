//! Reports as one page that needs nothing else: no script, no network, no font of its own.

use std::fmt::Write as _;

use crate::numbers::{measured, ratio};
use crate::plot::{COLOURS, Plot, Series, Svg, escaped};
use crate::report::{Cell, Metric, Report};
use crate::runner::left_out_line;
use crate::stats;
use crate::text::{facts, warnings};

/// Colours of systems on a light page and on a dark one: they differ in brightness too, for those
/// who tell few colours apart.
const LIGHT: [&str; COLOURS] =
    ["#0b62c4", "#c2410c", "#15803d", "#a21caf", "#4b5563", "#be123c", "#854d0e", "#0e7490"];
const DARK: [&str; COLOURS] =
    ["#6cb2ff", "#ff9a57", "#5fd38a", "#e58bf0", "#b6bfcc", "#ff8fa3", "#e0b84a", "#4fd1e0"];

const STYLE: &str = "
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --faint: #596270; --rule: \
#d6dbe1; --head: #f2f4f7; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e8ebef; --faint: #a3adba; \
--rule: #3a424d; --head: #1e232a; } }
body { background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; \
max-width: 1080px; margin: 0 auto; padding: 16px; }
h1 { font-size: 24px; } h2 { font-size: 20px; border-top: 1px solid var(--rule); padding-top: \
20px; margin-top: 36px; } h3 { font-size: 16px; margin: 28px 0 8px; }
p, dl, figure { margin: 8px 0; } figure { max-width: 860px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; } dt { color: \
var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; \
font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid \
var(--rule); } thead th { background: var(--head); vertical-align: bottom; }
th small { color: var(--faint); font-weight: normal; } td small { color: var(--faint); } tbody th \
{ text-align: left; font-weight: normal; }
.name { text-align: left; } .first td, .first th { border-top: 2px solid var(--rule); }
pre { background: var(--head); padding: 10px; overflow-x: auto; font-size: 12px; } summary { \
cursor: pointer; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px ui-monospace, 'DejaVu \
Sans Mono', Menlo, Consolas, monospace; fill: var(--ink); }
svg line, svg polyline { fill: none; } .grid { stroke: var(--rule); } .axis { stroke: var(--ink); \
} .whisker { stroke: var(--ink); stroke-width: 1.5; }
.l { stroke-width: 2; } .e { stroke-width: 1.5; opacity: 0.7; } .m { stroke: var(--page); \
stroke-width: 1; } .dash.l { stroke-dasharray: 5 4; }
";

/// What systems look like, a rule for each colour.
fn rules(colours: [&str; COLOURS]) -> String {
    let rule = |(index, colour): (usize, &&str)| {
        format!(
            ".c{index}.l, .c{index}.e {{ stroke: {colour}; }} .c{index}.m, .c{index}.b {{ fill: \
             {colour}; }} .c{index}.m.o {{ fill: var(--page); stroke: {colour}; stroke-width: \
             2; }}\n"
        )
    };
    colours.iter().enumerate().map(rule).collect()
}

/// The report's main plot as a picture of its own, on a light ground or on a dark one. None: it has
/// nothing to plot.
pub fn chart(report: &Report, dark: bool) -> Option<String> {
    let metric = report.metrics.iter().find(|metric| metric.plot && has(&report.cells, metric))?;
    let about =
        format!("{}: {} over {} for each system", report.title, metric.label, report.axis.label);
    // The same rules as on the page, whose colours depend on what the reader likes; a picture has
    // one of both.
    let (colours, [page, ink, rule]) = if dark {
        (DARK, ["#14171b", "#e8ebef", "#3a424d"])
    } else {
        (LIGHT, ["#ffffff", "#1b1f24", "#d6dbe1"])
    };
    let drawing = STYLE
        .lines()
        .skip_while(|line| !line.starts_with("svg {"))
        .skip(1)
        .collect::<Vec<_>>()
        .join("\n");
    let letters = "text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; \
        fill: var(--ink); }";
    let style = format!(".page {{ fill: var(--page); }}\n{letters}\n{drawing}\n{}", rules(colours));
    let style =
        style.replace("var(--page)", page).replace("var(--ink)", ink).replace("var(--rule)", rule);
    Some(plot(report, metric).finish_alone(&about, &style))
}

fn style() -> String {
    let mut style = STYLE.to_string();
    let _ = write!(
        style,
        "{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        rules(LIGHT),
        rules(DARK)
    );
    style
}

/// A page of one or several reports.
pub fn page(reports: &[Report]) -> String {
    let title = match reports {
        [one] => one.title.clone(),
        _ => "All scenarios".into(),
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>clearway lab: {0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>clearway lab</h1>\n",
        escaped(&title),
        style()
    );
    if reports.len() > 1 {
        page += "<ul>\n";
        for report in reports {
            let _ = writeln!(
                page,
                r##"<li><a href="#{}">{}</a></li>"##,
                escaped(&report.scenario),
                escaped(&report.title)
            );
        }
        page += "</ul>\n";
    }
    reports.iter().for_each(|report| section(&mut page, report));
    page + "</body>\n</html>\n"
}

/// Text in which words of a program stand between backticks.
fn prose(text: &str) -> String {
    let text = escaped(text);
    let mut parts = text.split('`');
    let mut prose = parts.next().unwrap_or_default().to_owned();
    while let Some(word) = parts.next() {
        match parts.next() {
            Some(rest) => prose += &format!("<code>{word}</code>{rest}"),
            None => prose += &format!("`{word}"),
        }
    }
    prose
}

fn section(page: &mut String, report: &Report) {
    let _ = writeln!(page, r#"<section id="{}">"#, escaped(&report.scenario));
    let _ = writeln!(page, "<h2>{}</h2>\n<p>{}</p>", escaped(&report.title), prose(&report.about));
    *page += "<dl>\n";
    for (name, value) in facts(report) {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    *page += "</dl>\n";
    let reference = escaped(&report.reference);
    let mut note =
        format!("Median, smallest and largest of the rounds, and the ratio to {reference}.");
    if let Some(group) = report.main_group() {
        let _ = write!(note, " Rounds with a core-to-core round trip {}.", group.name());
    }
    if report.cells.iter().any(|cell| cell.shaky || cell.shaky_ratios) {
        note += " ~ marks figures that have no round in that group, and ratios that have none of \
            both: these are of all rounds.";
    }
    let _ = writeln!(page, "<p>{note}</p>");
    for metric in report.metrics.iter().filter(|metric| has(&report.cells, metric)) {
        let _ = writeln!(page, "<h3>{}</h3>", escaped(&headline(metric)));
        if metric.plot {
            let about = format!(
                "{} over {} for each system; the table below has the same figures",
                metric.label, report.axis.label
            );
            let _ = writeln!(page, "<figure>\n{}</figure>", plot(report, metric).finish(&about));
        }
        *page += &table(report, metric, &report.cells);
    }
    distances(page, report);
    rest(page, report);
    *page += "</section>\n";
}

fn has(cells: &[Cell], metric: &Metric) -> bool {
    cells.iter().any(|cell| cell.metric == metric.key)
}

/// The metric with its unit, when that is not its name anyway.
fn headline(metric: &Metric) -> String {
    let (label, unit) = (&metric.label, &metric.unit);
    match unit.as_str() {
        "share" => label.clone(),
        _ if unit.starts_with(label.as_str()) => unit.clone(),
        _ => format!("{label}, {unit}"),
    }
}

pub(crate) fn plot(report: &Report, metric: &Metric) -> Svg {
    let mut series = Vec::new();
    for (number, system) in report.systems.iter().enumerate() {
        let cell = |point: &str| {
            report.cell(&system.key, point, &metric.key).map(|c| (c.median, c.min, c.max))
        };
        let values: Vec<_> = report.points.iter().map(|point| cell(&point.key)).collect();
        if values.iter().any(Option::is_some) {
            series.push(Series { number, label: system.key.clone(), values });
        }
    }
    let axis = &report.axis;
    let across = if axis.unit.is_empty() || axis.unit == axis.label {
        axis.label.clone()
    } else {
        format!("{}, {}", axis.label, axis.unit)
    };
    let points = report.points.iter().map(|point| point.key.clone()).collect();
    Plot { across, up: headline(metric), points, ordered: axis.ordered, series }.draw()
}

/// The points down, the systems across.
fn table(report: &Report, metric: &Metric, cells: &[Cell]) -> String {
    let find = |system: &str, point: &str| {
        cells
            .iter()
            .find(|cell| cell.system == system && cell.point == point && cell.metric == metric.key)
    };
    let filled =
        |key: &str| cells.iter().any(|cell| cell.metric == metric.key && cell.system == key);
    let systems: Vec<_> = report.systems.iter().filter(|system| filled(&system.key)).collect();
    let mut text = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    let axis = &report.axis;
    let _ = write!(
        text,
        "<th class=\"name\">{}<br><small>{}</small></th>",
        escaped(&axis.label),
        escaped(&axis.unit)
    );
    for system in &systems {
        let _ = write!(
            text,
            "<th title=\"{}\">{}<br><small>{}</small></th>",
            escaped(&system.about),
            escaped(&system.key),
            escaped(&metric.unit)
        );
    }
    text += "</tr></thead>\n<tbody>\n";
    for point in &report.points {
        let _ = write!(text, "<tr><th>{}</th>", escaped(&point.key));
        for system in &systems {
            let _ = write!(
                text,
                "<td>{}</td>",
                find(&system.key, &point.key).map_or("–".into(), |cell| entry(metric, cell))
            );
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

fn entry(metric: &Metric, cell: &Cell) -> String {
    let value = |value: f64| measured(value, &metric.unit);
    let (shaky, mark) =
        (if cell.shaky { "~" } else { "" }, if cell.shaky_ratios { "~" } else { "" });
    let mut text = format!(
        "{shaky}{}<br><small>{}…{}</small>",
        value(cell.median),
        value(cell.min),
        value(cell.max)
    );
    if metric.unit != "share" {
        if let Some(by) = cell.ratio {
            let _ = write!(text, "<br><small>ratio {mark}{}</small>", ratio(by));
        }
        if let Some(by) = cell.of_floor {
            let _ = write!(text, "<br><small>of floor {mark}{}</small>", ratio(by));
        }
    }
    text
}

/// How far the cores were from each other meanwhile, and what was measured when they were
/// elsewhere.
fn distances(page: &mut String, report: &Report) {
    let trips = report.samples.iter().enumerate().filter_map(|(index, sample)| {
        let (before, after) = (sample.placement.before_ns?, sample.placement.after_ns?);
        Some((index, (before.min(after), before.max(after))))
    });
    let trips: Vec<_> = trips.collect();
    if trips.is_empty() {
        return;
    }
    *page += "<h3>Core-to-core round trip, ns</h3>\n";
    // Samples that belong together are one after the other; more than this many would be one
    // colour.
    let step = trips.len().div_ceil(60);
    let chosen: Vec<_> = trips.iter().step_by(step).collect();
    let values = chosen
        .iter()
        .map(|(_, (least, most))| Some(((least * most).sqrt(), *least, *most)))
        .collect();
    // Every few measurements one is named.
    let every = chosen.len().div_ceil(12).max(1);
    let name = |(at, (index, _)): (usize, &&(usize, (f64, f64)))| {
        if at % every == 0 { (index + 1).to_string() } else { String::new() }
    };
    let plot = Plot {
        across: "measurement, in the order of the run".into(),
        up: "round trip, ns".into(),
        points: chosen.iter().enumerate().map(name).collect(),
        ordered: true,
        series: vec![Series {
            number: 0,
            label: "before and after each measurement".into(),
            values,
        }],
    };
    let _ = writeln!(
        page,
        "<figure>\n{}</figure>",
        plot.draw().finish("round trip of a cache line between the two cores")
    );
    for group in report.other_groups() {
        let cells = stats::cells_of_group(report, group);
        for metric in report.metrics.iter().filter(|metric| metric.main && has(&cells, metric)) {
            let _ = writeln!(
                page,
                "<h3>{}, rounds with a round trip {}</h3>",
                escaped(&headline(metric)),
                group.name()
            );
            *page += &table(report, metric, &cells);
        }
    }
}

/// What is not in a table: systems, what is missing, every measurement, command lines.
fn rest(page: &mut String, report: &Report) {
    *page += "<h3>Systems</h3>\n<dl>\n";
    for system in &report.systems {
        let _ =
            writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(&system.key), prose(&system.about));
    }
    *page += "</dl>\n";
    let mut lines: Vec<String> = report.left_out.iter().map(left_out_line).collect();
    lines.extend(report.failures.iter().map(|failure| {
        format!(
            "failed: {} at {}, round {}: {}",
            failure.system, failure.point, failure.round, failure.error
        )
    }));
    lines.extend(
        warnings(report)
            .into_iter()
            .map(|(warning, count)| format!("warning: {warning} ({count})")),
    );
    if !lines.is_empty() {
        *page += "<h3>Left out, failed, warned</h3>\n<ul>\n";
        lines.iter().for_each(|line| *page += &format!("<li>{}</li>\n", escaped(line)));
        *page += "</ul>\n";
    }
    samples(page, report);
    *page += "<details><summary>Command lines</summary>\n<pre>";
    *page += &escaped(&report.command.join(" "));
    for (system, lines) in &report.programs {
        let _ = write!(page, "\n\n# {}\n{}", escaped(system), escaped(&lines.join("\n")));
    }
    *page += "</pre></details>\n";
}

fn samples(page: &mut String, report: &Report) {
    *page += "<details><summary>Every measurement</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>round</th>";
    let _ = write!(
        page,
        "<th class=\"name\">{}</th><th class=\"name\">system</th>",
        escaped(&report.axis.label)
    );
    *page += "<th>round trip before, \
        after<br><small>ns</small></th><th>flag</th><th>load</th><th>stolen</th>";
    let metrics: Vec<_> =
        report.metrics.iter().filter(|metric| has(&report.cells, metric)).collect();
    for metric in &metrics {
        let _ = write!(
            page,
            "<th>{}<br><small>{}</small></th>",
            escaped(&metric.label),
            escaped(&metric.unit)
        );
    }
    *page += "</tr></thead>\n<tbody>\n";
    for sample in &report.samples {
        let (point, system) = (escaped(&sample.point), escaped(&sample.system));
        let ns = |ns: Option<f64>| ns.map_or("–".into(), |ns| format!("{ns:.0}"));
        let trip = format!("{}, {}", ns(sample.placement.before_ns), ns(sample.placement.after_ns));
        let elsewhere = report.main_group().is_some_and(|group| !group.holds(&sample.placement));
        let flag = match (sample.placement.moved(), elsewhere) {
            (true, _) => "moved",
            (_, true) => "other group",
            _ => "",
        };
        let _ = write!(
            page,
            "<tr><td>{}</td><th>{point}</th><th>{system}</th><td>{trip}</td><td>{flag}</td><td>{:.1}</td><td>{:.0} %</td>",
            sample.round,
            sample.load,
            sample.steal * 100.0
        );
        for metric in &metrics {
            let value = sample
                .values
                .get(&metric.key)
                .map_or("–".into(), |value| measured(*value, &metric.unit));
            let _ = write!(page, "<td>{value}</td>");
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table></div></details>\n";
}

#[cfg(test)]
mod tests;
