//! Validation of CRDs, with the messages and the order of the real server.

use serde_json::Value;

use super::conditions::is_established;
use super::folding::{Part, openapi, schema, versions};
use super::{
    approval, columns, conversion, internal, names, openapi as schema_rules, scale, selectable,
};
use crate::field_error::{FieldError, FieldErrorKind};
use crate::object::names::{label_problem, subdomain_problem};
use crate::schema as schemas;
use crate::schema::{Items, Source, Structural};

/// Validates a new CRD. Requires that its defaults and status are set.
pub fn validate(crd: &Value) -> Vec<FieldError> {
    if let Some(error) = heavy_patterns(crd) {
        return vec![error];
    }
    let mut errors = Vec::new();
    let text = |pointer: &str| {
        crd.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let name = text("/metadata/name");
    if name != format!("{}.{}", text("/spec/names/plural"), text("/spec/group")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
    }
    everything_else(crd, None, &mut errors);
    errors
}

/// Returns the error of a CRD whose patterns would take seconds to compile.
fn heavy_patterns(crd: &Value) -> Option<FieldError> {
    let is_heavy = schemas::has_heavy_patterns(versions(crd).iter().filter_map(schema));
    let detail = "the patterns of the schemas are too large to be compiled";
    is_heavy.then(|| FieldError::forbidden("spec.versions", detail))
}

/// Validates the update of a CRD. The status is that of the old one, except for a new stored
/// version.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    if let Some(error) = heavy_patterns(crd) {
        return vec![error];
    }
    let mut errors = Vec::new();
    everything_else(crd, Some(old), &mut errors);
    errors
}

/// Returns the values of the `Warning` headers of a create or an update.
pub fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unrecognized_formats).unwrap_or_default();
    let new = unrecognized_formats(crd)
        .into_iter()
        .filter(|format| !known.contains(format));
    let warnings: Vec<String> = new
        .map(|format| format!("unrecognized format {format:?}"))
        .collect();
    warnings
}

fn unrecognized_formats(crd: &Value) -> Vec<String> {
    let versions = versions(crd);
    // Parts that are equal in all versions are validated once.
    let count = if Part::Schema.is_common(versions) {
        1
    } else {
        versions.len()
    };
    let mut formats = Vec::new();
    for schema in versions.iter().take(count).filter_map(schema) {
        Source::new(schema).any(&mut |part: Source<'_>| {
            let format = part.text("format");
            if !format.is_empty() && !schemas::knows_format(part.text("type"), format) {
                formats.push(format.to_owned());
            }
            false
        });
    }
    formats
}

/// Validates a write to the status. Other fields of the status are not validated.
pub fn validate_status(crd: &Value) -> Vec<FieldError> {
    crd.pointer("/status/acceptedNames")
        .map(|accepted| names::validate(accepted, "status.acceptedNames"))
        .unwrap_or_default()
}

fn everything_else(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = Value::Null;
    let spec = crd.get("spec").unwrap_or(&empty);
    identity(spec, errors);
    versions_rules(crd, errors);
    names_rules(spec, errors);
    common_parts(crd, errors);
    if let Some(value) = spec.get("conversion").filter(|value| !value.is_null()) {
        errors.extend(conversion::validate(value));
    }
    if let Some(old) = old {
        immutable(crd, old, errors);
    }
    if let Some(accepted) = crd.pointer("/status/acceptedNames") {
        errors.extend(names::validate(accepted, "status.acceptedNames"));
    }
    stored_versions(crd, errors);
    errors.extend(approval::validate(crd, old));
    if spec.get("preserveUnknownFields") == Some(&true.into()) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            detail,
        ));
    }
}

fn identity(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = spec
        .get("group")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(problem) = subdomain_problem(group) {
        errors.push(FieldError::invalid("spec.group", &group.into(), &problem));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &group.into(), detail));
    }
    match spec
        .get("scope")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            &other.into(),
            &["Cluster", "Namespaced"],
        )),
    }
}

