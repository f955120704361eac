//! Handlers that are declared by attribute macros, wherever they are in the program.

use crate::on::AnyHandler;

/// A handler that is declared by an attribute macro, and where.
#[derive(Debug)]
pub struct Registration {
    place: (&'static str, u32, u32),
    declare: fn() -> AnyHandler,
}

impl Registration {
    /// A handler at this place: file, line, column.
    pub const fn new(
        file: &'static str,
        line: u32,
        column: u32,
        declare: fn() -> AnyHandler,
    ) -> Self {
        Self {
            place: (file, line, column),
            declare,
        }
    }
}

inventory::collect!(Registration);

/// All declared handlers of a group (or without one), by their places: file, line, column.
pub(crate) fn registered(group: Option<&str>) -> Vec<AnyHandler> {
    let mut registrations: Vec<&Registration> =
        inventory::iter::<Registration>.into_iter().collect();
    registrations.sort_by_key(|registration| registration.place);
    registrations
        .into_iter()
        .map(|registration| (registration.declare)())
        .filter(|handler| handler.group() == group)
        .collect()
}
