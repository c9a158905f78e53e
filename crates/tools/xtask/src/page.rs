//! What a page of the book is made of: blocks of code, and commands in them and in the text.
//!
//! Also taken by the tests of `clearway` itself, which read the commands of the pages with the
//! parser of the command line (`crates/tools/cli/src/cli/pages.rs`).

/// A block of code, as it stands between two lines of three backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The line of the backticks that open it, counted from 1.
    pub line: usize,
    /// What stands behind them: a language and what is done with the block.
    pub tag: &'a str,
    /// Its lines.
    pub lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// The language and the words behind it, which commas or spaces separate.
    pub fn words(&self) -> Vec<&'a str> {
        self.tag.split([',', ' ']).filter(|word| !word.is_empty()).collect()
    }

    /// The language, or nothing where the block has no tag.
    pub fn language(&self) -> &'a str {
        self.words().first().copied().unwrap_or("")
    }

    /// The commands of a block for a shell, each with its line: those of a `console` stand behind
    /// the prompt that it begins with, and what ends with a backslash goes on in the next line.
    pub fn commands(&self) -> Vec<(usize, String)> {
        let is_console = self.language() == "console";
        let mut commands: Vec<(usize, String)> = Vec::new();
        let mut goes_on = false;
        // What is said may begin with the other one, as remarks and heads do.
        let is_roots = self.lines.first().is_some_and(|line| line.starts_with("# "));
        let prompt = if is_roots { "# " } else { "$ " };
        for (index, line) in self.lines.iter().enumerate() {
            let text = match (is_console, line.strip_prefix(prompt)) {
                (true, None) if !goes_on => continue,
                (true, Some(rest)) if !goes_on => rest,
                _ => line,
            };
            match commands.last_mut().filter(|_| goes_on) {
                Some((_, command)) => command.push_str(text),
                None => commands.push((self.line + 1 + index, text.to_owned())),
            }
            goes_on = text.ends_with('\\');
            if let Some((_, command)) = commands.last_mut().filter(|_| goes_on) {
                command.pop();
            }
        }
        commands
    }
}

/// The blocks of a page. A block that nobody closes ends with the page.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in text.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(tag)) => {
                open = Some(Block { line: index + 1, tag: tag.trim(), lines: Vec::new() });
            }
            (None, None) => {}
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.lines.push(line);
                open = Some(block);
            }
        }
    }
    blocks.extend(open);
    blocks
}

/// The lines outside of blocks, each with its number.
pub fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let outside = text.lines().enumerate().filter(|(_, line)| {
        let is_fence = line.starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    });
    outside.map(|(index, line)| (index + 1, line)).collect()
}

/// The simple commands of a line of a shell, each as its words: what `&&`, `||`, `;`, `|` and `&`
/// separate, without comments, redirections and variables that are set before. What a shell would
/// work out (`$(…)`, `$NAME`) stays as it is written.
pub fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    let mut depth = 0_usize;
    while let Some(c) = chars.next() {
        let is_between = word.is_none();
        match c {
            '#' if is_between && depth == 0 => break,
            '\'' | '"' => {
                let text = word.get_or_insert_default();
                while let Some(inner) = chars.next() {
                    match inner {
                        inner if inner == c => break,
                        '\\' if c == '"' => text.extend(chars.next()),
                        inner => text.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '$' if chars.peek() == Some(&'(') => {
                depth += 1;
                chars.next();
                word.get_or_insert_default().push_str("$(");
            }
            ')' if depth > 0 => {
                depth -= 1;
                word.get_or_insert_default().push(')');
            }
            c if depth > 0 => word.get_or_insert_default().push(c),
            ' ' | '\t' => take(&mut all, &mut word),
            '&' if chars.peek() == Some(&'>') || word.as_deref().is_some_and(is_redirection) => {
                word.get_or_insert_default().push('&');
            }
            ';' | '|' | '&' | '(' | ')' => {
                take(&mut all, &mut word);
                all.push(Vec::new());
            }
            '>' | '<' if word.as_deref().is_some_and(|text| !is_descriptor(text)) => {
                take(&mut all, &mut word);
                word = Some(c.to_string());
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    take(&mut all, &mut word);
    all.into_iter().map(without_shell).filter(|words| !words.is_empty()).collect()
}

fn take(all: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(command), Some(word)) = (all.last_mut(), word.take()) {
        command.push(word);
    }
}

fn is_descriptor(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '>' || c == '<' || c == '&')
}

fn is_redirection(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['>', '<'])
}

/// Words of the shell's language that stand before a command.
const KEYWORDS: [&str; 10] = ["if", "then", "else", "while", "until", "do", "done", "fi", "!", "{"];

/// The words without redirections, keywords, and variables that are set before.
fn without_shell(words: Vec<String>) -> Vec<String> {
    let mut left = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if is_redirection(&word) {
            // The file is a word of its own, unless it stands at the sign.
            if word.ends_with(['>', '<']) {
                words.next();
            }
            continue;
        }
        let is_variable = word
            .split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        if left.is_empty() && (is_variable || KEYWORDS.contains(&word.as_str())) {
            continue;
        }
        left.push(word);
    }
    left
}

/// What stands between single backticks in a line.
pub fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
