//! The Rust files of a workspace: which of them the compiler reaches, and whether for tests only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::Package;

use crate::finding::Finding;
use crate::packages::{folder, packages, plain, short};
use crate::source::{Kind, Source, attributes, only_for_tests};

/// A Rust file that the compiler reaches.
pub struct Module {
    /// The file.
    pub source: Source,
    /// The crate that it belongs to, by its short name.
    pub package: String,
    /// Whether it belongs to the library or the binary of its crate; else it is an example, a test,
    /// a bench or a build script.
    pub in_src: bool,
    /// Whether the whole file is compiled for tests and benches only.
    pub test: bool,
}

impl Module {
    /// Whether the line is compiled for tests and benches only.
    pub fn is_test(&self, line: usize) -> bool {
        self.test || self.source.is_test(line)
    }
}

/// Every Rust file that a package of the workspace at `root` reaches, and the files that could not
/// be read as Rust.
pub fn modules(root: &Path) -> Result<(Vec<Module>, Vec<Finding>)> {
    let mut walk = Walk { root: plain(root), found: BTreeMap::new(), findings: Vec::new() };
    for package in packages(root)? {
        walk.package(&package)?;
    }
    Ok((walk.found.into_values().collect(), walk.findings))
}

/// The Rust files below `src/` of some package that are in no module tree.
pub fn outside(root: &Path, modules: &[Module]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in packages(root)? {
        let src = folder(root, &package).join("src");
        for file in files_below(&root.join(&src))? {
            let file = file.strip_prefix(root).unwrap_or(&file).to_path_buf();
            let is_rust = file.extension().is_some_and(|extension| extension == "rs");
            if is_rust && !modules.iter().any(|module| module.source.path == file) {
                let message = "no `mod` reaches this file, so it is never compiled: declare it in \
                    its parent module, or remove it";
                findings.push(Finding::new(file, 1, message));
            }
        }
    }
    Ok(findings)
}

/// The files below a folder, in order. Folders that builds and tools make are left out.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    const LEFT_OUT: &[&str] = &["target", "artifacts", "node_modules"];
    const HIDDEN_BUT_OURS: &[&str] = &[".ci", ".cargo", ".github"];
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            let hidden = name.starts_with('.') && !HIDDEN_BUT_OURS.contains(&name.as_str());
            if kind.is_dir() && !hidden && !LEFT_OUT.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A walk along `mod` declarations.
struct Walk {
    root: PathBuf,
    found: BTreeMap<PathBuf, Module>,
    findings: Vec<Finding>,
}

/// What a file is reached as.
#[derive(Clone, Copy)]
struct As<'a> {
    package: &'a str,
    in_src: bool,
    test: bool,
}

impl Walk {
    fn package(&mut self, package: &Package) -> Result<()> {
        for target in &package.targets {
            let file = plain(target.src_path.as_std_path());
            let test = target.is_test() || target.is_bench();
            let in_src = !test && !target.is_example() && !target.is_custom_build();
            let beside = file.parent().unwrap_or(&self.root).to_path_buf();
            self.file(&file, &beside, As { package: short(&package.name), in_src, test })?;
        }
        Ok(())
    }

    /// Takes in `file`, whose modules lie in the folder `children`, and everything that it
    /// declares.
    fn file(&mut self, file: &Path, children: &Path, reached: As<'_>) -> Result<()> {
        let path = file.strip_prefix(&self.root).unwrap_or(file).to_path_buf();
        if let Some(known) = self.found.get_mut(&path) {
            // Reached twice: what is compiled outside of tests on one way is not for tests only.
            // The same holds below it.
            if known.test && !reached.test {
                known.test = false;
            } else {
                return Ok(());
            }
        } else {
            // A declared file that is not there is the compiler's to complain about.
            let Ok(text) = fs::read_to_string(file) else { return Ok(()) };
            match Source::parse(&path, text) {
                Ok(source) => {
                    let As { package, in_src, test } = reached;
                    self.found.insert(
                        path.clone(),
                        Module { source, package: package.to_owned(), in_src, test },
                    );
                }
                Err((line, error)) => {
                    self.findings.push(Finding::new(
                        &path,
                        line,
                        format!("this file cannot be parsed as Rust: {error}"),
                    ));
                    return Ok(());
                }
            }
        }
        let mut declared = Vec::new();
        let source = &self.found[&path].source;
        let beside = file.parent().unwrap_or(&self.root);
        declarations(&source.syntax.items, children, beside, reached.test, &mut declared);
        declared.extend(included(source, beside, reached.test));
        for (file, test) in declared {
            let children = match file.file_name() {
                Some(name) if name == "mod.rs" => file.parent().unwrap_or(&self.root).to_path_buf(),
                _ => file.with_extension(""),
            };
            self.file(&file, &children, As { test, ..reached })?;
        }
        Ok(())
    }
}

/// Collects the files that `mod NAME;` declarations name, with whether they are for tests only.
///
/// `children` is the folder of modules without a path of their own; `beside` is the folder that
/// `#[path]` counts from.
fn declarations(
    items: &[syn::Item],
    children: &Path,
    beside: &Path,
    test: bool,
    found: &mut Vec<(PathBuf, bool)>,
) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let test = test || attributes(item).iter().any(only_for_tests);
        let name = module.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        if let Some((_, items)) = &module.content {
            declarations(items, &children.join(name), &children.join(name), test, found);
            continue;
        }
        let file = match path_attribute(module) {
            Some(path) => beside.join(path),
            None => {
                let file = children.join(name).with_extension("rs");
                if file.is_file() { file } else { children.join(name).join("mod.rs") }
            }
        };
        found.push((plain(&file), test));
    }
}

fn path_attribute(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The files that `include!("…")` takes in.
fn included(source: &Source, beside: &Path, test: bool) -> Vec<(PathBuf, bool)> {
    let calls =
        (0..source.words.len()).filter(|&index| source.reads(index, &["include", "!", "("]));
    let named = calls.filter_map(|index| {
        let word = source.words.get(index + 3).filter(|word| word.kind == Kind::Literal)?;
        Some((plain(&beside.join(word.text.trim_matches('"'))), test || source.is_test(word.line)))
    });
    named.collect()
}
