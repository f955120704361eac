//! `ConversionReview`: the request and the response.

use serde_json::{Map, Value, json};

use crate::admission::Refusal;

/// Returns `true` if a review is a request for a conversion, and not for admission.
pub fn is_conversion(review: &Value) -> bool {
    review.get("kind").and_then(Value::as_str) == Some("ConversionReview")
}

/// A request for a conversion.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConversionReview {
    /// `apiVersion` of the review, as sent.
    pub api_version: String,
    /// `uid` of the request, as sent.
    pub uid: String,
    /// `apiVersion` that all objects must get.
    pub desired: String,
    /// The objects, in any versions.
    pub objects: Vec<Value>,
}

impl ConversionReview {
    /// Reads a request.
    ///
    /// # Errors
    /// If a required field is missing or has another type.
    pub fn read(mut review: Value) -> Result<Self, Refusal> {
        let missing = |what: &str| Refusal::Missing(what.to_owned());
        let api_version = review.get("apiVersion").and_then(Value::as_str);
        let api_version = api_version.unwrap_or("apiextensions.k8s.io/v1").to_owned();
        let request = review
            .get_mut("request")
            .and_then(Value::as_object_mut)
            .ok_or_else(|| missing("request"))?;
        let uid = request.get("uid").and_then(Value::as_str);
        let uid = uid.unwrap_or_default().to_owned();
        let desired = request.get("desiredAPIVersion").and_then(Value::as_str);
        let desired = desired
            .filter(|desired| !desired.is_empty())
            .ok_or_else(|| missing("request.desiredAPIVersion"))?
            .to_owned();
        match request.remove("objects") {
            Some(Value::Array(objects)) => Ok(Self {
                api_version,
                uid,
                desired,
                objects,
            }),
            _ => Err(missing("request.objects")),
        }
    }

    /// Returns the response with the converted objects.
    pub fn succeed(&self, objects: Vec<Value>) -> Value {
        self.respond(Value::Array(objects), json!({"status": "Success"}))
    }

    /// Returns the response of a conversion that has failed. The server shows the message to clients.
    pub fn fail(&self, message: &str) -> Value {
        let result = json!({"status": "Failure", "message": message});
        self.respond(Value::Array(Vec::new()), result)
    }

    fn respond(&self, objects: Value, result: Value) -> Value {
        let mut response = Map::new();
        response.insert("uid".to_owned(), self.uid.clone().into());
        response.insert("convertedObjects".to_owned(), objects);
        response.insert("result".to_owned(), result);
        let mut review = Map::new();
        review.insert("apiVersion".to_owned(), self.api_version.clone().into());
        review.insert("kind".to_owned(), "ConversionReview".into());
        review.insert("response".to_owned(), Value::Object(response));
        Value::Object(review)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_and_get_responses() {
        let review = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": [{"a": 1}]}});
        assert!(is_conversion(&review));
        let review = ConversionReview::read(review).unwrap();
        assert_eq!((review.desired.as_str(), review.objects.len()), ("g/v2", 1));
        let response = review.succeed(vec![json!({"b": 1})]);
        assert_eq!(response["response"]["uid"], "u");
        assert_eq!(response["response"]["result"]["status"], "Success");
        assert_eq!(response["response"]["convertedObjects"], json!([{"b": 1}]));
        let response = review.fail("why");
        assert_eq!(response["response"]["result"]["message"], "why");
        assert_eq!(response["response"]["convertedObjects"], json!([]));
    }

    #[test]
    fn incomplete_requests_are_rejected() {
        assert!(!is_conversion(&json!({"kind": "AdmissionReview"})));
        for (review, field) in [
            (json!({}), "request"),
            (
                json!({"request": {"objects": []}}),
                "request.desiredAPIVersion",
            ),
            (
                json!({"request": {"desiredAPIVersion": "v1"}}),
                "request.objects",
            ),
        ] {
            let refusal = ConversionReview::read(review).unwrap_err();
            assert_eq!(refusal, Refusal::Missing(field.to_owned()));
            assert_eq!(refusal.code(), 400);
        }
    }
}
