//! Plans: one deviation each, in the order of their value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::deviation::{Deviation, Family, Interference};
use crate::journal::is_write;
use crate::object::ObjectKey;
use crate::point::Point;
use crate::record::Reference;
use crate::scenario::{Action, Scenario, Target, Variation};

/// Points of one request in one step beyond this number are not explored.
const MOST_OCCURRENCES: usize = 3;
/// The delay of requests by `slow`, in milliseconds.
const SLOW_MILLIS: u64 = 1500;

/// The time of a request without an answer, in milliseconds.
const HANG_MILLIS: u64 = 10_000;

/// One run with one deviation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The number of the plan, from 1.
    pub number: usize,
    /// The deviation.
    pub deviation: Deviation,
}

/// Returns the plans of a scenario. Families take turns, and those that find more have more turns,
/// so that the first plans are worth most.
pub fn plans(
    reference: &Reference,
    scenario: &Scenario,
    variations: &[Variation],
    only: &[Family],
    seed: u64,
) -> Vec<Plan> {
    let all = at_points(reference, scenario)
        .into_iter()
        .chain(in_steps(reference, scenario));
    let respec = variations.iter().cloned();
    let all = all.chain(respec.map(|variation| Deviation::Respec { variation }));
    let mut families: BTreeMap<usize, VecDeque<Deviation>> = BTreeMap::new();
    for deviation in all {
        let family = deviation.family();
        if only.is_empty() || only.contains(&family) {
            let rank = Family::ALL.iter().position(|known| *known == family);
            let queue = families.entry(rank.unwrap_or_default()).or_default();
            queue.push_back(deviation);
        }
    }
    for (rank, queue) in &mut families {
        shuffle_equals(queue, seed.wrapping_add(*rank as u64));
    }
    let mut plans = Vec::new();
    while !families.is_empty() {
        for (rank, queue) in &mut families {
            for _ in 0..turns(*rank) {
                if let Some(deviation) = queue.pop_front() {
                    plans.push(Plan {
                        number: plans.len() + 1,
                        deviation,
                    });
                }
            }
        }
        families.retain(|_, queue| !queue.is_empty());
    }
    plans
}

/// Returns how many plans of a family follow each other.
fn turns(rank: usize) -> usize {
    match Family::ALL.get(rank) {
        Some(Family::CrashAfter | Family::CrashBefore | Family::Respec) => 3,
        Some(Family::Stale | Family::Interfere | Family::LostResponse) => 2,
        _ => 1,
    }
}

/// Rotates a queue, so that another seed begins elsewhere. Without a seed, the order is that of the
/// run.
fn shuffle_equals(queue: &mut VecDeque<Deviation>, seed: u64) {
    if seed >= Family::ALL.len() as u64 && !queue.is_empty() {
        let start = usize::try_from(seed % queue.len() as u64).unwrap_or_default();
        queue.rotate_left(start);
    }
}

/// Returns the deviations at single requests.
fn at_points(reference: &Reference, scenario: &Scenario) -> Vec<Deviation> {
    let mut found = Vec::new();
    for point in interesting(&reference.points) {
        let point = point.clone();
        if !is_write(&point.site.verb) {
            if point.occurrence == 1 {
                found.push(reject(&point, 500, 1));
            }
            continue;
        }
        found.push(Deviation::CrashAfter {
            point: point.clone(),
        });
        found.push(Deviation::CrashBefore {
            point: point.clone(),
        });
        found.push(Deviation::LostResponse {
            point: point.clone(),
        });
        rejections(&point, &mut found);
        interferences(&point, reference, scenario, &mut found);
        if point.step >= 1 {
            found.push(Deviation::Stale {
                step: point.step,
                point: Some(point.clone()),
            });
        }
        if point.occurrence == 1 {
            found.push(Deviation::Term { point });
        }
    }
    found
}

/// Returns the points that are explored, those of the highest value first: deletions, which cannot be undone, and
/// first occurrences. Steps take turns, so that a limited time is not spent on the first one.
fn interesting(points: &[Point]) -> Vec<&Point> {
    let mut found: Vec<&Point> = points
        .iter()
        .filter(|point| point.occurrence <= MOST_OCCURRENCES)
        .collect();
    let mut counts: BTreeMap<(usize, bool, usize), usize> = BTreeMap::new();
    found.sort_by_cached_key(|point| {
        let is_other = !point.site.verb.starts_with("delete");
        let group = (point.occurrence, is_other, point.step);
        let turn = counts.entry(group).or_default();
        *turn += 1;
        (point.occurrence, is_other, *turn, point.step)
    });
    found
}

fn reject(point: &Point, code: u16, times: usize) -> Deviation {
    Deviation::Reject {
        point: point.clone(),
        code,
        times,
    }
}

