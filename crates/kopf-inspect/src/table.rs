//! Tables of text with aligned columns, page by page.

use crate::paint::{Colours, Style, harmless};

/// The longest cell in characters; the last column is not limited.
const LIMIT: usize = 63;

/// A cell with its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: &str) -> Self {
        Self::styled(text, Style::Plain)
    }

    pub(crate) fn styled(text: &str, style: Style) -> Self {
        let text = harmless(text);
        Self { text, style }
    }

    fn width(&self) -> usize {
        self.text.chars().count().min(LIMIT)
    }
}

/// A table that is written page by page. Columns of later pages are at least as wide as those of
/// earlier ones.
#[derive(Debug)]
pub(crate) struct Table {
    header: Option<Vec<Cell>>,
    widths: Vec<usize>,
    colours: Colours,
}

impl Table {
    pub(crate) fn new(header: &[&str], colours: Colours) -> Self {
        let header: Vec<_> = header
            .iter()
            .map(|name| Cell::styled(name, Style::Strong))
            .collect();
        Self {
            widths: vec![0; header.len()],
            header: Some(header),
            colours,
        }
    }

    /// Renders a page; the first one with the header.
    pub(crate) fn page(&mut self, rows: Vec<Vec<Cell>>) -> Vec<String> {
        let rows: Vec<_> = self.header.take().into_iter().chain(rows).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[Cell]) -> String {
        let mut line = String::new();
        let mut gap = 0;
        for (cell, width) in row.iter().zip(&self.widths) {
            if cell.text.is_empty() {
                gap += width + 2;
                continue;
            }
            line.push_str(&" ".repeat(gap));
            line.push_str(&cell.style.paint(&cell.text, self.colours));
            gap = width.saturating_sub(cell.text.chars().count()) + 2;
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_over_pages() {
        let mut table = Table::new(&["NAME", "STATE", "X"], Colours::Off);
        let rows = |names: &[[&str; 3]]| {
            let rows = names
                .iter()
                .map(|row| row.iter().map(|text| Cell::new(text)).collect());
            rows.collect::<Vec<Vec<Cell>>>()
        };
        let first = table.page(rows(&[["first", "", "1"], ["x", "settled", ""]]));
        assert_eq!(
            first,
            ["NAME   STATE    X", "first           1", "x      settled"]
        );
        assert_eq!(table.page(rows(&[["y", "z", "2"]])), ["y      z        2"]);
        assert_eq!(table.page(Vec::new()), Vec::<String>::new());
    }
}
