//! The default identity of an operator in peerings: its pod, or the user and host that run it.

use std::hash::{BuildHasher, RandomState};

use kopf_core::peering::{descriptive_host, generated_identity, manual_identity};

use crate::clock::Clock;

/// Returns an identity with a random part, so that several operators can start at the same time.
pub(crate) fn detect(clock: Clock) -> String {
    pod().unwrap_or_else(|| {
        let random = RandomState::new().hash_one(0);
        generated_identity(&user(), &host(), clock.now(), random)
    })
}

/// Returns the identity for commands: constant for one user on one host.
pub(super) fn detect_manual() -> String {
    pod().unwrap_or_else(|| manual_identity(&user(), &host()))
}

fn pod() -> Option<String> {
    variable("POD_ID")
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn user() -> String {
    let variables = ["LOGNAME", "USER", "LNAME", "USERNAME"];
    variables
        .into_iter()
        .find_map(variable)
        .or_else(|| named(&read("/proc/self/status")?, &read("/etc/passwd")?))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn host() -> String {
    let own = read("/proc/sys/kernel/hostname")
        .or_else(|| variable("HOSTNAME"))
        .or_else(|| variable("COMPUTERNAME"))
        .or_else(|| read("/etc/hostname"))
        .unwrap_or_default();
    let own = own.trim();
    let hosts = read("/etc/hosts").unwrap_or_default();
    let mut names = vec![own];
    names.extend(aliases(own, &hosts));
    descriptive_host(&names).to_owned()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the name of the user that runs the process.
fn named(status: &str, users: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uid = line.split_whitespace().next()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

/// Returns all names of the machine, if `hosts` contains its own name.
fn aliases<'a>(own: &str, hosts: &'a str) -> Vec<&'a str> {
    let lines = hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines
        .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>())
        .filter(|names| names.contains(&own))
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn operators_of_one_process_have_different_identities() {
        let clock = Clock::starting_at("2026-01-02T03:04:05Z".parse().unwrap());
        let (one, two) = (detect(clock), detect(clock));
        if pod().is_none() {
            assert_ne!(one, two);
            assert!(one.contains("/20260102030405/"), "{one}");
            assert!(one.starts_with(&detect_manual()), "{one}");
        }
    }

    #[test]
    fn users_are_found_by_their_ids() {
        let status = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n";
        let users = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nnonsense\n";
        assert_eq!(named(status, users).as_deref(), Some("me"));
        assert_eq!(named(status, "root:x:0:0::/root:/bin/sh"), None);
        assert_eq!(named("", users), None);
    }

    #[test]
    fn aliases_of_the_machine_are_found() {
        let hosts = "127.0.0.1 localhost\n10.0.0.5 box.example.com box # mine\n";
        assert_eq!(aliases("box", hosts), ["box.example.com", "box"]);
        assert!(aliases("other", hosts).is_empty());
    }
}
