//! Where in an object a walk stands.
//!
//! A chain on the stack that costs nothing while everything is fine: it becomes text only when
//! there is an error to report.

/// A place in an object.
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

    /// The form of the schema validator: `spec.labels.app[0]`. Keys of maps look like fields, and
    /// one at the root starts with a dot, as on the real server.
    pub(super) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    /// The form of all other checks: `spec.labels[app][0]`.
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
    fn both_forms() {
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
