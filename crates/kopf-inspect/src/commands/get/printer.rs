//! The output of rows: a table or JSON, page by page.

use super::row::{Columns, Row};
use crate::args::{GetArgs, Output};
use crate::cluster::Cluster;
use crate::paint::harmless_json;
use crate::screen::Screen;
use crate::table::Table;

/// Prints rows page by page.
pub(super) struct Printer<'a> {
    screen: &'a Screen,
    columns: Columns,
    table: Table,
    layout: Layout,
    count: usize,
}

/// The layout of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One list.
    List,
    /// One object per line: parsers cannot read an unterminated list.
    Lines,
}

impl<'a> Printer<'a> {
    pub(super) fn new(args: &GetArgs, screen: &'a Screen) -> Self {
        let columns = Columns {
            with_namespace: args.scope.all_namespaces,
            output: args.output,
        };
        Self {
            screen,
            columns,
            table: Table::new(&columns.names(), screen.colours()),
            layout: if args.watch {
                Layout::Lines
            } else {
                Layout::List
            },
            count: 0,
        }
    }

    pub(super) fn screen(&self) -> &'a Screen {
        self.screen
    }

    /// Prints a page of rows.
    pub(super) fn page(&mut self, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        if self.columns.output == Some(Output::Json) {
            self.json(rows);
            return;
        }
        let now = Cluster::now();
        self.count += rows.len();
        let columns = self.columns;
        let rows = rows.iter().map(|row| row.cells(columns, now)).collect();
        let lines = self.table.page(rows);
        self.screen.lines(&lines);
    }

    fn json(&mut self, rows: &[Row]) {
        let now = Cluster::now();
        let mut text = String::new();
        for row in rows {
            let (before, after) = match (self.layout, self.count) {
                (Layout::List, 0) => ("{\"items\": [\n", ""),
                (Layout::List, _) => (",\n", ""),
                (Layout::Lines, _) => ("", "\n"),
            };
            let value = harmless_json(&row.to_value(now).to_string());
            text.extend([before, &value, after]);
            self.count += 1;
        }
        self.screen.print(&text);
    }

    /// Ends the output of a list.
    pub(super) fn finish(&self, nothing: &str) {
        match (self.columns.output, self.count) {
            (Some(Output::Json), 0) => self.screen.print("{\"items\": []}\n"),
            (Some(Output::Json), _) => self.screen.print("\n]}\n"),
            (_, 0) => self.screen.warning(nothing),
            _ => {}
        }
    }
}
