//! The request: a review of an object's creation, like those of API servers. It is built once; only
//! its uid changes between requests.

use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::operators::objects;

/// The last digits are replaced by the number of the request.
const UID: &str = "705ab4f5-6393-11e8-b7cc-000000000000";
const DIGITS: usize = 12;

/// The bytes of a request.
#[derive(Debug, Clone)]
pub(super) struct ReviewRequest {
    bytes: Vec<u8>,
    uid: Range<usize>,
    number: u64,
}

/// The kind of the values in a dense review.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Strings,
    Objects,
}

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    response: Response<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
}

impl ReviewRequest {
    pub(super) fn new() -> Result<Self> {
        Self::of(&json!({}))
    }

    /// Returns a review of an object with this many small values.
    pub(super) fn dense(shape: Shape, count: usize) -> Result<Self> {
        let value = match shape {
            Shape::Strings => json!("abcdefghi"),
            Shape::Objects => json!({"a": "bcd"}),
        };
        Self::of(&json!({"values": vec![value; count]}))
    }

    fn of(spec: &Value) -> Result<Self> {
        let body = review(spec);
        let request = format!(
            "POST /check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let start = request.find(UID).context("the review contains no uid")?;
        Ok(Self {
            bytes: request.into_bytes(),
            uid: start..start + UID.len(),
            number: 0,
        })
    }

    /// Returns the next request.
    pub(super) fn next(&mut self) -> Result<&[u8]> {
        self.number += 1;
        let digits = format!("{:0DIGITS$}", self.number);
        let uid = self.bytes.get_mut(self.uid.clone());
        uid.and_then(|uid| uid.last_chunk_mut::<DIGITS>())
            .context("the range of the uid is invalid")?
            .copy_from_slice(digits.as_bytes());
        Ok(&self.bytes)
    }

    /// Fails unless the body is a response to the last request and allows the object.
    pub(super) fn check(&self, body: &[u8]) -> Result<()> {
        let review: Review<'_> = serde_json::from_slice(body).context("not a review")?;
        let uid = self.bytes.get(self.uid.clone()).unwrap_or_default();
        let answered = review.response.uid;
        ensure!(answered.as_bytes() == uid, "unexpected uid {answered}");
        ensure!(review.response.allowed, "the object is denied");
        Ok(())
    }
}

fn review(spec: &Value) -> String {
    let kind = json!({"group": "kopf.dev", "version": "v1", "kind": "KopfExample"});
    let resource = json!({"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"});
    let mut object = objects::object("object", 1);
    if let (Some(own), Some(more)) = (object["spec"].as_object_mut(), spec.as_object()) {
        own.extend(more.clone());
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("namespace".to_owned(), json!("default"));
        let uid = json!("d3d2a2b4-0000-4000-8000-000000000001");
        metadata.insert("uid".to_owned(), uid);
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": kind, "requestKind": kind,
            "resource": resource, "requestResource": resource,
            "name": "object-1", "namespace": "default", "operation": "CREATE",
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    review.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(uid: &str, is_allowed: bool) -> Vec<u8> {
        let response = json!({"uid": uid, "allowed": is_allowed});
        let review = json!({"kind": "AdmissionReview", "response": response});
        review.to_string().into_bytes()
    }

    #[test]
    fn requests_differ_by_their_uids() {
        let mut request = ReviewRequest::new().unwrap();
        let first = String::from_utf8(request.next().unwrap().to_vec()).unwrap();
        let second = String::from_utf8(request.next().unwrap().to_vec()).unwrap();
        let uid = |number| format!(r#""uid":"705ab4f5-6393-11e8-b7cc-00000000000{number}""#);
        assert!(first.contains(&uid(1)));
        assert_eq!(second, first.replace(&uid(1), &uid(2)));
        let (head, body) = first.split_once("\r\n\r\n").unwrap();
        let length = format!("Content-Length: {}", body.len());
        assert!(head.lines().any(|line| line == length), "{head}");
        let review: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(review["request"]["operation"], "CREATE");
    }

    #[test]
    fn responses_must_match_the_request() {
        let mut request = ReviewRequest::new().unwrap();
        request.next().unwrap();
        let uid = "705ab4f5-6393-11e8-b7cc-000000000001";
        request.check(&response(uid, true)).unwrap();
        for wrong in [response(uid, false), response(UID, true), b"{}".to_vec()] {
            assert!(request.check(&wrong).is_err());
        }
    }
}
