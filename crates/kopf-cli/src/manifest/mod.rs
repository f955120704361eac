//! Manifests: from files, folders and stdin to single objects in the order of their creation.
//!
//! All is read, parsed and checked for what can be known without a server, before anything starts.
//! What the server would say of an object is not decided here.

mod document;
mod order;
mod parsing;
mod sections;
mod source;
mod yaml;

use std::path::PathBuf;

pub(crate) use document::Document;

use crate::failure::Failure;

/// Reads everything that is named by `-f`.
pub(crate) fn read_all(names: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let mut texts = Vec::new();
    for source in source::expand(names)? {
        texts.push((source.name(), source.read()?));
    }
    read_texts(&texts)
}

/// Understands texts with their names.
pub(crate) fn read_texts<T: AsRef<str>>(texts: &[(T, T)]) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for (name, text) in texts {
        documents.extend(parsing::parse(name.as_ref(), text.as_ref())?);
    }
    document::refuse_repeated(&documents)?;
    order::sort(&mut documents);
    Ok(documents)
}
