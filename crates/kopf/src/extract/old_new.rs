//! What has changed: how it was, and how it is.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection, View, typed};

/// How the object was when it was last handled; with `field`, how that field was.
///
/// As JSON, or as a type that is read by serde. It is null (or `None` with `Option<Old>`) if there
/// was nothing: when the object is created, or the field is added.
///
/// In handlers for admission, it is the whole object as it is stored now, also with `field`.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{New, Old};
///
/// #[kopf::on::update("kopfexamples", field = "spec.size")]
/// fn resized(Old(old): Old<Option<String>>, New(new): New<Option<String>>, logger: Logger) {
///     logger.info(format_args!("from {old:?} to {new:?}"));
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Old<T = View>(pub T);

/// How the object is now; with `field`, how that field is.
///
/// As JSON, or as a type that is read by serde. It is null (or `None` with `Option<New>`) if there
/// is nothing: when the field is removed.
///
/// Like [`Old`], it contains what is tracked: not the status, not most of the metadata. In handlers for
/// admission, it is the whole object as it is to be, and nothing if it is to be deleted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct New<T = View>(pub T);

macro_rules! side {
    ($name:ident, $argument:literal, $side:ident) => {
        impl Extract for $name {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                Ok(Self(View::shared(side(context)?)))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.differences($argument)
            }
        }

        impl<T: DeserializeOwned> Extract for $name<T> {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                let value = side(context)?.map_or(&Value::Null, |value| &**value);
                typed::read(stringify!($side), value).map(Self)
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.differences($argument)
            }
        }

        impl<T> OptionalExtract for $name<T>
        where
            Self: Extract,
        {
            fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
                match side(context) {
                    Ok(Some(_)) => Self::extract(context).map(Some),
                    _ => Ok(None),
                }
            }
        }

        impl<T> FilterExtract for $name<T> where Self: Extract {}
    };
}

mod old {
    use super::{
        Arc, Context, Declared, DeserializeOwned, Extract, FilterExtract, Old, OptionalExtract,
        Rejection, Value, View, typed,
    };

    fn side<'a>(context: &Context<'a>) -> Result<Option<&'a Arc<Value>>, Rejection> {
        Ok(context.difference("Old")?.old_side())
    }

    side!(Old, "Old", old);
}

mod new {
    use super::{
        Arc, Context, Declared, DeserializeOwned, Extract, FilterExtract, New, OptionalExtract,
        Rejection, Value, View, typed,
    };

    fn side<'a>(context: &Context<'a>) -> Result<Option<&'a Arc<Value>>, Rejection> {
        Ok(context.difference("New")?.new_side())
    }

    side!(New, "New", new);
}
