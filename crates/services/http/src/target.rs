//! From a request target to a path below the root, or to the words of a query. Nothing that leaves
//! the root comes out.

/// Why a target names nothing that could be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadTarget;

/// The path and the query of a target in origin form (`/path?query`) or absolute form
/// (`http://host/path?query`, RFC 9112 3.2.2).
pub fn split(target: &[u8]) -> Result<(&[u8], &[u8]), BadTarget> {
    let rest = if target.first() == Some(&b'/') {
        target
    } else {
        after_authority(target).ok_or(BadTarget)?
    };
    if rest.contains(&b'#') {
        // RFC 9112 3.2: a fragment is never sent.
        return Err(BadTarget);
    }
    Ok(match rest.iter().position(|&b| b == b'?') {
        Some(mark) => (&rest[..mark], &rest[mark + 1..]),
        None => (rest, &[]),
    })
}

fn after_authority(target: &[u8]) -> Option<&[u8]> {
    let scheme_len = [&b"http://"[..], b"https://"].into_iter().find_map(|s| {
        let head = target.get(..s.len())?;
        head.eq_ignore_ascii_case(s).then_some(s.len())
    })?;
    let rest = &target[scheme_len..];
    match rest.iter().position(|&b| b == b'/' || b == b'?') {
        Some(at) if at > 0 && rest[at] == b'/' => Some(&rest[at..]),
        // `http://host` and `http://host?query` mean the root; the query is of no use there.
        Some(0) => None,
        _ if rest.is_empty() => None,
        _ => Some(b"/"),
    }
}

/// The relative path that an URL path stands for: percent-decoded, without leading or doubled
/// slashes; empty for the root itself. `..` is refused wherever it stands and however it is
/// written, and so is a NUL (RFC 3986 2.1, 7.3).
pub fn relative_path(path: &[u8]) -> Result<Vec<u8>, BadTarget> {
    let decoded = percent_decode(path)?;
    let mut out = Vec::with_capacity(decoded.len());
    for part in decoded.split(|&b| b == b'/') {
        match part {
            b"" | b"." => continue,
            b".." => return Err(BadTarget),
            _ if part.contains(&0) => return Err(BadTarget),
            _ => {
                if !out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(part);
            }
        }
    }
    Ok(out)
}

fn percent_decode(text: &[u8]) -> Result<Vec<u8>, BadTarget> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'%' {
            let high = hex(bytes.next())?;
            let low = hex(bytes.next())?;
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    Ok(out)
}

fn hex(digit: Option<&u8>) -> Result<u8, BadTarget> {
    let digit = *digit.ok_or(BadTarget)?;
    (digit as char).to_digit(16).map(|d| d as u8).ok_or(BadTarget)
}

/// The number that `name=` has in a query, if it is there and a number.
pub fn query_number(query: &[u8], name: &str) -> Option<u64> {
    let pair = query
        .split(|&b| b == b'&')
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    core::str::from_utf8(pair).ok()?.parse().ok()
}

/// What a `Range` field asks of something `len` bytes long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The whole: no range, one that is not understood, or several (RFC 9110 14.2 lets a server
    /// ignore them).
    All,
    /// Bytes from the first up to, not including, the second.
    Part(u64, u64),
    /// A range that lies outside (416).
    Outside,
}

/// Reads `Range: bytes=…` (RFC 9110 14.1.2).
pub fn range(value: &[u8], len: u64) -> Wanted {
    let Some(set) = core::str::from_utf8(value).ok().and_then(|v| v.strip_prefix("bytes=")) else {
        return Wanted::All;
    };
    let Some((first, last)) = set.trim().split_once('-') else { return Wanted::All };
    let number = |text: &str| -> Option<u64> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // A number too large for 64 bits is beyond the end of anything.
        Some(text.parse().unwrap_or(u64::MAX))
    };
    match (first.is_empty(), number(first), last.is_empty(), number(last)) {
        (true, _, _, Some(0)) => Wanted::Outside,
        (true, _, _, Some(_)) if len == 0 => Wanted::Outside,
        (true, _, _, Some(suffix)) => Wanted::Part(len.saturating_sub(suffix), len),
        (false, Some(from), true, _) if from < len => Wanted::Part(from, len),
        (false, Some(from), false, Some(to)) if from <= to && from < len => {
            Wanted::Part(from, to.saturating_add(1).min(len))
        }
        (false, Some(from), false, Some(to)) if from > to => Wanted::All,
        (false, Some(_), true, _) | (false, Some(_), false, Some(_)) => Wanted::Outside,
        _ => Wanted::All,
    }
}

#[cfg(test)]
mod tests;
