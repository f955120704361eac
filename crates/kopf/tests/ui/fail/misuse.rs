//! Options of errors that do not apply, texts that are not durations, functions that are not handlers.

fn plain() {}

fn main() {
    let _ = kopf::permanent("never").delay(5);
    let _ = kopf::denied("no").delay(5);
    let _ = kopf::temporary("later").code(409);
    let _ = kopf::duration!("5 minutes");
    let _ = kopf::handlers![plain];
    let _ = kopf::handlers![String];
}
