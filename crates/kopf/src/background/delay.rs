//! Delays before the first call: fixed or computed by a user's function.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::Cause;
use kopf_core::handler::{self, DelayFunction, Param};
use kopf_core::patch::BoxError;

use crate::extract::{Declared, FilterExtract, Rejection, with_filter_context};
use crate::outcome::IntoError;
use crate::seconds::{IntoDuration, InvalidDuration};

/// A delay before the first call: a number of seconds, a `Duration`, or a function that returns one
/// of these (or a `Result`) for an object.
///
/// The function has up to 8 arguments that can be [extracted](crate::extract::FilterExtract). If it
/// fails, the error is logged and the function is retried after the backoff.
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an initial delay",
    label = "a number of seconds, a `Duration`, or a function that returns one is expected here",
    note = "arguments of the function are extractors that are available before the call, such as `Spec`"
)]
pub trait InitialDelay<M> {
    /// Converts the value for the engine. Negative numbers and NaN are errors.
    fn into_initial_delay(self) -> Result<handler::InitialDelay, InvalidDuration>;

    /// Rejects arguments that are not available to the handler.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }
}

/// A return value of functions for an initial delay: a number of seconds or a `Duration`, or a
/// `Result` with one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a delay",
    label = "a number of seconds, a `Duration`, or a `Result` with one is expected here"
)]
pub trait Delay {
    /// Converts the value for the engine.
    fn into_delay(self) -> Result<Duration, BoxError>;
}

impl<D: IntoDuration> Delay for D {
    fn into_delay(self) -> Result<Duration, BoxError> {
        Ok(self.into_duration()?)
    }
}

impl<D: IntoDuration, E: IntoError> Delay for Result<D, E> {
    fn into_delay(self) -> Result<Duration, BoxError> {
        let delay = self.map_err(|error| error.into_error().into_boxed())?;
        Ok(delay.into_duration()?)
    }
}

/// For [`InitialDelay`]: a value.
#[derive(Debug)]
pub struct Fixed;

#[diagnostic::do_not_recommend]
impl<D: IntoDuration> InitialDelay<Fixed> for D {
    fn into_initial_delay(self) -> Result<handler::InitialDelay, InvalidDuration> {
        Ok(handler::InitialDelay::Fixed(self.into_duration()?))
    }
}

/// A function with the types of its arguments.
struct Typed<F, M>(F, PhantomData<fn() -> M>);

macro_rules! functions {
    ($($T:ident),*) => {
        #[diagnostic::do_not_recommend]
        impl<F, D, $($T,)*> InitialDelay<($($T,)*)> for F
        where
            F: Fn($($T),*) -> D + Send + Sync + 'static,
            D: Delay,
            $($T: FilterExtract + 'static,)*
        {
            fn into_initial_delay(self) -> Result<handler::InitialDelay, InvalidDuration> {
                let function = Arc::new(Typed::<F, ($($T,)*)>(self, PhantomData));
                Ok(handler::InitialDelay::Function(function))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                let _ = declared;
                $($T::check(declared)?;)*
                Ok(())
            }
        }

        impl<F, D, $($T,)*> DelayFunction for Typed<F, ($($T,)*)>
        where
            F: Fn($($T),*) -> D + Send + Sync,
            D: Delay,
            $($T: FilterExtract,)*
        {
            fn delay(&self, cause: &Cause, context: &dyn Any) -> Result<Duration, BoxError> {
                self.delay_for(cause, context, None)
            }

            fn delay_for(
                &self,
                cause: &Cause,
                context: &dyn Any,
                param: Option<&Param>,
            ) -> Result<Duration, BoxError> {
                let delay = with_filter_context(cause, context, param, |context| {
                    let _ = context;
                    Ok((self.0)($($T::extract(context)?),*))
                });
                delay?.into_delay()
            }
        }
    };
}

functions!();
functions!(T1);
functions!(T1, T2);
functions!(T1, T2, T3);
functions!(T1, T2, T3, T4);
functions!(T1, T2, T3, T4, T5);
functions!(T1, T2, T3, T4, T5, T6);
functions!(T1, T2, T3, T4, T5, T6, T7);
functions!(T1, T2, T3, T4, T5, T6, T7, T8);
