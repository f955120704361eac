//! Rules, their order and limits, and the determinism of decisions.

use std::time::Duration;

use super::*;

fn facts<'a>(verb: Verb, resource: &'a str, name: &'a str) -> RequestFacts<'a> {
    RequestFacts {
        verb,
        group: if resource == "deployments" {
            "apps"
        } else {
            ""
        },
        resource,
        subresource: None,
        namespace: Some("default"),
        name: Some(name),
        user: "kubernetes-admin",
    }
}

fn pattern(seed: u64, fault: &Fault, requests: usize) -> String {
    let faults = Faults::new(seed);
    faults.inject(fault.clone());
    (0..requests)
        .map(|_| {
            match faults
                .on_request(&facts(Verb::Patch, "configmaps", "x"))
                .outcome
            {
                Outcome::Proceed => '.',
                _ => 'X',
            }
        })
        .collect()
}

#[test]
fn without_rules_everything_passes() {
    let faults = Faults::default();
    let verdict = faults.on_request(&facts(Verb::Get, "pods", "x"));
    assert_eq!(verdict, Verdict::default());
    assert_eq!(
        faults.on_watch_event(&facts(Verb::Watch, "pods", "x")),
        EventVerdict::Deliver
    );
}

#[test]
fn same_seed_gives_the_same_decisions() {
    let fault = Fault::error(500).probability(0.4);
    let first = pattern(1, &fault, 200);
    assert_eq!(first, pattern(1, &fault, 200));
    assert_ne!(first, pattern(2, &fault, 200));
    let struck = first.matches('X').count();
    assert!(
        (50..110).contains(&struck),
        "{struck} of 200 is not near 40 %"
    );
}

#[test]
fn other_rules_and_other_requests_do_not_shift_decisions() {
    let fault = Fault::error(500).probability(0.5).kind("configmaps");
    let alone = pattern(9, &fault, 64);
    let faults = Faults::new(9);
    faults.inject(fault);
    faults.inject(Fault::latency(Duration::from_millis(1)).probability(0.5));
    let mixed: String = (0..64)
        .map(|_| {
            faults.on_request(&facts(Verb::Get, "pods", "x"));
            match faults
                .on_request(&facts(Verb::Patch, "configmaps", "x"))
                .outcome
            {
                Outcome::Proceed => '.',
                _ => 'X',
            }
        })
        .collect();
    assert_eq!(alone, mixed);
}

#[test]
fn strikes_are_limited_and_counted() {
    let faults = Faults::default();
    let id = faults.inject(Fault::error(503).times(2));
    for _ in 0..5 {
        faults.on_request(&facts(Verb::Get, "pods", "x"));
    }
    assert_eq!((faults.count(id), faults.injected().errors), (2, 2));
    faults.clear();
    assert_eq!(faults.count(id), 2);
}

#[test]
fn latencies_add_up_and_the_oldest_rule_decides_the_outcome() {
    let faults = Faults::default();
    faults.inject(Fault::latency(Duration::from_secs(1)));
    faults.inject(Fault::error(410));
    let late = faults.inject(Fault::reset());
    faults.inject(Fault::latency(Duration::from_secs(2)));
    let verdict = faults.on_request(&facts(Verb::Get, "pods", "x"));
    assert_eq!(verdict.delay, Duration::from_secs(3));
    assert!(matches!(&verdict.outcome, Outcome::Reject(error) if error.code() == 410));
    assert_eq!(faults.count(late), 0);
}

#[test]
fn random_latency_varies_within_its_range() {
    let faults = Faults::new(3);
    let (least, most) = (Duration::from_millis(10), Duration::from_millis(20));
    faults.inject(Fault::latency_between(least, most));
    let delays: std::collections::BTreeSet<Duration> = (0..50)
        .map(|_| faults.on_request(&facts(Verb::Get, "pods", "x")).delay)
        .collect();
    assert!(
        delays.iter().all(|delay| (least..=most).contains(delay)),
        "{delays:?}"
    );
    assert!(delays.len() > 10);
}

#[tokio::test(start_paused = true)]
async fn fault_is_active_within_its_window() {
    let faults = Faults::default();
    faults.inject(
        Fault::reset()
            .starting_after(Duration::from_secs(10))
            .lasting(Duration::from_secs(5)),
    );
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(faults.on_request(&facts(Verb::Get, "pods", "x")).outcome != Outcome::Proceed);
        tokio::time::advance(Duration::from_secs(6)).await;
    }
    assert_eq!(seen, [false, false, true, false]);
}

#[test]
fn events_are_dropped_delayed_cut_and_frozen() {
    let faults = Faults::default();
    let event = facts(Verb::Watch, "pods", "x");
    for (fault, fate) in [
        (Fault::drop_events(), EventVerdict::Drop),
        (
            Fault::delay_events(Duration::from_secs(1)),
            EventVerdict::Delay(Duration::from_secs(1)),
        ),
        (Fault::cut_watch(), EventVerdict::Cut),
        (Fault::freeze_watch(), EventVerdict::Freeze),
    ] {
        let id = faults.inject(fault.times(1));
        assert_eq!(
            faults.on_request(&event).outcome,
            Outcome::Proceed,
            "not about requests"
        );
        assert_eq!(faults.on_watch_event(&event), fate);
        assert_eq!(faults.on_watch_event(&event), EventVerdict::Deliver);
        assert_eq!(faults.count(id), 1);
        assert!(faults.remove(id));
    }
    let injected = faults.injected();
    assert_eq!((injected.dropped_events, injected.delayed_events), (1, 1));
    assert_eq!((injected.cut_watches, injected.frozen_watches), (1, 1));
}

#[test]
fn commands_reach_the_subscribers() {
    let faults = Faults::default();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let _listening = faults.subscribe(move |command| log.lock().push(command));
    faults.inject(Fault::compact().verb(Verb::Watch).times(1));
    faults.on_request(&facts(Verb::Watch, "pods", "x"));
    faults.compact();
    faults.freeze_connections(true);
    faults.reset_connections();
    assert_eq!(
        *heard.lock(),
        [
            Command::Compact,
            Command::Compact,
            Command::FreezeConnections(true),
            Command::ResetConnections
        ]
    );
    assert_eq!(faults.injected().compactions, 2);
}

#[test]
fn killing_watches_wakes_open_streams_only() {
    let faults = Faults::default();
    let open = faults.watch_kills();
    faults.kill_watches();
    assert!(open.has_changed().unwrap());
    assert!(!faults.watch_kills().has_changed().unwrap());
}
