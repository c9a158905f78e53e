//! Routing tables by the numbers that people give them. The stacks count theirs from 0 without
//! gaps.

use clearway_proto::Table;

use crate::outcome::CommandError;

/// Which number each table of the stacks has; None for one that is free.
pub(crate) struct Tables {
    slots: Vec<Option<u32>>,
}

impl Tables {
    /// Room for `count`; table 0 is there.
    pub(crate) fn new(count: u16) -> Tables {
        let mut slots = vec![None; usize::from(count.max(1))];
        slots[0] = Some(0);
        Tables { slots }
    }

    /// The stacks' table of that number.
    pub(crate) fn find(&self, number: u32) -> Result<Table, CommandError> {
        let at = self.slots.iter().position(|slot| *slot == Some(number));
        at.map(|at| Table(at as u16)).ok_or(CommandError::NoTable(number))
    }

    /// The number of a table of the stacks.
    pub(crate) fn number(&self, table: Table) -> u32 {
        self.slots.get(usize::from(table.0)).copied().flatten().unwrap_or(u32::from(table.0))
    }

    /// Every table: its number and the stacks' own.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Table)> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(at, number)| Some(((*number)?, Table(at as u16))))
    }

    pub(crate) fn add(&mut self, number: u32) -> Result<(), CommandError> {
        if self.find(number).is_ok() {
            return Err(CommandError::TableExists(number));
        }
        let full = CommandError::TooManyTables(self.slots.len());
        *self.slots.iter_mut().find(|slot| slot.is_none()).ok_or(full)? = Some(number);
        Ok(())
    }

    pub(crate) fn remove(&mut self, number: u32) {
        for slot in self.slots.iter_mut().skip(1).filter(|slot| **slot == Some(number)) {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests;
