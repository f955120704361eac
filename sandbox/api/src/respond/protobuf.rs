//! Responses in protobuf, for clients that accept no other form: verbs return JSON, which is converted
//! here.

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use kopf_sandbox_schema::protobuf::{PROTOBUF, encode, frames};

use crate::body::Body;

const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Converts the body of a response from JSON. A document without a message is unchanged, and so is
/// one that is already a message.
pub async fn convert(response: Response<Body>) -> Response<Body> {
    if response.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static(PROTOBUF)) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        return Response::from_parts(parts, Body::empty()); // complete bodies do not fail
    };
    let body = body.to_bytes();
    match serde_json::from_slice(&body).map_err(|error| error.to_string()) {
        Ok(document) => match encode(&document) {
            Ok(message) => {
                let content_type = HeaderValue::from_static(PROTOBUF);
                parts.headers.insert(header::CONTENT_TYPE, content_type);
                Response::from_parts(parts, Body::whole(message))
            }
            Err(_) => Response::from_parts(parts, Body::whole(body)),
        },
        Err(_) => Response::from_parts(parts, Body::whole(body)),
    }
}

/// Converts a watch stream whose chunks are whole lines of JSON.
pub(crate) fn convert_watch(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let content_type = HeaderValue::from_static(WATCH);
    parts.headers.insert(header::CONTENT_TYPE, content_type);
    Response::from_parts(parts, body.map_data(|chunk| frames(&chunk)))
}
