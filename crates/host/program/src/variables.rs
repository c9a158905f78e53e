//! Variables of an environment that say how a program is started.

/// How the variable begins that names libraries which the loader puts into a program.
pub const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The variable that names the program which `clearway-trap` maps.
pub const TRAPPED_VARIABLE: &str = "CLEARWAY_TRAP_PROGRAM";

/// The variable that says that programs are to be trapped which a program executes that has the
/// library in it: the file of `clearway-trap`.
pub const CARRIER_VARIABLE: &str = "CLEARWAY_TRAP";

/// The libraries that a value of [`PRELOAD`] names.
pub fn libraries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b':' | b' ')).filter(|name| !name.is_empty())
}

/// What a line of an environment says, when it is of this variable.
pub fn value_of<'a>(line: &'a [u8], variable: &str) -> Option<&'a [u8]> {
    line.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")
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

    #[test]
    fn a_line_is_of_the_variable_whose_whole_name_it_has() {
        assert_eq!(value_of(b"A=b=c", "A"), Some(&b"b=c"[..]));
        assert_eq!(value_of(b"AB=c", "A"), None);
        assert_eq!(value_of(b"A", "A"), None);
    }
}
