//! The world: a server, replicas, faults, and time in steps.

use std::collections::VecDeque;

use super::chance::Chance;
use super::replica::{Answer, Call, Replica, Request, SHARDS};
use super::server::{Object, Server};

/// Milliseconds between two steps.
const STEP: u64 = 100;
/// Milliseconds with faults.
const FAULTY: u64 = 240_000;
/// Milliseconds without faults after that.
const QUIET: u64 = 120_000;
/// Longest time of a request, in milliseconds: less than replicas wait after the validity of another one.
const SLOWEST: u64 = 3_000;
/// Longest time of a request for Leases, in milliseconds.
const SLOWEST_ROUND: u64 = 9_500;
/// Milliseconds in which slow replicas divide the shards.
const BEGINNING: u64 = 120_000;
/// Steps by which a watch is behind the server.
const LAG: usize = 30;

/// Milliseconds after the deletion of a Lease in which no replica joins: one that has not seen the Lease
/// before would take it at once, while its holder has not noticed the deletion yet.
const WITHOUT_JOINS: u64 = 20_000;

/// A rule that is left out, to see that the simulation notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// A replica acts for longer than the others wait.
    TrustsTheLeaseDuration,
    /// A shard is released while its handler runs.
    ReleasesBeforeHandlersEnd,
    /// Objects of a new shard are handled without listing them.
    HandlesBeforeListing,
    /// Results are written without a look at the Lease.
    WritesWithoutChecking,
}

/// A patch on its way.
struct Patch {
    replica: String,
    shard: u32,
    change: u64,
    arrives: u64,
    answered: u64,
    is_answered: bool,
}

/// A request for Leases on its way.
struct Flight {
    request: Request,
    arrives: u64,
    answered: u64,
    delivery: Delivery,
}

/// The state of a request for Leases.
enum Delivery {
    Sent,
    Performed(Answer),
    /// The request or its response is lost.
    Failed,
}

/// The time of requests for Leases, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Latency {
    /// Mostly short, sometimes almost the time in which a Lease must be renewed.
    Any,
    /// Always the same.
    Exactly(u64),
    /// Random, up to this time.
    UpTo(u64),
}

/// See the module.
pub(crate) struct World {
    pub(crate) violations: Vec<String>,
    pub(crate) calls: u64,
    pub(crate) moves: u64,
    chance: Chance,
    server: Server,
    past: VecDeque<Vec<Object>>,
    replicas: Vec<Replica>,
    /// Requests for Leases, by replicas.
    requests: Vec<Vec<Flight>>,
    patches: Vec<Patch>,
    /// The replica that recorded the last change of each object.
    recorded_by: Vec<String>,
    born: u64,
    mistake: Mistake,
    latency: Latency,
    no_joins_until: u64,
    pub(crate) deletions: u64,
}

impl World {
    fn new(seed: u64, mistake: Mistake) -> Self {
        let mut world = Self {
            violations: Vec::new(),
            calls: 0,
            moves: 0,
            chance: Chance::new(seed),
            server: Server::default(),
            past: VecDeque::new(),
            replicas: Vec::new(),
            requests: Vec::new(),
            patches: Vec::new(),
            recorded_by: vec![String::new(); SHARDS as usize],
            born: 0,
            mistake,
            latency: Latency::Any,
            no_joins_until: 0,
            deletions: 0,
        };
        world.server.objects = vec![Object::default(); SHARDS as usize];
        world
    }

    pub(crate) fn run(seed: u64, mistake: Mistake) -> Self {
        let mut world = Self::new(seed, mistake);
        let mut now = 0;
        while now < FAULTY + QUIET && world.violations.is_empty() {
            if now < FAULTY {
                world.disturb(now);
            } else if world.replicas.is_empty() {
                world.join(now);
            }
            world.step(now);
            now += STEP;
        }
        if world.violations.is_empty() {
            world.check_end();
        }
        world
    }

    /// Runs this many replicas without faults, with slow requests. Returns the longest time in which a
    /// shard was not valid in any replica, after the time for the beginning.
    pub(crate) fn run_slow(seed: u64, replicas: u64, latency: Latency) -> (Self, u64) {
        let mut world = Self::new(seed, Mistake::None);
        world.latency = latency;
        let (mut gaps, mut longest) = ([0; SHARDS as usize], 0);
        for now in (0..FAULTY + QUIET).step_by(usize::try_from(STEP).unwrap()) {
            if now < replicas * STEP {
                world.join(now);
            }
            if now < FAULTY && world.chance.once_in(10) {
                world.change();
            }
            world.step(now);
            if now == BEGINNING {
                world.moves = 0;
            }
            for (shard, gap) in (0..).zip(&mut gaps).filter(|_| now >= BEGINNING) {
                let mut replicas = world.replicas.iter();
                let is_served = replicas.any(|replica| replica.is_valid(shard, now));
                *gap = if is_served { 0 } else { *gap + STEP };
                longest = longest.max(*gap);
            }
        }
        world.check_end();
        (world, longest)
    }

