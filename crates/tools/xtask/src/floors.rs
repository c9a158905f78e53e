//! The order of the modules inside a crate: which module names which, and where they name each
//! other in a circle.
//!
//! An arrow is a path in the code (`crate::…`, `super::…`, `self::…`, or one that begins with a
//! name that a `use` brought in) that ends in another module. A name that a module only hands on
//! (`pub use`) counts for the module that defines it, so that the face of a folder may hand on what
//! its files define. Code that is compiled for tests only has no arrows, and neither have calls of
//! methods: what a method needs of its type is seen where the type is named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::finding::Finding;
use crate::modules::{Module, modules};
use crate::source::{Kind, Source};

/// The crates in which a circle of modules is refused, at every depth. The rest is told by
/// `cargo xtask floors`.
const WITHOUT_CIRCLES: &[&str] = &[
    "base", "clearway", "cost", "engine", "hint", "host", "http", "options", "pkt", "proto",
    "session", "tap", "traffic", "xtask",
];

/// How many names handed on in a row are followed.
const MAX_HOPS: usize = 16;

/// A path of modules below the root of a crate; the root itself is empty.
type Place = Vec<String>;

/// One folder of modules: its own file as `mod`, and each module in it with all that lies below.
pub struct Floor {
    /// The crate.
    pub package: String,
    /// The folder inside of the crate, as `tcp` or `tcp::loss`; empty for the crate itself.
    pub scope: String,
    /// The modules in it, by name.
    pub modules: BTreeSet<String>,
    /// Who names whom, with one place where it does.
    pub arrows: BTreeMap<(String, String), (PathBuf, usize)>,
    /// The file of each module.
    pub files: BTreeMap<String, PathBuf>,
}

impl Floor {
    /// The circles: sets of modules each of which reaches each other.
    pub fn circles(&self) -> Vec<BTreeSet<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .modules
            .iter()
            .map(|module| (module.as_str(), self.reached_from(module)))
            .collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for module in self.modules.iter().map(String::as_str) {
            if circles.iter().any(|circle| circle.contains(module)) {
                continue;
            }
            let back = |other: &&str| reached[other].contains(module);
            let circle: BTreeSet<&str> = reached[module].iter().copied().filter(back).collect();
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
        circles
    }

    /// Height of each module: the longest way down, where modules of a circle share one.
    pub fn heights(&self) -> BTreeMap<&str, usize> {
        let circles = self.circles();
        let same = |a: &str, b: &str| {
            a == b || circles.iter().any(|circle| circle.contains(a) && circle.contains(b))
        };
        let mut heights: BTreeMap<&str, usize> =
            self.modules.iter().map(|module| (module.as_str(), 1)).collect();
        // Each round settles at least one floor more, so there are never more rounds than modules.
        for _ in 0..self.modules.len() {
            for (from, to) in self.arrows.keys() {
                let least = heights[to.as_str()] + usize::from(!same(from, to));
                for module in self.modules.iter().filter(|module| same(module, from)) {
                    let height = heights.entry(module.as_str()).or_default();
                    *height = (*height).max(least);
                }
            }
        }
        heights
    }