fn rejections(point: &Point, found: &mut Vec<Deviation>) {
    found.push(reject(point, 500, 1));
    if point.occurrence > 1 {
        return;
    }
    // A creation fails with a conflict if quotas change at the same time.
    if matches!(
        point.site.verb.as_str(),
        "update" | "patch" | "apply" | "create"
    ) {
        found.push(reject(point, 409, 1));
    }
    found.push(Deviation::Hang {
        point: point.clone(),
        millis: HANG_MILLIS,
    });
    found.push(reject(point, 429, 1));
    found.push(reject(point, 504, 1));
    found.push(reject(point, 500, 3));
}

fn interferences(
    point: &Point,
    reference: &Reference,
    scenario: &Scenario,
    found: &mut Vec<Deviation>,
) {
    let mut interfere = |change| {
        found.push(Deviation::Interfere {
            point: point.clone(),
            change,
        });
    };
    let is_change = matches!(point.site.verb.as_str(), "update" | "patch" | "apply");
    if is_change && !point.site.object.name.contains('*') {
        let is_of_user = reference.of_user.contains(&point.site.object);
        interfere(Interference::Label);
        if point.site.subresource.is_none() && !is_of_user {
            interfere(Interference::Delete);
        }
        if point.occurrence == 1 {
            interfere(Interference::Spec);
            if point.site.subresource.as_deref() == Some("status") {
                interfere(Interference::Status);
            }
            if !is_of_user || can_recreate(reference, scenario, point.step, &point.site.object) {
                interfere(Interference::Recreate);
            }
        }
    }
    let settles = |step: usize| {
        let step = step
            .checked_sub(1)
            .and_then(|index| scenario.steps.get(index));
        step.is_some_and(|step| step.settle && changes_objects(&step.action))
    };
    if settles(point.step) && settles(point.step + 1) && point.occurrence == 1 {
        interfere(Interference::NextStep);
    }
}

/// Returns `true` if a step applies an object that nothing keeps from being deleted.
fn can_recreate(reference: &Reference, scenario: &Scenario, step: usize, key: &ObjectKey) -> bool {
    let action = step
        .checked_sub(1)
        .and_then(|index| scenario.steps.get(index));
    let applied = action.and_then(|step| match &step.action {
        Action::Apply(object) => Target::of(object),
        _ => None,
    });
    let is_applied = applied.is_some_and(|target| {
        let is_group = match target.api_version.split_once('/') {
            Some((group, _)) => key.resource.ends_with(&format!(".{group}")),
            None => !key.resource.contains('.'),
        };
        target.name == key.name && is_group
    });
    let has_finalizers = (1..=step)
        .filter_map(|step| reference.view(step))
        .any(|view| {
            let objects = view.get(key).into_iter().flatten();
            objects.into_iter().any(|object| {
                let finalizers = object.pointer("/metadata/finalizers");
                finalizers
                    .and_then(Value::as_array)
                    .is_some_and(|list| !list.is_empty())
            })
        });
    is_applied && !has_finalizers
}

fn changes_objects(action: &Action) -> bool {
    matches!(
        action,
        Action::Apply(_) | Action::Patch { .. } | Action::Delete(_)
    )
}

/// Returns the deviations of whole steps.
fn in_steps(reference: &Reference, scenario: &Scenario) -> Vec<Deviation> {
    let mut found = Vec::new();
    let settles = |step: usize| {
        let step = step
            .checked_sub(1)
            .and_then(|index| scenario.steps.get(index));
        step.is_some_and(|step| step.settle && changes_objects(&step.action))
    };
    let writes = |step: usize| {
        let mut points = reference.points.iter();
        points.any(|point| point.step == step && is_write(&point.site.verb))
    };
    for step in (1..=scenario.steps.len()).filter(|step| settles(*step)) {
        let changed = |step: usize| reference.changed_by_user.get(step).cloned();
        let together = scenario.first_of_group(step)..=step;
        let delivered = together.filter_map(|step| reference.delivered.get(step));
        let delivered: BTreeSet<String> = delivered.flatten().cloned().collect();
        if settles(step + 1) {
            let next = changed(step + 1).unwrap_or_default();
            let both = changed(step).unwrap_or_default();
            let both = both.intersection(&next);
            for resource in both.filter(|resource| delivered.contains(*resource)) {
                found.push(Deviation::Gap {
                    step,
                    resource: resource.clone(),
                    recreate: false,
                });
            }
        }
        found.extend(unseen_recreation(reference, scenario, step, &delivered));
        if delivered.len() > 1 {
            found.extend(
                delivered
                    .into_iter()
                    .map(|resource| Deviation::Reorder { step, resource }),
            );
        }
        found.push(Deviation::Expire { step });
        found.push(Deviation::Stale { step, point: None });
        if writes(step) {
            found.push(Deviation::Overlap { step });
            found.push(Deviation::Slow {
                step,
                millis: SLOW_MILLIS,
            });
        }
        if writes(step) {
            found.extend(elections(reference, step));
        }
    }
    found
}

