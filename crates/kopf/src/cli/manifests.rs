//! `peering`: prints the CRDs of peering objects, for kubectl.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use kopf_shipping::PeeringGroup;

/// Print the CRDs of peering objects and the default objects, as YAML for kubectl
///
/// Operators of the same objects decide through a peering object which of them works. An
/// administrator must create the CRDs in the cluster once.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = "Example:\n  peering | kubectl apply -f -")]
pub struct PeeringArgs {
    /// Use the API group of old releases, zalando.org, instead of kopf.dev
    #[arg(long)]
    legacy: bool,
}

impl PeeringArgs {
    /// Returns the manifests in YAML.
    pub fn text(&self) -> &'static str {
        kopf_shipping::peering(if self.legacy {
            PeeringGroup::Legacy
        } else {
            PeeringGroup::Current
        })
    }

    /// Prints the manifests; the exit code is 1 if stdout is closed.
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
