//! Async and blocking functions with any number of arguments.

use std::marker::PhantomData;
use std::sync::Arc;

use kopf_engine::invocation::{Call, HandlerResult, Invoke, Work};

use super::{Handler, HandlerFunction, extract, in_span, span};
use crate::extract::Extract;
use crate::outcome::IntoOutcome;

/// For [`Handler`]: an async function with these arguments.
#[derive(Debug)]
pub struct Async<T>(PhantomData<T>);

/// For [`Handler`]: a blocking function with these arguments.
#[derive(Debug)]
pub struct Threaded<T>(PhantomData<T>);

/// The use of a function, which determines the conversion of its results.
pub(crate) trait Purpose<R>: 'static {
    /// Passes a result to the engine.
    fn finish(result: R) -> HandlerResult;

    /// Adds metadata from the type of the results.
    fn declare(function: HandlerFunction) -> HandlerFunction {
        function
    }
}

/// A function with the types of its arguments and its purpose.
pub(crate) struct Typed<F, M, P> {
    function: Arc<F>,
    marker: PhantomData<fn() -> (M, P)>,
}

impl<F, M, P> Typed<F, M, P> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function: Arc::new(function),
            marker: PhantomData,
        }
    }
}

macro_rules! calls {
    ($($T:ident $name:literal),*) => {
        impl<F, Fut, R, P, $($T,)*> Invoke for Typed<F, Async<($($T,)*)>, P>
        where
            F: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            P: Purpose<R>,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let (function, span) = (Arc::clone(&self.function), span(&call));
                let work = Work::Async(Box::pin(async move {
                    let future = function($(extract::<$T>(&call, $name)?),*);
                    drop((function, call));
                    P::finish(future.await)
                }));
                in_span(span, work)
            }
        }

        impl<F, R, P, $($T,)*> Invoke for Typed<F, Threaded<($($T,)*)>, P>
        where
            F: Fn($($T),*) -> R + Send + Sync + 'static,
            P: Purpose<R>,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let (function, span) = (Arc::clone(&self.function), span(&call));
                let work = Work::Blocking(Box::new(move || {
                    let _ = &call;
                    P::finish(function($(extract::<$T>(&call, $name)?),*))
                }));
                in_span(span, work)
            }
        }
    };
}

super::all_lengths!(calls);

/// Implements a trait for functions with such results, for one number of arguments.
macro_rules! functions {
    ($Trait:ident $Result:ident $Purpose:ident; $($T:ident $name:literal),*) => {
        #[diagnostic::do_not_recommend]
        impl<F, Fut, R, $($T,)*> $Trait<$crate::handler::Async<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: $Result,
            $($T: $crate::extract::Extract + 'static,)*
        {
            fn into_function(self) -> $crate::handler::HandlerFunction {
                $crate::handler::functions!(
                    @declare F, R, $crate::handler::Async<($($T,)*)>, $Purpose, self; $($T $name),*
                )
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F, R, $($T,)*> $Trait<$crate::handler::Threaded<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> R + Send + Sync + 'static,
            R: $Result,
            $($T: $crate::extract::Extract + 'static,)*
        {
            fn into_function(self) -> $crate::handler::HandlerFunction {
                $crate::handler::functions!(
                    @declare F, R, $crate::handler::Threaded<($($T,)*)>, $Purpose, self; $($T $name),*
                )
            }
        }
    };
    (@declare $F:ty, $R:ty, $M:ty, $Purpose:ident, $function:expr; $($T:ident $name:literal),*) => {{
        let arguments = vec![$($crate::handler::Argument::new::<$T>($name)),*];
        let run = $crate::handler::Typed::<$F, $M, $Purpose>::new($function);
        let function = $crate::handler::HandlerFunction::new::<$F>(arguments, run);
        <$Purpose as $crate::handler::Purpose<$R>>::declare(function)
    }};
}
pub(crate) use functions;

/// Functions whose results are stored in the status.
struct Outcomes;

impl<R: IntoOutcome> Purpose<R> for Outcomes {
    fn finish(result: R) -> HandlerResult {
        result.into_outcome()
    }
}

super::all_lengths!(functions(Handler IntoOutcome Outcomes;));
