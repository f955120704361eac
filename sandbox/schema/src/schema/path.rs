//! The path of a value during a traversal.
//!
//! A linked list on the stack that costs nothing without errors: it is formatted only for an error.

/// A path in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    /// A declared property.
    Field(&'a Self, &'a str),
    /// A key of a map (`additionalProperties`).
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Path::Field(self, name)
    }

    pub(super) fn key(&'a self, name: &'a str) -> Self {
        Path::Key(self, name)
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Path::Index(self, index)
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self, Path::Root)
    }

    /// Formats the path as the schema validator does: `spec.labels.app[0]`. Keys of maps look like
    /// fields, and one at the root starts with a dot, as on the real server.
    pub(super) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    /// Formats the path as all other checks do: `spec.labels[app][0]`.
    pub(super) fn bracketed(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, true);
        text
    }

    fn write(&self, text: &mut String, brackets: bool) {
        match self {
            Path::Root => {}
            Path::Field(parent, name) => {
                parent.write(text, brackets);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Path::Key(parent, name) => {
                parent.write(text, brackets);
                if brackets {
                    text.push('[');
                    text.push_str(name);
                    text.push(']');
                } else {
                    text.push('.');
                    text.push_str(name);
                }
            }
            Path::Index(parent, index) => {
                parent.write(text, brackets);
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_a_dotted_and_a_bracketed_form() {
        let spec = Path::Root.field("spec");
        let map = spec.field("labels");
        let key = map.key("app");
        let item = key.index(3);
        assert_eq!(item.dotted(), "spec.labels.app[3]");
        assert_eq!(item.bracketed(), "spec.labels[app][3]");
        assert_eq!(Path::Root.key("a").dotted(), ".a");
        assert_eq!(Path::Root.dotted(), "");
    }
}
