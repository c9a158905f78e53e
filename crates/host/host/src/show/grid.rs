//! A table of text in columns.

/// Rows under a heading. Columns of numbers stand to the right.
pub(crate) struct Grid {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A heading; one that begins with `>` makes its column stand to the right.
    pub(crate) fn new(heads: &[&'static str]) -> Grid {
        Grid { heads: heads.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The whole table, or what to say when it is empty.
    pub(crate) fn text_or(&self, empty: &str) -> String {
        if self.rows.is_empty() { format!("{empty}\n") } else { self.text() }
    }

    pub(crate) fn text(&self) -> String {
        let heads: Vec<String> =
            self.heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).chain(heads.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        std::iter::once(&heads).chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), head) in row.iter().zip(widths).zip(&self.heads) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let cell = if head.starts_with('>') {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            };
            line.push_str(&cell);
        }
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests;
