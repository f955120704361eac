//! Selectors of resources: the positional arguments and the selecting options.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::arguments::{Arguments, Named, OptionValue, Positional};
use crate::literals;
use crate::options::{Macro, SELECTING, is_option};

/// Lists the forms of selectors.
fn forms(on: Macro) -> String {
    format!(
        "one of: #[kopf::{on}(\"things\")], (\"group\", \"things\"), (\"group\", \"v1\", \"things\"), \
         (EVERYTHING), (SomeType), (predicate), (category = \"all\"), (kind = \"Thing\", group = …)"
    )
}

/// Returns no selector, for activities. Rejects positional arguments.
pub(crate) fn none(on: Macro, arguments: &Arguments) -> syn::Result<TokenStream> {
    match arguments.positional.first() {
        None => Ok(TokenStream::new()),
        Some(positional) => Err(syn::Error::new_spanned(
            positional,
            format!("`{on}` has no resource: it is called for the operator, not for objects"),
        )),
    }
}

/// Returns the expression of the selector.
pub(crate) fn expand(on: Macro, arguments: &Arguments) -> syn::Result<TokenStream> {
    let keywords: Vec<&Named> = arguments
        .named
        .iter()
        .filter(|named| SELECTING.contains(&named.name().as_str()))
        .collect();
    for positional in &arguments.positional {
        check_positional(on, positional)?;
    }
    check_naming(on, &arguments.positional, &keywords)?;

    let base = match arguments.positional.as_slice() {
        [] => quote!(::kopf::__private::select()),
        [Positional::Type(path)] => {
            // The type determines which of two traits applies: only custom resources have CRDs.
            quote_spanned!(literals::expanded(path.span())=> {
                #[allow(unused_imports)]
                use ::kopf::__private::{Builtin as _, Custom as _};
                let probe = &::kopf::__private::Probe::<#path>::new();
                ::kopf::__private::select_kind::<#path>(probe.definition())
            })
        }
        [Positional::Value(value)] => quote_spanned!(literals::expanded(value.span())=>
            ::kopf::__private::select_from(#value)
        ),
        texts => quote!(::kopf::__private::select_from([#(#texts),*])),
    };
    let mut keyword_calls = TokenStream::new();
    for keyword in keywords {
        let name = &keyword.name;
        let OptionValue::Expression(value) = &keyword.value else {
            continue;
        };
        literals::check_text(&keyword.name(), value)?;
        keyword_calls.extend(quote_spanned!(literals::expanded(value.span())=> .#name(#value)));
    }
    Ok(quote!(#base #keyword_calls))
}

/// Returns a list of resources, some of which may be types.
pub(crate) fn list(value: &Expr) -> TokenStream {
    let Expr::Array(list) = value else {
        return value.to_token_stream();
    };
    let selects = list.elems.iter().map(|element| {
        let place = literals::expanded(element.span());
        if let Ok(Positional::Type(path)) = syn::parse2(element.to_token_stream()) {
            let none = quote!(::std::option::Option::None);
            quote_spanned!(place=> ::kopf::__private::select_kind::<#path>(#none))
        } else {
            quote_spanned!(place=> ::kopf::__private::select_from(#element))
        }
    });
    quote!([#(#selects),*])
}

fn check_positional(on: Macro, positional: &Positional) -> syn::Result<()> {
    let complain = |message: String| Err(syn::Error::new_spanned(positional, message));
    match positional {
        Positional::Text(text) if text.value().is_empty() => {
            complain("the name of a resource cannot be empty".to_owned())
        }
        Positional::Value(value) => match &**value {
            Expr::Path(path) => {
                let name = path.path.get_ident().map(|ident| ident.unraw().to_string());
                match name {
                    Some(name) if is_option(&name) => {
                        complain(format!("the option `{name}` has no value: `{name} = …`"))
                    }
                    _ => Ok(()),
                }
            }
            Expr::Lit(_) => complain(format!(
                "a resource must be a string, a type, a predicate or EVERYTHING; {}",
                forms(on)
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Requires exactly one argument with a name of the resource.
fn check_naming(on: Macro, positional: &[Positional], keywords: &[&Named]) -> syn::Result<()> {
    if let Some(extra) = positional.get(3) {
        return Err(syn::Error::new_spanned(
            extra,
            "a resource has at most three parts: group, version, name",
        ));
    }
    if positional.len() > 1
        && let Some(other) = positional
            .iter()
            .find(|positional| !matches!(positional, Positional::Text(_)))
    {
        return Err(syn::Error::new_spanned(
            other,
            "this cannot be combined with other positional arguments",
        ));
    }
    let mut naming = keywords
        .iter()
        .filter(|keyword| !matches!(keyword.name().as_str(), "group" | "version"));
    let first = naming.next();
    match (positional.first(), first) {
        (None, None) => {
            let message = format!("the resource is missing; {}", forms(on));
            Err(match keywords.first() {
                Some(keyword) => syn::Error::new_spanned(keyword.to_token_stream(), message),
                None => syn::Error::new(proc_macro2::Span::call_site(), message),
            })
        }
        (Some(_), Some(extra)) => Err(twice(extra)),
        _ => naming.next().map_or(Ok(()), |extra| Err(twice(extra))),
    }
}

fn twice(extra: &Named) -> syn::Error {
    syn::Error::new_spanned(
        &extra.name,
        "duplicate name of the resource: use only one of a positional name, kind, plural, \
         singular, shortcut, category",
    )
}
