//! Conversion of the credentials of login functions.

use kopf_client::connection::ConnectionInfo;
use kopf_client::vault::Credentials;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::front::reading::extract;
use crate::objects::call::PyCall;

/// Ends the call of a login function with credentials.
#[pyfunction]
pub(crate) fn finish_login(call: &Bound<'_, PyCall>, info: &Bound<'_, PyAny>) -> PyResult<()> {
    let credentials = credentials(info)?;
    let call = call.get();
    call.call()?.slot.put(credentials);
    call.job()?.finish(Ok(None));
    Ok(())
}

/// Converts a `ConnectionInfo` of Python.
fn credentials(info: &Bound<'_, PyAny>) -> PyResult<Credentials> {
    let text = |name: &str| -> PyResult<Option<String>> { attribute(info, name) };
    let path = |name: &str| -> PyResult<Option<std::path::PathBuf>> { attribute(info, name) };
    // The data is base64 or PEM; the client accepts both.
    let data = |name: &str| -> PyResult<Option<String>> {
        let Some(value) = attribute::<Bound<'_, PyAny>>(info, name)? else {
            return Ok(None);
        };
        match value.extract::<String>() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Ok(Some(String::from_utf8_lossy(value.extract()?).into_owned())),
        }
    };
    let expiration = attribute::<Bound<'_, PyAny>>(info, "expiration")?;
    let server =
        text("server")?.ok_or_else(|| PyTypeError::new_err("credentials must have a server"))?;
    let mut connection = ConnectionInfo::new(server);
    connection.ca_path = path("ca_path")?;
    connection.ca_data = data("ca_data")?;
    connection.insecure = attribute(info, "insecure")?.unwrap_or(false);
    connection.username = text("username")?;
    connection.password = text("password")?;
    connection.scheme = text("scheme")?;
    connection.token = text("token")?;
    connection.certificate_path = path("certificate_path")?;
    connection.certificate_data = data("certificate_data")?;
    connection.private_key_path = path("private_key_path")?;
    connection.private_key_data = data("private_key_data")?;
    connection.default_namespace = text("default_namespace")?;
    connection.proxy_url = text("proxy_url")?;
    connection.trust_env = attribute(info, "trust_env")?.unwrap_or(false);
    connection.priority = attribute(info, "priority")?.unwrap_or(0);
    connection.expiration = expiration.map(|value| timestamp(&value)).transpose()?;
    Ok(connection.into())
}

/// Converts an aware datetime, or a naive one in UTC.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<jiff::Timestamp> {
    let utc = value
        .py()
        .import("datetime")?
        .getattr("timezone")?
        .getattr("utc")?;
    let is_naive = value.getattr("tzinfo")?.is_none();
    let value = if is_naive {
        let keywords = pyo3::types::PyDict::new(value.py());
        keywords.set_item("tzinfo", utc)?;
        value.call_method("replace", (), Some(&keywords))?
    } else {
        value.clone()
    };
    let seconds: f64 = value.call_method0("timestamp")?.extract()?;
    let wrong = |_| PyTypeError::new_err("the expiration is out of range");
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked by the constructor"
    )]
    jiff::Timestamp::from_millisecond((seconds * 1000.0) as i64).map_err(wrong)
}

fn attribute<'py, T: FromPyObjectOwned<'py>>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<T>> {
    match object.getattr_opt(name)? {
        Some(value) if !value.is_none() => extract(&value).map(Some),
        _ => Ok(None),
    }
}
