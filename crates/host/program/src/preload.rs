//! The variable that names libraries which the loader puts into a program.

/// How it begins in an environment.
pub const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The libraries that a value of it names.
pub fn libraries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b':' | b' ')).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_and_blanks_part_libraries() {
        let named: Vec<&[u8]> = libraries(b"/a.so:/b.so  /c.so:").collect();
        assert_eq!(named, [&b"/a.so"[..], b"/b.so", b"/c.so"]);
        assert_eq!(libraries(b"").count(), 0);
    }
}
