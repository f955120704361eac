//! Types of custom resources and of their fields: derives that depend only on `kopf`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Expr, ExprLit, Lit, Meta, Path, Token};

/// Expands `#[kopf::resource(…)]`.
pub(crate) fn resource(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    let expanded = parse("resource", item).and_then(|input| {
        let options = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(arguments.clone())?;
        let options: Vec<Meta> = options.into_iter().collect();
        let mut crates = quote!(crates(
            kube = "::kopf::kube",
            kube_core = "::kopf::kube::core",
            k8s_openapi = "::kopf::k8s_openapi",
            schemars = "::kopf::schemars",
            serde = "::kopf::serde",
            serde_json = "::kopf::serde_json"
        ));
        if has(&options, "crates") {
            crates = TokenStream::new();
        }
        // The derive of the root type does not pass its crates to the derive of its schema.
        let rules = (has(&options, "validation") || has(&options, "cel")).then(|| {
            let crates = schema_crates().to_string();
            quote!(attr = #crates)
        });
        let derive = quote!(::kopf::kube::CustomResource);
        let mut types = Types::of(&input)?;
        if is_without_schema(&options) {
            types.schema = Schema::Own;
        }
        let options = options.iter().map(ToTokens::to_token_stream);
        let options = options.chain((!crates.is_empty()).then_some(crates));
        let options = options.chain(rules);
        let attribute = quote!(#[kube(#(#options),*)]);
        Ok(types.expand(Some(&derive), Some(&attribute), item))
    });
    expanded.unwrap_or_else(|error| failed(&error, item))
}

/// Expands `#[kopf::schema]`.
pub(crate) fn schema(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    let expanded = parse("schema", item).and_then(|input| {
        if !arguments.is_empty() {
            let message =
                "`#[kopf::schema]` has no options: use `#[serde(…)]` and `#[schemars(…)]`";
            return Err(syn::Error::new_spanned(arguments, message));
        }
        Ok(Types::of(&input)?.expand(None, None, item))
    });
    expanded.unwrap_or_else(|error| failed(&error, item))
}

fn failed(error: &syn::Error, item: &TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#error #item)
}

fn parse(name: &str, item: &TokenStream) -> syn::Result<DeriveInput> {
    let input: Option<DeriveInput> = syn::parse2(item.clone()).ok();
    let input = input.filter(|input| !matches!(input.data, Data::Union(_)));
    input.ok_or_else(|| {
        let message = format!("`#[kopf::{name}]` requires a type: `struct` or `enum`");
        syn::Error::new_spanned(item, message)
    })
}

fn has(options: &[Meta], name: &str) -> bool {
    options.iter().any(|option| option.path().is_ident(name))
}

/// Returns `true` for `schema = "disabled"` and `schema = "manual"`.
fn is_without_schema(options: &[Meta]) -> bool {
    options.iter().any(|option| match option {
        Meta::NameValue(option) if option.path.is_ident("schema") => match &option.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(mode),
                ..
            }) => mode.value() != "derived",
            _ => false,
        },
        _ => false,
    })
}

/// The crates of `KubeSchema`, as its helper attribute.
fn schema_crates() -> TokenStream {
    quote!(x_kube(crates(
        kube_core = "::kopf::kube::core",
        schemars = "::kopf::schemars",
        serde = "::kopf::serde",
        serde_json = "::kopf::serde_json"
    )))
}

/// The derive for the schema of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schema {
    /// The derive of schemars.
    Plain,
    /// The derive of kube, for validation rules.
    WithRules,
    /// None, or one written by the author.
    Own,
}

/// The derives and crate paths that the type already has.
struct Types {
    derived: Vec<String>,
    schema: Schema,
    names_serde: bool,
    names_schemars: bool,
}

impl Types {
    fn of(input: &DeriveInput) -> syn::Result<Self> {
        let derived = derived(&input.attrs)?;
        let is_derived = |name: &str| derived.iter().any(|derived| derived == name);
        let schema = if is_derived("JsonSchema") || is_derived("KubeSchema") {
            Schema::Own
        } else if has_rules(input) {
            Schema::WithRules
        } else {
            Schema::Plain
        };
        Ok(Self {
            schema,
            names_serde: names_crate(&input.attrs, "serde"),
            names_schemars: names_crate(&input.attrs, "schemars"),
            derived,
        })
    }

    fn is_derived(&self, name: &str) -> bool {
        self.derived.iter().any(|derived| derived == name)
    }

