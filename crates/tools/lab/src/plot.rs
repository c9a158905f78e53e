//! Plots as SVG, drawn here: every text has a place and a size that are known, so that a test can
//! tell whether two of them overlap.

use std::fmt::Write as _;

use crate::numbers::figure;

/// Width of a picture in its own units; it is scaled to the page.
pub(crate) const WIDTH: f64 = 760.0;

/// Height of the area in which the data lies.
const PLOT_HEIGHT: f64 = 280.0;

/// Size of all letters. Each is so wide in the widest of the fonts with fixed width that the page
/// asks for.
const LETTER: f64 = 12.0;
const LETTER_WIDTH: f64 = 7.4;

/// From one line of text to the next.
const LINE: f64 = 18.0;

/// Free space at the edges.
const EDGE: f64 = 8.0;

/// A scale is logarithmic when its largest number is so many times its smallest.
const LOG_FROM: f64 = 30.0;

/// How many colours and marks there are; after that they repeat with another dash.
pub(crate) const COLOURS: usize = 8;

/// The place of a text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Label {
    pub(crate) text: String,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

#[cfg(test)]
impl Label {
    fn overlaps(&self, other: &Label) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// A picture, and the texts in it.
pub(crate) struct Svg {
    body: String,
    labels: Vec<Label>,
    height: f64,
}

/// Where a text stands relative to its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// What must not stand in a page as it is.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Svg {
    fn new() -> Svg {
        Svg { body: String::new(), labels: Vec::new(), height: 0.0 }
    }

    /// A text whose base line is at `y`.
    fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let width = text_width(text);
        let (name, left) = match anchor {
            Anchor::Start => ("start", x),
            Anchor::Middle => ("middle", x - width / 2.0),
            Anchor::End => ("end", x - width),
        };
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{name}">{}</text>"#,
            escaped(text)
        );
        let (top, bottom) = (y - LETTER, y + LETTER * 0.3);
        self.labels.push(Label { text: text.into(), left, top, right: left + width, bottom });
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A mark in the form that goes with the colour.
    fn mark(&mut self, series: usize, x: f64, y: f64) {
        // The second half of the marks is hollow.
        let hollow = if (series / 4) % 2 == 1 { " o" } else { "" };
        let class = format!("{} m{hollow}", class(series));
        let shape = match series % 4 {
            0 => format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="4"/>"#),
            1 => format!(
                r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="7.6" height="7.6"/>"#,
                x - 3.8,
                y - 3.8
            ),
            2 => {
                let points = [(x, y - 5.0), (x + 5.0, y + 4.0), (x - 5.0, y + 4.0)];
                format!(r#"<polygon class="{class}" points="{}"/>"#, path(&points))
            }
            _ => {
                let points = [(x, y - 5.4), (x + 5.4, y), (x, y + 5.4), (x - 5.4, y)];
                format!(r#"<polygon class="{class}" points="{}"/>"#, path(&points))
            }
        };
        self.body += &shape;
        self.body.push('\n');
    }

    /// The picture, with what a reader is told who cannot see it.
    pub(crate) fn finish(self, about: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            self.height,
            escaped(about),
            self.body
        )
    }

    /// The picture as a file of its own, with what its classes look like.
    pub(crate) fn finish_alone(self, about: &str, style: &str) -> String {
        let (height, about) = (self.height, escaped(about));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\">\n\
             <title>{about}</title>\n<style>{style}</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// Pairs of texts that lie on each other, and texts that leave the picture.
    #[cfg(test)]
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, label) in self.labels.iter().enumerate() {
            if label.left < 0.0
                || label.top < 0.0
                || label.right > WIDTH
                || label.bottom > self.height
            {
                faults.push(format!("`{}` leaves the picture: {label:?}", label.text));
            }
            for other in self.labels[..index].iter().filter(|other| other.overlaps(label)) {
                faults.push(format!("`{}` lies on `{}`", label.text, other.text));
            }
        }
        faults
    }

    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.labels.iter().map(|label| label.text.as_str()).collect()
    }
}

fn class(series: usize) -> String {
    let dashed = if series >= COLOURS { " dash" } else { "" };
    format!("c{}{dashed}", series % COLOURS)
}