    fn reached_from(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![module];
        while let Some(module) = next.pop() {
            for (from, to) in self.arrows.keys() {
                if from == module && reached.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        reached
    }

    /// The crate and the folder in it, as `proto::tcp`.
    pub fn name(&self) -> String {
        if self.scope.is_empty() {
            self.package.clone()
        } else {
            format!("{}::{}", self.package, self.scope)
        }
    }
}

/// The floors of every crate of the workspace at `root`, those of crates first and those of folders
/// after them.
pub fn floors(root: &Path) -> Result<Vec<Floor>> {
    let (modules, _) = modules(root)?;
    let mut by_package: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    for module in modules.iter().filter(|module| module.in_src && !module.test) {
        by_package.entry(&module.package).or_default().push(module);
    }
    Ok(by_package
        .into_iter()
        .flat_map(|(package, modules)| Crate::new(modules).floors(package))
        .collect())
}

/// Refuses circles in the crates that are to have none.
pub fn circles(floors: &[Floor]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let settled = |floor: &&Floor| {
        let package = floor.package.as_str();
        WITHOUT_CIRCLES.contains(&package)
    };
    for floor in floors.iter().filter(settled) {
        for circle in floor.circles() {
            let ties = floor
                .arrows
                .iter()
                .filter(|((from, to), _)| circle.contains(&**from) && circle.contains(&**to));
            for ((from, to), (file, line)) in ties {
                let all = circle.iter().copied().collect::<Vec<_>>().join(" ");
                let message = format!(
                    "{} → {to}: these modules of {} name each other in a circle: {all}; move what \
                     both need below them, or pass it in as an argument",
                    from,
                    floor.name(),
                );
                findings.push(Finding::new(file, *line, message));
            }
        }
    }
    findings
}

/// Prints a line for each floor: modules, heights, arrows, and the circles with what is in them.
pub fn tell(floors: &[Floor], only: Option<&str>) {
    for floor in floors {
        let chosen = only.is_none_or(|only| {
            floor.name() == only || floor.name().starts_with(&format!("{only}::"))
        });
        if !chosen || floor.modules.len() < 2 {
            continue;
        }
        let heights = floor.heights();
        let highest = heights.values().max().copied().unwrap_or(0);
        let circles = floor.circles();
        let tied: usize = circles.iter().map(BTreeSet::len).sum();
        let (modules, arrows) = (floor.modules.len(), floor.arrows.len());
        println!(
            "{}: {modules} modules on {highest} floors, {arrows} arrows, {tied} modules in circles",
            floor.name()
        );
        if only.is_none() {
            continue;
        }
        for height in (1..=highest).rev() {
            let here = heights.iter().filter(|(_, at)| **at == height).map(|(module, _)| *module);
            println!("  {height:>3}  {}", here.collect::<Vec<_>>().join(" "));
        }
        for circle in circles {
            println!("  circle: {}", circle.iter().copied().collect::<Vec<_>>().join(" "));
            for ((from, to), (file, line)) in &floor.arrows {
                if circle.contains(from.as_str()) && circle.contains(to.as_str()) {
                    println!("    {from} → {to}  {}:{line}", file.display());
                }
            }
        }
    }
}

/// What a name in a module stands for.
#[derive(Clone, Default)]
struct Scope {
    /// Names that `use` brings in, with the path they stand for. Everything of a module (`*`) is
    /// followed no further than to it.
    names: BTreeMap<String, Vec<String>>,
}

/// The modules of one crate by their place, and what their names stand for.
struct Crate<'a> {
    modules: BTreeMap<Place, &'a Module>,
    scopes: BTreeMap<Place, Scope>,
}

impl<'a> Crate<'a> {
    fn new(modules: Vec<&'a Module>) -> Crate<'a> {
        let modules: BTreeMap<Place, &Module> = modules
            .into_iter()
            .filter_map(|module| Some((place(&module.source.path)?, module)))
            .collect();
        let scopes =
            modules.iter().map(|(place, module)| (place.clone(), scope(&module.source))).collect();
        Crate { modules, scopes }
    }

    /// The folders of modules of this crate.
    fn floors(&self, package: &str) -> Vec<Floor> {
        let mut floors: BTreeMap<Place, Floor> = BTreeMap::new();
        for place in self.modules.keys() {
            for depth in 0..place.len() {
                let scope = place[..depth].to_vec();
                let floor = floors.entry(scope).or_insert_with_key(|scope| Floor {
                    package: package.to_owned(),
                    scope: scope.join("::"),
                    modules: BTreeSet::from(["mod".to_owned()]),
                    arrows: BTreeMap::new(),
                    files: BTreeMap::new(),
                });
                floor.modules.insert(place[depth].clone());
                if let (true, Some(module)) = (depth + 1 == place.len(), self.modules.get(place)) {
                    floor.files.insert(place[depth].clone(), module.source.path.clone());
                }
            }
        }
        for (place, module) in &self.modules {
            for (to, line) in self.named(place, &module.source) {
                // The arrow belongs to the folder in which both ways part.
                let common = place.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let Some(floor) = floors.get_mut(&place[..common]) {
                    let name =
                        |place: &Place| place.get(common).map_or("mod", String::as_str).to_owned();
                    let at = (module.source.path.clone(), line);
                    floor.arrows.entry((name(place), name(&to))).or_insert(at);
                }
            }
        }
        floors.into_values().collect()
    }

    /// The other modules that `source`, which lies at `place`, names, each with a line.
    fn named(&self, place: &Place, source: &Source) -> Vec<(Place, usize)> {
        let mut found: BTreeMap<Place, usize> = BTreeMap::new();
        let mut keep = |path: &[String], line: usize| {
            if source.is_test(line) {
                return;
            }
            let hands_on_only = |to: &Place| to == place;
            if let Some(to) = self.resolve(place, path, 0).filter(|to| !hands_on_only(to)) {
                found.entry(to).or_insert(line);
            }
        };
        for (path, line) in uses(source) {
            keep(&path, line);
        }
        for (path, line) in paths(source) {
            keep(&path, line);
        }
        found.into_iter().collect()
    }

    /// The module that defines what `path` names as seen from `place`, or nothing when it lies
    /// outside of the crate.
    fn resolve(&self, place: &Place, path: &[String], hops: usize) -> Option<Place> {
        if hops > MAX_HOPS {
            return None;
        }
        let (mut at, mut rest) = (place.clone(), path);
        match rest.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Place::new(), &rest[1..]),
            Some("self") => rest = &rest[1..],
            Some("super") => {
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            Some(first) if !self.knows(&at, first) => return None,
            _ => {}
        }
        while let Some(first) = rest.first() {
            let mut child = at.clone();
            child.push(first.clone());
            if self.modules.contains_key(&child) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            let scope = self.scopes.get(&at)?;
            if let Some(stands_for) = scope.names.get(first) {
                let mut path = stands_for.clone();
                path.extend(rest[1..].iter().cloned());
                // What stands for something outside of the crate is nobody's here.
                return self.resolve(&at, &path, hops + 1);
            }
            break;
        }
        self.modules.contains_key(&at).then_some(at)
    }

