//! Groups of the Kubernetes project: CRDs in them require an approval annotation.

use serde_json::Value;

use crate::field_error::FieldError;

const KEY: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The value of the approval annotation.
#[derive(PartialEq, Eq)]
enum Note<'a> {
    Missing,
    Unapproved(&'a str),
    Approved(&'a str),
    Malformed(&'a str),
}

impl<'a> Note<'a> {
    fn of(crd: &'a Value) -> Self {
        let annotations = crd.pointer("/metadata/annotations");
        let note = annotations
            .and_then(|all| all.get(KEY))
            .and_then(Value::as_str);
        let note = note.unwrap_or_default();
        let is_url = note.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
        });
        if note.is_empty() {
            Self::Missing
        } else if note.starts_with("unapproved") {
            Self::Unapproved(note)
        } else if is_url {
            Self::Approved(note)
        } else {
            Self::Malformed(note)
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Missing => {
                format!("protected groups must have approval annotation {KEY:?}, {SEE}")
            }
            Self::Unapproved(note) => format!("not approved: {note:?}"),
            Self::Approved(note) => format!("approved in {note}"),
            Self::Malformed(_) => format!(
                "protected groups must have approval annotation {KEY:?} with either a URL or a \
                 reason starting with \"unapproved\", {SEE}"
            ),
        }
    }
}

fn is_protected(crd: &Value) -> bool {
    let group = crd
        .pointer("/spec/group")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let within = |domain: &str| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    within("k8s.io") || within("kubernetes.io")
}

/// Validates the approval annotation. One that was accepted before is not validated again.
pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let note = Note::of(crd);
    if !is_protected(crd) || old.is_some_and(|old| Note::of(old) == note) {
        return None;
    }
    let at = format!("metadata.annotations[{KEY}]");
    match note {
        Note::Missing => Some(FieldError::required(at, &note.reason())),
        Note::Malformed(text) => Some(FieldError::invalid(at, &text.into(), &note.reason())),
        Note::Unapproved(_) | Note::Approved(_) => None,
    }
}

/// Returns status, reason and message of the condition for the annotation.
pub(super) fn condition(crd: &Value) -> Option<(bool, &'static str, String)> {
    if !is_protected(crd) {
        return None;
    }
    let note = Note::of(crd);
    let (status, reason) = match note {
        Note::Missing => (false, "MissingAnnotation"),
        Note::Unapproved(_) => (false, "UnapprovedAnnotation"),
        Note::Approved(_) => (true, "ApprovedAnnotation"),
        Note::Malformed(_) => (false, "InvalidAnnotation"),
    };
    Some((status, reason, note.reason()))
}
