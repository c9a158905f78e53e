//! The grammar as a table for the documentation.

use crate::args::Kind;
use crate::grammar::forms;

/// All commands and all kinds of arguments as two tables in Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| command | what it does |\n| --- | --- |\n");
    for form in forms() {
        text.push_str(&format!(
            "| `{}` | {} |\n",
            shown(form.pattern).replace('|', "\\|"),
            form.help
        ));
    }
    text.push_str("\n| argument | what it is |\n| --- | --- |\n");
    for kind in Kind::ALL {
        text.push_str(&format!("| `{}` | {} |\n", kind.name(), kind.what()));
    }
    text
}

/// A pattern without what only the parser needs: keys of arguments and second spellings.
fn shown(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut hidden = false;
    for c in pattern.chars() {
        hidden = match c {
            ':' | '/' => true,
            ' ' | '|' | ')' | ']' | '}' => false,
            _ => hidden,
        };
        if !hidden {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests;
