//! Checks of literal values of options: literals of wrong types are rejected with the name of the
//! option. The compiler checks other expressions.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Expr, Lit, UnOp};

/// Returns a span at the same location in macro-generated code, which lints ignore.
pub(crate) fn expanded(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

/// Replaces the markers of the original, so that they need no import.
pub(crate) fn marker(value: &Expr) -> TokenStream {
    let span = value.span();
    match bare_name(value).as_deref() {
        Some("PRESENT") => quote_spanned!(span=> ::kopf::PRESENT),
        Some("ABSENT") => quote_spanned!(span=> ::kopf::ABSENT),
        Some("EVERYTHING") => quote_spanned!(span=> ::kopf::EVERYTHING),
        _ => value.to_token_stream(),
    }
}

/// Replaces the names of error modes.
pub(crate) fn errors_mode(value: &Expr) -> syn::Result<TokenStream> {
    let span = value.span();
    if is_literal(value) {
        return Err(wrong("errors", "IGNORED, TEMPORARY or PERMANENT", value));
    }
    Ok(match bare_name(value).as_deref() {
        Some("IGNORED") => quote_spanned!(span=> ::kopf::ErrorsMode::Ignored),
        Some("TEMPORARY") => quote_spanned!(span=> ::kopf::ErrorsMode::Temporary),
        Some("PERMANENT") => quote_spanned!(span=> ::kopf::ErrorsMode::Permanent),
        _ => value.to_token_stream(),
    })
}

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Replaces the names of operations, so that they need no import.
pub(crate) fn operation(option: &str, value: &Expr) -> syn::Result<TokenStream> {
    let accepted = "CREATE, UPDATE, DELETE or CONNECT";
    let span = value.span();
    match literal(value) {
        Some(Lit::Str(text)) if OPERATIONS.contains(&text.value().as_str()) => {}
        None => {}
        Some(_) => return Err(wrong(option, accepted, value)),
    }
    Ok(match bare_name(value).as_deref() {
        Some("CREATE") => quote_spanned!(span=> ::kopf::Operation::Create),
        Some("UPDATE") => quote_spanned!(span=> ::kopf::Operation::Update),
        Some("DELETE") => quote_spanned!(span=> ::kopf::Operation::Delete),
        Some("CONNECT") => quote_spanned!(span=> ::kopf::Operation::Connect),
        Some("ALL" | "ANY") => return Err(wrong(option, accepted, value)),
        _ => value.to_token_stream(),
    })
}

/// Replaces the names in a list of operations.
pub(crate) fn operations(value: &Expr) -> syn::Result<TokenStream> {
    let option = "operations";
    let accepted = "a list of operations, as in [CREATE, UPDATE]; omit it for all operations";
    match value {
        Expr::Array(list) if list.elems.is_empty() => Err(wrong(option, accepted, value)),
        Expr::Array(list) => {
            let list = list.elems.iter().map(|element| operation(option, element));
            let list = list.collect::<syn::Result<Vec<_>>>()?;
            Ok(quote_spanned!(value.span()=> [#(#list),*]))
        }
        _ if is_literal(value) => Err(wrong(option, accepted, value)),
        _ => Ok(value.to_token_stream()),
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

pub(crate) fn check_seconds(option: &str, value: &Expr) -> syn::Result<()> {
    let accepted = "a non-negative number of seconds or a Duration";
    match literal(value) {
        Some(Lit::Int(_) | Lit::Float(_)) if is_negative(value) => {
            Err(wrong(option, accepted, value))
        }
        None | Some(Lit::Int(_) | Lit::Float(_)) => Ok(()),
        Some(_) => Err(wrong(option, accepted, value)),
    }
}

pub(crate) fn check_delay(option: &str, value: &Expr) -> syn::Result<()> {
    let accepted = "a non-negative number of seconds, a Duration, or a function of the object";
    match literal(value) {
        Some(Lit::Int(_) | Lit::Float(_)) if !is_negative(value) => Ok(()),
        None => Ok(()),
        Some(_) => Err(wrong(option, accepted, value)),
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

fn is_negative(value: &Expr) -> bool {
    matches!(value, Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)))
}

fn literal(value: &Expr) -> Option<&Lit> {
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
                check_seconds as fn(&str, &Expr) -> syn::Result<()>,
                &["3", "2.5", "Duration::from_secs(3)", "LIMIT"][..],
                &["\"3\"", "true", "-1", "-0.5"][..],
            ),
            (
                check_delay,
                &["3", "2.5", "delay", "|Spec(spec): Spec| 3"],
                &["\"3\"", "true", "-1"],
            ),
            (
                check_count,
                &["3", "LIMIT", "2 + 2"],
                &["\"3\"", "1.5", "-1"],
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
    fn operations_are_names_or_strings() {
        let text = |list: &str| operations(&value(list)).map(|tokens| tokens.to_string());
        assert_eq!(
            text("[CREATE, DELETE]").unwrap(),
            "[:: kopf :: Operation :: Create , :: kopf :: Operation :: Delete]"
        );
        assert_eq!(text("[\"UPDATE\"]").unwrap(), "[\"UPDATE\"]");
        assert_eq!(text("CHOSEN").unwrap(), "CHOSEN");
        for refused in ["[]", "\"CREATE\"", "[\"PATCH\"]", "[1]", "[ALL]"] {
            assert!(text(refused).is_err(), "{refused}");
        }
        assert!(operation("operation", &value("CONNECT")).is_ok());
        assert!(operation("operation", &value("\"create\"")).is_err());
    }

    #[test]
    fn markers_need_no_import() {
        assert_eq!(marker(&value("PRESENT")).to_string(), ":: kopf :: PRESENT");
        assert_eq!(marker(&value("kopf::ABSENT")).to_string(), "kopf :: ABSENT");
        assert_eq!(
            errors_mode(&value("PERMANENT")).unwrap().to_string(),
            ":: kopf :: ErrorsMode :: Permanent"
        );
        assert!(errors_mode(&value("\"permanent\"")).is_err());
    }
}
