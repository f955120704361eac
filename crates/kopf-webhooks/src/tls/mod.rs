//! The TLS side of a server: certificates from files or made up, and who vouches for them.

mod certificates;
mod encrypted_key;
mod generating;
mod options;
mod peer;
mod source;
mod verifying;

pub(crate) use self::options::Options;
pub(crate) use self::peer::describe;
pub(crate) use self::source::{Material, Source};
pub use self::verifying::Verify;
