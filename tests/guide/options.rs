//! Compares the options of a program with the tables of docs/reference. Included by the tests of programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The pages with the tables, each with sections such as `## kopf run`.
const PAGES: [&str; 2] = ["command-line.md", "tools.md"];

/// Checks the commands that the help of a program lists, and those inside of them.
pub(crate) fn check(program: &Path, root: &Path) {
    let mut text = String::new();
    for page in PAGES {
        text += &fs::read_to_string(root.join("docs/reference").join(page)).unwrap();
    }
    let commands = commands(&help(program, &[]));
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let inner = self::commands(&help(program, &[&command]));
        compare(program, &[&command], &text);
        for inner in inner {
            compare(program, &[&command, &inner], &text);
        }
    }
}

fn compare(program: &Path, command: &[&str], text: &str) {
    let title = format!("\n## kopf {}\n", command.join(" "));
    let (_, section) = text
        .split_once(&title)
        .unwrap_or_else(|| panic!("no section {title:?}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let documented: BTreeSet<_> = rows
        .filter_map(|row| row.split_once(" | "))
        .filter(|(_, meaning)| !meaning.starts_with("Python only"))
        .flat_map(|(cell, _)| options(cell))
        .collect();
    let help = help(program, command);
    let lines = help.lines().map(str::trim_start);
    let existing: BTreeSet<_> = lines
        .filter(|line| line.starts_with('-'))
        .flat_map(|line| options(line.split("  ").next().unwrap()))
        .filter(|option| option != "--help" && option != "--version")
        .collect();
    assert_eq!(documented, existing, "{command:?}");
}

fn help(program: &Path, command: &[&str]) -> String {
    let output = Command::new(program)
        .args(command)
        .arg("--help")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names in the list of commands of a help.
fn commands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns the long options in a text.
fn options(text: &str) -> Vec<String> {
    text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_owned)
        .collect()
}
