//! Showing JSON to people without changing it: numbers keep their digits and objects their order, because the text is
//! laid out anew and never read into values.

/// A text this short stays on one line.
const ONE_LINE_MAX: usize = 72;

/// The JSON, laid out for reading. Lines beyond `lines_max` are replaced by a remark.
pub fn readable(json: &str, lines_max: usize) -> String {
    let compact = layout(json, None);
    if compact.chars().take(ONE_LINE_MAX + 1).count() <= ONE_LINE_MAX {
        return compact;
    }
    let text = layout(json, Some("  "));
    match text.match_indices('\n').nth(lines_max.saturating_sub(1)) {
        None => text,
        Some((end, _)) => {
            let rest = text[end..].matches('\n').count();
            format!("{}\n… {rest} more lines; --json shows them all", &text[..end])
        }
    }
}

/// The JSON on one line.
pub fn one_line(json: &str) -> String {
    layout(json, None)
}

fn layout(json: &str, indent: Option<&str>) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0usize;
    let mut chars = json.chars().peekable();
    let (mut in_string, mut escaped) = (false, false);
    let new_line = |out: &mut String, depth: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            // However deep it is nested, the page has a right edge.
            out.extend(std::iter::repeat_n(indent, depth.min(40)));
        }
    };
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match c {
            ' ' | '\n' | '\r' | '\t' => {}
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| matches!(c, ' ' | '\n' | '\r' | '\t')).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                if indent.is_none() {
                    out.push(' ');
                }
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_json_stays_on_a_line_and_keeps_its_digits() {
        assert_eq!(
            readable("{ \"z\":1.00000000000000000001,\n\"a\":[ ] }", 9),
            "{\"z\": 1.00000000000000000001, \"a\": []}"
        );
        assert_eq!(readable("\"a: {\\\"b\\\", c}\"", 9), "\"a: {\\\"b\\\", c}\"");
    }

    #[test]
    fn long_json_is_indented_and_cut() {
        let json = format!("{{\"a\":[1,{{}}],\"b\":\"{}\"}}", "x".repeat(80));
        let text = readable(&json, 99);
        assert_eq!(text, format!("{{\n  \"a\": [\n    1,\n    {{}}\n  ],\n  \"b\": \"{}\"\n}}", "x".repeat(80)));
        assert_eq!(readable(&json, 2), "{\n  \"a\": [\n… 5 more lines; --json shows them all");
    }
}
