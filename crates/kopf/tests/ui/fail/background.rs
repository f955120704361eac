//! Options of daemons and timers.

#[kopf::daemon("things", interval = 3)]
fn interval_of_a_daemon() {}

#[kopf::timer("things", interval = "often")]
fn text() {}

#[kopf::timer("things", sharp = true)]
fn sharp_without_an_interval() {}

#[kopf::daemon("things", initial_delay = -1)]
fn before_the_beginning() {}

fn main() {}
