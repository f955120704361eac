//! Settings of several replicas of one operator.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use super::Error;
use crate::leading::Timing;
use crate::sharding::{AUTO, MAX};

/// Several replicas of one operator, of which one handles all objects, or each handles some.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leading {
    /// Only the replica that holds a Lease handles objects. Default: `false`.
    pub enabled: bool,
    /// The name of the Lease, and the prefix of the names of Leases of shards. It is shared by the replicas of one
    /// operator, and by no other operator in that namespace. Default: empty; required for more than one replica.
    pub name: String,
    /// The namespace of the Leases. Default: that of the credentials (in a pod: its own), or `default`.
    pub namespace: Option<String>,
    /// Other replicas take over when a Lease was not renewed for this time, in whole seconds. Default: 15
    /// seconds.
    pub lease_duration: Duration,
    /// The holder stops handling when it could not renew its Lease for this time, which is shorter than
    /// `lease_duration`. Default: 10 seconds.
    pub renew_deadline: Duration,
    /// Interval of renewals, and of attempts to take over. Default: 2 seconds.
    pub retry_period: Duration,
    /// Divides the objects among all replicas. Default: `None`, the leader handles all objects.
    pub shards: Option<Shards>,
    /// Ids of index handlers that see only the objects of this replica. Default: none, indices are of all
    /// objects, which every replica receives then.
    pub sharded_indices: BTreeSet<String>,
    /// The Secret through which replicas share the generated certificate of their webhook servers.
    /// Default: [`CertificateSharing::Auto`].
    pub certificate_secret: CertificateSharing,
}

/// The way in which replicas share the generated certificate of their webhook servers. Certificates from
/// files are not affected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateSharing {
    /// Through the Secret `NAME-webhook-certificate` in the namespace of the Leases.
    #[default]
    Auto,
    /// Through the Secret of this name in that namespace.
    Named(String),
    /// Not at all: every replica has its own certificate.
    Unshared,
}

/// A number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shards {
    /// A number that can be divided evenly among up to 12 replicas.
    Auto,
    /// This number, the same in all replicas. Replicas beyond it are standbys.
    Fixed(u32),
}

/// The way in which several replicas of an operator work together.
///
/// Hidden: derived from the settings for the engine, which matches it exhaustively.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// There are no other replicas.
    Single,
    /// One replica handles all objects, the others are standbys.
    Elected,
    /// Every replica handles the objects of some of this many shards.
    Sharded(u32),
}

impl Leading {
    /// Returns the way in which the replicas work together.
    #[doc(hidden)] // For the engine.
    pub fn replication(&self) -> Replication {
        match self.shards {
            Some(shards) => Replication::Sharded(shards.count()),
            None if self.enabled => Replication::Elected,
            None => Replication::Single,
        }
    }

    /// Returns the name of the Secret with the shared certificate. `None` if it is not shared.
    #[doc(hidden)] // For the engine.
    pub fn certificate_secret_name(&self) -> Option<String> {
        match (self.replication(), &self.certificate_secret) {
            (Replication::Single, _) | (_, CertificateSharing::Unshared) => None,
            (_, CertificateSharing::Named(name)) => Some(name.clone()),
            (_, CertificateSharing::Auto) => Some(format!("{}-webhook-certificate", self.name)),
        }
    }

    /// Returns the times of elections.
    #[doc(hidden)] // For the engine.
    pub fn timing(&self) -> Timing {
        Timing {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }

    /// Checks the values with which replicas could not agree.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.replication() == Replication::Single {
            return Ok(());
        }
        if self.name.is_empty() {
            return Err(Error::Unnamed);
        }
        // The name is also the value of a label.
        if !super::is_name(&self.name) || self.name.len() > 63 {
            let (setting, name) = ("leading.name", self.name.clone());
            return Err(Error::Name { setting, name });
        }
        if let Some(name) = &self.namespace
            && (!super::is_name(name) || name.len() > 63 || name.contains('.'))
        {
            let (setting, name) = ("leading.namespace", name.clone());
            return Err(Error::Name { setting, name });
        }
        if let CertificateSharing::Named(name) = &self.certificate_secret
            && !super::is_name(name)
        {
            let (setting, name) = ("leading.certificate_secret", name.clone());
            return Err(Error::Name { setting, name });
        }
        if let Some(shards) = self.shards
            && !(1..=MAX).contains(&shards.count())
        {
            return Err(Error::Shards {
                count: shards.count(),
            });
        }
        let whole = Duration::from_secs(self.lease_duration.as_secs());
        let is_ordered = whole > self.renew_deadline && self.renew_deadline > self.retry_period;
        if !is_ordered || self.retry_period.is_zero() {
            return Err(Error::LeaseTimes);
        }
        if self.lease_duration > super::CENTURY {
            let setting = "leading.lease_duration";
            return Err(Error::Endless { setting });
        }
        Ok(())
    }
}

