//! Negotiation of the form of discovery by the `Accept` header.

/// The form of the responses of `/api` and `/apis`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One document of `apidiscovery.k8s.io/v2`.
    Aggregated,
    Legacy,
}

impl Form {
    /// Returns the first accepted form that is supported, or `None` (406). As on a real server,
    /// `v2beta1` is not supported; neither is protobuf.
    pub(crate) fn negotiate(accept: Option<&str>) -> Option<Self> {
        let accept = accept.unwrap_or_default();
        if accept.trim().is_empty() {
            return Some(Self::Legacy);
        }
        let mut wanted: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
        // The sort is stable: equal qualities keep the order of the header.
        wanted.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        wanted
            .iter()
            .filter(|clause| clause.quality > 0.0)
            .find_map(Clause::form)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Aggregated => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Self::Legacy => "application/json",
        }
    }
}

struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self {
            media_type: parts.next().unwrap_or_default(),
            quality: 1.0,
            group: "",
            version: "",
            kind: "",
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                "g" => clause.group = value,
                "v" => clause.version = value,
                "as" => clause.kind = value,
                _ => {}
            }
        }
        clause
    }

    fn form(&self) -> Option<Form> {
        if !matches!(
            self.media_type,
            "application/json" | "application/*" | "*/*"
        ) {
            return None;
        }
        match (self.group, self.version, self.kind) {
            ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Some(Form::Aggregated),
            ("", "", "") => Some(Form::Legacy),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_supported_form_is_selected() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let cases = [
            (None, Some(Form::Legacy)),
            (Some(""), Some(Form::Legacy)),
            (Some("*/*"), Some(Form::Legacy)),
            (Some("application/json, */*"), Some(Form::Legacy)),
            (Some(v2), Some(Form::Aggregated)),
            (Some(beta), None),
            (Some("text/plain"), None),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (
                Some("application/vnd.kubernetes.protobuf, application/json"),
                Some(Form::Legacy),
            ),
            (Some("application/json;q=0"), None),
        ];
        for (accept, expected) in cases {
            assert_eq!(Form::negotiate(accept), expected, "{accept:?}");
        }
        let kubectl = format!("{v2},{beta},application/json");
        assert_eq!(Form::negotiate(Some(&kubectl)), Some(Form::Aggregated));
        let old = format!("{beta},application/json");
        assert_eq!(Form::negotiate(Some(&old)), Some(Form::Legacy));
        assert_eq!(Form::Aggregated.content_type(), v2);
    }
}
