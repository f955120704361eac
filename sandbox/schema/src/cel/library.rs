//! The functions of the crates.

use std::sync::LazyLock;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::Context;

/// The functions. Built once, because there are more than a hundred.
static BASE: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut base = Context::default().with_all();
    super::bounded::register(&mut base);
    base
});

pub(super) fn base() -> &'static Context<'static> {
    &BASE
}
