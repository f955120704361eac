//! Validation of the volumes of a pod.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::text;
use crate::field_error::FieldError;
use crate::object::names;

/// Checks the volumes of a pod. Returns their names.
pub(super) fn check<'a>(
    volumes: &'a [Value],
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
            continue;
        }
        for problem in names::label(name) {
            let at = format!("{path}.name");
            errors.push(FieldError::invalid(at, &json!(name), &problem));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
        }
        let sources = volume.as_object().into_iter().flatten();
        let sources: Vec<&String> = sources
            .filter(|(field, value)| *field != "name" && !value.is_null())
            .map(|(field, _)| field)
            .collect();
        match sources.as_slice() {
            [] => errors.push(FieldError::required(path, "must specify a volume type")),
            [_] => {}
            [_, second, ..] => {
                let at = format!("{path}.{second}");
                let why = "may not specify more than 1 volume type";
                errors.push(FieldError::forbidden(at, why));
            }
        }
    }
    seen
}
