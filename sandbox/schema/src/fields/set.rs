//! Sets of paths, as tries.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Element;

/// Maximum depth of parsed sets: all operations recurse.
const MAX_DEPTH: usize = 250;

/// A set of paths. The node itself represents the path that leads to it.
///
/// Children are never empty: a set without members has no nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub member: bool,
    children: BTreeMap<Element, Self>,
}

impl FieldSet {
    /// Returns the set of only the node itself.
    pub(crate) fn leaf() -> Self {
        Self {
            member: true,
            children: BTreeMap::new(),
        }
    }

    /// Returns the set with a single path of fields.
    pub fn of_path(path: &[&str]) -> Self {
        match path.split_first() {
            None => Self::leaf(),
            Some((first, rest)) => {
                let mut set = Self::default();
                set.attach(Element::field(first), Self::of_path(rest));
                set
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub fn child(&self, element: &Element) -> Option<&Self> {
        self.children.get(element)
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.children.iter()
    }

    pub(crate) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Adds a set below an element, unless it is empty.
    pub fn attach(&mut self, element: Element, set: Self) {
        if set.is_empty() {
            return;
        }
        match self.children.get_mut(&element) {
            Some(present) => *present = std::mem::take(present).union(&set),
            None => {
                self.children.insert(element, set);
            }
        }
    }

    /// Returns the paths that are in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(ours) => *ours = std::mem::take(ours).union(theirs),
                None => {
                    self.children.insert(element.clone(), theirs.clone());
                }
            }
        }
        self
    }

    /// Returns the paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self {
            member: self.member && other.member,
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                both.attach(element.clone(), ours.intersection(theirs));
            }
        }
        both
    }

    /// Returns the paths of this set that are not in the other one. Paths below those of the other
    /// set stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Self {
            member: self.member && !other.member,
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            match other.children.get(element) {
                Some(theirs) => left.attach(element.clone(), ours.difference(theirs)),
                None => left.attach(element.clone(), ours.clone()),
            }
        }
        left
    }

    /// Returns the paths of this set that are neither in the other one nor below its paths.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.member {
            return Self::default();
        }
        let mut left = Self {
            member: self.member,
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            match other.children.get(element) {
                Some(theirs) => left.attach(element.clone(), ours.recursive_difference(theirs)),
                None => left.attach(element.clone(), ours.clone()),
            }
        }
        left
    }

    /// Returns all paths in the notation of error messages: those of one level before deeper ones.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths("", &mut paths);
        paths
    }

    fn add_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, child) in &self.children {
            if child.member {
                paths.push(format!("{prefix}{element}"));
            }
        }
        for (element, child) in &self.children {
            if child.has_children() {
                child.add_paths(&format!("{prefix}{element}"), paths);
            }
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.member && self.has_children() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            fields.insert(element.as_str().to_owned(), child.to_json());
        }
        Value::Object(fields)
    }

    /// Decodes `fieldsV1`. `None` if it is malformed.
    pub fn from_json(fields: &Value) -> Option<Self> {
        let mut set = Self::decode(fields, 0)?;
        // An empty object at the root is the empty set, below it a member.
        set.member = fields.get(".").is_some();
        Some(set)
    }

    fn decode(fields: &Value, depth: usize) -> Option<Self> {
        let fields = fields.as_object()?;
        if depth > MAX_DEPTH {
            return None;
        }
        let mut set = Self {
            member: fields.is_empty(),
            children: BTreeMap::new(),
        };
        for (key, below) in fields {
            if key == "." {
                set.member = true;
            } else {
                set.attach(Element::parse(key)?, Self::decode(below, depth + 1)?);
            }
        }
        Some(set)
    }
}
