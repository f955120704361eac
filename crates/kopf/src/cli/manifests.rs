//! `peering`: prints the kinds of peering objects, for kubectl.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args as ClapArgs;

/// The kinds of peering objects, and their default objects.
const PEERING: &str = include_str!("../../manifests/peering.yaml");
/// The same in the API group of old.
const LEGACY_PEERING: &str = include_str!("../../manifests/peering-legacy.yaml");

/// Print the kinds of peering objects and the default ones, as YAML for kubectl
///
/// Operators of the same objects agree through a peering object on who of them works. The kinds of these
/// objects have to be created in the cluster, once, by somebody who may do so.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = "Example:\n  peering | kubectl apply -f -")]
pub struct PeeringArgs {
    /// In the API group of old, zalando.org, instead of kopf.dev
    #[arg(long)]
    legacy: bool,
}

impl PeeringArgs {
    /// What is to be printed.
    pub fn text(&self) -> &'static str {
        if self.legacy { LEGACY_PEERING } else { PEERING }
    }

    /// Prints it.
    pub fn run(&self) -> ExitCode {
        let mut stdout = std::io::stdout().lock();
        match stdout
            .write_all(self.text().as_bytes())
            .and_then(|()| stdout.flush())
        {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }
}
