//! The book as mdBook builds it: whether each of its links leads to a page, a file or a place in a
//! page that is there.
//!
//! Links of the pages themselves are followed by the tests of `clearway-proto`; what only a built
//! book shows is which pages it holds and which places mdBook gives them. mdBook takes minutes to be
//! compiled and a second to build the book, so it is asked where it is installed (`make book` does
//! that), and nobody waits for it elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::finding::Finding;

/// What a look at the book found.
#[derive(Debug)]
pub enum Built {
    /// So many links were followed, with what is wrong.
    Checked(usize, Vec<Finding>),
    /// mdBook is not installed.
    Absent,
}

/// Builds the book of the tree at `root` with mdBook, where that is installed, and follows its links.
///
/// # Errors
/// When mdBook is there and does not build the book.
pub fn built(root: &Path) -> Result<Built> {
    let mut asked = Command::new("mdbook");
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if !asked.status().is_ok_and(|status| status.success()) {
        return Ok(Built::Absent);
    }
    // Beside the one that people read, whose links out of it `make book` changes.
    let folder = root.join("target/book-links");
    let output = Command::new("mdbook")
        .arg("build")
        .arg("--dest-dir")
        .arg(&folder)
        .current_dir(root)
        .output()
        .context("cannot start mdbook")?;
    if !output.status.success() {
        bail!("mdbook does not build the book: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let (followed, findings) = links(root, &folder)?;
    Ok(Built::Checked(followed, findings))
}

/// Follows the links of the HTML pages below `folder`, which mdBook made of `root`'s docs/: how many
/// there were, and those that lead nowhere.
///
/// # Errors
/// When a page cannot be read.
pub fn links(root: &Path, folder: &Path) -> Result<(usize, Vec<Finding>)> {
    let mut pages = BTreeMap::new();
    read_pages(folder, Path::new(""), &mut pages)?;
    let ids: BTreeMap<&Path, BTreeSet<&str>> = pages
        .iter()
        .map(|(page, text)| (page.as_path(), values(text, " id=\"").map(|(_, id)| id).collect()))
        .collect();
    let (mut followed, mut findings) = (0, Vec::new());
    for (page, text) in &pages {
        // A page of all pages, and one for paths that are not there, say nothing of their own.
        if [Path::new("print.html"), Path::new("404.html"), Path::new("toc.html")]
            .contains(&&**page)
        {
            continue;
        }
        for (line, link) in values(text, " href=\"").chain(values(text, " src=\"")) {
            if link.contains(':') || link.starts_with("//") || link.is_empty() {
                continue;
            }
            followed += 1;
            if let Some(why) = dead(root, folder, &ids, page, link) {
                findings.push(Finding::new(source(page), line, format!("the book: {link}: {why}")));
            }
        }
    }
    if pages.is_empty() {
        bail!("the book has no pages in {}", folder.display());
    }
    Ok((followed, findings))
}

fn read_pages(root: &Path, below: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let folder = root.join(below);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let name = entry?.file_name();
        let (relative, path) = (below.join(&name), folder.join(&name));
        if path.is_dir() {
            read_pages(root, &relative, pages)?;
        } else if relative.extension().is_some_and(|ending| ending == "html") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            pages.insert(relative, text);
        }
    }
    Ok(())
}

/// The values of an attribute, each with the line of the built page that it is in.
fn values<'a>(text: &'a str, begin: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    let in_line = move |line: &'a str| {
        line.split(begin).skip(1).map(|rest| rest.split('"').next().unwrap_or_default())
    };
    text.lines().enumerate().flat_map(move |(at, line)| in_line(line).map(move |v| (at + 1, v)))
}

/// What the page was made of.
fn source(page: &Path) -> PathBuf {
    Path::new("target/book-links").join(page)
}

fn dead(
    root: &Path,
    folder: &Path,
    ids: &BTreeMap<&Path, BTreeSet<&str>>,
    page: &Path,
    link: &str,
) -> Option<String> {
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let target = match path {
        "" => page.to_path_buf(),
        path => joined(page.parent().unwrap_or(Path::new("")), path),
    };
    if let Some(of_page) = ids.get(target.as_path()) {
        let is_there = place.is_empty() || of_page.contains(place);
        return (!is_there).then(|| format!("{} has no place #{place}", target.display()));
    }
    if folder.join(&target).exists() && !target.starts_with("..") {
        return None;
    }
    // What lies outside of docs/ is no page: the link leads to the file, and `.md` became `.html`.
    let in_tree = joined(Path::new("docs"), &target.to_string_lossy());
    let as_written = root.join(in_tree.with_extension("md"));
    let is_there = root.join(&in_tree).exists()
        || in_tree.extension().is_some_and(|ending| ending == "html") && as_written.exists();
    (!is_there).then(|| "there is neither such a page nor such a file".to_owned())
}

/// A relative path from a folder, with what `..` takes away.
fn joined(from: &Path, path: &str) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in from.components().chain(Path::new(path).components()) {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                parts.pop();
            }
            (part, _) => parts.push(part),
        }
    }
    parts.iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("cwbook-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn links_lead_to_pages_places_and_files_of_the_tree() {
        let page = "<h1 id=\"top\">x</h1>\n<a href=\"b.html#here\">b</a> <a href=\"#top\">t</a>\n\
                    <a href=\"../crates/x\">x</a><a href=\"../README.html\">r</a>\n\
                    <a href=\"https://example.org/\">e</a><img src=\"p.svg\">\n";
        let below = "<a class=\"x\" href=\"../a.html#top\">a</a><b id=\"here\"></b>";
        let root = folder(
            "good",
            &[
                ("book/a.html", page),
                ("book/b.html", "<p id=\"here\"></p>"),
                ("book/d/c.html", below),
                ("book/p.svg", ""),
                ("crates/x", ""),
                ("README.md", ""),
            ],
        );
        let (followed, findings) = links(&root, &root.join("book")).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((followed, findings), (6, vec![]));
    }

    #[test]
    fn links_that_lead_nowhere_are_told_with_their_lines() {
        let page = "<p>\n<a href=\"b.html#there\">b</a>\n<a href=\"c.html\">c</a>\n\
                    <a href=\"#nowhere\">n</a>\n<a href=\"../crates/x\">x</a>\n";
        let root = folder("bad", &[("book/a.html", page), ("book/b.html", "<p id=\"here\">")]);
        let (_, findings) = links(&root, &root.join("book")).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let said: Vec<_> = findings.iter().map(|one| (one.line, one.message.as_str())).collect();
        assert_eq!(
            said,
            [
                (2, "the book: b.html#there: b.html has no place #there"),
                (3, "the book: c.html: there is neither such a page nor such a file"),
                (4, "the book: #nowhere: a.html has no place #nowhere"),
                (5, "the book: ../crates/x: there is neither such a page nor such a file"),
            ]
        );
    }
}