impl Default for Leading {
    fn default() -> Self {
        let timing = Timing::default();
        Self {
            enabled: false,
            name: String::new(),
            namespace: None,
            lease_duration: timing.lease_duration,
            renew_deadline: timing.renew_deadline,
            retry_period: timing.retry_period,
            shards: None,
            sharded_indices: BTreeSet::new(),
            certificate_secret: CertificateSharing::default(),
        }
    }
}

impl Shards {
    /// Returns the number.
    pub fn count(self) -> u32 {
        match self {
            Self::Auto => AUTO,
            Self::Fixed(count) => count,
        }
    }
}

/// A text that is not a number of shards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of shards {text:?}: must be \"auto\" or a number from 1 to {MAX}")]
pub struct NotShards {
    text: String,
}

/// Parses `auto`, or a number.
impl FromStr for Shards {
    type Err = NotShards;

    fn from_str(text: &str) -> Result<Self, NotShards> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let count = text.parse().ok().filter(|count| (1..=MAX).contains(count));
        count.map(Self::Fixed).ok_or_else(|| NotShards {
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut Leading)) -> String {
        let mut leading = Leading {
            enabled: true,
            name: "op".to_owned(),
            ..Leading::default()
        };
        leading.validate().unwrap();
        change(&mut leading);
        leading.validate().unwrap_err().to_string()
    }

    #[test]
    fn replicas_need_a_name_and_ordered_times() {
        let unnamed = error(|leading| leading.name.clear());
        assert!(unnamed.contains("settings.leading.name"), "{unnamed}");
        assert!(error(|leading| leading.name = "My Op".to_owned()).contains("\"My Op\""));
        assert!(error(|leading| leading.name = "a".repeat(64)).contains("leading.name"));
        for namespace in ["../x", "Bad NS", "a.b", ""] {
            let wrong = error(|leading| leading.namespace = Some(namespace.to_owned()));
            assert!(wrong.contains("leading.namespace"), "{wrong}");
        }
        assert!(error(|leading| leading.shards = Some(Shards::Fixed(0))).contains("got 0"));
        for spoil in [
            |leading: &mut Leading| leading.renew_deadline = Duration::from_secs(15),
            |leading: &mut Leading| leading.retry_period = Duration::from_secs(10),
            |leading: &mut Leading| leading.retry_period = Duration::ZERO,
            |leading: &mut Leading| leading.lease_duration = Duration::from_millis(10_900),
        ] {
            let order = error(spoil);
            assert!(order.contains("lease_duration"), "{order}");
        }
        assert_eq!(Leading::default().validate(), Ok(()));
    }

    #[test]
    fn certificates_are_shared_by_replicas_only() {
        let mut leading = Leading {
            name: "op".to_owned(),
            ..Leading::default()
        };
        assert_eq!(leading.certificate_secret_name(), None);
        leading.enabled = true;
        let name = leading.certificate_secret_name();
        assert_eq!(name.as_deref(), Some("op-webhook-certificate"));
        leading.certificate_secret = CertificateSharing::Named("x".to_owned());
        assert_eq!(leading.certificate_secret_name().as_deref(), Some("x"));
        leading.certificate_secret = CertificateSharing::Unshared;
        assert_eq!(leading.certificate_secret_name(), None);
        let wrong = error(|leading| {
            leading.certificate_secret = CertificateSharing::Named("My Secret".to_owned());
        });
        assert!(wrong.contains("leading.certificate_secret"), "{wrong}");
    }

    #[test]
    fn numbers_of_shards_are_parsed() {
        assert_eq!("auto".parse(), Ok(Shards::Auto));
        assert_eq!("4".parse(), Ok(Shards::Fixed(4)));
        for wrong in ["", "0", "-1", "many", "257"] {
            let error = wrong.parse::<Shards>().unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
