//! Named options, except those that select resources. They are checked and expanded to calls of the
//! methods of the same names.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned as _;

use crate::arguments::{MapLiteral, Named, OptionValue};
use crate::durations;
use crate::literals;
use crate::options::{Macro, SELECTING};
use crate::selector;

/// Returns the calls that follow the declaration: `.retries(3).label("a", PRESENT)`.
pub(crate) fn expand(on: Macro, named: &[Named]) -> syn::Result<TokenStream> {
    check_names(on, named)?;
    check_together(on, named)?;
    let mut calls = TokenStream::new();
    let mut problem: Option<syn::Error> = None;
    for option in named {
        if SELECTING.contains(&option.name().as_str()) {
            continue;
        }
        match call(option) {
            Ok(call) => calls.extend(call),
            Err(error) => match &mut problem {
                Some(problem) => problem.combine(error),
                None => problem = Some(error),
            },
        }
    }
    problem.map_or(Ok(calls), Err)
}

fn check_names(on: Macro, named: &[Named]) -> syn::Result<()> {
    let mut seen = BTreeSet::new();
    for option in named {
        let name = option.name();
        if let Some(message) = on.rejection(&name) {
            return Err(syn::Error::new_spanned(&option.name, message));
        }
        if !seen.insert(name.clone()) {
            return Err(syn::Error::new_spanned(
                &option.name,
                format!("the option `{name}` is given twice"),
            ));
        }
    }
    Ok(())
}

/// Rejects options that contradict or require each other.
fn check_together(on: Macro, named: &[Named]) -> syn::Result<()> {
    let find = |name: &str| named.iter().find(|option| option.name() == name);
    let complain =
        |option: &Named, message: String| Err(syn::Error::new_spanned(&option.name, message));
    if let (Some(value), Some(_)) = (find("value"), find("old").or_else(|| find("new"))) {
        return complain(
            value,
            "`value` cannot be combined with `old` or `new`: it matches either of them".to_owned(),
        );
    }
    if let (Some(sharp), None) = (find("sharp"), find("interval")) {
        return complain(sharp, "`sharp` requires `interval`".to_owned());
    }
    if find("field").is_none() {
        for name in ["value", "old", "new"] {
            if let Some(option) = find(name) {
                return complain(option, format!("`{name}` requires `field`"));
            }
        }
        if on == Macro::Field {
            return Err(syn::Error::new(
                proc_macro2::Span::call_site(),
                "`on::field` requires `field`, as in field = \"spec.field\"",
            ));
        }
    }
    Ok(())
}

fn call(option: &Named) -> syn::Result<TokenStream> {
    let name = option.name();
    let value = match &option.value {
        OptionValue::Map(map) => return map_calls(&name, &option.name, map),
        OptionValue::Expression(value) => value,
    };
    let tokens = match name.as_str() {
        "id" | "registry" | "subresource" | "source" | "target" => {
            literals::check_text(&name, value)?;
            value.to_token_stream()
        }
        "timeout"
        | "backoff"
        | "cancellation_backoff"
        | "cancellation_timeout"
        | "cancellation_polling"
        | "interval"
        | "idle"
        | "initial_delay" => durations::option(&name, value)?,
        "every" => durations::period(&name, value)?,
        "retries" => {
            literals::check_count(&name, value)?;
            value.to_token_stream()
        }
        "operations" => {
            literals::check_operations(value)?;
            value.to_token_stream()
        }
        "operation" => {
            literals::check_operation(&name, value)?;
            value.to_token_stream()
        }
        "optional" | "deleted" | "sharp" | "persistent" | "side_effects" | "ignore_failures"
        | "finalizer" => {
            literals::check_flag(&name, value)?;
            value.to_token_stream()
        }
        "owns" => {
            literals::check_list(&name, value)?;
            selector::list(value)
        }
        "when" => {
            literals::check_function(&name, value)?;
            value.to_token_stream()
        }
        "field" => {
            literals::check_field(&name, value)?;
            value.to_token_stream()
        }
        "errors" => {
            literals::check_errors_mode(value)?;
            value.to_token_stream()
        }
        "value" | "old" | "new" => {
            reject_none(&name, value)?;
            value.to_token_stream()
        }
        "labels" | "annotations" => {
            if matches!(**value, Expr::Lit(_)) {
                let accepted = "a map, as in {\"key\": \"value\", \"other\": PRESENT}";
                return Err(literals::wrong(&name, accepted, value));
            }
            value.to_token_stream()
        }
        _ => value.to_token_stream(),
    };
    let method = &option.name;
    Ok(quote_spanned!(literals::expanded(value.span())=> .#method(#tokens)))
}

/// Returns one call per entry: `.label(key, criterion)`.
fn map_calls(name: &str, place: &Ident, map: &MapLiteral) -> syn::Result<TokenStream> {
    let singular = if name == "labels" {
        "label"
    } else {
        "annotation"
    };
    let method = Ident::new(singular, literals::expanded(place.span()));
    let mut calls = TokenStream::new();
    let mut seen = BTreeSet::new();
    for (key, criterion) in &map.entries {
        if !seen.insert(key.value()) {
            return Err(syn::Error::new_spanned(
                key,
                format!("the {singular} {:?} is given twice", key.value()),
            ));
        }
        reject_none(&format!("{name}[{:?}]", key.value()), criterion)?;
        calls.extend(quote_spanned!(literals::expanded(criterion.span())=>
            .#method(#key, #criterion)
        ));
    }
    Ok(calls)
}

/// Rejects `None`, like the original, because it could mean "any" or "absent".
fn reject_none(option: &str, value: &Expr) -> syn::Result<()> {
    if literals::bare_name(value).as_deref() == Some("None") {
        return Err(syn::Error::new_spanned(
            value,
            format!(
                "`{option}` must be a value, PRESENT, ABSENT or a function; omit it for any value"
            ),
        ));
    }
    Ok(())
}
