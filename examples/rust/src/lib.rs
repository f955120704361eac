//! Code that examples share with their tests, and the doctests of the guide.

pub mod greeter;
pub mod tenants;

/// Compiles the Rust blocks of the guide, and runs those that are not marked `no_run`.
macro_rules! guide {
    ($($name:ident: $page:literal),+ $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../", $page))]
            struct $name;
        )+
    };
}

guide! {
    Operators: "docs/operators.md",
    Patching: "docs/patching.md",
    Hierarchies: "docs/hierarchies.md",
    Events: "docs/events.md",
    Daemons: "docs/daemons.md",
    Indexing: "docs/indexing.md",
    Children: "docs/children.md",
    Admission: "docs/admission.md",
    Servers: "docs/webhook-servers.md",
    Continuity: "docs/continuity.md",
    Testing: "docs/testing.md",
    Operation: "docs/operation.md",
    Authentication: "docs/authentication.md",
    CommandLine: "docs/command-line.md",
    Peering: "docs/peering.md",
    Walkthrough: "docs/walkthrough.md",
    Readme: "README.md",
}
