//! Listing: all objects of a resource, page by page.
//!
//! A page is split into its objects without decoding them. Every object is copied when it is taken
//! from the page, so that one that is queued for long does not keep the whole page in memory.

use std::borrow::Cow;
use std::vec;

use bytes::Bytes;
use kopf_core::body::ManagedFields;
use kopf_core::resource::Resource;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::error::Error;
use crate::item::{Item, Kind};
use crate::request::Call;

/// A complete listing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The objects.
    pub items: Vec<Item>,
    /// The version to watch from; empty if the server sends none.
    pub resource_version: String,
}

/// Lists all objects of a resource in a namespace, or in the whole cluster.
///
/// If the version expires during a paged listing, it is restarted once without pages.
pub async fn list(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    page_size: u32,
) -> Result<Listing, Error> {
    let path = resource.url(namespace, None, None)?;
    let mut size = page_size;
    loop {
        let mut items = Vec::new();
        let mut next = String::new();
        let expired = loop {
            let response = match client.ask(Call::get(page(&path, size, &next))).await {
                Err(error) if error.is_gone() && size > 0 => break true,
                response => response?,
            };
            let mut page = Page::parse(&response)?;
            while let Some(item) = page.next_item(ManagedFields::Drop) {
                items.push(item?);
            }
            if page.next.is_empty() {
                return Ok(Listing {
                    items,
                    resource_version: page.resource_version,
                });
            }
            if page.next == next {
                return Err(Error::Malformed {
                    reason: "a page of the list continues with itself".to_owned(),
                });
            }
            next = page.next;
        };
        if expired {
            size = 0;
        }
    }
}

/// Returns the path of a page. The size 0 requests all objects.
pub(crate) fn page(path: &str, size: u32, next: &str) -> String {
    match (size, next) {
        (0, "") => path.to_owned(),
        (_, "") => format!("{path}?limit={size}"),
        (_, next) => {
            // Tokens are opaque and can contain any character.
            let next = utf8_percent_encode(next, NON_ALPHANUMERIC);
            format!("{path}?limit={size}&continue={next}")
        }
    }
}

/// A part of a listing.
#[derive(Debug)]
pub(crate) struct Page {
    items: vec::IntoIter<Bytes>,
    kind: Kind,
    pub(crate) resource_version: String,
    /// The continue token of the next page; empty for the last one.
    pub(crate) next: String,
    /// `true` if the server has applied the shard selector (`shardInfo`).
    pub(crate) is_sharded: bool,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(rename = "apiVersion", borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(rename = "continue", borrow, default)]
    next: Option<Cow<'a, str>>,
    #[serde(default)]
    shard_info: Option<IgnoredAny>,
}

impl Page {
    pub(crate) fn parse(response: &Bytes) -> Result<Self, Error> {
        let whole: Whole<'_> = serde_json::from_slice(response)
            .map_err(|error| Error::malformed("the list", &error))?;
        let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let metadata = whole.metadata.unwrap_or_default();
        let kind = own(whole.kind);
        // A single object or a status has no items; some servers omit them in an empty list.
        let items = match whole.items {
            Some(items) => items,
            None if kind.ends_with("List") => Vec::new(),
            None => {
                return Err(Error::Malformed {
                    reason: format!("not a list, but {kind:?}"),
                });
            }
        };
        let items: Vec<Bytes> = items
            .into_iter()
            .map(|item| response.slice_ref(item.get().as_bytes()))
            .collect();
        Ok(Self {
            items: items.into_iter(),
            kind: Kind {
                api_version: own(whole.api_version),
                kind: kind.strip_suffix("List").unwrap_or_default().to_owned(),
            },
            resource_version: own(metadata.resource_version),
            next: own(metadata.next),
            is_sharded: metadata.shard_info.is_some(),
        })
    }

    pub(crate) fn next_item(&mut self, managed: ManagedFields) -> Option<Result<Item, Error>> {
        let object = self.items.next()?;
        Some(Item::listed(&object, &self.kind, managed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, ok, refusal, text};
    use serde_json::{Value, json};

    fn examples() -> Resource {
        Resource {
            group: "kopf.dev".into(),
            version: "v1".into(),
            plural: "kopfexamples".into(),
            namespaced: true,
            ..Resource::default()
        }
    }

    fn part(names: &[&str], version: &str, next: &str) -> Value {
        let items: Vec<Value> = names
            .iter()
            .map(|name| json!({"metadata": {"name": name}}))
            .collect();
        json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExampleList", "items": items,
               "metadata": {"resourceVersion": version, "continue": next}})
    }

    fn names(listing: &Listing) -> Vec<&str> {
        let names = listing.items.iter().map(|item| item.key.name.as_deref());
        names.map(Option::unwrap_or_default).collect()
    }

    #[tokio::test]
    async fn pages_are_joined() {
        let replies = [
            ok(&part(&["a", "b"], "5", "x+/=")),
            ok(&part(&["c"], "5", "")),
        ];
        let (client, script) = Script::new(replies);
        let listing = list(&client, &examples(), Some("ns"), 2).await.unwrap();
        assert_eq!(names(&listing), ["a", "b", "c"]);
        assert_eq!(listing.resource_version, "5");
        let object: Value = serde_json::from_slice(&listing.items[0].raw).unwrap();
        assert_eq!(object["kind"], "KopfExample");
        let path = "/apis/kopf.dev/v1/namespaces/ns/kopfexamples?limit=2";
        assert_eq!(
            script.paths(),
            [path.to_owned(), format!("{path}&continue=x%2B%2F%3D")]
        );
    }

    #[tokio::test]
    async fn expired_listings_are_started_again_in_one_piece() {
        let replies = [
            ok(&part(&["a"], "5", "x")),
            refusal(410),
            ok(&part(&["b", "c"], "9", "")),
        ];
        let (client, script) = Script::new(replies);
        let listing = list(&client, &examples(), None, 1).await.unwrap();
        assert_eq!(names(&listing), ["b", "c"]);
        assert_eq!(script.paths()[2], "/apis/kopf.dev/v1/kopfexamples");

        let (client, _) = Script::new([refusal(410), refusal(410)]);
        assert!(
            list(&client, &examples(), None, 1)
                .await
                .unwrap_err()
                .is_gone()
        );
    }

    #[test]
    fn items_have_their_own_memory() {
        let response = Bytes::from(part(&["a"], "5", "").to_string());
        let mut page = Page::parse(&response).unwrap();
        let item = page.next_item(ManagedFields::Drop).unwrap().unwrap();
        drop(page);
        assert!(response.is_unique(), "the item keeps the page");
        assert_eq!(item.key.name.as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn only_lists_are_accepted() {
        let empty = json!({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": null});
        let (client, _) = Script::new([ok(&empty)]);
        let listing = list(&client, &examples(), None, 0).await.unwrap();
        assert!(listing.items.is_empty());
        for other in [
            "{}",
            r#"{"kind":"Pod"}"#,
            "[]",
            "<html>",
            r#"{"items":[{"a":1}"#,
        ] {
            let (client, _) = Script::new([text(200, other)]);
            let error = list(&client, &examples(), None, 0).await.unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{other}: {error}");
        }
    }
}
