//! Handlers declared by attribute macros anywhere in the program.

use crate::on::AnyHandler;

/// The handlers declared by the attributes of a function, with their source location.
#[derive(Debug)]
pub struct Registration {
    place: (&'static str, u32, u32),
    declare: fn() -> Vec<AnyHandler>,
}

impl Registration {
    /// Creates a registration at the given location.
    pub const fn new(
        file: &'static str,
        line: u32,
        column: u32,
        declare: fn() -> Vec<AnyHandler>,
    ) -> Self {
        Self {
            place: (file, line, column),
            declare,
        }
    }
}

inventory::collect!(Registration);

/// Returns the declared handlers of a group (or those without one), in order of their locations.
pub(crate) fn registered(group: Option<&str>) -> Vec<AnyHandler> {
    let mut registrations: Vec<&Registration> =
        inventory::iter::<Registration>.into_iter().collect();
    registrations.sort_by_key(|registration| registration.place);
    registrations
        .into_iter()
        .flat_map(|registration| (registration.declare)())
        .filter(|handler| handler.group() == group)
        .collect()
}
