//! The templates of projects. Placeholders have the form `@NAME@`.

use super::Language;

/// Paths and contents.
type Templates = &'static [(&'static str, &'static str)];

macro_rules! templates {
    ($folder:literal: $($path:literal from $file:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/", $folder, "/", $file)))),*]
    };
}

/// Returns the templates of a language.
pub(super) fn of(language: Language) -> Templates {
    match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
    }
}

const RUST: Templates = templates!("rust":
    ".dockerignore" from "dockerignore",
    ".github/workflows/ci.yaml" from "ci.yaml",
    ".gitignore" from "gitignore",
    "Cargo.toml" from "Cargo.toml.template",
    "Dockerfile" from "Dockerfile",
    "README.md" from "README.md",
    "deploy/operator.yaml" from "operator.yaml",
    "deploy/example.yaml" from "example.yaml",
    "src/lib.rs" from "lib.rs.template",
    "src/main.rs" from "main.rs.template",
    "tests/greetings.rs" from "greetings.rs.template",
);

const PYTHON: Templates = templates!("python":
    ".dockerignore" from "dockerignore",
    ".github/workflows/ci.yaml" from "ci.yaml",
    ".gitignore" from "gitignore",
    "Dockerfile" from "Dockerfile",
    "README.md" from "README.md",
    "deploy/operator.yaml" from "operator.yaml",
    "deploy/example.yaml" from "example.yaml",
    "handlers.py" from "handlers.py.template",
    "pyproject.toml" from "pyproject.toml",
    "requirements.txt" from "requirements.txt",
    "tests/test_handlers.py" from "test_handlers.py.template",
);
