//! Functions of all numbers of arguments, async and blocking ones.

use std::marker::PhantomData;
use std::sync::Arc;

use kopf_engine::invocation::{Call, Invoke, Work};

use super::{Argument, Handler, HandlerFunction, extract};
use crate::extract::Extract;
use crate::outcome::IntoOutcome;

/// For [`Handler`]: an async function with these arguments.
#[derive(Debug)]
pub struct Async<T>(PhantomData<T>);

/// For [`Handler`]: a blocking function with these arguments.
#[derive(Debug)]
pub struct Threaded<T>(PhantomData<T>);

/// A function with the types of its arguments, which nothing else keeps.
struct Typed<F, M> {
    function: Arc<F>,
    marker: PhantomData<fn() -> M>,
}

impl<F, M> Typed<F, M> {
    fn new(function: F) -> Self {
        Self {
            function: Arc::new(function),
            marker: PhantomData,
        }
    }
}

macro_rules! functions {
    ($($T:ident $name:literal),*) => {
        #[diagnostic::do_not_recommend]
        impl<F, Fut, R, $($T,)*> Handler<Async<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoOutcome,
            $($T: Extract + 'static,)*
        {
            fn into_function(self) -> HandlerFunction {
                let arguments = vec![$(Argument::new::<$T>($name)),*];
                let run: Typed<F, Async<($($T,)*)>> = Typed::new(self);
                HandlerFunction::new::<F>(arguments, run)
            }
        }

        impl<F, Fut, R, $($T,)*> Invoke for Typed<F, Async<($($T,)*)>>
        where
            F: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoOutcome,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let function = Arc::clone(&self.function);
                Work::Async(Box::pin(async move {
                    let future = function($(extract::<$T>(&call, $name)?),*);
                    drop((function, call));
                    future.await.into_outcome()
                }))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F, R, $($T,)*> Handler<Threaded<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> R + Send + Sync + 'static,
            R: IntoOutcome,
            $($T: Extract + 'static,)*
        {
            fn into_function(self) -> HandlerFunction {
                let arguments = vec![$(Argument::new::<$T>($name)),*];
                let run: Typed<F, Threaded<($($T,)*)>> = Typed::new(self);
                HandlerFunction::new::<F>(arguments, run)
            }
        }

        impl<F, R, $($T,)*> Invoke for Typed<F, Threaded<($($T,)*)>>
        where
            F: Fn($($T),*) -> R + Send + Sync + 'static,
            R: IntoOutcome,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let function = Arc::clone(&self.function);
                Work::Blocking(Box::new(move || {
                    let _ = &call;
                    function($(extract::<$T>(&call, $name)?),*).into_outcome()
                }))
            }
        }
    };
}

super::all_lengths!(functions);
