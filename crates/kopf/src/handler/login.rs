//! Functions as login handlers, which return credentials.

use kopf_engine::invocation::HandlerResult;

use super::{HandlerFunction, Prepared, Purpose, functions};
use crate::login::{IntoCredentials, deliver};

/// A function that can be a login handler: async or blocking, with up to 16 arguments that can be
/// [extracted](crate::extract), and a result with [credentials](crate::IntoCredentials).
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a login handler",
    label = "not a login handler",
    note = "a login handler is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), and \
            `kopf::ConnectionInfo` or `kopf::Credentials`, or an `Option` or a `kopf::Result` of them, as its \
            result; its future must be `Send`",
    note = "`#[kopf::on::login]` on the function reports the mismatch"
)]
pub trait LoginHandler<M> {
    /// Erases the type of the function.
    fn into_function(self) -> HandlerFunction;
}

#[diagnostic::do_not_recommend]
impl LoginHandler<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

/// Functions whose results are credentials.
struct Logins;

impl<R: IntoCredentials> Purpose<R> for Logins {
    fn finish(result: R) -> HandlerResult {
        deliver(result)
    }
}

super::all_lengths!(functions(LoginHandler IntoCredentials Logins;));
