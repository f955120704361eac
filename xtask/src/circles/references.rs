//! The references of one source file to modules of its crate, found in its tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::path::Path;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

/// A name in the root of the crate that is used in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) line: usize,
}

/// One source file.
#[derive(Debug)]
pub(super) struct Source {
    /// The module path of the file within its crate; empty for the root.
    path: Vec<String>,
    references: Vec<Reference>,
    test_modules: Vec<String>,
    exports: BTreeMap<String, String>,
}

type Tokens = Peekable<token_stream::IntoIter>;

impl Source {
    /// Parses a file. The path is relative to the `src` folder.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
        let mut module: Vec<String> = path
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if matches!(
            module.last().map(String::as_str),
            Some("mod" | "lib" | "main")
        ) {
            module.pop();
        }
        let mut source = Self {
            path: module.clone(),
            references: Vec::new(),
            test_modules: Vec::new(),
            exports: BTreeMap::new(),
        };
        source.walk(tokens, &module);
        Ok(source)
    }

    /// Returns the top-level module of the file; `None` for the root of the crate.
    pub(super) fn module(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    /// Returns the first two modules of the path of the file, if it has two.
    pub(super) fn room(&self) -> Option<(&str, &str)> {
        let [folder, room, ..] = self.path.as_slice() else {
            return None;
        };
        Some((folder, room))
    }

    pub(super) fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Returns the names that the root re-exports, with their top-level modules.
    pub(super) fn exports(&self) -> BTreeMap<String, String> {
        self.exports.clone()
    }

    /// Returns the paths of the modules under `#[cfg(test)]` that are in files of their own.
    pub(super) fn test_modules(&self) -> impl Iterator<Item = &str> {
        self.test_modules.iter().map(String::as_str)
    }

    /// Returns `true` if the file is a test module or within one.
    pub(super) fn is_test(&self, tests: &BTreeSet<&str>) -> bool {
        (1..=self.path.len()).any(|length| {
            let path = self.path.get(..length).unwrap_or_default();
            tests.contains(path.join("::").as_str())
        })
    }

    fn walk(&mut self, tokens: TokenStream, module: &[String]) {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_test = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let attribute = tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
                    if let Some(TokenTree::Group(attribute)) = attribute {
                        is_test |= is_cfg_test(&attribute);
                    }
                }
                _ if is_test => {
                    is_test = false;
                    self.skip_item(token, &mut tokens, module);
                }
                TokenTree::Ident(word) if word == "mod" => self.walk_module(&mut tokens, module),
                TokenTree::Ident(word) if word == "crate" => {
                    self.follow(&mut tokens, &[]);
                }
                TokenTree::Ident(word) if word == "super" => {
                    let parent = module.get(..module.len().saturating_sub(1));
                    self.follow(&mut tokens, parent.unwrap_or_default());
                }
                TokenTree::Ident(word) if word == "self" && module.is_empty() => {
                    self.export(&mut tokens);
                }
                TokenTree::Group(group) => self.walk(group.stream(), module),
                _ => {}
            }
        }
    }

    /// Skips an item under `#[cfg(test)]`, and notes the module if it is one.
    fn skip_item(&mut self, first: TokenTree, tokens: &mut Tokens, module: &[String]) {
        let mut token = Some(first);
        let mut is_module = false;
        let mut name = None;
        while let Some(current) = token {
            match current {
                TokenTree::Ident(word) if word == "mod" => is_module = true,
                TokenTree::Ident(word) if is_module => {
                    name.get_or_insert(word.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    if let Some(name) = name {
                        let path: Vec<_> = module.iter().cloned().chain([name]).collect();
                        self.test_modules.push(path.join("::"));
                    }
                    return;
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    // The braces of `use a::{b};` are followed by a semicolon.
                    let is_over = !matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ';');
                    if is_over {
                        return;
                    }
                }
                _ => {}
            }
            token = tokens.next();
        }
    }

    fn walk_module(&mut self, tokens: &mut Tokens, module: &[String]) {
        let Some(TokenTree::Ident(name)) = tokens.next() else {
            return;
        };
        if let Some(TokenTree::Group(body)) = tokens.peek() {
            let path: Vec<_> = module.iter().cloned().chain([name.to_string()]).collect();
            let body = body.stream();
            tokens.next();
            self.walk(body, &path);
        }
    }

    /// Follows a path that begins in a module, until a name in the root of the crate is known.
    fn follow(&mut self, tokens: &mut Tokens, base: &[String]) {
        let mut base = base;
        while skip_colons(tokens) {
            match tokens.peek() {
                Some(TokenTree::Ident(word)) if *word == "super" => {
                    base = base.get(..base.len().saturating_sub(1)).unwrap_or_default();
                    tokens.next();
                }
                Some(TokenTree::Ident(word)) => {
                    let line = word.span().start().line;
                    self.refer(base, word.to_string(), line);
                    tokens.next();
                    return;
                }
                Some(TokenTree::Group(group)) => {
                    self.follow_group(group.stream(), base);
                    tokens.next();
                    return;
                }
                _ => return,
            }
        }
    }

    /// Follows each path of a group: `{a, b::c, super::d}`.
    fn follow_group(&mut self, group: TokenStream, base: &[String]) {
        let mut tokens = group.into_iter().peekable();
        let mut is_start = true;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ',' => is_start = true,
                TokenTree::Ident(word) if is_start => {
                    is_start = false;
                    if word == "super" {
                        let parent = base.get(..base.len().saturating_sub(1));
                        self.follow(&mut tokens, parent.unwrap_or_default());
                    } else {
                        self.refer(base, word.to_string(), word.span().start().line);
                    }
                }
                _ => is_start = false,
            }
        }
    }

    fn refer(&mut self, base: &[String], name: String, line: usize) {
        // Below the root, the first part of the path is the file's own module or known already.
        if base.is_empty() {
            self.references.push(Reference { name, line });
        }
    }

    /// Notes the names of `self::module::Name` or `self::module::{Name, …}` in the root.
    fn export(&mut self, tokens: &mut Tokens) {
        if !skip_colons(tokens) {
            return;
        }
        let Some(TokenTree::Ident(module)) = tokens.next() else {
            return;
        };
        if !skip_colons(tokens) {
            return;
        }
        let names: Vec<String> = match tokens.next() {
            Some(TokenTree::Ident(name)) => vec![name.to_string()],
            Some(TokenTree::Group(group)) => group
                .stream()
                .into_iter()
                .filter_map(|token| match token {
                    TokenTree::Ident(name) => Some(name.to_string()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let module = module.to_string();
        let names = names.into_iter().map(|name| (name, module.clone()));
        self.exports.extend(names);
    }
}

fn skip_colons(tokens: &mut Tokens) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    tokens.next_if(is_colon).is_some() && tokens.next_if(is_colon).is_some()
}

fn is_cfg_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string();
    let text: String = text.split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}
