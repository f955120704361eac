//! Reading of request bodies within limits, and decoding by content type.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, Limited};
use kopf_sandbox_schema::protobuf::{self, Expected};

use super::decode::{self, Decoded};
use crate::body::BodyError;
use crate::status::{ApiError, Result};

/// Maximum size of a body, as on a real server.
const MOST_BODY_BYTES: usize = 3 * 1024 * 1024;

pub async fn read<B>(body: B) -> Result<Bytes>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    match Limited::new(body, MOST_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::too_large(
            format!("Request entity too large: limit is {MOST_BODY_BYTES}"),
        )),
        Err(error) => Err(ApiError::bad_request(format!(
            "cannot read the body: {error}"
        ))),
    }
}

pub fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Returns the `User-Agent` header; empty without one.
pub(crate) fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    agent.unwrap_or_default().into_owned()
}

/// Decodes the body of a delete.
pub(crate) fn decoded_options(headers: &HeaderMap, body: &Bytes) -> Result<Decoded> {
    let (api_version, kind) = ("meta.k8s.io/v1", "DeleteOptions");
    read_as(Some(Expected { api_version, kind }), headers, body)
}

/// Decodes a body in the form given by its headers.
pub(crate) fn read_as(
    protobuf: Option<Expected<'_>>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Decoded> {
    let content_type = content_type(headers);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let decoded = match (media, protobuf) {
        ("" | "application/json", _) => decode::json(body),
        ("application/yaml", _) => decode::yaml(body),
        ("application/vnd.kubernetes.protobuf", Some(expected)) => {
            let value = protobuf::decode(body, expected).map_err(ApiError::bad_request)?;
            let complaints = Vec::new();
            return Ok(Decoded { value, complaints });
        }
        (other, protobuf) => {
            let also = protobuf.map_or("", |_| ", application/vnd.kubernetes.protobuf");
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml{also} (not {other:?})"
            )));
        }
    };
    decoded.map_err(|error| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized: couldn't be read: {error}"
        ))
    })
}
