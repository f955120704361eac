//! Negotiation of the form of a response by the `Accept` header.

use kopf_sandbox_schema::protobuf::PROTOBUF;

/// The form of an object or list in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The complete object.
    #[default]
    Whole,
    /// `PartialObjectMetadata` or `PartialObjectMetadataList`.
    Metadata,
    /// A `Table`.
    Table,
}

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    #[default]
    Json,
    Yaml,
    /// Protobuf, for built-in kinds only.
    Protobuf,
}

/// Version of `meta.k8s.io` in which tables and partial metadata are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion` of documents in this version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The negotiated form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    pub form: Form,
    pub encoding: Encoding,
    /// Used for tables and partial metadata only.
    pub meta: MetaVersion,
}

/// Returns the first supported form, in the client's order, or `None` (406).
///
/// The metadata form of a list differs from that of an object, and neither replaces the other.
pub(crate) fn negotiate(header: Option<&str>, of_a_list: bool) -> Option<Accepted> {
    first_of(header, of_a_list, json_or_yaml)
}

/// Negotiates for clients that accept neither JSON nor YAML. Tables have no protobuf form.
pub(crate) fn negotiate_protobuf(header: Option<&str>, of_a_list: bool) -> Option<Accepted> {
    first_of(header, of_a_list, protobuf).filter(|accepted| accepted.form != Form::Table)
}

/// Returns the form if the client prefers the metadata of objects in protobuf. A real server writes items
/// of such lists without their kind, on which Go's metadata client relies.
pub(crate) fn prefers_protobuf_metadata(header: Option<&str>, of_a_list: bool) -> Option<Accepted> {
    first_of(header, of_a_list, |media_type| {
        json_or_yaml(media_type).or_else(|| protobuf(media_type))
    })
    .filter(|it| it.encoding == Encoding::Protobuf && it.form == Form::Metadata)
}

fn json_or_yaml(media_type: &str) -> Option<Encoding> {
    match media_type {
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        _ => None,
    }
}

fn protobuf(media_type: &str) -> Option<Encoding> {
    (media_type == PROTOBUF).then_some(Encoding::Protobuf)
}

fn first_of(
    header: Option<&str>,
    of_a_list: bool,
    encoding: fn(&str) -> Option<Encoding>,
) -> Option<Accepted> {
    let header = header.map(str::trim).unwrap_or_default();
    if header.is_empty() {
        return Some(Accepted::default());
    }
    let mut ranges: Vec<(f32, &str)> = header
        .split(',')
        .map(|range| (quality(range), range))
        .collect();
    ranges.sort_by(|a, b| b.0.total_cmp(&a.0)); // a stable sort keeps the client's order among equals
    ranges.into_iter().find_map(|(_, range)| {
        let encoding = encoding(range.split(';').next()?.trim())?;
        one(range, of_a_list, encoding)
    })
}

fn quality(range: &str) -> f32 {
    parameters(range)
        .find_map(|(name, value)| (name == "q").then(|| value.parse().ok()).flatten())
        .unwrap_or(1.0)
}

fn parameters(range: &str) -> impl Iterator<Item = (&str, &str)> {
    range
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
}

fn one(range: &str, of_a_list: bool, encoding: Encoding) -> Option<Accepted> {
    let mut form = Form::Whole;
    let mut known_group = true;
    let mut meta = MetaVersion::V1;
    for (name, value) in parameters(range) {
        match name {
            "as" => {
                form = match value {
                    "Table" => Form::Table,
                    "PartialObjectMetadata" if !of_a_list => Form::Metadata,
                    "PartialObjectMetadataList" if of_a_list => Form::Metadata,
                    _ => return None,
                };
            }
            "g" => known_group = known_group && value == "meta.k8s.io",
            "v" => match value {
                "v1" => meta = MetaVersion::V1,
                "v1beta1" => meta = MetaVersion::V1Beta1,
                _ => known_group = false,
            },
            // `stream=watch` and `charset` have no effect.
            _ => {}
        }
    }
    if form == Form::Whole {
        meta = MetaVersion::V1;
    }
    (form == Form::Whole || known_group).then_some(Accepted {
        form,
        encoding,
        meta,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_their_preferred_form() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(Some(table), true).unwrap().form, Form::Table);
        let beta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let beta = negotiate(Some(beta), true).unwrap();
        assert_eq!((beta.form, beta.meta), (Form::Table, MetaVersion::V1Beta1));
        let alpha = "application/json;as=Table;v=v1alpha1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(Some(alpha), true).unwrap().form, Form::Whole);
        let go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(Some(go), true), Some(Accepted::default()));
        assert_eq!(
            negotiate(Some("application/yaml"), true).unwrap().encoding,
            Encoding::Yaml
        );
        assert_eq!(
            negotiate(Some("application/yaml;q=0.5, application/json"), true)
                .unwrap()
                .encoding,
            Encoding::Json
        );
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(
            negotiate(Some(metadata), false).unwrap().form,
            Form::Metadata
        );
        assert_eq!(negotiate(Some(metadata), true), None);
        assert_eq!(negotiate(None, true), Some(Accepted::default()));
    }

    #[test]
    fn protobuf_is_only_for_clients_without_json_and_yaml() {
        assert_eq!(negotiate(Some(PROTOBUF), true), None);
        let accepted = negotiate_protobuf(Some(PROTOBUF), true).unwrap();
        assert_eq!(accepted.encoding, Encoding::Protobuf);
        let table = format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io");
        assert_eq!(negotiate_protobuf(Some(&table), true), None);
        assert_eq!(negotiate_protobuf(Some("application/cbor"), true), None);
        let form = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let metadata = format!("{PROTOBUF};{form},application/json;{form},application/json");
        assert!(prefers_protobuf_metadata(Some(&metadata), true).is_some());
        let whole = format!("{PROTOBUF},application/json");
        assert_eq!(prefers_protobuf_metadata(Some(&whole), true), None);
    }
}
