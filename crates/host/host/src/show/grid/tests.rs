use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let mut grid = Grid::new(&["Name", ">Count", "What"]);
    grid.row(["a".into(), "1".into(), "x".into()]);
    grid.row(["longer".into(), "1000000".into(), String::new()]);
    assert_eq!(grid.text(), "Name      Count  What\na             1  x\nlonger  1000000\n");
}

#[test]
fn an_empty_table_says_so() {
    assert_eq!(Grid::new(&["Name"]).text_or("None."), "None.\n");
}
