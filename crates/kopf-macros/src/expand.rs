//! Expansion of attributes: the unchanged function, followed by its declaration.
//!
//! A function can have several attributes. Each adds its handler to the last attribute of the
//! function, `declared`, which is expanded after all of them.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ItemFn, Meta, Token, parse_quote};

use crate::arguments::Arguments;
use crate::options::Macro;
use crate::{criteria, function, index, selector};

/// Expands an attribute. After an error, only the function is kept, so that the compiler reports no
/// further errors.
pub(crate) fn expand(on: Macro, arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let message = format!("`#[kopf::{on}(…)]` is for functions: `async fn` or `fn`");
        let error = syn::Error::new_spanned(item, message).to_compile_error();
        return quote!(#error #item);
    };
    match handler(on, arguments, &function) {
        Ok((handler, others)) => {
            add(&mut function.attrs, &handler);
            quote!(#function #others)
        }
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#error #item)
        }
    }
}

/// Adds a handler to the attribute `declared`, which is added if there is none.
fn add(attributes: &mut Vec<Attribute>, handler: &TokenStream) {
    match attributes
        .iter_mut()
        .find(|attribute| is_declared(attribute))
    {
        Some(Attribute {
            meta: Meta::List(list),
            ..
        }) => list.tokens.extend(quote!(, #handler)),
        _ => attributes.push(parse_quote!(#[::kopf::__private::declared(#handler)])),
    }
}

fn is_declared(attribute: &Attribute) -> bool {
    let path = &attribute.path();
    let names = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string());
    path.leading_colon.is_some() && names.eq(["kopf", "__private", "declared"])
}

/// Expands the attribute `declared`: a type with the name of the function declares its handlers.
/// Types with braces do not conflict with functions.
pub(crate) fn declared(handlers: TokenStream, item: &TokenStream) -> TokenStream {
    let handlers = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(handlers);
    let (Ok(function), Ok(handlers)) = (syn::parse2::<ItemFn>(item.clone()), handlers) else {
        return item.clone();
    };
    let (visibility, ident) = (&function.vis, &function.sig.ident);
    let handlers = handlers.iter();
    let doc = format!("The handlers of the function `{ident}`, for `kopf::handlers![{ident}]`.");
    // Arguments are passed by value, and the results and `async` are the author's choice.
    quote! {
        #[allow(
            clippy::needless_pass_by_value,
            clippy::too_many_arguments,
            clippy::unnecessary_wraps,
            clippy::unused_async,
        )]
        #item

        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code)]
        #[derive(::std::fmt::Debug, ::std::clone::Clone, ::std::marker::Copy)]
        #visibility struct #ident {}

        impl ::kopf::on::Attributed for #ident {
            fn handlers() -> ::std::vec::Vec<::kopf::on::AnyHandler> {
                ::kopf::__private::attributed::<Self>(::std::vec![
                    #(::std::convert::Into::into(#handlers)),*
                ])
            }
        }

        ::kopf::__private::inventory::submit! {
            ::kopf::__private::Registration::new(
                ::std::file!(),
                ::std::line!(),
                ::std::column!(),
                <#ident as ::kopf::on::Attributed>::handlers,
            )
        }
    }
}

/// Returns the expression of the handler, and further items.
fn handler(
    on: Macro,
    arguments: TokenStream,
    function: &ItemFn,
) -> syn::Result<(TokenStream, Option<TokenStream>)> {
    function::check(function)?;
    let arguments: Arguments = syn::parse2(arguments)?;
    let calls = criteria::expand(on, &arguments.named);
    let selector = if on.is_activity() {
        selector::none(on, &arguments)
    } else {
        selector::expand(on, &arguments).map(|selector| quote!(#selector,))
    };
    // Reports the errors of both in one compilation.
    let (calls, selector) = match (calls, selector) {
        (Ok(calls), Ok(selector)) => (calls, selector),
        (Err(mut error), Err(other)) => {
            error.combine(other);
            return Err(error);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let declare = format_ident!("{}", on.name());
    let declare = if on.is_in_on() {
        quote!(::kopf::on::#declare)
    } else {
        quote!(::kopf::#declare)
    };
    let mut run = function::expand(on, function);
    let mut named = None;
    if on == Macro::Index {
        run = index::with_index(function, &run);
        named = Some(index::named(function, &arguments));
    }
    Ok((quote!(#declare(#selector #run) #calls), named))
}
