//! Kubernetes events about objects, posted by handlers and shown by `kubectl describe`.

use std::any::type_name;
use std::fmt::Display;

use kopf_engine::posting::Poster;

use crate::error::{Error, Result};
use crate::objects::Referred;

fn poster(function: &str) -> Result<Poster> {
    let call = kopf_engine::current().ok_or_else(|| {
        Error::message(format_args!(
            "kopf::{function}() was called outside of a handler: events are posted by the \
             handler's operator"
        ))
    })?;
    Ok(call.logger.poster().clone())
}

/// Posts an event of any type about one or several objects.
///
/// It is posted in the background. With `settings.posting.enabled` off, it is dropped.
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(body: Body) -> kopf::Result<()> {
///     kopf::event(&body, "SomeType", "SomeReason", "Some message")?;
///     kopf::info(&body, "SomeReason", "Some message")?;
///     kopf::warn(&body, "SomeReason", "Some message")?;
///     if let Err(error) = "one".parse::<u32>() {
///         kopf::exception(&body, "SomeReason", "Some exception:", &error)?;
///     }
///     Ok(())
/// }
/// ```
///
/// # Errors
/// Outside of handlers, where there is no operator to post it.
pub fn event<M>(
    objs: &(impl Referred<M> + ?Sized),
    event_type: &str,
    reason: &str,
    message: impl Display,
) -> Result<()> {
    let poster = poster("event")?;
    let message = message.to_string();
    for reference in objs.references()? {
        poster.event(&reference, event_type, reason, message.clone());
    }
    Ok(())
}

/// Posts an event of the type `Normal` about one or several objects: see [`event()`].
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(body: Body) -> kopf::Result<()> {
///     kopf::info(&body, "Created", "The database is created.")?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// Outside of handlers.
pub fn info<M>(
    objs: &(impl Referred<M> + ?Sized),
    reason: &str,
    message: impl Display,
) -> Result<()> {
    let poster = poster("info")?;
    let message = message.to_string();
    for reference in objs.references()? {
        poster.info(&reference, reason, message.clone());
    }
    Ok(())
}

/// Posts an event of the type `Warning` about one or several objects: see [`event()`].
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(body: Body) -> kopf::Result<()> {
///     kopf::warn(&body, "QuotaExceeded", format_args!("{} of {} GiB are used.", 11, 10))?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// Outside of handlers.
pub fn warn<M>(
    objs: &(impl Referred<M> + ?Sized),
    reason: &str,
    message: impl Display,
) -> Result<()> {
    let poster = poster("warn")?;
    let message = message.to_string();
    for reference in objs.references()? {
        poster.warn(&reference, reason, message.clone());
    }
    Ok(())
}

/// Posts an event of the type `Error` about one or several objects: see [`event()`].
///
/// The text of the error follows the message. An empty reason is replaced by the name of the
/// error's type.
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(body: Body) -> kopf::Result<()> {
///     if let Err(error) = std::fs::read("/etc/database.conf") {
///         kopf::exception(&body, "NotConfigured", "The configuration is unreadable:", &error)?;
///     }
///     Ok(())
/// }
/// ```
///
/// # Errors
/// Outside of handlers.
pub fn exception<M, E: Display + ?Sized>(
    objs: &(impl Referred<M> + ?Sized),
    reason: &str,
    message: impl Display,
    error: &E,
) -> Result<()> {
    let poster = poster("exception")?;
    let reason = if reason.is_empty() {
        short_name::<E>()
    } else {
        reason
    };
    let message = with_error(&message.to_string(), &error.to_string());
    for reference in objs.references()? {
        poster.exception(&reference, reason, message.clone());
    }
    Ok(())
}

fn with_error(message: &str, error: &str) -> String {
    match (message, error) {
        (message, "") => message.to_owned(),
        ("", error) => error.to_owned(),
        (message, error) => format!("{message} {error}"),
    }
}

/// Returns the name of a type without its path and parameters.
fn short_name<E: ?Sized>() -> &'static str {
    let name = type_name::<E>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn posting_outside_of_handlers_is_an_error() {
        for result in [
            event(&json!({}), "Normal", "Reason", "message"),
            info(&json!({}), "Reason", "message"),
            warn(&json!({}), "Reason", "message"),
            exception(&json!({}), "Reason", "message", "error"),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(message.contains("outside of a handler"), "{message}");
        }
    }

    #[test]
    fn errors_follow_messages() {
        assert_eq!(with_error("it failed:", "no way"), "it failed: no way");
        assert_eq!(with_error("", "no way"), "no way");
        assert_eq!(with_error("it failed", ""), "it failed");
    }

    #[test]
    fn types_have_short_names() {
        assert_eq!(short_name::<std::num::ParseIntError>(), "ParseIntError");
        assert_eq!(short_name::<Error>(), "Error");
        assert_eq!(short_name::<Vec<std::io::Error>>(), "Vec");
    }
}
