//! `cargo xtask tidy`: the rules of the project that the compiler does not check.
//!
//! Every rule names the remedy in its message. What is taste, such as the length of a function, is
//! only told.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::finding::Finding;
use crate::modules::{Module, files_below, modules, outside};

mod locks;
mod rust;
mod safety;
mod text;

/// What `tidy` has to say about a tree.
pub struct Report {
    /// What it refuses.
    pub findings: Vec<Finding>,
    /// How many files it looked at.
    pub files: usize,
    /// The longest functions outside of tests, longest first: length in lines, name, and where.
    pub longest_functions: Vec<(usize, String, PathBuf, usize)>,
    /// The longest Rust files, longest first: length in lines, and path.
    pub longest_files: Vec<(usize, PathBuf)>,
}

/// How many functions and files the report tells.
const TOLD: usize = 10;

/// Looks at every file of the workspace at `root`.
pub fn tidy(root: &Path) -> Result<Report> {
    let (modules, mut findings) = modules(root)?;
    // A file that could not be read as Rust was reached, and has been told.
    let stray = outside(root, &modules)?
        .into_iter()
        .filter(|stray| findings.iter().all(|known| known.file != stray.file));
    let stray: Vec<Finding> = stray.collect();
    findings.extend(stray);
    for module in &modules {
        rust::check(module, &mut findings);
        safety::check(module, &mut findings);
    }
    let mut files = 0;
    for file in files_below(root)? {
        files += usize::from(text::check(root, &file, &modules, &mut findings)?);
    }
    locks::check(root, &mut findings)?;
    findings.sort();
    findings.dedup();
    let (longest_functions, longest_files) = longest(&modules);
    Ok(Report { findings, files, longest_functions, longest_files })
}

impl Report {
    /// Prints the longest functions and files, so that growth is seen while it is small.
    pub fn tell(&self) {
        println!("The longest functions outside of tests:");
        for (length, name, path, line) in &self.longest_functions {
            println!("{length:>6} lines  {name}  {}:{line}", path.display());
        }
        println!("The longest Rust files:");
        for (length, path) in &self.longest_files {
            println!("{length:>6} lines  {}", path.display());
        }
    }
}

type Longest = (Vec<(usize, String, PathBuf, usize)>, Vec<(usize, PathBuf)>);

fn longest(modules: &[Module]) -> Longest {
    let mut functions = Vec::new();
    let mut files = Vec::new();
    for module in modules {
        let path = &module.source.path;
        files.push((module.source.text.lines().count(), path.clone()));
        for function in module.source.functions() {
            if !module.is_test(function.lines.start) {
                functions.push((
                    function.lines.len(),
                    function.name,
                    path.clone(),
                    function.lines.start,
                ));
            }
        }
    }
    functions.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2, a.3).cmp(&(&b.2, b.3))));
    functions.truncate(TOLD);
    files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    files.truncate(TOLD);
    (functions, files)
}