fn path(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Median, smallest and largest.
pub(crate) type Spread = (f64, f64, f64);

/// One system in a plot: its number decides about the colour, so that it is the same in all.
pub(crate) struct Series {
    pub(crate) number: usize,
    pub(crate) label: String,
    /// One for each point of the axis.
    pub(crate) values: Vec<Option<Spread>>,
}

/// A plot of several systems over the same points.
pub(crate) struct Plot {
    /// What the points are, with its unit.
    pub(crate) across: String,
    /// What the values are, with their unit.
    pub(crate) up: String,
    /// The points' names.
    pub(crate) points: Vec<String>,
    /// Lines join them.
    pub(crate) ordered: bool,
    pub(crate) series: Vec<Series>,
}

/// From values to places.
struct Scale {
    least: f64,
    most: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Scale {
    /// A scale on which all of these have a place.
    fn of(values: impl Iterator<Item = f64> + Clone, bars: bool) -> Scale {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.clone().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let negative = values.fold(0.0, f64::min);
        if most <= 0.0 && negative >= 0.0 {
            return Scale { least: 0.0, most: 1.0, log: false, ticks: vec![0.0, 1.0] };
        }
        // A bar of a logarithmic scale has no length that means anything.
        if !bars && most > LOG_FROM * least && negative >= 0.0 {
            Scale::log(least, most)
        } else {
            Scale::even(negative, most)
        }
    }

    fn log(least: f64, most: f64) -> Scale {
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let step = ((last - first) / 8 + 1).max(1);
        let mut ticks: Vec<f64> =
            (first..=last).step_by(step as usize).map(|power| 10_f64.powi(power)).collect();
        if last - first <= 2 {
            let between =
                (first..last).flat_map(|power| [2.0, 5.0].map(|n| n * 10_f64.powi(power)));
            ticks.extend(between.collect::<Vec<_>>());
            ticks.sort_by(f64::total_cmp);
        }
        Scale { least: 10_f64.powi(first), most: 10_f64.powi(last), log: true, ticks }
    }

    fn even(least: f64, most: f64) -> Scale {
        let rough = (most - least) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|n| n * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(power * 10.0);
        let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        Scale { least: first as f64 * step, most: last as f64 * step, log: false, ticks }
    }

    /// Where a value lies, from 0 at the bottom to 1 at the top.
    fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            let value = value.max(self.least);
            (value / self.least).log10() / (self.most / self.least).log10()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        place.clamp(0.0, 1.0)
    }
}

impl Plot {
    /// Lines where the points are in an order and there are several, bars otherwise.
    pub(crate) fn draw(&self) -> Svg {
        let lines = self.ordered && self.points.len() > 1;
        let values = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let scale =
            Scale::of(values.flat_map(|(median, least, most)| [*median, *least, *most]), !lines);
        let mut svg = Svg::new();
        let up = if scale.log { format!("{} (logarithmic)", self.up) } else { self.up.clone() };
        svg.text(EDGE, EDGE + LETTER, Anchor::Start, &up);
        let names: Vec<String> = scale.ticks.iter().map(|tick| tick_name(*tick)).collect();
        let left = EDGE * 2.0 + names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        let (top, right) = (EDGE + LETTER + LINE, WIDTH - EDGE);
        let bottom = top + PLOT_HEIGHT;
        let y = |value: f64| bottom - scale.place(value) * PLOT_HEIGHT;
        for (tick, name) in scale.ticks.iter().zip(&names) {
            svg.line("grid", (left, y(*tick)), (right, y(*tick)));
            svg.text(left - EDGE, y(*tick) + LETTER * 0.35, Anchor::End, name);
        }
        let slot = (right - left) / self.points.len().max(1) as f64;
        let middle = |point: usize| left + slot * (point as f64 + 0.5);
        if lines {
            self.lines(&mut svg, &middle, &y)
        } else {
            self.bars(&mut svg, &middle, slot, &y)
        }
        svg.line("axis", (left, bottom), (right, bottom));
        let after = self.names(&mut svg, &middle, slot, bottom + LINE * 1.3);
        svg.text(right, after, Anchor::End, &self.across);
        let end = self.legend(&mut svg, left, after + LINE * 1.3);
        svg.height = end + EDGE;
        svg
    }

    fn lines(&self, svg: &mut Svg, middle: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64) {
        // Systems stand a little beside each other, so that one spread does not hide another.
        let aside = |index: usize| (index as f64 - (self.series.len() as f64 - 1.0) / 2.0) * 3.0;
        for (index, series) in self.series.iter().enumerate() {
            let class = class(series.number);
            let place = |point: usize| middle(point) + aside(index);
            let there = series
                .values
                .iter()
                .enumerate()
                .filter_map(|(point, value)| Some((point, (*value)?)));
            let places: Vec<(f64, f64)> =
                there.clone().map(|(point, value)| (place(point), y(value.0))).collect();
            let _ =
                writeln!(svg.body, r#"<polyline class="{class} l" points="{}"/>"#, path(&places));
            for (point, (median, least, most)) in there {
                svg.line(&format!("{class} e"), (place(point), y(least)), (place(point), y(most)));
                svg.mark(series.number, place(point), y(median));
            }
        }
    }

    fn bars(
        &self,
        svg: &mut Svg,
        middle: &dyn Fn(usize) -> f64,
        slot: f64,
        y: &dyn Fn(f64) -> f64,
    ) {
        let width = (slot * 0.8 / self.series.len().max(1) as f64).min(60.0);
        for (index, series) in self.series.iter().enumerate() {
            let class = class(series.number);
            let aside = (index as f64 - self.series.len() as f64 / 2.0) * width;
            for (point, value) in series.values.iter().enumerate() {
                let Some((median, least, most)) = *value else { continue };
                let x = middle(point) + aside;
                let (from, to) = (y(0.0).max(y(median)), y(0.0).min(y(median)));
                let _ = writeln!(
                    svg.body,
                    r#"<rect class="{class} b" x="{:.1}" y="{to:.1}" width="{:.1}" height="{:.1}"/>"#,
                    x + 1.0,
                    width - 2.0,
                    from - to
                );
                svg.line("whisker", (x + width / 2.0, y(least)), (x + width / 2.0, y(most)));
            }
        }
    }

    /// The points' names; on two lines in turn where they need more room than there is. Answers
    /// with where the next line is.
    fn names(&self, svg: &mut Svg, middle: &dyn Fn(usize) -> f64, slot: f64, y: f64) -> f64 {
        let widest =
            self.points.iter().map(|name| text_width(name)).fold(0.0, f64::max) + LETTER_WIDTH;
        let rows = (widest / slot).ceil().max(1.0) as usize;
        for (index, name) in self.points.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            // A name in the middle of a narrow first or last slot may reach beyond the edge.
            let half = text_width(name) / 2.0;
            let x = middle(index).clamp(EDGE + half, WIDTH - EDGE - half);
            svg.text(x, y + (index % rows) as f64 * LINE, Anchor::Middle, name);
        }
        y + rows as f64 * LINE
    }

    /// Who is who; answers with where it ends.
    fn legend(&self, svg: &mut Svg, left: f64, y: f64) -> f64 {
        const MARK: f64 = 28.0;
        let (mut x, mut y) = (left, y);
        for series in &self.series {
            let width = MARK + text_width(&series.label) + LETTER_WIDTH * 2.0;
            if x + width > WIDTH && x > left {
                (x, y) = (left, y + LINE);
            }
            let middle = y - LETTER * 0.35;
            svg.line(&format!("{} l", class(series.number)), (x, middle), (x + 20.0, middle));
            svg.mark(series.number, x + 10.0, middle);
            svg.text(x + MARK, y, Anchor::Start, &series.label);
            x += width;
        }
        y + LETTER * 0.3
    }
}

/// A tick's name without digits that say nothing.
fn tick_name(tick: f64) -> String {
    let text = match tick.abs() {
        size if size < 1.0 => format!("{tick:.4}"),
        // Ticks are round, so that all thousands can have their letter.
        size if (1_000.0..10_000.0).contains(&size) => format!("{:.2}k", tick / 1_000.0),
        _ => figure(tick),
    };
    let digits = text.trim_end_matches(char::is_alphabetic);
    let letter = &text[digits.len()..];
    if !digits.contains('.') {
        return text;
    }
    format!("{}{letter}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