    fn step(&mut self, now: u64) {
        self.deliver(now);
        self.arrive(now);
        for index in 0..self.replicas.len() {
            if self.replicas[index].frozen_until <= now {
                self.act(index, now);
            }
        }
        self.past.push_back(self.server.objects.clone());
        if self.past.len() > LAG {
            self.past.pop_front();
        }
        self.check(now);
    }

    #[expect(
        clippy::same_functions_in_if_condition,
        reason = "every call draws another number"
    )]
    fn disturb(&mut self, now: u64) {
        let may_join = self.no_joins_until <= now && self.replicas.len() < 5;
        if may_join && (self.chance.once_in(150) || self.replicas.is_empty()) {
            self.join(now);
        }
        self.meddle(now);
        if self.replicas.is_empty() {
            return;
        }
        let index = usize::try_from(self.chance.next() % self.replicas.len() as u64).unwrap();
        if self.chance.once_in(400) {
            self.replicas.remove(index);
            self.requests.remove(index);
        } else if self.chance.once_in(250) {
            self.replicas[index].frozen_until = now + self.chance.within(100..40_000);
        } else if self.chance.once_in(250) {
            self.replicas[index].partitioned_until = now + self.chance.within(100..40_000);
        }
        if self.chance.once_in(10) {
            self.change();
        }
    }

    fn change(&mut self) {
        let object = usize::try_from(self.chance.next() % u64::from(SHARDS)).unwrap();
        self.server.objects[object].changed += 1;
    }

    /// Edits or deletes Leases by hand.
    fn meddle(&mut self, now: u64) {
        let names = self.server.names();
        if names.is_empty() || !self.chance.once_in(100) {
            return;
        }
        let name = &names[usize::try_from(self.chance.next() % names.len() as u64).unwrap()];
        if self.chance.once_in(2) {
            // Replicas that have not seen the holder would take a deleted Lease at once.
            let holder = self.server.lease(name).map(|record| record.holder);
            let mut replicas = self.replicas.iter();
            if replicas.all(|one| {
                holder.as_deref() == Some(&one.identity) || one.listed.get(name) == holder.as_ref()
            }) {
                self.server.remove(name);
                self.deletions += 1;
                self.no_joins_until = now + WITHOUT_JOINS;
            }
        } else {
            let seconds = [1, 60, 3_600, (1 << 31) - 1];
            let seconds = seconds[usize::try_from(self.chance.within(0..4)).unwrap()];
            self.server.edit(name, seconds);
        }
    }

    fn join(&mut self, now: u64) {
        self.born += 1;
        // Identities are not in the order of births.
        let number = self.chance.within(0..100) * 100 + self.born % 100;
        self.replicas.push(Replica::new(number, now, self.mistake));
        self.requests.push(Vec::new());
    }

    /// Delivers requests for Leases to the server, even those of frozen replicas.
    fn arrive(&mut self, now: u64) {
        for (replica, requests) in self.replicas.iter().zip(&mut self.requests) {
            let is_partitioned = replica.partitioned_until > now;
            for flight in requests {
                let is_sent = matches!(flight.delivery, Delivery::Sent);
                if flight.arrives <= now && is_sent && !is_partitioned {
                    let answer = flight.request.perform(&mut self.server);
                    flight.delivery = Delivery::Performed(answer);
                } else if is_partitioned
                    && flight.arrives <= now
                    && (is_sent || now < flight.answered)
                {
                    flight.delivery = Delivery::Failed;
                }
            }
        }
    }

    /// Delivers patches and their responses.
    fn deliver(&mut self, now: u64) {
        for patch in &mut self.patches {
            let shard = patch.shard as usize;
            if patch.arrives <= now {
                patch.arrives = u64::MAX;
                let object = &mut self.server.objects[shard];
                if object.handled >= patch.change && self.recorded_by[shard] != patch.replica {
                    let message = format!("{now}: change {} is recorded twice", patch.change);
                    self.violations.push(message);
                }
                object.handled = object.handled.max(patch.change);
                self.recorded_by[shard].clone_from(&patch.replica);
            }
            if patch.answered <= now {
                let mut replicas = self.replicas.iter_mut();
                let sender = replicas.find(|replica| replica.identity == patch.replica);
                let Some(sender) = sender.filter(|replica| replica.frozen_until <= now) else {
                    continue;
                };
                patch.answered = u64::MAX;
                if let Some(tenure) = sender.tenures.get_mut(&patch.shard)
                    && tenure.call == Call::Written
                {
                    let change = patch.change;
                    tenure.call = if patch.is_answered {
                        Call::None
                    } else {
                        Call::Running { change, until: now }
                    };
                }
            }
        }
        self.patches
            .retain(|patch| patch.arrives != u64::MAX || patch.answered != u64::MAX);
    }

    /// Runs one step of one replica that is not frozen.
    fn act(&mut self, index: usize, now: u64) {
        let replica = &mut self.replicas[index];
        replica.settle(now);
        replica.release_drained();
        let before = replica.tenures.len();
        let mut begun = Vec::new();
        for flight in std::mem::take(&mut self.requests[index]) {
            if flight.answered > now {
                self.requests[index].push(flight);
                continue;
            }
            let answer = match flight.delivery {
                Delivery::Performed(answer) => Some(answer),
                Delivery::Sent | Delivery::Failed => None,
            };
            begun.extend(replica.answered(&flight.request, answer, &mut self.server, now));
        }
        let gained = replica.tenures.len().saturating_sub(before);
        self.moves += gained as u64;
        begun.extend(replica.begin(now));
        for request in begun {
            let latency = match self.latency {
                Latency::Exactly(latency) => latency,
                Latency::UpTo(longest) => self.chance.within(0..longest + 1),
                Latency::Any if self.chance.once_in(5) => self.chance.within(0..SLOWEST_ROUND),
                Latency::Any => self.chance.within(0..SLOWEST),
            };
            let way = self.chance.within(0..latency + 1);
            self.requests[index].push(Flight {
                request,
                arrives: now + way,
                answered: now + latency,
                delivery: Delivery::Sent,
            });
        }
        for shard in 0..SHARDS {
            self.handle(index, shard, now);
        }
    }

    /// Begins and ends the handler of one object.
    fn handle(&mut self, index: usize, shard: u32, now: u64) {
        let replica = &mut self.replicas[index];
        let is_valid = replica.is_valid(shard, now);
        let is_partitioned = replica.partitioned_until > now;
        let identity = replica.identity.clone();
        let Some(tenure) = replica.tenures.get_mut(&shard) else {
            return;
        };
        let current = self.server.objects[shard as usize];
        let is_old = self.mistake == Mistake::HandlesBeforeListing;
        let lagging = self.past.front().filter(|_| is_old);
        let seen = lagging.map_or(current, |past| past[shard as usize]);
        match tenure.call {
            Call::None if is_valid && !tenure.draining && tenure.listed_at <= now => {
                if seen.changed <= seen.handled {
                    return;
                }
                self.calls += 1;
                if current.handled >= seen.changed {
                    let message = format!("{now}: {identity} repeats change {}", seen.changed);
                    self.violations.push(message);
                }
                let until = now + self.chance.within(100..8_000);
                let change = seen.changed;
                tenure.call = Call::Running { change, until };
            }
            Call::Running { change, until } if until <= now => {
                if !is_valid && self.mistake != Mistake::WritesWithoutChecking {
                    return;
                }
                let arrives = now + self.chance.within(0..SLOWEST);
                let is_lost = is_partitioned && self.chance.once_in(2);
                let answered = arrives + self.chance.within(0..500);
                tenure.call = Call::Written;
                self.patches.push(Patch {
                    replica: identity,
                    shard,
                    change,
                    arrives: if is_lost { u64::MAX } else { arrives },
                    answered,
                    is_answered: !is_partitioned,
                });
            }
            _ => {}
        }
    }

    fn check(&mut self, now: u64) {
        for shard in 0..SHARDS {
            let replicas = self.replicas.iter();
            let valid: Vec<&str> = replicas
                .filter(|replica| replica.is_valid(shard, now))
                .map(|replica| replica.identity.as_str())
                .collect();
            if valid.len() > 1 {
                let message = format!("{now}: shard {shard} is valid in {}", valid.join(", "));
                self.violations.push(message);
            }
            // A frozen or overdue one may end what it was doing.
            let running = self.replicas.iter().filter(|replica| {
                let tenure = replica.tenures.get(&shard);
                let runs = |call: Call| matches!(call, Call::Running { .. });
                let is_late = replica.frozen_until > now || replica.is_overdue(shard, now);
                !is_late && tenure.is_some_and(|tenure| runs(tenure.call))
            });
            if running.count() > 1 {
                let message = format!("{now}: shard {shard} is handled twice at once");
                self.violations.push(message);
            }
        }
    }

    fn check_end(&mut self) {
        for (shard, object) in self.server.objects.iter().enumerate() {
            if object.handled < object.changed {
                let message = format!("shard {shard}: {object:?} is not handled");
                self.violations.push(message);
            }
        }
    }
}