fn versions_rules(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions = versions(crd);
    for (index, version) in versions.iter().enumerate() {
        if schema(version).is_none() {
            let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(at, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version_name(version);
        if let Some(problem) = label_problem(name) {
            let at = format!("{path}.name");
            errors.push(FieldError::invalid(at, &name.into(), &problem));
        }
        deprecation(version, &path, errors);
        for part in [
            Part::Schema,
            Part::Subresources,
            Part::Columns,
            Part::SelectableFields,
        ] {
            if let Some(value) = part.of(version).filter(|_| !part.is_common(versions)) {
                let at = format!("{path}.{}", part.key());
                part_rules(part, value, version, &at, errors);
            }
        }
    }
    version_set_rules(crd, versions, errors);
}

fn version_name(version: &Value) -> &str {
    let name = version.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Validates the versions as a whole.
fn version_set_rules(crd: &Value, versions: &[Value], errors: &mut Vec<FieldError>) {
    let mut whole = |detail: &str| {
        let message = format!("Invalid value: {}: {detail}", internal::versions_text(crd));
        errors.push(FieldError::new(
            FieldErrorKind::Invalid,
            "spec.versions",
            message,
        ));
    };
    let is_repeated = |(index, version): (usize, &Value)| {
        versions
            .iter()
            .take(index)
            .any(|earlier| version_name(earlier) == version_name(version))
    };
    if versions.iter().enumerate().any(is_repeated) {
        whole("must contain unique version names");
    }
    let is_storage = |version: &&Value| version.get("storage") == Some(&true.into());
    if versions.iter().filter(is_storage).count() != 1 {
        whole("must have exactly one version marked as storage version");
    }
    // The internal form repeats the first name.
    let first = versions.first().map_or("", version_name);
    if let Some(problem) = label_problem(first).filter(|_| !first.is_empty()) {
        errors.push(FieldError::invalid("spec.version", &first.into(), &problem));
    }
}

fn deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut invalid = |detail: &str| {
        let at = format!("{path}.deprecationWarning");
        errors.push(FieldError::invalid(at, &warning.into(), detail));
    };
    if version.get("deprecated") != Some(&true.into()) {
        invalid("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        invalid(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

fn names_rules(spec: &Value, errors: &mut Vec<FieldError>) {
    let empty = Value::Null;
    let names = spec.get("names").unwrap_or(&empty);
    for key in ["plural", "singular", "kind", "listKind"] {
        if names
            .get(key)
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    errors.extend(names::validate(names, "spec.names"));
}

/// Validates the parts that are equal in all versions.
fn common_parts(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions = versions(crd);
    for part in [
        Part::Schema,
        Part::Subresources,
        Part::Columns,
        Part::SelectableFields,
    ] {
        let Some(version) = versions.first().filter(|_| part.is_common(versions)) else {
            continue;
        };
        if let Some(value) = part.of(version) {
            part_rules(part, value, version, part.common_path(), errors);
        }
    }
}

fn part_rules(
    part: Part,
    value: &Value,
    version: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    match part {
        Part::Schema => {
            let has_status = Part::Subresources
                .of(version)
                .and_then(|subresources| subresources.get("status"))
                .is_some_and(|status| !status.is_null());
            if let Some(schema) = openapi(value) {
                schema_part(Source::new(schema), has_status, path, errors);
            }
        }
        Part::Subresources => errors.extend(scale::validate(value, path)),
        Part::Columns => errors.extend(columns::validate(value, path)),
        Part::SelectableFields => {
            if let Some(schema) = schema(version) {
                errors.extend(selectable::validate(value, Source::new(schema), path));
            }
        }
    }
}

/// Keywords allowed at the root of a schema with the status subresource, whose schema is derived
/// from it: others would be lost there.
const ALLOWED_AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
    ),
    ("XValidations", "x-kubernetes-validations"),
];

fn schema_part(schema: Source<'_>, has_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    let at = format!("{path}.openAPIV3Schema");
    if has_status {
        root_beside_status(schema, &at, errors);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{at}.nullable"), detail));
    }
    let unsupported = unsupported(schema);
    if unsupported.is_none() {
        let violations = schemas::structural(schema, &at);
        if violations.is_empty() {
            errors.extend(schemas::defaults(schema, &at));
        } else {
            errors.extend(violations);
        }
    }
    errors.extend(schema_rules::validate(schema, &at));
    if errors.len() > before {
        return;
    }
    if let Some(detail) = unsupported {
        errors.push(FieldError::invalid(at, &"".into(), &detail));
    } else if let Err(problems) = Structural::compile(schema.json()) {
        // Valid schemas compile. This prevents storing one that does not.
        errors.extend(problems.into_iter().map(|problem| FieldError {
            field: format!("{at}.{}", problem.field),
            ..problem
        }));
    }
}

fn root_beside_status(schema: Source<'_>, at: &str, errors: &mut Vec<FieldError>) {
    let type_name = schema.text("type");
    if !type_name.is_empty() && type_name != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                      subresource is enabled";
        errors.push(FieldError::invalid(
            format!("{at}.type"),
            &type_name.into(),
            detail,
        ));
    } else if !schema
        .set_keys()
        .all(|key| ALLOWED_AT_ROOT.iter().any(|(_, known)| *known == key))
    {
        let names: Vec<&str> = ALLOWED_AT_ROOT.iter().map(|(name, _)| *name).collect();
        let message = format!(
            "Invalid value: {}: only [{}] fields are allowed at the root of the schema if the status \
             subresource is enabled",
            internal::schema_text(schema),
            names.join(" ")
        );
        errors.push(FieldError::new(FieldErrorKind::Invalid, at, message));
    }
}

/// Returns the error of a schema that cannot be parsed as a structural one.
fn unsupported(schema: Source<'_>) -> Option<String> {
    let mut found = None;
    schema.any(&mut |part: Source<'_>| {
        let key = [
            "id",
            "$schema",
            "$ref",
            "patternProperties",
            "dependencies",
            "definitions",
        ]
        .into_iter()
        .find(|key| part.set_keys().any(|set| set == *key))
        .or_else(|| part.value("additionalItems").map(|_| "additionalItems"));
        found = if let Some(key) = key {
            let name = if key == "$schema" { "schema" } else { key };
            Some(format!("OpenAPIV3Schema '{name}' is not supported"))
        } else if matches!(part.items(), Items::Many([_, ..])) {
            Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned())
        } else if part.value("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let detail = "'x-kubernetes-preserve-unknown-fields' must be true or undefined";
            Some(format!("internal error: {detail}"))
        } else {
            None
        };
        found.is_some()
    });
    found
}

/// Rejects changes of immutable fields: the parts of the name, and the storage once objects may
/// exist.
fn immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut fields = Vec::new();
    if is_established(old) {
        fields.extend(["/spec/scope", "/spec/names/kind"]);
    }
    fields.extend(["/spec/group", "/spec/names/plural"]);
    for pointer in fields {
        let value = crd.pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old.pointer(pointer) {
            let at = pointer.trim_start_matches('/').replace('/', ".");
            errors.push(FieldError::invalid(at, value, "field is immutable"));
        }
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "status.storedVersions";
    let stored = crd
        .pointer("/status/storedVersions")
        .and_then(Value::as_array);
    let stored = stored.map_or(&[][..], Vec::as_slice);
    if stored.is_empty() {
        errors.push(FieldError::invalid(
            PATH,
            &Value::Null,
            "must have at least one stored version",
        ));
        return;
    }
    let mut missing: Vec<(usize, &str)> = stored
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some((index, name.as_str()?)))
        .collect();
    for version in versions(crd) {
        let name = version
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_stored = missing.iter().any(|(_, stored)| *stored == name);
        if !is_stored && version.get("storage") == Some(&true.into()) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(PATH, &stored.to_vec().into(), &detail));
        }
        missing.retain(|(_, stored)| *stored != name);
    }
    for (index, name) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in \
             spec.versions until a storage migration ensures no data remains persisted in {name} and \
             removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(
            format!("{PATH}[{index}]"),
            &name.into(),
            &detail,
        ));
    }
}
