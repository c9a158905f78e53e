//! The floors of a folder of modules as a drawing: `cargo xtask layers --svg` writes one for each
//! folder that ARCHITECTURE.md shows.
//!
//! A floor is a band, a module a box, an arrow a line from who names to who is named. An arrow that
//! follows from others (a → c beside a → b → c) is faint. An arrow that does not point to a lower
//! floor is red, so that a drawing of disorder shows where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::floors::{Floor, floors};
use crate::order::ORDERS;

/// The folders that are drawn.
const DRAWN: &[&str] = &["proto", "proto::net", "proto::tcp", "session", "host"];

/// The folder of the drawings.
const FOLDER: &str = "docs/modules";

/// Sizes in pixels: of a letter, of a box, of the room between boxes, between rows and between
/// bands, and of the whole.
const LETTER: f64 = 7.3;
const BOX_HEIGHT: f64 = 26.0;
const BOX_PADDING: f64 = 16.0;
const GAP: f64 = 14.0;
const ROW: f64 = 44.0;
const BAND: f64 = 62.0;
const LABEL: f64 = 190.0;
const WIDTH: f64 = 1_060.0;
const TOP: f64 = 34.0;

/// Colours in light and in dark; whoever shows the file says which.
const STYLE: &str = "\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.label{font:12px system-ui,sans-serif;fill:#57606a}
.band{fill:#f6f8fa}
.page{fill:#ffffff}
.box{fill:#ffffff;stroke:#8c959f}
.arrow{stroke:#0969da;stroke-opacity:.75;fill:none}
.faint{stroke:#8c959f;stroke-opacity:.28;fill:none}
.up{stroke:#cf222e;stroke-width:1.6;fill:none}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.label{fill:#9198a1}
.band{fill:#161b22}
.page{fill:#0d1117}
.box{fill:#21262d;stroke:#6e7681}
.arrow{stroke:#58a6ff}
.faint{stroke:#8b949e;stroke-opacity:.25}
.up{stroke:#ff7b72}
}";

/// The drawings of the workspace at `root`: file and text of each.
pub fn drawings(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let floors = floors(root)?;
    let drawn = DRAWN.iter().filter_map(|name| floors.iter().find(|floor| floor.name() == *name));
    Ok(drawn.map(|floor| (Path::new(FOLDER).join(file_name(&floor.name())), draw(floor))).collect())
}

/// Writes the drawings of the workspace at `root` into its docs.
pub fn write(root: &Path) -> Result<()> {
    for (file, text) in drawings(root)? {
        let path = root.join(&file);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

/// Finds drawings of the docs that are not those of the code any more.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let is_stale = |file: &Path, text: &str| {
        fs::read_to_string(root.join(file)).is_ok_and(|drawn| drawn != text)
    };
    let stale = drawings(root)?.into_iter().filter(|(file, text)| is_stale(file, text));
    Ok(stale
        .map(|(file, _)| Finding::new(file, 1, "is not up to date: cargo xtask layers --svg"))
        .collect())
}

fn file_name(scope: &str) -> String {
    format!("{}.svg", scope.replace("::", "-"))
}

/// A box: its middle, its upper edge, and half its width.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    half: f64,
}

/// One folder of modules as SVG. The same folder always gives the same text.
pub fn draw(floor: &Floor) -> String {
    let bands = bands(floor);
    let (places, edges) = lay_out(floor, &bands);
    let heights: BTreeMap<&str, usize> = bands
        .iter()
        .enumerate()
        .flat_map(|(at, (_, modules))| modules.iter().map(move |module| (*module, at)))
        .collect();
    let bottom = edges.first().map_or(TOP, |(y, height)| y + height);
    let mut out = String::new();
    let figures = figures(floor, bands.len(), &heights);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\">",
        bottom + 10.0
    );
    let _ = writeln!(out, "<title>{figures}</title>\n<style>{STYLE}</style>");
    let _ =
        writeln!(out, "<rect class=\"page\" width=\"{WIDTH}\" height=\"{:.0}\"/>", bottom + 10.0);
    let _ = writeln!(out, "<text x=\"12\" y=\"22\">{figures}</text>");
    for ((name, _), (y, height)) in bands.iter().zip(&edges) {
        let _ = writeln!(
            out,
            "<rect class=\"band\" x=\"6\" y=\"{y:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>",
            WIDTH - 12.0,
            height - 8.0
        );
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"16\" y=\"{:.0}\">{name}</text>",
            y + height / 2.0
        );
    }
    let follows = follows_from_others(floor);
    for (from, to) in floor.arrows.keys() {
        let (Some(a), Some(b)) = (places.get(from.as_str()), places.get(to.as_str())) else {
            continue;
        };
        let class = match heights[from.as_str()] > heights[to.as_str()] {
            false => "up",
            true if follows.contains(&(from.as_str(), to.as_str())) => "faint",
            true => "arrow",
        };
        let (y1, y2) = (a.y + BOX_HEIGHT, b.y);
        let bend = ((y2 - y1).abs() / 2.0).max(18.0);
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{:.0} {y1:.0}C{:.0} {:.0} {:.0} {:.0} {:.0} {y2:.0}\"/>",
            a.x,
            a.x,
            y1 + bend,
            b.x,
            y2 - bend,
            b.x,
        );
    }
    for (module, place) in &places {
        let _ = writeln!(
            out,
            "<rect class=\"box\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BOX_HEIGHT}\" rx=\"4\"/>",
            place.x - place.half,
            place.y,
            place.half * 2.0,
        );
        let _ = writeln!(
            out,
            "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{module}</text>",
            place.x,
            place.y + 17.5
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The line above a drawing.
fn figures(floor: &Floor, bands: usize, heights: &BTreeMap<&str, usize>) -> String {
    let up = floor
        .arrows
        .keys()
        .filter(|(from, to)| heights[from.as_str()] <= heights[to.as_str()])
        .count();
    let (modules, arrows) = (drawn(floor).count(), floor.arrows.len());
    format!(
        "{}: {modules} modules on {bands} floors, {arrows} arrows, {up} of them not down",
        floor.name()
    )
}

/// The modules that have something to show: the folder's own file only if it has arrows.
fn drawn(floor: &Floor) -> impl Iterator<Item = &str> {
    let named = |module: &str| floor.arrows.keys().any(|(from, to)| from == module || to == module);
    floor.modules.iter().map(String::as_str).filter(move |module| *module != "mod" || named(module))
}

/// The floors with their names, the lowest first: those of the table, or as the arrows have them
/// where there is none.
fn bands(floor: &Floor) -> Vec<(String, Vec<&str>)> {
    let modules: Vec<&str> = drawn(floor).collect();
    if let Some(order) = ORDERS.iter().find(|order| order.scope == floor.name()) {
        let named = order.storeys.iter().map(|storey| {
            let here = modules.iter().copied().filter(|module| storey.modules.contains(module));
            (storey.name.to_owned(), here.collect())
        });
        let mut bands: Vec<(String, Vec<&str>)> = named.collect();
        let placed: BTreeSet<&str> =
            bands.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
        let rest: Vec<&str> =
            modules.iter().copied().filter(|module| !placed.contains(module)).collect();
        if !rest.is_empty() {
            bands.push(("without a floor".to_owned(), rest));
        }
        return bands;
    }
    let heights = floor.heights();
    let highest = heights.values().max().copied().unwrap_or(0);
    let at = |height| modules.iter().copied().filter(|module| heights[module] == height).collect();
    (1..=highest).map(|height| (String::new(), at(height))).collect()
}

/// Where each box lies, and of each band, the lowest first, its upper edge and its height.
fn lay_out<'f>(
    floor: &Floor,
    bands: &[(String, Vec<&'f str>)],
) -> (BTreeMap<&'f str, Place>, Vec<(f64, f64)>) {
    let mut places: BTreeMap<&str, Place> = BTreeMap::new();
    let mut rows_of = Vec::new();
    for (_, modules) in bands {
        // Above what they name, as far as it is known.
        let mut modules: Vec<(f64, &str)> =
            modules.iter().map(|module| (mean_below(floor, module, &places), *module)).collect();
        modules.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
        let mut rows: Vec<Vec<(&str, f64)>> = vec![Vec::new()];
        let mut used = 0.0;
        for (_, module) in modules {
            let width = module.len() as f64 * LETTER + BOX_PADDING;
            if used + width > WIDTH - LABEL - 20.0 {
                rows.push(Vec::new());
                used = 0.0;
            }
            used += width + GAP;
            if let Some(row) = rows.last_mut() {
                row.push((module, width));
            }
        }
        for row in &rows {
            let all: f64 = row.iter().map(|(_, width)| width + GAP).sum::<f64>() - GAP;
            let mut x = LABEL + (WIDTH - LABEL - all) / 2.0;
            for (module, width) in row {
                places.insert(module, Place { x: x + width / 2.0, y: 0.0, half: width / 2.0 });
                x += width + GAP;
            }
        }
        rows_of.push(rows);
    }
    let mut edges = vec![(0.0, 0.0); bands.len()];
    let mut y = TOP;
    for (at, rows) in rows_of.iter().enumerate().rev() {
        let height = BAND + ROW * (rows.len() as f64 - 1.0);
        edges[at] = (y, height);
        for (row, boxes) in rows.iter().enumerate() {
            for (module, _) in boxes {
                if let Some(place) = places.get_mut(module) {
                    place.y = y + 14.0 + ROW * row as f64;
                }
            }
        }
        y += height;
    }
    (places, edges)
}

/// The middle of what a module names on lower floors.
fn mean_below(floor: &Floor, module: &str, places: &BTreeMap<&str, Place>) -> f64 {
    let below: Vec<f64> = floor
        .arrows
        .keys()
        .filter(|(from, _)| from == module)
        .filter_map(|(_, to)| Some(places.get(to.as_str())?.x))
        .collect();
    if below.is_empty() { WIDTH / 2.0 } else { below.iter().sum::<f64>() / below.len() as f64 }
}

/// The arrows to what is reached by way of a third one too.
fn follows_from_others(floor: &Floor) -> BTreeSet<(&str, &str)> {
    let mut follows = BTreeSet::new();
    for from in &floor.modules {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = named(floor, from).collect();
        while let Some(module) = next.pop() {
            for to in named(floor, module) {
                if to != module && reached.insert(to) {
                    next.push(to);
                }
            }
        }
        follows.extend(
            named(floor, from).filter(|to| reached.contains(to)).map(|to| (from.as_str(), to)),
        );
    }
    follows
}

/// What a module names.
fn named<'f>(floor: &'f Floor, module: &str) -> impl Iterator<Item = &'f str> {
    floor.arrows.keys().filter(move |(from, _)| from == module).map(|(_, to)| to.as_str())
}
