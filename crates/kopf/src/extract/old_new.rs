//! The old and new states of the change.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection, View, typed};

/// The object when it was last handled; with `field`, the old value of the field.
///
/// As JSON, or deserialised into a type. It is null (or `None` with `Option<Old>`) if there was no
/// value: when the object is created, or the field is added.
///
/// In admission handlers, it is the whole stored object, even with `field`.
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

/// The current object; with `field`, the new value of the field.
///
/// As JSON, or deserialised into a type. It is null (or `None` with `Option<New>`) if there is no
/// value: when the field is removed.
///
/// Like [`Old`], it is the essence, without the status and most of the metadata. In admission
/// handlers, it is the whole requested object, and null for deletions.
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
