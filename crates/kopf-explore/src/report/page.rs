//! The report as one HTML page without external resources.

use std::fmt::Write as _;

use super::junit::escaped;
use super::text::value;
use super::title;
use crate::journal::{Actor, Entry, Happening, Journal, ProcessChange};
use crate::mask::Difference;
use crate::oracle::Complaint;
use crate::outcome::{Finding, Outcome};

/// Entries of one journal on the page.
const MOST_ENTRIES: usize = 600;
/// The width of an entry in the diagram.
const STEP: usize = 16;
/// The heights of the lanes.
const LANES: [(&str, usize); 3] = [("user", 24), ("API server", 64), ("operator", 104)];

const STYLE: &str = "
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #59636e; --line: #d1d9e0; --box: #f6f8fa;
  --red: #cf222e; --green: #116329; --blue: #0550ae; --redbg: #ffebe9; --greenbg: #dafbe1 }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #e6edf3; --dim: #9198a1; --line: #3d444d;
  --box: #151b23; --red: #ff7b72; --green: #7ee787; --blue: #79c0ff; --redbg: #3c1618; --greenbg: #12331d } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; display: inline }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem }
p { margin: .4rem 0 } .dim { color: var(--dim) }
details.finding { border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0; padding: .8rem 1rem }
summary { cursor: pointer } summary:focus-visible, tr:focus-visible, .scroll:focus-visible { outline: 3px solid var(--blue) }
.badge { background: var(--redbg); color: var(--red); border-radius: 999px; padding: .1rem .6rem; font-size: .8rem; white-space: nowrap }
pre, .scroll { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .6rem; overflow-x: auto }
pre, td, code { font: 13px/1.5 ui-monospace, monospace }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .15rem .5rem; vertical-align: top }
tr:target, tr:focus { background: var(--box) } tr.fault td { color: var(--red); font-weight: 600 }
del { background: var(--redbg); color: var(--red); text-decoration: none }
ins { background: var(--greenbg); color: var(--green); text-decoration: none }
svg text { fill: var(--dim); font: 12px system-ui, sans-serif } svg line { stroke: var(--line) }
.user { fill: var(--blue) } .server { fill: var(--dim) } .operator { fill: var(--green) } .fault { fill: var(--red) }
.link { stroke: var(--dim); stroke-width: 1 } .mark { stroke: var(--red); stroke-dasharray: 3 3 }
";

const SCRIPT: &str = "
document.addEventListener('keydown', e => {
  const all = [...document.querySelectorAll('details.finding')];
  const at = all.findIndex(d => d.contains(document.activeElement));
  const go = n => { const d = all[n]; if (d) { d.querySelector('summary').focus(); d.scrollIntoView({block: 'start'}); } };
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.key === 'j') go(at + 1);
  else if (e.key === 'k') go(at < 0 ? 0 : Math.max(0, at - 1));
});
";

