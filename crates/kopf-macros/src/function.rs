//! The function under the attribute: its checks, and its call with extracted arguments.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{FnArg, ItemFn, Pat, ReturnType, Safety, Type};

use crate::literals::expanded;
use crate::options::Macro;

/// Rejects functions that cannot be handlers.
pub(crate) fn check(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    let complain =
        |place: &dyn quote::ToTokens, message: &str| Err(syn::Error::new_spanned(place, message));
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        return complain(
            receiver,
            "a handler cannot be a method: use `State<T>` for shared values",
        );
    }
    if !signature.generics.params.is_empty() {
        return complain(
            &signature.generics,
            "a handler cannot be generic: the types of its arguments determine their values",
        );
    }
    if matches!(signature.safety, Safety::Unsafe(_)) {
        return complain(&signature.ident, "a handler cannot be unsafe");
    }
    if let Some(variadic) = &signature.variadic {
        return complain(variadic, "a handler cannot be variadic");
    }
    Ok(())
}

/// Returns the default id of the handler.
pub(crate) fn name(function: &ItemFn) -> String {
    function.sig.ident.unraw().to_string()
}

/// An argument: its name for messages, its variable and its type.
struct Argument<'a> {
    name: String,
    variable: Ident,
    of_type: &'a Type,
}

fn arguments(function: &ItemFn) -> Vec<Argument<'_>> {
    let mut arguments = Vec::new();
    for (index, input) in function.sig.inputs.iter().enumerate() {
        if let FnArg::Typed(typed) = input {
            let name = match own_name(&typed.pat) {
                Some(name) => format!("`{name}`"),
                None => format!("number {}", index + 1),
            };
            arguments.push(Argument {
                name,
                variable: format_ident!("argument_{index}", span = Span::mixed_site()),
                of_type: &typed.ty,
            });
        }
    }
    arguments
}

/// Returns the variable that an argument is bound to, as in `spec` and `Spec(spec)`.
fn own_name(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(pattern) => Some(pattern.ident.unraw().to_string()),
        Pat::TupleStruct(pattern) if pattern.elems.len() == 1 => {
            pattern.elems.first().and_then(own_name)
        }
        _ => None,
    }
}

/// Returns the expression of the function for the engine. Every argument is extracted by its own
/// statement, so that compiler errors point at it.
pub(crate) fn expand(on: Macro, function: &ItemFn) -> TokenStream {
    let convert = format_ident!("{}", on.convert());
    let ident = &function.sig.ident;
    let name = name(function);
    let arguments = arguments(function);
    let call = Ident::new("call", Span::mixed_site());
    let extractions = arguments.iter().map(|argument| {
        let Argument {
            name,
            variable,
            of_type,
        } = argument;
        quote_spanned!(expanded(of_type.span())=>
            let #variable = ::kopf::__private::extract::<#of_type>(&#call, #name)?;
        )
    });
    let checks = arguments.iter().map(|argument| {
        let Argument { name, of_type, .. } = argument;
        quote_spanned!(expanded(of_type.span())=>
            ::kopf::__private::Argument::new::<#of_type>(#name)
        )
    });
    let variables = arguments.iter().map(|argument| &argument.variable);
    let returned = match &function.sig.output {
        ReturnType::Default => ident.span(),
        ReturnType::Type(_, returned) => returned.span(),
    };
    let body = if function.sig.asyncness.is_some() {
        let outcome = quote_spanned!(expanded(returned)=>
            ::kopf::__private::#convert(#ident(#(#variables),*).await)
        );
        // A future that is not `Send` is reported at the name of the function.
        quote_spanned!(expanded(ident.span())=>
            ::kopf::__private::asynchronous(|#call| ::std::boxed::Box::pin(async move {
                #(#extractions)*
                ::std::mem::drop(#call);
                #outcome
            }))
        )
    } else {
        let outcome = quote_spanned!(expanded(returned)=>
            ::kopf::__private::#convert(#ident(#(#variables),*))
        );
        quote_spanned!(expanded(ident.span())=>
            ::kopf::__private::blocking(|#call| {
                #(#extractions)*
                ::std::mem::drop(#call);
                #outcome
            })
        )
    };
    quote! {
        ::kopf::__private::function(
            #name,
            ::kopf::__private::function_id(&#ident),
            &[#(#checks),*],
            #body,
        )
    }
}
