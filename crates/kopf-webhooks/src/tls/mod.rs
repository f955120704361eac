//! The TLS side of a server: given or generated certificates, and CA bundles.

mod bundle;
mod certificates;
mod dumping;
mod encrypted_key;
mod files;
mod generating;
mod material;
mod options;
mod peer;
mod self_signed;
mod sharing;
mod source;
mod verifying;

pub(crate) use self::bundle::Bundle;
pub(crate) use self::material::Material;
pub(crate) use self::options::Options;
pub(crate) use self::peer::describe;
pub use self::self_signed::build_certificate;
pub(crate) use self::source::Source;
pub use self::verifying::Verify;
