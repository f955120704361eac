//! A stream of watch events.

use futures::{StreamExt as _, stream::BoxStream};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::PATIENCE;

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    pub kind: String,
    /// The object, or a `Status` for ERROR.
    pub object: Value,
}

impl Event {
    /// Returns the type and the name of the object, for comparisons.
    pub fn brief(&self) -> (&str, &str) {
        (&self.kind, self.name())
    }

    /// Returns `metadata.name`, or an empty string.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns `metadata.resourceVersion`, or an empty string.
    pub fn resource_version(&self) -> &str {
        self.object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }
}

/// An open watch; dropping it closes the connection.
pub struct Watch {
    chunks: BoxStream<'static, Result<bytes::Bytes, String>>,
    unread: Vec<u8>,
    asked: String,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) async fn new(response: http::Response<Body>, asked: String) -> Self {
        let (parts, body) = response.into_parts();
        if parts.status != 200 {
            let bytes = body.collect_bytes().await.unwrap_or_default();
            panic!(
                "{asked}: {}: {}",
                parts.status,
                String::from_utf8_lossy(&bytes)
            );
        }
        let chunks = body
            .into_data_stream()
            .map(|chunk| chunk.map_err(|e| format!("{e:?}")));
        Self {
            chunks: chunks.boxed(),
            unread: Vec::new(),
            asked,
        }
    }

    /// Returns the next event. Fails the test if the stream ends or times out.
    pub async fn next_event(&mut self) -> Event {
        match self.next().await {
            Some(event) => event,
            None => panic!("{}: the watch ended while an event was awaited", self.asked),
        }
    }

    /// Returns the next event that is not a bookmark.
    pub async fn next_change(&mut self) -> Event {
        loop {
            let event = self.next_event().await;
            if event.kind != "BOOKMARK" {
                return event;
            }
        }
    }

    /// Returns the next event of the object with this name; others are skipped.
    pub async fn event_of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next_event().await;
            if event.name() == name {
                return event;
            }
        }
    }

    /// Waits until the server ends the stream. Returns the remaining events.
    pub async fn closed(mut self) -> Vec<Event> {
        let mut rest = Vec::new();
        while let Some(event) = self.next().await {
            rest.push(event);
        }
        rest
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(self.parse(&line));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.chunks.next())
                .await
                .unwrap_or_else(|_| panic!("{}: no event in {PATIENCE:?}", self.asked));
            match chunk {
                Some(Ok(chunk)) => self.unread.extend_from_slice(&chunk),
                Some(Err(error)) => panic!("{}: the watch broke: {error}", self.asked),
                None if self.unread.is_empty() => return None,
                None => {
                    let line = std::mem::take(&mut self.unread);
                    return Some(self.parse(&line));
                }
            }
        }
    }

    fn parse(&self, line: &[u8]) -> Event {
        let text = String::from_utf8_lossy(line);
        let mut json: Value = serde_json::from_slice(line)
            .unwrap_or_else(|error| panic!("{}: not an event: {error}: {text}", self.asked));
        let kind = json["type"]
            .as_str()
            .unwrap_or_else(|| panic!("{}: no event type: {text}", self.asked))
            .to_owned();
        Event {
            kind,
            object: json["object"].take(),
        }
    }
}
