//! Functions as sub-handlers: closures that can consume captured values.

use std::marker::PhantomData;
use std::sync::Arc;

use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Call, Invoke, Work};

use super::tuples::{Async, Threaded};
use super::{Argument, HandlerFunction, extract, in_span, span};
use crate::error::Error;
use crate::extract::Extract;
use crate::outcome::{IntoOutcome, KopfError};

/// A function or a closure that can be a sub-handler: async or blocking, with up to 16 arguments
/// that can be [extracted](crate::extract), and a result that can be
/// [reported](crate::IntoOutcome). The error of a `Result` must be [`kopf::Error`](Error).
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a sub-handler",
    label = "not a sub-handler",
    note = "a sub-handler is a closure or a function, with arguments that are extractors (see `kopf::extract`), \
            and a result such as `()` or `kopf::Result<T>`; its future must be `Send`",
    note = "arguments of closures need their types: `|logger: Logger| …`"
)]
pub trait SubHandler<M> {
    /// Erases the type of the function.
    fn into_function(self) -> HandlerFunction;
}

/// A function that can be called once.
struct Once<F, M> {
    function: Arc<Mutex<Option<F>>>,
    marker: PhantomData<fn() -> M>,
}

impl<F, M> Once<F, M> {
    fn new(function: F) -> Self {
        Self {
            function: Arc::new(Mutex::new(Some(function))),
            marker: PhantomData,
        }
    }
}

/// Takes the function, unless it was called before.
fn take<F>(function: &Mutex<Option<F>>) -> Result<F, Error> {
    let taken = function.lock().take();
    taken.ok_or_else(|| crate::permanent("a sub-handler can only be called once per registration"))
}

macro_rules! functions {
    ($($T:ident $name:literal),*) => {
        #[diagnostic::do_not_recommend]
        impl<F, Fut, R, $($T,)*> SubHandler<Async<($($T,)*)>> for F
        where
            F: FnOnce($($T),*) -> Fut + Send + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoOutcome<KopfError>,
            $($T: Extract + 'static,)*
        {
            fn into_function(self) -> HandlerFunction {
                let arguments = vec![$(Argument::new::<$T>($name)),*];
                let run: Once<F, Async<($($T,)*)>> = Once::new(self);
                HandlerFunction::new::<F>(arguments, run)
            }
        }

        impl<F, Fut, R, $($T,)*> Invoke for Once<F, Async<($($T,)*)>>
        where
            F: FnOnce($($T),*) -> Fut + Send + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoOutcome<KopfError>,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let (function, span) = (Arc::clone(&self.function), span(&call));
                let work = Work::Async(Box::pin(async move {
                    let function = take(&function).map_err(Error::into_engine)?;
                    let future = function($(extract::<$T>(&call, $name)?),*);
                    drop(call);
                    future.await.into_outcome()
                }));
                in_span(span, work)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F, R, $($T,)*> SubHandler<Threaded<($($T,)*)>> for F
        where
            F: FnOnce($($T),*) -> R + Send + 'static,
            R: IntoOutcome<KopfError>,
            $($T: Extract + 'static,)*
        {
            fn into_function(self) -> HandlerFunction {
                let arguments = vec![$(Argument::new::<$T>($name)),*];
                let run: Once<F, Threaded<($($T,)*)>> = Once::new(self);
                HandlerFunction::new::<F>(arguments, run)
            }
        }

        impl<F, R, $($T,)*> Invoke for Once<F, Threaded<($($T,)*)>>
        where
            F: FnOnce($($T),*) -> R + Send + 'static,
            R: IntoOutcome<KopfError>,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let (function, span) = (Arc::clone(&self.function), span(&call));
                let work = Work::Blocking(Box::new(move || {
                    let _ = &call;
                    let function = take(&function).map_err(Error::into_engine)?;
                    function($(extract::<$T>(&call, $name)?),*).into_outcome()
                }));
                in_span(span, work)
            }
        }
    };
}

super::all_lengths!(functions);
