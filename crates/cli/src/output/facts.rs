//! A list of facts about one thing: names on the left, aligned, facts on the right.

use console::measure_text_width;

use super::paint::Paint;
use super::text::clean;

/// Facts in the order they were added. Empty ones are left out.
#[derive(Debug, Default)]
pub struct Facts(Vec<(&'static str, Vec<String>, Paint)>);

impl Facts {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(self, name: &'static str, fact: impl AsRef<str>) -> Self {
        self.painted(name, fact, Paint::Plain)
    }

    #[must_use]
    pub fn painted(mut self, name: &'static str, fact: impl AsRef<str>, paint: Paint) -> Self {
        let fact = clean(fact.as_ref());
        if !fact.is_empty() {
            self.0.push((name, vec![fact], paint));
        }
        self
    }

    /// A fact of several lines; each is cleaned on its own.
    #[must_use]
    pub fn lines(mut self, name: &'static str, fact: &str) -> Self {
        let lines: Vec<String> = fact.lines().map(clean).collect();
        if lines.iter().any(|line| !line.is_empty()) {
            self.0.push((name, lines, Paint::Plain));
        }
        self
    }

    pub fn render(&self, color: bool) -> String {
        let width = self.0.iter().map(|(name, ..)| measure_text_width(name)).max().unwrap_or(0);
        let mut out = String::new();
        for (name, lines, paint) in &self.0 {
            for (at, line) in lines.iter().enumerate() {
                let name = if at == 0 { *name } else { "" };
                let padded = format!("{name:width$}");
                out.push_str(&Paint::Quiet.on(&padded, color));
                out.push_str("  ");
                out.push_str(&paint.on(line, color));
                out.push('\n');
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned_and_empty_facts_left_out() {
        let facts = Facts::new().with("id", "1\u{1b}").with("lane", "").lines("payload", "{\n  \"a\": 1\n}");
        assert_eq!(facts.render(false), "id       1\npayload  {\n           \"a\": 1\n         }\n");
    }
}