    /// Adds the missing derives and attributes, and a derive with its attribute.
    fn expand(
        &self,
        derive: Option<&TokenStream>,
        attribute: Option<&TokenStream>,
        item: &TokenStream,
    ) -> TokenStream {
        let missing = |name: &str, path: TokenStream| (!self.is_derived(name)).then_some(path);
        let mut derives: Vec<TokenStream> = derive.cloned().into_iter().collect();
        derives.extend(missing("Serialize", quote!(::kopf::serde::Serialize)));
        derives.extend(missing("Deserialize", quote!(::kopf::serde::Deserialize)));
        derives.extend(missing("Clone", quote!(::std::clone::Clone)));
        derives.extend(missing("Debug", quote!(::std::fmt::Debug)));
        let mut attributes = attribute.cloned().unwrap_or_default();
        match self.schema {
            Schema::Plain => derives.push(quote!(::kopf::schemars::JsonSchema)),
            Schema::WithRules => {
                derives.push(quote!(::kopf::kube::KubeSchema));
                let crates = schema_crates();
                attributes.extend(quote!(#[#crates]));
            }
            Schema::Own => {}
        }
        if !self.names_serde {
            attributes.extend(quote!(#[serde(crate = "::kopf::serde")]));
        }
        let has_schema = self.schema != Schema::Own
            || self.is_derived("JsonSchema")
            || self.is_derived("KubeSchema");
        if has_schema && !self.names_schemars {
            attributes.extend(quote!(#[schemars(crate = "::kopf::schemars")]));
        }
        quote!(#[derive(#(#derives),*)] #attributes #item)
    }
}

/// Returns the names of the derives that follow the attribute.
fn derived(attributes: &[Attribute]) -> syn::Result<Vec<String>> {
    let mut names = Vec::new();
    for attribute in attributes {
        if attribute.path().is_ident("derive") {
            let paths = Punctuated::<Path, Token![,]>::parse_terminated;
            let paths = attribute.parse_args_with(paths)?;
            let last = paths.iter().filter_map(|path| path.segments.last());
            names.extend(last.map(|segment| segment.ident.to_string()));
        }
    }
    Ok(names)
}

/// Returns `true` if a helper attribute such as `#[serde(…)]` has the option `crate`.
fn names_crate(attributes: &[Attribute], helper: &str) -> bool {
    let mut attributes = attributes.iter();
    attributes.any(|attribute| {
        let options = Punctuated::<Meta, Token![,]>::parse_terminated;
        attribute.path().is_ident(helper)
            && attribute
                .parse_args_with(options)
                .is_ok_and(|options| options.iter().any(|option| option.path().is_ident("crate")))
    })
}

/// Returns `true` if the type or its fields have validation rules: `#[x_kube(…)]`.
fn has_rules(input: &DeriveInput) -> bool {
    let is_rule = |attribute: &Attribute| attribute.path().is_ident("x_kube");
    let fields = match &input.data {
        Data::Struct(data) => Some(&data.fields),
        Data::Enum(_) | Data::Union(_) => None,
    };
    let mut fields = fields.into_iter().flatten();
    input.attrs.iter().any(is_rule) || fields.any(|field| field.attrs.iter().any(is_rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &str, item: &str) -> String {
        let arguments: TokenStream = arguments.parse().unwrap();
        let item: TokenStream = item.parse().unwrap();
        resource(&arguments, &item).to_string().replace(' ', "")
    }

    const THING: &str = "group = \"g\", version = \"v1\", kind = \"Thing\"";

    #[test]
    fn derives_name_the_crates_of_kopf() {
        let text = expanded(THING, "struct ThingSpec { size: u32 }");
        for expected in [
            "::kopf::kube::CustomResource",
            "::kopf::serde::Serialize",
            "::kopf::schemars::JsonSchema",
            "#[kube(group=\"g\",version=\"v1\",kind=\"Thing\",crates(kube=\"::kopf::kube\"",
            "#[serde(crate=\"::kopf::serde\")]",
            "#[schemars(crate=\"::kopf::schemars\")]",
        ] {
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
    }

    #[test]
    fn existing_derives_and_crates_are_kept() {
        let item = "#[derive(Debug, PartialEq)] #[serde(crate = \"serde\")] struct ThingSpec;";
        let text = expanded(THING, item);
        assert_eq!(text.matches("Debug").count(), 1, "{text}");
        assert_eq!(text.matches("#[serde(crate").count(), 1, "{text}");
        assert!(text.contains("Clone"), "{text}");
        let text = expanded(&format!("{THING}, crates(kube = \"kube\")"), item);
        assert_eq!(text.matches("crates(").count(), 1, "{text}");
    }

    #[test]
    fn disabled_schemas_are_not_derived() {
        let options = format!("{THING}, schema = \"disabled\"");
        let text = expanded(&options, "struct ThingSpec;");
        assert!(
            !text.contains("JsonSchema") && !text.contains("#[schemars"),
            "{text}"
        );
    }

    #[test]
    fn validation_rules_are_derived_by_kube() {
        let item = "struct ThingSpec { #[x_kube(validation = \"self > 0\")] size: u32 }";
        let text = expanded(THING, item);
        assert!(text.contains("::kopf::kube::KubeSchema"), "{text}");
        assert!(text.contains("#[x_kube(crates(kube_core="), "{text}");
        let options = format!("{THING}, validation = \"self.spec.size > 0\"");
        let text = expanded(&options, "struct ThingSpec;");
        assert!(text.contains("attr=\"x_kube(crates(kube_core="), "{text}");
    }

    #[test]
    fn only_types_are_accepted() {
        let text = expanded(THING, "fn thing() {}");
        assert!(text.contains("requiresatype"), "{text}");
        let item: TokenStream = "struct Status;".parse().unwrap();
        let options: TokenStream = "default".parse().unwrap();
        assert!(schema(&options, &item).to_string().contains("no options"));
    }
}
