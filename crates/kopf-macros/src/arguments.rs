//! The arguments of an attribute: positional ones and named options.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Token, Type, braced, token};

/// All arguments, in their order.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Positional>,
    pub(crate) named: Vec<Named>,
}

/// An argument without a name: a part of the selector.
pub(crate) enum Positional {
    Text(LitStr),
    /// A path that looks like a type: `EphemeralVolumeClaim`.
    Type(Box<Type>),
    /// The marker `EVERYTHING`, a predicate, a constant, a closure.
    Value(Box<Expr>),
}

impl ToTokens for Positional {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Text(text) => text.to_tokens(tokens),
            Self::Type(path) => path.to_tokens(tokens),
            Self::Value(value) => value.to_tokens(tokens),
        }
    }
}

/// An option: `name = value`.
pub(crate) struct Named {
    pub(crate) name: Ident,
    pub(crate) value: OptionValue,
}

impl Named {
    pub(crate) fn name(&self) -> String {
        self.name.unraw().to_string()
    }
}

impl ToTokens for Named {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
        self.value.to_tokens(tokens);
    }
}

/// The value of an option.
pub(crate) enum OptionValue {
    Expression(Box<Expr>),
    /// `{"key": criterion, …}`
    Map(MapLiteral),
}

impl ToTokens for OptionValue {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Expression(expression) => expression.to_tokens(tokens),
            Self::Map(map) => map.brace.surround(tokens, |_| {}),
        }
    }
}

/// A map with string keys.
pub(crate) struct MapLiteral {
    brace: token::Brace,
    pub(crate) entries: Vec<(LitStr, Expr)>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                arguments.named.push(input.parse()?);
            } else {
                let positional: Positional = input.parse()?;
                if !arguments.named.is_empty() {
                    return Err(syn::Error::new_spanned(
                        &positional,
                        "the resource must come before named options",
                    ));
                }
                arguments.positional.push(positional);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Parse for Positional {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Text(input.parse()?));
        }
        // The parser of expressions takes generic types, `Kind<Spec>`, for comparisons.
        let ahead = input.fork();
        if let Ok(path @ Type::Path(_)) = ahead.parse::<Type>()
            && (ahead.is_empty() || ahead.peek(Token![,]))
            && names_a_type(&path)
        {
            return Ok(Self::Type(Box::new(input.parse()?)));
        }
        Ok(Self::Value(Box::new(input.parse()?)))
    }
}

/// Returns `true` for paths in the naming style of types, `LikeThis`.
fn names_a_type(path: &Type) -> bool {
    let Type::Path(path) = path else {
        return false;
    };
    let Some(last) = path.path.segments.last() else {
        return false;
    };
    let name = last.ident.unraw().to_string();
    !last.arguments.is_empty()
        || (name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase))
}

impl Parse for Named {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = Ident::parse_any(input)?;
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(syn::Error::new_spanned(
                &name,
                format!("the option `{name}` has no value"),
            ));
        }
        let value = if (name == "labels" || name == "annotations") && input.peek(token::Brace) {
            OptionValue::Map(input.parse()?)
        } else {
            OptionValue::Expression(input.parse()?)
        };
        Ok(Self { name, value })
    }
}

impl Parse for MapLiteral {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        let brace = braced!(content in input);
        let mut entries = Vec::new();
        while !content.is_empty() {
            let key: LitStr = content.parse().map_err(|error| {
                syn::Error::new(
                    error.span(),
                    "a key must be a string literal, as in {\"some-label\": PRESENT}",
                )
            })?;
            content.parse::<Token![:]>()?;
            entries.push((key, content.parse()?));
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(Self { brace, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> syn::Result<Arguments> {
        syn::parse_str(text)
    }

    #[test]
    fn positional_arguments_are_classified() {
        let arguments =
            parse(r#""kopf.dev", Some::Thing, Kind<Spec>, EVERYTHING, is_mine"#).unwrap();
        let kinds: Vec<&str> = arguments
            .positional
            .iter()
            .map(|positional| match positional {
                Positional::Text(_) => "text",
                Positional::Type(_) => "type",
                Positional::Value(_) => "value",
            })
            .collect();
        assert_eq!(kinds, ["text", "type", "type", "value", "value"]);
    }

    #[test]
    fn options_have_names_and_values() {
        let arguments = parse(r#""x", labels = {"a": "b", "c": PRESENT,}, retries = 3,"#).unwrap();
        let names: Vec<String> = arguments.named.iter().map(Named::name).collect();
        assert_eq!(names, ["labels", "retries"]);
        let Some(OptionValue::Map(map)) = arguments.named.first().map(|named| &named.value) else {
            panic!("not a map");
        };
        let keys: Vec<String> = map.entries.iter().map(|(key, _)| key.value()).collect();
        assert_eq!(keys, ["a", "c"]);
    }

    #[test]
    fn parse_errors_have_messages() {
        let message = |text: &str| parse(text).err().map(|error| error.to_string());
        assert_eq!(
            message("retries = 3, \"x\"").as_deref(),
            Some("the resource must come before named options")
        );
        assert_eq!(
            message("\"x\", retries =").as_deref(),
            Some("the option `retries` has no value")
        );
        assert!(
            message("\"x\", labels = {a: PRESENT}")
                .is_some_and(|text| text.contains("string literal"))
        );
        assert!(message("\"x\" retries = 3").is_some());
    }
}
