//! The cases that are written as transcripts; see [`kopf_tests::transcript`].

include!(concat!(env!("OUT_DIR"), "/transcripts.rs"));

#[test]
fn every_case_of_the_transcripts_is_a_test() {
    let files: std::collections::BTreeSet<_> = CASES.iter().map(|(file, _)| *file).collect();
    for file in files {
        let mut listed: Vec<_> = CASES
            .iter()
            .filter(|case| case.0 == file)
            .map(|case| case.1)
            .collect();
        listed.sort_unstable();
        assert_eq!(kopf_tests::transcript::cases(file), listed, "{file}");
    }
}
