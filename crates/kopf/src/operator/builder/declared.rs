//! The declared handlers of an operator as a whole: repetitions, and the indices that they need.

use std::collections::{BTreeMap, HashSet};

use super::{BuildError, OperatorBuilder};
use crate::on::AnyHandler;

impl OperatorBuilder {
    /// Checks that no attribute is added twice: its handler would be called once or twice, depending on its
    /// kind.
    pub(super) fn check_repetitions(&self) -> Result<(), BuildError> {
        let mut known = HashSet::new();
        let mut attributed = self.handlers.iter();
        let repeated = attributed.find(|handler| {
            let attribute = handler.attribute;
            attribute.is_some_and(|attribute| !known.insert(attribute))
        });
        repeated.map_or(Ok(()), |handler| {
            Err(BuildError::Handler {
                handler: handler.name().to_owned(),
                message:
                    "it is added twice: list each function once in kopf::handlers![…], and do not \
                          combine the list with handlers_from_macros()"
                        .to_owned(),
            })
        })
    }

    /// Adds an index for each kind that an argument lists. The operator must watch it anyway.
    pub(super) fn declare_listers(&mut self) -> Result<(), BuildError> {
        let mut listings = BTreeMap::new();
        for handler in &self.handlers {
            for (argument, listing) in handler.listings() {
                let resource = &listing.resource;
                if !self.handlers.iter().any(|other| other.watches(resource)) {
                    let plural = &resource.plural;
                    return Err(BuildError::Handler {
                        handler: handler.name().to_owned(),
                        message: format!(
                            "argument {argument}: no handler watches {plural}: add them to the option \
                             `owns` of a handler, or declare a handler for them, such as on::event"
                        ),
                    });
                }
                listings.insert(listing.id.clone(), listing);
            }
        }
        let indices = listings.into_values().map(AnyHandler::from);
        self.handlers.extend(indices);
        Ok(())
    }

    /// Several functions can maintain one index if its types are the same.
    pub(super) fn declare_indices(&mut self) -> Result<(), BuildError> {
        for handler in &self.handlers {
            let Some((id, types)) = handler.index_types() else {
                continue;
            };
            let declared = self.front.indices.entry(id.to_owned()).or_insert(types);
            if !declared.is_like(&types) {
                return Err(BuildError::Handler {
                    handler: id.to_owned(),
                    message: format!(
                        "the index has entries of the type {}, not {}: \
                         give one of the functions another id",
                        declared.entries, types.entries
                    ),
                });
            }
        }
        Ok(())
    }
}
