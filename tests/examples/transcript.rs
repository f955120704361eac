//! Plays the cases of one transcript without compiling the tests: `--example transcript deletion`,
//! with the names of cases behind it if only some are wanted.

use kopf_tests::transcript::{cases, run};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words = std::env::args().skip(1);
    let file = words
        .next()
        .expect("the name of a file in tests/api/transcripts");
    let mut wanted: Vec<String> = words.collect();
    if wanted.is_empty() {
        wanted = cases(&file);
    }
    for case in wanted {
        run(&file, &case).await;
    }
}