/// Returns the gap in which an object of the user is recreated, if nothing keeps it from being deleted.
fn unseen_recreation(
    reference: &Reference,
    scenario: &Scenario,
    step: usize,
    delivered: &BTreeSet<String>,
) -> Option<Deviation> {
    let before = reference.view(step.checked_sub(1)?)?;
    let key = reference.of_user.iter().find(|key| {
        before.contains_key(*key)
            && delivered.contains(&key.resource)
            && can_recreate(reference, scenario, step, key)
    })?;
    Some(Deviation::Gap {
        step,
        resource: key.resource.clone(),
        recreate: true,
    })
}

/// Returns the deviations of operators that elect a leader.
fn elections(reference: &Reference, step: usize) -> Vec<Deviation> {
    if reference.leases.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Deviation> = [true, false]
        .map(|is_taken| Deviation::Lease { step, is_taken })
        .into();
    if reference.replicas > 1 {
        found.push(Deviation::Freeze { step });
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::point::{Counter, Site};
    use crate::scenario::derive;

    fn reference() -> Reference {
        let site = |verb: &str, plural: &str| Site {
            verb: verb.to_owned(),
            object: ObjectKey::new("", plural, Some("default"), "a"),
            subresource: None,
        };
        let mut counter = Counter::default();
        let points = vec![
            counter.next(0, site("list", "shops")),
            counter.next(1, site("create", "pods")),
            counter.next(1, site("patch", "shops")),
            counter.next(2, site("patch", "pods")),
        ];
        let shops = BTreeSet::from(["shops".to_owned()]);
        let both = BTreeSet::from(["shops".to_owned(), "pods".to_owned()]);
        Reference {
            points,
            changed_by_user: vec![
                BTreeSet::new(),
                shops.clone(),
                shops.clone(),
                shops.clone(),
                shops,
            ],
            delivered: vec![
                BTreeSet::new(),
                both.clone(),
                both.clone(),
                both.clone(),
                both,
            ],
            of_user: [ObjectKey::new("", "shops", Some("default"), "a")].into(),
            leases: [ObjectKey::new(
                "coordination.k8s.io",
                "leases",
                Some("default"),
                "a",
            )]
            .into(),
            replicas: 2,
            ..Reference::default()
        }
    }

    fn scenario() -> Scenario {
        let object = json!({"apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": {"x": 1}});
        derive(&object, None).unwrap()
    }

    #[test]
    fn first_plans_are_of_many_families() {
        let variation = Variation {
            path: crate::object::FieldPath::parse("spec.x").unwrap(),
            value: None,
        };
        let plans = plans(&reference(), &scenario(), &[variation], &[], 0);
        let families: BTreeSet<Family> = plans
            .iter()
            .take(40)
            .map(|plan| plan.deviation.family())
            .collect();
        assert_eq!(families.len(), Family::ALL.len());
        assert_eq!(plans[0].deviation.family(), Family::CrashAfter);
        let texts: BTreeSet<String> = plans
            .iter()
            .map(|plan| plan.deviation.to_string())
            .collect();
        assert_eq!(texts.len(), plans.len(), "no plan is repeated");
    }

    #[test]
    fn deletions_come_first_and_steps_take_turns() {
        let site = |verb: &str, plural: &str| Site {
            verb: verb.to_owned(),
            object: ObjectKey::new("", plural, Some("default"), "a"),
            subresource: None,
        };
        let mut counter = Counter::default();
        let points = [
            counter.next(1, site("create", "pods")),
            counter.next(1, site("create", "services")),
            counter.next(1, site("create", "services")),
            counter.next(2, site("patch", "pods")),
            counter.next(2, site("delete", "services")),
        ];
        let order: Vec<String> = interesting(&points)
            .into_iter()
            .map(|point| format!("{} {} {}", point.step, point.site.verb, point.occurrence))
            .collect();
        assert_eq!(
            order,
            [
                "2 delete 1",
                "1 create 1",
                "2 patch 1",
                "1 create 1",
                "1 create 2"
            ]
        );
    }

    #[test]
    fn families_can_be_selected() {
        let plans = plans(&reference(), &scenario(), &[], &[Family::Gap], 0);
        assert!(!plans.is_empty());
        assert!(
            plans
                .iter()
                .all(|plan| plan.deviation.family() == Family::Gap)
        );
    }

    #[test]
    fn objects_of_users_are_not_deleted_by_others() {
        let plans = plans(&reference(), &scenario(), &[], &[Family::Interfere], 0);
        let deleted = plans.iter().filter(|plan| {
            matches!(&plan.deviation, Deviation::Interfere { change: Interference::Delete, point } if point.site.object.resource == "shops")
        });
        assert_eq!(deleted.count(), 0);
    }
}
