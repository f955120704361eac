//! Shared state of the operator.

use std::any::type_name;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// A value that all handlers of the operator share: connections, caches, configuration. One per
/// type.
///
/// It is cloned for every call. Use an `Arc` if cloning is expensive or the value changes.
///
/// ```
/// use std::sync::Arc;
/// use kopf::prelude::*;
///
/// struct Database { url: String }
///
/// async fn create_fn(State(db): State<Arc<Database>>, logger: Logger) {
///     logger.info(format_args!("connecting to {}", db.url));
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Arc::new(Database { url: "db://somewhere".into() });
/// let operator = Operator::builder()
///     .handler(on::create("kopfexamples", create_fn))
///     .state(database)
///     .build()?;
/// # Ok(())
/// # }
/// ```
///
/// The operator cannot be built without the state:
///
/// ```
/// # use kopf::prelude::*;
/// fn create_fn(State(count): State<u64>) -> u64 { count }
///
/// let error = Operator::builder().handler(on::create("kopfexamples", create_fn)).build().unwrap_err();
/// assert!(error.to_string().contains("there is no state of the type u64"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        context.state().map(Self).ok_or_else(missing::<T>)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.front.has::<T>() {
            Ok(())
        } else {
            Err(missing::<T>())
        }
    }
}

impl<T: Clone + Send + Sync + 'static> OptionalExtract for State<T> {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.state().map(Self))
    }
}

impl<T: Clone + Send + Sync + 'static> FilterExtract for State<T> {}

fn missing<T>() -> Rejection {
    Rejection::NoState {
        type_name: type_name::<T>(),
    }
}
