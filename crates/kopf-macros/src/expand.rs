//! Expansion of attributes: the unchanged function, followed by its registration.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ItemFn;

use crate::arguments::Arguments;
use crate::options::Macro;
use crate::{criteria, function, index, selector};

/// Expands an attribute. After an error, only the function is kept, so that the compiler reports no
/// further errors.
pub(crate) fn expand(on: Macro, arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        let message = format!("`#[kopf::{on}(…)]` is for functions: `async fn` or `fn`");
        let error = syn::Error::new_spanned(item, message).to_compile_error();
        return quote!(#error #item);
    };
    match registration(on, arguments, &function) {
        // Arguments are passed by value, and the results and `async` are the author's choice.
        Ok(registration) => quote! {
            #[allow(
                clippy::needless_pass_by_value,
                clippy::too_many_arguments,
                clippy::unnecessary_wraps,
                clippy::unused_async,
            )]
            #item
            #registration
        },
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#error #item)
        }
    }
}

fn registration(on: Macro, arguments: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
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
    Ok(quote! {
        #named
        ::kopf::__private::inventory::submit! {
            ::kopf::__private::Registration::new(
                ::std::file!(),
                ::std::line!(),
                ::std::column!(),
                || ::std::convert::Into::into(#declare(#selector #run) #calls),
            )
        }
    })
}
