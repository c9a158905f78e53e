use super::*;

#[test]
fn numbers_of_any_size_find_their_table() {
    let mut tables = Tables::new(3);
    tables.add(4_000_000_000).unwrap();
    tables.add(7).unwrap();
    assert_eq!(tables.find(4_000_000_000).unwrap(), Table(1));
    assert_eq!(tables.number(Table(2)), 7);
    assert!(matches!(tables.add(8), Err(CommandError::TooManyTables(3))));
    assert!(matches!(tables.add(7), Err(CommandError::TableExists(7))));
    tables.remove(4_000_000_000);
    tables.add(8).unwrap();
    assert_eq!(tables.find(8).unwrap(), Table(1));
    assert!(matches!(tables.find(9), Err(CommandError::NoTable(9))));
    tables.remove(0);
    assert!(tables.find(0).is_ok(), "table 0 is always there");
}
