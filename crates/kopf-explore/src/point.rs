//! Points of a run at which something can go wrong, named by content and not by time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::journal::{Journal, Request};
use crate::mask::NamePatterns;
use crate::object::{ObjectKey, is_housekeeping};

/// A request of the operator, without its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site {
    /// The verb, as in RBAC rules.
    pub verb: String,
    /// The object, with a pattern as its name if that has a random part.
    pub object: ObjectKey,
    /// The subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

impl Site {
    /// Returns the site of a request.
    pub fn of(request: &Request, names: &NamePatterns) -> Self {
        Self {
            verb: request.verb.clone(),
            object: names.pattern(&request.key, None),
            subresource: request.subresource.clone(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.verb, self.object)?;
        match &self.subresource {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// The n-th request of one kind in one step of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The step, from 1; 0 before the first one.
    pub step: usize,
    /// The request.
    pub site: Site,
    /// Its occurrence in the step, from 1.
    pub occurrence: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} {} ", ordinal(self.occurrence), self.site)?;
        match self.step {
            0 => f.write_str("before the first step"),
            step => write!(f, "in step {step}"),
        }
    }
}

fn ordinal(number: usize) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

/// Counts requests, to find the point of each.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    seen: BTreeMap<(usize, Site), usize>,
}

impl Counter {
    /// Returns the point of the next request.
    pub fn next(&mut self, step: usize, site: Site) -> Point {
        let seen = self.seen.entry((step, site.clone())).or_default();
        *seen += 1;
        Point {
            step,
            site,
            occurrence: *seen,
        }
    }
}

/// Returns the points of the requests of the operator in a reference run, in order, without
/// watches, events and leases.
pub fn points(journal: &Journal, names: &NamePatterns) -> Vec<Point> {
    let mut counter = Counter::default();
    journal
        .operator_requests()
        .filter(|(_, request)| !is_housekeeping(&request.key.resource) && request.verb != "watch")
        .filter(|(_, request)| !request.is_dry)
        .map(|(step, request)| counter.next(step, Site::of(request, names)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_count_equal_requests_of_a_step() {
        let site = Site {
            verb: "update".to_owned(),
            object: ObjectKey::new("apps", "statefulsets", Some("default"), "db"),
            subresource: None,
        };
        let mut counter = Counter::default();
        counter.next(1, site.clone());
        let point = counter.next(1, site.clone());
        assert_eq!(
            point.to_string(),
            "the 2nd update of statefulsets.apps/db in step 1"
        );
        assert_eq!(counter.next(2, site).occurrence, 1);
    }

    #[test]
    fn ordinals_are_english() {
        let texts = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal);
        assert_eq!(
            texts,
            [
                "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"
            ]
        );
    }
}
