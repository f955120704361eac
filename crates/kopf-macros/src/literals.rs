//! Checks of literal values of options: literals of wrong types are rejected with the name of the
//! option. The compiler checks other expressions.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::{Expr, Lit, UnOp};

/// Returns a span at the same location in macro-generated code, which lints ignore.
pub(crate) fn expanded(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

/// Rejects literals as error modes.
pub(crate) fn check_errors_mode(value: &Expr) -> syn::Result<()> {
    if is_literal(value) {
        let accepted = "a mode, as in kopf::ErrorsMode::Permanent";
        return Err(wrong("errors", accepted, value));
    }
    Ok(())
}

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Rejects unknown operations.
pub(crate) fn check_operation(option: &str, value: &Expr) -> syn::Result<()> {
    match literal(value) {
        Some(Lit::Str(text)) if OPERATIONS.contains(&text.value().as_str()) => Ok(()),
        None => Ok(()),
        Some(_) => Err(wrong(
            option,
            "\"CREATE\", \"UPDATE\", \"DELETE\" or \"CONNECT\", or a kopf::Operation",
            value,
        )),
    }
}

/// Rejects unknown operations in a list.
pub(crate) fn check_operations(value: &Expr) -> syn::Result<()> {
    let option = "operations";
    let accepted =
        "a list of operations, as in [\"CREATE\", \"UPDATE\"]; omit it for all operations";
    match value {
        Expr::Array(list) if list.elems.is_empty() => Err(wrong(option, accepted, value)),
        Expr::Array(list) => {
            let mut elements = list.elems.iter();
            elements.try_for_each(|element| check_operation(option, element))
        }
        _ if is_literal(value) => Err(wrong(option, accepted, value)),
        _ => Ok(()),
    }
}

/// Returns the name if the value is a single identifier.
pub(crate) fn bare_name(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) if path.qself.is_none() => {
            path.path.get_ident().map(|ident| ident.unraw().to_string())
        }
        _ => None,
    }
}

pub(crate) fn check_text(option: &str, value: &Expr) -> syn::Result<()> {
    match literal(value) {
        Some(Lit::Str(text)) if text.value().is_empty() => Err(syn::Error::new_spanned(
            value,
            format!("`{option}` cannot be empty"),
        )),
        None | Some(Lit::Str(_)) => Ok(()),
        Some(_) => Err(wrong(option, "a string, as in \"some-text\"", value)),
    }
}

pub(crate) fn check_count(option: &str, value: &Expr) -> syn::Result<()> {
    match literal(value) {
        Some(Lit::Int(_)) if !is_negative(value) => Ok(()),
        None => Ok(()),
        Some(_) => Err(wrong(option, "a non-negative integer", value)),
    }
}

pub(crate) fn check_flag(option: &str, value: &Expr) -> syn::Result<()> {
    match literal(value) {
        None | Some(Lit::Bool(_)) => Ok(()),
        Some(_) => Err(wrong(option, "true or false", value)),
    }
}

pub(crate) fn check_list(option: &str, value: &Expr) -> syn::Result<()> {
    let is_empty = matches!(value, Expr::Array(list) if list.elems.is_empty());
    if is_empty || is_literal(value) {
        let accepted = "a list of resources, as in [\"deployments\", \"services\"]";
        return Err(wrong(option, accepted, value));
    }
    Ok(())
}

pub(crate) fn check_function(option: &str, value: &Expr) -> syn::Result<()> {
    if is_literal(value) {
        return Err(wrong(
            option,
            "a function or a closure that returns `bool`",
            value,
        ));
    }
    Ok(())
}

pub(crate) fn check_field(option: &str, value: &Expr) -> syn::Result<()> {
    let accepted = "a path such as \"spec.field\" or [\"spec\", \"field\"]";
    match literal(value) {
        Some(Lit::Str(text)) if text.value().is_empty() => Err(wrong(option, accepted, value)),
        None | Some(Lit::Str(_)) => Ok(()),
        Some(_) => Err(wrong(option, accepted, value)),
    }
}

/// Returns an error with the accepted values.
pub(crate) fn wrong(option: &str, accepted: &str, value: &Expr) -> syn::Error {
    syn::Error::new_spanned(value, format!("`{option}` must be {accepted}"))
}

fn is_literal(value: &Expr) -> bool {
    literal(value).is_some()
}

pub(crate) fn is_negative(value: &Expr) -> bool {
    matches!(value, Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)))
}

pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(literal) => Some(&literal.lit),
        Expr::Unary(unary) if is_negative(value) => literal(&unary.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Expr {
        syn::parse_str(text).unwrap()
    }

    #[test]
    fn literals_of_wrong_types_are_rejected() {
        for (check, accepted, refused) in [
            (
                check_count as fn(&str, &Expr) -> syn::Result<()>,
                &["3", "LIMIT", "2 + 2"][..],
                &["\"3\"", "1.5", "-1"][..],
            ),
            (check_text, &["\"x\"", "NAME"], &["\"\"", "3"]),
            (check_flag, &["true", "YES"], &["\"true\"", "1"]),
            (
                check_function,
                &["f", "|x: &Value| true"],
                &["\"f\"", "true"],
            ),
            (
                check_field,
                &["\"spec.x\"", "[\"a\", \"b\"]"],
                &["\"\"", "3"],
            ),
        ] {
            for text in accepted {
                assert!(check("option", &value(text)).is_ok(), "{text}");
            }
            for text in refused {
                let error = check("option", &value(text)).unwrap_err();
                assert!(error.to_string().contains("`option`"), "{text}: {error}");
            }
        }
    }

    #[test]
    fn operations_are_strings_or_expressions() {
        for accepted in ["[\"UPDATE\"]", "[Operation::Create, DELETE]", "CHOSEN"] {
            assert!(check_operations(&value(accepted)).is_ok(), "{accepted}");
        }
        for refused in ["[]", "\"CREATE\"", "[\"PATCH\"]", "[1]"] {
            assert!(check_operations(&value(refused)).is_err(), "{refused}");
        }
        assert!(check_operation("operation", &value("\"CONNECT\"")).is_ok());
        assert!(check_operation("operation", &value("\"create\"")).is_err());
    }

    #[test]
    fn error_modes_are_not_literals() {
        assert!(check_errors_mode(&value("ErrorsMode::Permanent")).is_ok());
        assert!(check_errors_mode(&value("\"permanent\"")).is_err());
    }
}
