//! Names of hosts that stand for many: `web[01:50].example.com`, `db-[a:f]`, `node[0:10:2]`; and ports behind them.

use crate::connection;
use crate::draft::too_many;
use crate::error::ImportError;
use crate::limits::HOSTS_MAX;
use crate::place::At;

/// The order in which Ansible counts letters.
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The names a pattern stands for, and the port behind it.
pub(crate) fn expand(text: &str, at: At<'_>) -> Result<(Vec<String>, Option<u16>), ImportError> {
    let (pattern, port) = match split_port(text) {
        Some((pattern, digits)) => (pattern, Some(connection::port(digits, at)?)),
        None if text.ends_with(':') => {
            let what = "a port should follow the colon behind the host".to_owned();
            return Err(ImportError::Value { at: at.place(), what });
        }
        None => (text, None),
    };
    if !pattern.contains('[') {
        return Ok((vec![pattern.to_owned()], port));
    }
    let bad = |why| ImportError::Range { at: at.place(), pattern: pattern.to_owned(), why };
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((head, after)) = rest.split_once('[') {
        let (inside, tail) = after.split_once(']').ok_or_else(|| bad("a [ has no ]"))?;
        let steps = steps(inside).map_err(bad)?;
        if names.len().saturating_mul(steps.len()) > HOSTS_MAX {
            return Err(too_many("hosts", HOSTS_MAX, at));
        }
        let each = |name: &String| steps.iter().map(|step| format!("{name}{head}{step}")).collect::<Vec<_>>();
        names = names.iter().flat_map(each).collect();
        rest = tail;
        // A name that is too long already will be refused; there is no need to write it a hundred thousand times first.
        if names[0].len() > 1024 {
            break;
        }
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok((names, port))
}

/// What stands between the brackets, spelt out.
fn steps(inside: &str) -> Result<Vec<String>, &'static str> {
    let bounds: Vec<&str> = inside.split(':').collect();
    let (from, to, step) = match bounds[..] {
        [from, to] => (from, to, "1"),
        [from, to, step] => (from, to, step),
        _ => return Err("it is written as [begin:end] or [begin:end:step]"),
    };
    let number = |text: &str| -> Option<usize> {
        let digits = !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let step = number(step).filter(|step| *step > 0).ok_or("the step is a number above zero")?;
    let letter = |text: &str| match text.as_bytes() {
        [letter] => LETTERS.iter().position(|l| l == letter),
        _ => None,
    };
    if let (Some(from), Some(to)) = (letter(from), letter(to)) {
        if from > to {
            return Err("it ends before it begins");
        }
        return Ok(LETTERS[from..=to].iter().step_by(step).map(|letter| char::from(*letter).to_string()).collect());
    }
    let from = if from.is_empty() { "0" } else { from };
    let both = "its ends are two numbers of at most 15 digits, or two letters";
    let (low, high) = (number(from).ok_or(both)?, number(to).ok_or(both)?);
    let width = if from.len() > 1 && from.starts_with('0') { from.len() } else { 0 };
    if width > 0 && width != to.len() {
        return Err("its ends must have equally many digits, as the first begins with a zero");
    }
    if low > high {
        return Err("it ends before it begins");
    }
    if (high - low) / step >= HOSTS_MAX {
        return Err("it has more hosts than an inventory may have");
    }
    Ok((low..=high).step_by(step).map(|n| format!("{n:0width$}")).collect())
}

/// `web1:22` or `[fe80::1]:22`, if what is before the port can be a host. An IPv6 address without brackets has no port.
pub(crate) fn split_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if let Some(inside) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'))
        && (inside.parse::<std::net::Ipv6Addr>().is_ok() || is_host(inside))
    {
        return Some((inside, port));
    }
    is_host(host).then_some((host, port))
}

/// Labels of word characters and dashes, separated by points, with ranges anywhere among them.
fn is_host(text: &str) -> bool {
    let mut rest = text;
    let mut last = '.';
    while let Some(character) = rest.chars().next() {
        if character == '[' {
            let Some((inside, tail)) = rest[1..].split_once(']') else { return false };
            if steps(inside).is_err() {
                return false;
            }
            (last, rest) = (']', tail);
            continue;
        }
        let word = character.is_alphanumeric() || character == '_';
        let good = match character {
            '.' => !matches!(last, '.' | '-' | '_'),
            '-' => last != '.',
            _ => word,
        };
        if !good {
            return false;
        }
        last = character;
        rest = &rest[character.len_utf8()..];
    }
    !matches!(last, '.' | '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text, At::default()).expect(text).0
    }

    fn wrong(text: &str) -> String {
        expand(text, At::line(3)).expect_err(text).to_string()
    }

    #[test]
    fn numbers_letters_and_steps() {
        assert_eq!(names("web[08:11].x"), ["web08.x", "web09.x", "web10.x", "web11.x"]);
        assert_eq!(names("db-[a:c]"), ["db-a", "db-b", "db-c"]);
        assert_eq!(names("n[0:10:5]"), ["n0", "n5", "n10"]);
        assert_eq!(names("n[:2]"), ["n0", "n1", "n2"]);
        assert_eq!(names("[y:B]"), ["y", "z", "A", "B"], "small letters come before large ones");
        assert_eq!(names("r[1:2]-[a:b]"), ["r1-a", "r1-b", "r2-a", "r2-b"]);
        assert_eq!(names("plain"), ["plain"]);
    }

    #[test]
    fn a_port_can_stand_behind_a_host() {
        let split = |text| expand(text, At::default()).map(|(names, port)| (names[0].clone(), port));
        assert_eq!(split("web1:2222"), Ok(("web1".to_owned(), Some(2222))));
        assert_eq!(split("web[1:3]:22"), Ok(("web1".to_owned(), Some(22))));
        assert_eq!(split("[fe80::1]:22"), Ok(("fe80::1".to_owned(), Some(22))));
        assert_eq!(split("fe80::1"), Ok(("fe80::1".to_owned(), None)), "an address, not a host with a port");
        assert_eq!(split("a/b:22"), Ok(("a/b:22".to_owned(), None)), "what is no host has no port");
        assert_eq!(split("a-:22"), Ok(("a-:22".to_owned(), None)));
    }

    #[test]
    fn what_is_no_range_is_said() {
        let said: String = [
            "web[1:2",
            "web[1]",
            "web[1:2:3:4]",
            "web[2:1]",
            "web[c:a]",
            "web[01:5]",
            "web[a:5]",
            "web[1:5:0]",
            "web[:]",
            "web[1:]",
            "web[0:100000]",
            "a[0:999][0:999]",
            "a[0:99999999999999999999]",
            "web:",
            "web:99999",
            "[web]",
        ]
        .iter()
        .map(|text| format!("{}\n", wrong(text)))
        .collect();
        insta::assert_snapshot!(said);
    }
}
