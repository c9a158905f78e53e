use super::*;

#[test]
fn the_commands_are_described_without_contradiction() {
    Cli::command().debug_assert();
}
