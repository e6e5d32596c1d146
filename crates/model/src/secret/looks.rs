//! What looks like a secret: the shapes that well-known issuers give to theirs, and the names people give to theirs.
//!
//! A guard against mistakes, not against somebody who wants to write a secret down: those have base64.

/// What the text contains that looks like the value of a secret, in words for people.
pub fn looks_secret(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    if has_password_in_address(text) {
        return Some("an address with a password in it");
    }
    words(text).find_map(issued)
}

/// Whether a variable of this name is one that holds a secret.
pub fn sounds_secret(variable: &str) -> bool {
    const WORDS: [&str; 10] = [
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "SECRET",
        "TOKEN",
        "APIKEY",
        "API_KEY",
        "PRIVATE_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
    ];
    let upper = variable.to_ascii_uppercase();
    WORDS.iter().any(|word| upper.strip_suffix(word).is_some_and(|before| before.is_empty() || before.ends_with('_')))
}

/// Runs of the characters that keys and tokens are made of.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c))).filter(|word| word.len() >= 16)
}

fn issued(word: &str) -> Option<&'static str> {
    const SHAPES: [(&str, usize, &str); 13] = [
        ("sk_live_", 24, "a live key of Stripe"),
        ("rk_live_", 24, "a live key of Stripe"),
        ("whsec_", 24, "a signing secret of a webhook"),
        ("ghp_", 36, "a token of GitHub"),
        ("gho_", 36, "a token of GitHub"),
        ("ghs_", 36, "a token of GitHub"),
        ("github_pat_", 40, "a token of GitHub"),
        ("glpat-", 20, "a token of GitLab"),
        ("xoxb-", 24, "a token of Slack"),
        ("xoxp-", 24, "a token of Slack"),
        ("AKIA", 20, "an access key of AWS"),
        ("AIza", 35, "a key of Google"),
        ("bow_", 60, "a token of ours"),
    ];
    let known = SHAPES.iter().find(|(begins, least, _)| word.len() >= *least && word.starts_with(begins));
    if let Some((_, _, what)) = known {
        return Some(what);
    }
    let mut parts = word.split('.');
    let json = |part: Option<&str>| part.is_some_and(|part| part.len() > 10 && part.starts_with("eyJ"));
    (json(parts.next()) && json(parts.next()) && parts.next().is_some()).then_some("a JSON Web Token")
}

/// `scheme://user:password@host`, unless the password is something the shell fills in.
fn has_password_in_address(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ', '\t', '\n', '"', '\'']).next().unwrap_or("");
        authority
            .rsplit_once('@')
            .and_then(|(login, _)| login.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty() && !password.contains(['$', '{']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples are put together here, so that no scanner takes this file for a leak.
    #[test]
    fn well_known_shapes_are_known() {
        let long = "0123456789abcdefghijABCDEFGHIJ0123456789abcdefghijABCDEFGHIJ";
        for (text, what) in [
            (format!("Authorization: Bearer sk_{}_{}", "live", &long[..24]), "Stripe"),
            (format!("token={}{}", "gh".to_owned() + "p_", &long[..36]), "GitHub"),
            (format!("{}{}", "AK".to_owned() + "IA", "ABCDEFGHIJKLMNOP"), "AWS"),
            (format!("-----BEGIN {} KEY-----\nabc", "RSA PRIVATE"), "private key"),
            (format!("postgres://app:{}@db/main", "hunter22"), "password"),
            (format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", &long[..20]), "Web Token"),
            (format!("bow_api_{long}"), "ours"),
        ] {
            assert!(looks_secret(&text).is_some_and(|found| found.contains(what)), "{what}: {:?}", looks_secret(&text));
        }
        for text in [
            "systemctl restart nginx",
            "sk_live_",
            "https://example.org:8443/a@b:c",
            "postgres://app:$PASSWORD@db/main",
            "postgres://app:{{ params.x }}@db/main",
            "git@example.org:a/b.git",
            "/usr/share/AKIA",
            "",
        ] {
            assert_eq!(looks_secret(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_secrets_are_known_by_their_last_word() {
        for name in ["PASSWORD", "DB_PASSWORD", "PGPASSWORD", "api_key", "GITHUB_TOKEN", "client_secret"] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in ["PASSWORD_FILE", "TOKENS", "SECRETARY", "PATH", "MYTOKEN", ""] {
            assert!(!sounds_secret(name), "{name}");
        }
    }
}
