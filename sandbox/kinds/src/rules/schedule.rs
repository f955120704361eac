//! Schedules of cron jobs: five fields, or a name such as `@daily`.

const NAMES: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The bounds of one field.
struct Bounds {
    least: u32,
    most: u32,
    /// Names of values, from the smallest one on.
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        least: 0,
        most: 59,
        names: &[],
    },
    Bounds {
        least: 0,
        most: 23,
        names: &[],
    },
    Bounds {
        least: 1,
        most: 31,
        names: &[],
    },
    Bounds {
        least: 1,
        most: 12,
        names: &MONTHS,
    },
    Bounds {
        least: 0,
        most: 6,
        names: &DAYS,
    },
];

/// Checks a schedule. The error is the reason for the client.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.contains("TZ") {
        return Err("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if let Some(interval) = schedule.strip_prefix("@every ") {
        return kopf_sandbox_schema::duration::check(interval)
            .map_err(|why| format!("failed to parse duration {schedule}: {why}"));
    }
    if schedule.starts_with('@') {
        return if NAMES.contains(&schedule) {
            Ok(())
        } else {
            Err(format!("unrecognized descriptor: {schedule}"))
        };
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    for (part, bounds) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

/// Checks `value`, `least-most`, `*` or `?`, each with an optional `/step`.
fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let (range, step) = match text.split_once('/') {
        Some((_, step)) if step.contains('/') => return Err(format!("too many slashes: {text}")),
        Some((range, step)) => (range, Some(step)),
        None => (text, None),
    };
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let (least, most) = match range.split_once('-') {
        // The end of an unbounded range is ignored.
        Some(("*" | "?", _)) => return Ok(()),
        None if matches!(range, "*" | "?") => return Ok(()),
        Some((_, most)) if most.contains('-') => return Err(format!("too many hyphens: {text}")),
        Some((least, most)) => (bounds.value(least)?, bounds.value(most)?),
        None => {
            let value = bounds.value(range)?;
            (value, value)
        }
    };
    if least < bounds.least {
        return Err(format!(
            "beginning of range ({least}) below minimum ({}): {text}",
            bounds.least
        ));
    }
    if most > bounds.most {
        return Err(format!(
            "end of range ({most}) above maximum ({}): {text}",
            bounds.most
        ));
    }
    if least > most {
        return Err(format!(
            "beginning of range ({least}) beyond end of range ({most}): {text}"
        ));
    }
    Ok(())
}

impl Bounds {
    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self
            .names
            .iter()
            .zip(self.least..)
            .find(|(name, _)| text.eq_ignore_ascii_case(name));
        match named {
            Some((_, value)) => Ok(value),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_checked_field_by_field() {
        for good in [
            "*/1 * * * ?",
            "0 0 1 1 0",
            "0,30 9-17 * jan-mar mon-fri",
            "@daily",
            "@every 1h30m",
            "0 0 1,,15 * *",
            "*-5 * * * *",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "1/2/3 * * * *",
            "a * * * *",
            "@never",
            "@every x",
            "TZ=UTC 0 0 * * *",
            "",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
