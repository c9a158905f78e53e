//! Secrets in lines that are repeated: in an error, a log, a history.
//!
//! A line may be wrong in any way, so what is a secret is told by the word in front of it, also
//! when that is misspelled, and not by the grammar.

use std::ops::Range;

/// What stands for what is not shown.
pub(crate) const MASK: &str = "***";

/// Words that end a secret which somebody wrote without quotation marks.
const OTHERS: [&str; 7] = ["if", "table", "sessions", "listeners", "processes", "memory", "--json"];

/// Whether a line has a secret in it, or what may be one.
pub fn has_secret(line: &str) -> bool {
    !secrets(line).is_empty()
}

/// The line as it may be shown: without its secrets.
pub fn without_secrets(line: &str) -> String {
    masked(line, 0..0).0
}

/// Whether a part of the line is in a secret, or reaches into one.
pub(crate) fn is_secret(line: &str, at: &Range<usize>) -> bool {
    secrets(line).iter().any(|secret| at.start < secret.end && at.end > secret.start)
}

/// The line without its secrets, and where a part of the line is in that.
pub(crate) fn masked(line: &str, at: Range<usize>) -> (String, Range<usize>) {
    let (mut shown, mut done, mut place) = (String::with_capacity(line.len()), 0, at.clone());
    for secret in secrets(line) {
        shown.push_str(&line[done..secret.start]);
        let from = shown.len();
        shown.push_str(MASK);
        done = secret.end;
        if at.start >= secret.end {
            place = shift(&at, secret.end, shown.len());
        } else if at.end > secret.start {
            // The part is in the secret, or reaches into it.
            place = place.start.min(from)..shown.len();
            if at.end > secret.end {
                place.end = shown.len() + (at.end - secret.end);
            }
        }
    }
    shown.push_str(&line[done.min(line.len())..]);
    let end = place.end.min(shown.len());
    (shown, place.start.min(end)..end)
}

fn shift(at: &Range<usize>, from: usize, to: usize) -> Range<usize> {
    at.start - from + to..at.end - from + to
}

/// Where the secrets of a line are: from behind the word that announces one up to the next word
/// that is none of it.
fn secrets(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut words = words(line).into_iter().peekable();
    while let Some(word) = words.next() {
        let text = &line[word.clone()];
        // `secret=1234`
        let assigned = text
            .split_once(['=', ':'])
            .filter(|(name, value)| announces(name) && !value.is_empty());
        if let Some((name, _)) = assigned {
            found.push(word.start + name.len() + 1..word.end);
            continue;
        }
        // Two letters are a short form of it where namespaces are spoken of; elsewhere they are
        // `session`.
        let is_short = text.len() == 2
            && line.trim_start().starts_with(['a', 'A'])
            && "secret".starts_with(text);
        if !announces(text) && !is_short {
            continue;
        }
        let Some(first) = words.next() else { break };
        let mut secret = first;
        while let Some(next) = words.next_if(|next| !is_other(&line[next.clone()])) {
            secret.end = next.end;
        }
        found.push(secret);
    }
    found
}

/// The words of a line. Quotation marks hold words together, up to the end when the second one is
/// missing.
fn words(line: &str) -> Vec<Range<usize>> {
    let (mut words, mut begun, mut quote) = (Vec::new(), None, None);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => {
                quote = Some(c);
                begun = begun.or(Some(at));
            }
            (c, None) if c.is_whitespace() => words.extend(begun.take().map(|from| from..at)),
            _ => begun = begun.or(Some(at)),
        }
    }
    words.extend(begun.map(|from| from..line.len()));
    words
}

/// `secret`, a short form of it, or what was meant to be it.
fn announces(word: &str) -> bool {
    let word = word.trim_start_matches('-').to_lowercase();
    let is_short = word.len() > 2 && "secret".starts_with(&word);
    is_short || (word.chars().count() > 3 && strsim::osa_distance(&word, "secret") <= 2)
}

fn is_other(word: &str) -> bool {
    let word = word.to_lowercase();
    OTHERS
        .iter()
        .any(|other| word == *other || (other.len() > 4 && strsim::osa_distance(&word, other) <= 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        masked(line, 0..0).0
    }

    #[test]
    fn what_follows_the_word_secret_is_not_shown_however_that_is_written() {
        for word in [
            "secret", "se", "sec", "secert", "secrte", "SECRET", "sceret", "secrets", "--secret",
            "sekret",
        ] {
            let line = format!("app ns add id server {word} hunter2 if loop0");
            assert_eq!(shown(&line), format!("app ns add id server {word} *** if loop0"));
            assert!(has_secret(&line));
        }
        assert_eq!(
            shown("app ns add id a secret hunter 2 tabel 5"),
            "app ns add id a secret *** tabel 5"
        );
        assert_eq!(shown("app ns add secret \"hunter 2\" id a"), "app ns add secret ***");
        assert_eq!(shown("app ns add id a secret \"hunter 2"), "app ns add id a secret ***");
        assert_eq!(shown("app ns add id a secret=hunter2 if b"), "app ns add id a secret=*** if b");
        assert_eq!(shown("secret"), "secret");
        assert_eq!(shown("set interface state loop0 up"), "set interface state loop0 up");
        assert_eq!(shown("show session verbose"), "show session verbose");
        assert_eq!(shown("show se verbose"), "show se verbose");
    }

    #[test]
    fn the_marked_part_stays_marked() {
        let line = "app ns add id a secret hunter2 tabel 5";
        let mark = |word: &str| {
            let from = line.find(word).unwrap();
            let (shown, at) = masked(line, from..from + word.len());
            shown[at].to_owned()
        };
        assert_eq!(
            (mark("tabel"), mark("hunter2"), mark("add")),
            ("tabel".into(), "***".into(), "add".into())
        );
        assert_eq!(mark("5"), "5");
        let (text, at) = masked(line, line.len()..line.len());
        assert_eq!(&text[at.clone()], "");
        assert_eq!(at.end, text.len());
    }
}
