//! `peering`: prints the CRDs of peering objects, for kubectl.

use std::io::{self, Write as _};
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

    /// Prints the manifests.
    pub fn run(&self) -> ExitCode {
        print(self.text())
    }
}

/// Writes the text to stdout. A reader that has closed the pipe (`| head -1`) is not a failure.
pub(super) fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                io::stderr().lock(),
                "error: cannot write the output: {error}"
            );
            ExitCode::FAILURE
        }
    }
}
