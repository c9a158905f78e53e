//! Messages as people write them on a command line.

/// The bytes that a text means: `\r`, `\n`, `\t`, `\0`, `\\` and `\xNN` stand for one byte each,
/// everything else for itself.
///
/// ```
/// assert_eq!(clearway_bench::text::unescape(r"GET / HTTP/1.1\r\n\r\n").unwrap(), b"GET / HTTP/1.1\r\n\r\n");
/// ```
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digit = |byte: Option<&u8>| byte.and_then(|&b| char::from(b).to_digit(16));
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err(r"`\x` wants two hexadecimal digits, such as \x0a".into()),
                }
            }
            _ => {
                return Err(r"a backslash stands before r, n, t, 0,
                    x or another backslash: write \\ for itself"
                    .into());
            }
        });
    }
    Ok(bytes)
}

/// Whether a message asks for something by HTTP.
pub fn is_http_request(message: &[u8]) -> bool {
    const METHODS: [&[u8]; 6] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS "];
    METHODS.iter().any(|method| message.starts_with(method))
}

/// Whether a message answers by HTTP.
pub fn is_http_answer(message: &[u8]) -> bool {
    message.starts_with(b"HTTP/")
}

/// `len` bytes for those who do not care what they say.
pub fn filler(len: usize) -> Vec<u8> {
    b"Clearway: the road on which nothing may stop. ".iter().copied().cycle().take(len).collect()
}

#[cfg(test)]
mod tests;
