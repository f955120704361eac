//! Operators that are paused by a record of a higher priority, such as that of `kopf freeze`.

use jiff::Timestamp;

use crate::peers::Participant;
use crate::time::remaining;

/// Returns the pause of operators and the command that ends it; `None` if no operator is paused, or
/// if another operator works instead.
pub(crate) fn pause_advice(peers: &[Participant], now: Timestamp) -> Option<String> {
    let alive: Vec<_> = peers.iter().filter(|peer| peer.is_alive(now)).collect();
    alive.iter().find_map(|lower| {
        let rivals = alive.iter().filter(|peer| peer.peering == lower.peering);
        let top = rivals.clone().max_by_key(|peer| peer.peer.priority)?;
        if top.peer.priority <= lower.peer.priority || is_generated(&top.peer.identity) {
            return None;
        }
        let paused = rivals.filter(|peer| peer.peer.priority < top.peer.priority);
        let paused: Vec<_> = paused.map(|peer| peer.peer.identity.as_str()).collect();
        Some(text(&paused.join(", "), top, now))
    })
}

fn text(paused: &str, top: &Participant, now: Timestamp) -> String {
    let identity = &top.peer.identity;
    let scope = match &top.namespace {
        Some(namespace) => format!("-n {}", quoted(namespace)),
        None => "-A".to_owned(),
    };
    let name = top.peering.rsplit('/').next().unwrap_or_default();
    format!(
        "Paused in the peering {}: {paused}. The record {identity} has a higher priority ({}) and \
         expires in {}. If `kopf freeze` wrote it, `kopf resume {scope} -P {} -i {}` resumes the \
         operator; if it is another operator, see the logs of that one.",
        top.peering,
        top.peer.priority,
        remaining(now, top.peer.deadline()).unwrap_or_default(),
        quoted(name),
        quoted(identity),
    )
}

/// Returns `true` for identities such as `user@host/20260102030405/abc`. Only operators have them:
/// `kopf freeze` writes `user@host` or a given one.
fn is_generated(identity: &str) -> bool {
    let parts: Vec<_> = identity.split('/').collect();
    let is_number = |text: &str| text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(&parts[..], [_, started, random] if is_number(started) && random.len() == 3)
}

/// Quotes an argument for a shell if it needs quotes.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@._/:-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::peering::Peer;
    use kopf_core::timestamp;

    use super::*;

    fn now() -> Timestamp {
        timestamp::parse("2026-01-02T03:04:05Z").unwrap()
    }

    fn peer(namespace: Option<&str>, identity: &str, priority: i64, lifetime: i64) -> Participant {
        Participant {
            peering: match namespace {
                Some(namespace) => format!("{namespace}/default"),
                None => "default".to_owned(),
            },
            namespace: namespace.map(str::to_owned),
            peer: Peer {
                identity: identity.to_owned(),
                priority,
                lifetime,
                lastseen: now(),
            },
        }
    }

    #[test]
    fn frozen_operators_are_resumed_by_a_command() {
        let operator = "me@host/20260102030405/abc";
        let peers = [
            peer(None, operator, 0, 60),
            peer(None, "me@host", 100, 60),
            peer(None, "old", 50, 0),
        ];
        let text = pause_advice(&peers, now()).unwrap();
        for part in [
            "Paused in the peering default: me@host/20260102030405/abc. ",
            "me@host has a higher priority (100) and expires in 60 s",
            "`kopf resume -A -P default -i me@host`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let peers = [
            peer(Some("ns"), operator, 0, 60),
            peer(Some("ns"), "it's", 100, 60),
        ];
        let text = pause_advice(&peers, now()).unwrap();
        assert!(
            text.contains(r"`kopf resume -n ns -P default -i 'it'\''s'`"),
            "{text}"
        );
    }

    #[test]
    fn working_operators_are_no_pause() {
        let operator = "me@host/20260102030405/abc";
        let dev = peer(None, "me@laptop/20260102030406/xyz", 666, 60);
        for peers in [
            vec![peer(None, operator, 0, 60)],
            vec![peer(None, operator, 0, 60), peer(None, "me@host", 100, 0)],
            vec![peer(None, operator, 0, 60), dev],
            vec![
                peer(None, operator, 0, 60),
                peer(Some("ns"), "me@host", 100, 60),
            ],
            vec![peer(None, "me@host", 100, 60)],
        ] {
            assert_eq!(pause_advice(&peers, now()), None, "{peers:?}");
        }
    }
}
