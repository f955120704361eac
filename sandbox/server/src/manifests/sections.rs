//! Document numbers in a YAML stream as people count them: by the lines `---`, including empty
//! documents, which the parser skips.

/// Returns the numbers of the sections that have content, in order.
pub(super) fn numbers(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut section = Section::new(1);
    // Text before the first marker is a comment, not a document.
    let mut is_before_first = true;
    for line in text.lines() {
        // At the beginning of a line, these are markers even within strings.
        if let Some(rest) = marker(line, "---") {
            if !(is_before_first && section.is_empty()) {
                let number = section.number + 1;
                section.finish(&mut numbers);
                section = Section::new(number);
            }
            is_before_first = false;
            section.add(rest);
        } else if marker(line, "...").is_some() {
            section.is_closed = true;
        } else {
            if section.is_closed && !is_nothing(line) {
                let number = section.number + 1;
                section.finish(&mut numbers);
                section = Section::new(number);
                is_before_first = false;
            }
            // Directives, such as "%YAML 1.2".
            if !(section.is_empty() && line.starts_with('%')) {
                section.add(line);
            }
        }
    }
    section.finish(&mut numbers);
    numbers
}

struct Section<'a> {
    number: usize,
    /// The first piece of content.
    first: Option<&'a str>,
    has_more: bool,
    is_closed: bool,
}

impl<'a> Section<'a> {
    fn new(number: usize) -> Self {
        Self {
            number,
            first: None,
            has_more: false,
            is_closed: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn add(&mut self, line: &'a str) {
        if is_nothing(line) {
            return;
        }
        if self.first.is_none() {
            self.first = Some(line);
        } else {
            self.has_more = true;
        }
    }

    fn finish(self, numbers: &mut Vec<usize>) {
        let Some(first) = self.first else { return };
        let first = first.split(" #").next().unwrap_or_default().trim();
        let is_null = matches!(first, "~" | "null" | "Null" | "NULL");
        if self.has_more || !is_null {
            numbers.push(self.number);
        }
    }
}

/// Returns the rest of the line after the marker, if the line begins with it.
fn marker<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let rest = line.strip_prefix(marker)?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r'])).then_some(rest)
}

fn is_nothing(line: &str) -> bool {
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn sections_are_counted_by_markers() {
        let cases: [(&str, &[usize]); 10] = [
            ("", &[]),
            ("a: 1\n", &[1]),
            ("# words\n---\na: 1\n---\n---\nb: 2\n", &[1, 3]),
            ("---\n---\na: 1\n", &[2]),
            ("---\n# only words\n---\r\na: 1\r\n", &[2]),
            ("a: 1\n...\n---\nb: 2\n...\n", &[1, 2]),
            ("a: 1\n...\nb: 2\n", &[1, 2]),
            (
                "%YAML 1.2\n--- {a: 1}\n--- # none\n--- null # none\n--- b\n",
                &[1, 4],
            ),
            ("a: |\n  ---\n  text\n---more: 1\n---\nb: 1\n", &[1, 2]),
            ("~\n---\nnull\na: 1\n", &[2]),
        ];
        for (text, expected) in cases {
            assert_eq!(numbers(text), expected, "{text:?}");
        }
    }
}