    fn knows(&self, at: &Place, name: &str) -> bool {
        let mut child = at.clone();
        child.push(name.to_owned());
        self.modules.contains_key(&child)
            || self.scopes.get(at).is_some_and(|scope| scope.names.contains_key(name))
    }
}

/// Where a file below `src` stands among the modules of its crate; nothing for a binary beside the
/// library.
fn place(path: &Path) -> Option<Place> {
    let mut parts: Vec<String> =
        path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let src = parts.iter().position(|part| part == "src")?;
    let mut place = parts.split_off(src + 1);
    let file = place.pop()?;
    match file.strip_suffix(".rs")? {
        "mod" => {}
        "lib" | "main" if place.is_empty() => {}
        stem => place.push(stem.to_owned()),
    }
    Some(place)
}

/// What the names of a file's own module stand for.
fn scope(source: &Source) -> Scope {
    let mut scope = Scope::default();
    for item in &source.syntax.items {
        if let syn::Item::Use(item) = item {
            let mut leaves = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut leaves);
            for (name, path) in leaves {
                if let Some(name) = name {
                    scope.names.insert(name, path);
                }
            }
        }
    }
    scope
}

/// The leaves of a tree of names: what each is called here (nothing for `*`), and its path.
fn flatten(
    tree: &syn::UseTree,
    before: &mut Vec<String>,
    leaves: &mut Vec<(Option<String>, Vec<String>)>,
) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, leaves))
        }
        syn::UseTree::Glob(_) => leaves.push((None, before.clone())),
        syn::UseTree::Name(name) if name.ident == "self" => {
            leaves.push((before.last().cloned(), before.clone()))
        }
        syn::UseTree::Name(name) => {
            let path = before.iter().cloned().chain([name.ident.to_string()]).collect();
            leaves.push((Some(name.ident.to_string()), path));
        }
        syn::UseTree::Rename(rename) => {
            let last = (rename.ident != "self").then(|| rename.ident.to_string());
            let path = before.iter().cloned().chain(last).collect();
            leaves.push((Some(rename.rename.to_string()), path));
        }
    }
}

/// The paths that the `use` items of a file name.
fn uses(source: &Source) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    for item in &source.syntax.items {
        if let syn::Item::Use(item) = item {
            let mut leaves = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut leaves);
            let line = item.use_token.span.start().line;
            found.extend(leaves.into_iter().map(|(_, path)| (path, line)));
        }
    }
    found
}

/// The paths of two words and more in a file, also those inside of macro calls.
fn paths(source: &Source) -> Vec<(Vec<String>, usize)> {
    let words = &source.words;
    let is_name = |at: usize| words.get(at).is_some_and(|word| word.kind == Kind::Name);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !is_name(at) {
            at += 1;
            continue;
        }
        let (line, mut path) = (words[at].line, vec![words[at].text.clone()]);
        while source.reads(at + 1, &[":", ":"]) && is_name(at + 3) {
            at += 3;
            path.push(words[at].text.clone());
        }
        if path.len() > 1 {
            found.push((path, line));
        }
        at += 1;
    }
    found
}