/// Returns the page.
pub fn page(outcome: &Outcome) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>kopf explore</title>\n<style>",
    );
    html.push_str(STYLE);
    html.push_str("</style>\n</head>\n<body>\n<main>\n<h1>kopf explore</h1>\n");
    let count = outcome.findings.len();
    push(
        &mut html,
        format_args!(
            "<p><strong>{count} {}</strong> in {} of {} plans, {} runs, {} s. {} not reached, {} not admitted, \
             {} not repeatable.</p>\n<p class=\"dim\">Keys: <kbd>j</kbd> and <kbd>k</kbd> move between findings, \
             <kbd>Enter</kbd> opens one.</p>\n",
            if count == 1 { "finding" } else { "findings" },
            outcome.done,
            outcome.plans,
            outcome.runs,
            outcome.elapsed.as_secs(),
            outcome.not_reached,
            outcome.not_admitted,
            outcome.unstable.len(),
        ),
    );
    if count == 0 {
        html.push_str("<p>Nothing was found.</p>\n");
    }
    for finding in &outcome.findings {
        add_finding(&mut html, finding);
    }
    if !outcome.masked.is_empty() {
        html.push_str("<h3>Fields that differ between undisturbed runs</h3>\n<ul>\n");
        for field in &outcome.masked {
            push(
                &mut html,
                format_args!("<li><code>{}</code></li>\n", escaped(field)),
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</main>\n<script>");
    html.push_str(SCRIPT);
    html.push_str("</script>\n</body>\n</html>\n");
    html
}

/// Writing to a string cannot fail.
fn push(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

fn add_finding(html: &mut String, finding: &Finding) {
    let is_open = if finding.number == 1 { " open" } else { "" };
    push(
        html,
        format_args!(
            "<details class=\"finding\" id=\"finding-{0}\"{is_open}>\n<summary><h2>{0}. {1}</h2> ",
            finding.number,
            escaped(&title(finding)),
        ),
    );
    for complaint in &finding.complaints {
        push(
            html,
            format_args!("<span class=\"badge\">not {}</span> ", complaint.oracle),
        );
    }
    html.push_str("</summary>\n");
    for complaint in &finding.complaints {
        add_complaint(html, complaint);
    }
    html.push_str("<h3>Steps</h3>\n<ol>\n");
    for step in &finding.scenario.steps {
        push(
            html,
            format_args!("<li>{}</li>\n", escaped(&step.to_string())),
        );
    }
    html.push_str("</ol>\n");
    if !finding.also.is_empty() {
        html.push_str("<h3>Other deviations with the same effect</h3>\n<ul>\n");
        for other in &finding.also {
            push(
                html,
                format_args!("<li>{}</li>\n", escaped(&other.to_string())),
            );
        }
        html.push_str("</ul>\n");
    }
    push(
        html,
        format_args!(
            "<h3>Replay</h3>\n<pre>kopf explore --replay finding-{}.yaml</pre>\n",
            finding.number
        ),
    );
    add_run(html, finding);
    html.push_str("</details>\n");
}

fn add_complaint(html: &mut String, complaint: &Complaint) {
    push(
        html,
        format_args!("<h3>{}</h3>\n", escaped(&complaint.summary)),
    );
    if !complaint.differences.is_empty() {
        html.push_str(
            "<table>\n<tr><th scope=\"col\">object</th><th scope=\"col\">field</th>\
             <th scope=\"col\">undisturbed run</th><th scope=\"col\">this run</th></tr>\n",
        );
    }
    let mut row = |key: &str, path: &str, expected: &str, found: &str| {
        push(
            html,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td><del>{}</del></td><td><ins>{}</ins></td></tr>\n",
                escaped(key),
                escaped(path),
                escaped(expected),
                escaped(found),
            ),
        );
    };
    for difference in &complaint.differences {
        let key = difference.key().to_string();
        match difference {
            Difference::Missing { .. } => row(&key, "", "exists", "missing"),
            Difference::Unexpected { is_terminating, .. } => {
                let found = if *is_terminating {
                    "being deleted"
                } else {
                    "exists"
                };
                row(&key, "", "absent", found);
            }
            Difference::Changed { fields, .. } => {
                for field in fields {
                    let (expected, found) = (field.expected.as_ref(), field.found.as_ref());
                    row(
                        &key,
                        &field.path.to_string(),
                        &value(expected),
                        &value(found),
                    );
                }
            }
        }
    }
    if !complaint.differences.is_empty() {
        html.push_str("</table>\n");
    }
    if !complaint.details.is_empty() {
        push(
            html,
            format_args!("<pre>{}</pre>\n", escaped(&complaint.details.join("\n"))),
        );
    }
}

/// Adds the diagram and the table of a run.
fn add_run(html: &mut String, finding: &Finding) {
    let entries: Vec<&Entry> = finding
        .journal
        .entries
        .iter()
        .filter(|entry| lane(&entry.what).is_some())
        .take(MOST_ENTRIES)
        .collect();
    html.push_str("<h3>What happened</h3>\n");
    add_diagram(html, &entries);
    html.push_str(
        "<details><summary>All entries</summary>\n<table>\n<tr><th scope=\"col\">seconds</th>\
         <th scope=\"col\">step</th><th scope=\"col\">who</th><th scope=\"col\">what</th></tr>\n",
    );
    for entry in &entries {
        let class = if is_fault(&entry.what) {
            " class=\"fault\""
        } else {
            ""
        };
        let who = lane(&entry.what).and_then(|lane| LANES.get(lane));
        push(
            html,
            format_args!(
                "<tr{class} tabindex=\"0\"><td>{:.3}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                entry.at.as_secs_f64(),
                entry.step,
                who.map_or("", |(name, _)| *name),
                escaped(&describe(&entry.what)),
            ),
        );
    }
    html.push_str("</table>\n</details>\n");
}

fn add_diagram(html: &mut String, entries: &[&Entry]) {
    let width = 100 + entries.len() * STEP;
    push(
        html,
        format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"diagram of the run\">\n\
             <svg width=\"{width}\" height=\"128\" role=\"img\" aria-label=\"lanes of user, API server and operator\">\n"
        ),
    );
    for (name, y) in LANES {
        push(
            html,
            format_args!(
                "<text x=\"4\" y=\"{}\">{name}</text><line x1=\"84\" x2=\"{width}\" y1=\"{y}\" y2=\"{y}\"/>\n",
                y + 4
            ),
        );
    }
    for (index, entry) in entries.iter().enumerate() {
        let Some((_, y)) = lane(&entry.what).and_then(|lane| LANES.get(lane)) else {
            continue;
        };
        let x = 92 + index * STEP;
        let class = match () {
            () if is_fault(&entry.what) => "fault",
            () if *y == 24 => "user",
            () if *y == 64 => "server",
            () => "operator",
        };
        if let Happening::Request(_) = entry.what {
            push(
                html,
                format_args!("<line class=\"link\" x1=\"{x}\" x2=\"{x}\" y1=\"64\" y2=\"{y}\"/>"),
            );
        }
        if is_fault(&entry.what) {
            push(
                html,
                format_args!("<line class=\"mark\" x1=\"{x}\" x2=\"{x}\" y1=\"8\" y2=\"120\"/>"),
            );
        }
        push(
            html,
            format_args!(
                "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"5\"><title>{}</title></circle>\n",
                escaped(&describe(&entry.what)),
            ),
        );
    }
    html.push_str("</svg>\n</div>\n");
}

/// Returns the lane of an entry; `None` for entries that are not shown.
fn lane(what: &Happening) -> Option<usize> {
    match what {
        Happening::Step(_) => Some(0),
        Happening::Commit(_) | Happening::Deviation(_) => Some(1),
        Happening::Request(request) if request.is_write() => Some(2),
        Happening::Delivery(_) | Happening::Process { .. } => Some(2),
        Happening::Response(response) if response.code >= 400 || response.code == 0 => Some(1),
        Happening::Request(_) | Happening::Response(_) => None,
    }
}

fn is_fault(what: &Happening) -> bool {
    match what {
        Happening::Deviation(_) => true,
        Happening::Process { change, .. } => {
            !matches!(change, ProcessChange::Started | ProcessChange::Ended)
        }
        Happening::Response(response) => response.is_injected,
        _ => false,
    }
}

/// Returns a journal as text, one line per entry.
pub fn journal_lines(journal: &Journal) -> Vec<String> {
    let entries = journal.entries.iter().filter_map(|entry| {
        let (who, _) = LANES.get(lane(&entry.what)?)?;
        let mark = if is_fault(&entry.what) { "!" } else { " " };
        let (at, what) = (entry.at.as_secs_f64(), describe(&entry.what));
        Some(format!("{at:8.3} {mark} {who:10} {what}"))
    });
    entries.collect()
}

/// Returns an entry in one line.
fn describe(what: &Happening) -> String {
    match what {
        Happening::Step(step) => step.clone(),
        Happening::Request(request) => match &request.subresource {
            Some(name) => format!("{} {} ({name})", request.verb, request.key),
            None => format!("{} {}", request.verb, request.key),
        },
        Happening::Response(response) => match response.code {
            0 => "the response is lost".to_owned(),
            code => format!("response {code}"),
        },
        Happening::Commit(commit) => {
            let who = match commit.actor {
                Actor::User => "user",
                Actor::Operator(_) => "operator",
                Actor::System => "server",
            };
            let change = format!("{:?}", commit.change).to_lowercase();
            format!(
                "{} {change} by {who}, revision {}",
                commit.key, commit.revision
            )
        }
        Happening::Delivery(delivery) => format!(
            "event {} {}, revision {}",
            delivery.event, delivery.key, delivery.revision
        ),
        Happening::Process { instance, change } => match change {
            ProcessChange::Started => format!("process {instance} starts"),
            ProcessChange::Killed => format!("process {instance} is killed"),
            ProcessChange::Terminated => format!("process {instance} gets SIGTERM"),
            ProcessChange::Ended => format!("process {instance} has ended"),
            ProcessChange::Exited(status) => format!("process {instance} exits: {status}"),
            ProcessChange::Stuck => format!("process {instance} does not exit"),
            ProcessChange::Frozen => format!("process {instance} is frozen"),
            ProcessChange::Thawed => format!("process {instance} continues"),
        },
        Happening::Deviation(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::deviation::Deviation;
    use crate::object::ObjectKey;
    use crate::oracle::Oracle;
    use crate::scenario::Scenario;

    #[test]
    fn page_is_self_contained_and_escaped() {
        let mut journal = Journal::default();
        journal.push(Entry {
            at: Duration::ZERO,
            step: 1,
            what: Happening::Deviation("<script>".to_owned()),
        });
        let key = ObjectKey::new("", "pods", Some("default"), "a");
        let complaint = Complaint {
            differences: vec![Difference::Missing { key }],
            ..Complaint::new(Oracle::Converged, 1, "pods/a is <b>gone</b>")
        };
        let outcome = Outcome {
            findings: vec![Finding {
                number: 1,
                deviation: Some(Deviation::Overlap { step: 1 }),
                complaints: vec![complaint],
                also: Vec::new(),
                scenario: Scenario::default(),
                journal,
                output: String::new(),
            }],
            ..Outcome::default()
        };
        let html = page(&outcome);
        assert!(html.contains("pods/a is &lt;b&gt;gone&lt;/b&gt;"));
        assert_eq!(html.matches("<script>").count(), 1);
        for external in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(external), "{external}");
        }
    }
}
