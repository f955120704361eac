//! Server-side tables as text, in kubectl's format.

use serde_json::Value;

/// Returns the lines of a `Table`: a header and one line per row. Columns of wide output are
/// omitted.
pub(crate) fn render(table: &Value) -> Vec<String> {
    let array = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let columns = array(table, "columnDefinitions");
    let shown: Vec<bool> = columns
        .iter()
        .map(|column| {
            column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default()
                == 0
        })
        .collect();
    let only_shown = |cells: Vec<String>| -> Vec<String> {
        cells
            .into_iter()
            .zip(&shown)
            .filter(|(_, shown)| **shown)
            .map(|(cell, _)| cell)
            .collect()
    };
    let header = columns
        .iter()
        .map(|column| cell(column.get("name")).to_uppercase())
        .collect();
    let mut lines = vec![only_shown(header)];
    for row in array(table, "rows") {
        lines.push(only_shown(
            array(&row, "cells")
                .iter()
                .map(|value| cell(Some(value)))
                .collect(),
        ));
    }
    align(&lines)
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn align(lines: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    lines
        .iter()
        .map(|line| {
            let cells = line.iter().enumerate().map(|(column, cell)| {
                let width = width(column).unwrap_or_default();
                format!("{cell:width$}")
            });
            cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_wide_ones_omitted() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Size"}, {"name": "Node", "priority": 1},
            ],
            "rows": [{"cells": ["first", 5, "n"]}, {"cells": ["x", null, "n"]}],
        });
        assert_eq!(render(&table), ["NAME    SIZE", "first   5", "x"]);
    }

    #[test]
    fn invalid_tables_do_not_panic() {
        assert_eq!(render(&json!("text")), [""]);
        assert_eq!(render(&json!({"rows": [{"cells": [1]}, 5]})), ["", "", ""]);
    }
}
