//! Index functions: their results are stored in an index, and the type of their name is used in
//! arguments of handlers.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, ItemFn, ReturnType};

use crate::arguments::{Arguments, OptionValue};
use crate::function;
use crate::literals::expanded;

/// Returns the function with the types of its index.
pub(crate) fn with_index(function: &ItemFn, run: &TokenStream) -> TokenStream {
    let ident = &function.sig.ident;
    quote!(::kopf::__private::with_index::<#ident>(#run))
}

/// Makes the type with the name of the function an index.
pub(crate) fn named(function: &ItemFn, arguments: &Arguments) -> TokenStream {
    // Of several attributes on a function, the last one declares the type.
    if function.attrs.iter().any(is_index) {
        return TokenStream::new();
    }
    let ident = &function.sig.ident;
    let returned = returned(function);
    let given = arguments.named.iter().find(|named| named.name() == "id");
    let id = match given.map(|named| &named.value) {
        Some(OptionValue::Expression(id)) => id.to_token_stream(),
        _ => function::name(function).to_token_stream(),
    };
    let entries = quote_spanned!(expanded(returned.span())=>
        <#returned as ::kopf::indexing::IntoEntries>
    );
    quote! {
        impl ::kopf::IndexOf for #ident {
            type Key = #entries::Key;
            type Value = #entries::Value;
            const ID: &'static str = #id;
        }
    }
}

fn is_index(attribute: &Attribute) -> bool {
    let segments = &attribute.path().segments;
    segments.last().is_some_and(|last| last.ident == "index")
}

fn returned(function: &ItemFn) -> TokenStream {
    match &function.sig.output {
        ReturnType::Default => quote_spanned!(function.sig.ident.span()=> ()),
        ReturnType::Type(_, returned) => returned.to_token_stream(),
    }
}
