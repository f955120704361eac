//! Functions as login handlers: they return credentials.

use std::marker::PhantomData;
use std::sync::Arc;

use kopf_engine::invocation::{Call, Invoke, Work};

use super::tuples::{Async, Threaded};
use super::{Argument, HandlerFunction, Prepared, extract};
use crate::extract::Extract;
use crate::login::{IntoCredentials, deliver};

/// A function that can be a login handler: async or not, with up to 16 arguments which can be
/// [extracted](crate::extract), and a result with [credentials](crate::IntoCredentials).
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a login handler",
    label = "not a login handler",
    note = "a login handler is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), and \
            `kopf::ConnectionInfo` or `kopf::Credentials`, or an `Option` or a `kopf::Result` of them, as its \
            result; its future must be `Send`",
    note = "`#[kopf::on::login]` on the function tells which of them is wrong"
)]
pub trait LoginHandler<M> {
    /// Hides the type of the function.
    fn into_function(self) -> HandlerFunction;
}

#[diagnostic::do_not_recommend]
impl LoginHandler<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

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
        impl<F, Fut, R, $($T,)*> LoginHandler<Async<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoCredentials,
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
            R: IntoCredentials,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let function = Arc::clone(&self.function);
                Work::Async(Box::pin(async move {
                    let future = function($(extract::<$T>(&call, $name)?),*);
                    drop((function, call));
                    deliver(future.await)
                }))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F, R, $($T,)*> LoginHandler<Threaded<($($T,)*)>> for F
        where
            F: Fn($($T),*) -> R + Send + Sync + 'static,
            R: IntoCredentials,
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
            R: IntoCredentials,
            $($T: Extract,)*
        {
            fn invoke(&self, call: Call) -> Work {
                let function = Arc::clone(&self.function);
                Work::Blocking(Box::new(move || {
                    let _ = &call;
                    deliver(function($(extract::<$T>(&call, $name)?),*))
                }))
            }
        }
    };
}

super::all_lengths!(functions);
