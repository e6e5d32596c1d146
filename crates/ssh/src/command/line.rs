//! The one line that is sent for a command, and what goes before its standard input.
//!
//! The server hands the line to the user's shell. That replaces itself with `/bin/sh` and a short script, the *preamble*,
//! which replaces itself with the program:
//!
//! 1. It enters the working directory, or says that it cannot.
//! 2. It says its process id on standard error, in a line only we can recognise ([`Greeting`](super::Greeting)). As sshd
//!    made it the leader of a process group, and as every step takes the place of the one before, that is the group of
//!    the program and of whatever it starts.
//! 3. It reads one line of standard input, if there are secrets: a script of ours that sets them. The shell reads it byte by
//!    byte and not one further, so the rest is there for the program.
//! 4. It becomes the program: by itself if there are no variables to set, by `env` if there are. Nothing of the line is
//!    left for others to list.

use zeroize::Zeroizing;

use super::shell;
use super::{BadCommand, RemoteCommand};

/// Linux takes no longer argument than 128 KiB, and the line is one: of the user's shell.
const LINE_BYTES_MAX: usize = 120_000;
/// When the preamble fails itself.
const PREAMBLE_FAILED: u8 = 125;

pub(crate) struct CommandLine {
    pub line: String,
    /// What standard input begins with. Empty if there are no secrets.
    pub secrets: Zeroizing<String>,
}

impl CommandLine {
    /// `nonce` is what the greeting is recognised by.
    pub fn of(command: &RemoteCommand, nonce: &str) -> Result<Self, BadCommand> {
        check(command)?;
        let Some(program) = command.argv.first() else { return Err(BadCommand::Empty) };
        let mut script = String::new();
        let mut words = vec![nonce.to_owned()];
        match &command.cwd {
            None => script.push_str("echo \"$1 $$\" >&2; shift"),
            Some(cwd) => {
                script.push_str("cd \"$2\" 2>/dev/null || { echo \"$1 cd\" >&2; exit ");
                script.push_str(&PREAMBLE_FAILED.to_string());
                script.push_str("; }; echo \"$1 $$\" >&2; shift 2");
                // A path that begins with a dot or a slash is nothing but a path.
                words.push(if cwd.starts_with('/') { cwd.clone() } else { format!("./{cwd}") });
            }
        }
        let secrets = secrets(command);
        if !secrets.is_empty() {
            let n = shell::LINE_BREAK;
            script.push_str(&format!(
                "; {n}='\n'; IFS= read -r bowline_s && eval \"$bowline_s\" || exit {PREAMBLE_FAILED}; unset {n} bowline_s"
            ));
        }
        // `env` would take a name with an equals sign for a variable, `exec` one with a dash for an option.
        let (dash, equals) = (program.starts_with('-'), program.contains('='));
        if dash || !command.env.is_empty() {
            script.push_str("; exec env -- \"$@\"");
            words.extend(command.env.iter().map(|(name, value)| format!("{name}={value}")));
            if equals {
                words.extend(["/bin/sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
            }
        } else {
            script.push_str("; exec \"$@\"");
        }
        if dash && equals {
            return Err(BadCommand::ProgramName(program.clone()));
        }
        let mut line = String::from("exec /bin/sh -c");
        let words = words.iter().chain(&command.argv).map(String::as_str);
        [script.as_str(), "bowline"].into_iter().chain(words).for_each(|word| shell::push(&mut line, word));
        match line.len() {
            bytes if bytes > LINE_BYTES_MAX => Err(BadCommand::TooLong { bytes, max: LINE_BYTES_MAX }),
            _ => Ok(Self { line, secrets }),
        }
    }
}

/// The line that ends a process group: asks it to end, waits for it at most `grace_tenths` tenths of a second, and ends it.
/// It runs on the other side from the beginning to the end, so that a connection that breaks meanwhile spares nobody.
/// Its exit code says whether the group is gone.
pub(crate) fn kill_line(leader: u32, grace_tenths: u64) -> String {
    // Whoever may not be signalled by us looks to `kill` like nobody, and the dead whom nobody has reaped like the living.
    // Both are told apart by the list of processes, which costs more. So it is asked when `kill` says that it is over, and
    // in the end. POSIX takes `-s 0 --` before a group where `-0 --` is an error to some shells; and the end of a pipe is a
    // shell of its own only in brackets.
    const SCRIPT: &str = r#"g=$1 t=$2
signalled() { kill -s "$1" -- "-$g" 2>/dev/null; }
listed() {
  l=$(ps -A -o pgid= -o stat= 2>/dev/null) && [ -n "$l" ] || return 2
  echo "$l" | (while read -r a b; do case $a:$b in "$g":Z*) ;; "$g":*) exit 0 ;; esac; done; exit 1)
}
there() {
  signalled 0 && [ "$1" = quick ] && return 0
  listed
  case $? in 0) return 0 ;; 1) return 1 ;; esac
  signalled 0
}
pause() { if sleep 0.1 2>/dev/null; then t=$((t - 1)); else sleep 1; t=$((t - 10)); fi; }
signalled TERM
while there quick; do [ "$t" -gt 0 ] || break; pause; done
signalled KILL
t=30
while there close; do [ "$t" -gt 0 ] || exit 1; pause; done
exit 0"#;
    let mut line = String::from("exec /bin/sh -c");
    let numbers = [leader.to_string(), grace_tenths.to_string()];
    [SCRIPT, "bowline", &numbers[0], &numbers[1]].iter().for_each(|word| shell::push(&mut line, word));
    line
}

/// One line of script that sets the secret variables.
fn secrets(command: &RemoteCommand) -> Zeroizing<String> {
    let mut script = Zeroizing::new(String::new());
    // Growing would leave copies behind in freed memory; each character takes four bytes or fewer, line breaks 14.
    let bytes = |text: &str| text.len() * 4 + text.matches('\n').count() * 14;
    script.reserve_exact(command.secret_env.iter().map(|(n, s)| 32 + 2 * n.len() + bytes(s.reveal())).sum());
    for (name, secret) in &command.secret_env {
        script.push_str(name);
        script.push('=');
        shell::push_one_line(&mut script, secret.reveal());
        script.push_str("; export ");
        script.push_str(name);
        script.push(';');
    }
    if !script.is_empty() {
        script.push('\n');
    }
    script
}

fn check(command: &RemoteCommand) -> Result<(), BadCommand> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let names = command.env.iter().map(|(name, _)| name).chain(command.secret_env.iter().map(|(name, _)| name));
    if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
        return Err(BadCommand::VariableName(name.clone()));
    }
    let nul = |text: &str| text.contains('\0');
    if command.argv.iter().any(|word| nul(word)) {
        return Err(BadCommand::Nul("an argument"));
    }
    if command.env.iter().any(|(_, value)| nul(value)) {
        return Err(BadCommand::Nul("an environment variable"));
    }
    if command.secret_env.iter().any(|(_, secret)| nul(secret.reveal())) {
        return Err(BadCommand::Nul("a secret"));
    }
    match command.cwd.as_deref() {
        Some("") => Err(BadCommand::EmptyDirectory),
        Some(cwd) if nul(cwd) => Err(BadCommand::Nul("the working directory")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Output, Stdio};

    use super::*;
    use crate::secret::Secret;

    /// What a server does with a line, without the server. `shells` are the user's own, and the one in the place of
    /// `/bin/sh`.
    fn run(shells: (&str, &str), command: &RemoteCommand) -> Output {
        let line = CommandLine::of(command, "nonce").unwrap();
        let mut process = Command::new(shells.0);
        process
            .arg("-c")
            .arg(with_inner(&line.line, shells.1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(line.secrets.as_bytes()).unwrap();
        stdin.write_all(&command.stdin).unwrap();
        drop(stdin);
        process.wait_with_output().unwrap()
    }

    fn with_inner(line: &str, shell: &str) -> String {
        line.replacen("exec /bin/sh -c", &format!("exec {shell} -c"), 1)
    }

    /// The shells there are on this machine, as users' own and in the place of `/bin/sh`; that itself always.
    fn shells() -> Vec<(&'static str, &'static str)> {
        let posix = ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/ksh", "/bin/mksh", "/bin/busybox sh"];
        let others = ["/bin/zsh", "/usr/bin/fish"];
        let is_there = |shell: &&str| std::path::Path::new(shell.split(' ').next().unwrap()).exists();
        let inner = posix.into_iter().filter(is_there).map(|shell| ("/bin/sh", shell));
        let outer = posix[..5].iter().copied().chain(others).filter(is_there).map(|shell| (shell, "/bin/sh"));
        inner.chain(outer).collect()
    }

    #[test]
    fn the_line_is_short_and_says_only_what_is_needed() {
        let line = CommandLine::of(&RemoteCommand::new(["uptime"]), "n").unwrap();
        assert_eq!(line.line, r#"exec /bin/sh -c 'echo "$1 $$" >&2; shift; exec "$@"' bowline n uptime"#);
        assert!(line.secrets.is_empty());
    }

    #[test]
    fn secrets_of_all_kinds_arrive_and_the_rest_of_stdin_stays() {
        let every: String = (1..=255u8).map(char::from).collect();
        let values = [
            "plain",
            "it's",
            "a b  c ",
            "line\nline\n\nend\n",
            r#"back\slash "$HOME" `id` $(id)"#,
            "\r\n\t",
            "",
            &every,
        ];
        for shell in shells() {
            for value in values {
                let mut command = RemoteCommand::new(["/bin/sh", "-c", "printf '%s|' \"$TOKEN\" \"$OTHER\"; cat"]);
                command.secret_env = vec![("TOKEN".into(), Secret::new(value)), ("OTHER".into(), Secret::new("o'\n"))];
                command.stdin = "the rest\nof stdin".into();
                let output = run(shell, &command);
                let expected = format!("{value}|o'\n|the rest\nof stdin");
                assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{shell:?} {output:?}");
            }
        }
    }

    #[test]
    fn the_preamble_leaves_no_variables_behind() {
        let mut command = RemoteCommand::new(["env"]);
        command.secret_env = vec![("TOKEN".into(), Secret::new("x"))];
        let output = run(("/bin/sh", "/bin/sh"), &command);
        let left = String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("bowline_"));
        assert!(!left, "{output:?}");
    }

    #[test]
    fn odd_program_names_are_run_as_what_they_are() {
        for shell in shells() {
            for (program, env) in [("-odd", false), ("a=b", false), ("a=b", true), ("-odd", true)] {
                let mut command = RemoteCommand::new([program, "--help"]);
                if env {
                    command.env = vec![("A".into(), "'1' 2".into())];
                }
                let output = run(shell, &command);
                assert_eq!(output.status.code(), Some(127), "{shell:?} {program} {output:?}");
            }
        }
        let both = CommandLine::of(&RemoteCommand::new(["-a=b"]), "n").err();
        assert_eq!(both, Some(BadCommand::ProgramName("-a=b".into())));
    }

    #[test]
    fn a_directory_may_have_any_name() {
        let directory = tempfile::tempdir().unwrap();
        for shell in shells() {
            for name in ["-", "--", "-P", "a b", "it's"] {
                let cwd = directory.path().join(name);
                std::fs::create_dir_all(&cwd).unwrap();
                let mut command = RemoteCommand::new(["pwd"]);
                command.cwd = Some(cwd.to_str().unwrap().to_owned());
                let output = run(shell, &command);
                assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), cwd.to_str().unwrap(), "{output:?}");
            }
        }
        let mut command = RemoteCommand::new(["pwd"]);
        command.cwd = Some("/no/such/place".into());
        assert_eq!(run(("/bin/sh", "/bin/sh"), &command).stderr, b"nonce cd\n");
    }

    /// A process group of its own, as sshd makes one. Ready when it has said so.
    fn group(script: &str) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut process = Command::new("/bin/sh");
        process.args(["-c", script]).process_group(0).stdout(Stdio::piped());
        let mut process = process.spawn().unwrap();
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        process
    }

    #[test]
    fn the_script_that_kills_says_when_all_are_gone() {
        for shell in shells() {
            for script in ["sleep 1000 & echo; wait", "trap '' TERM; sleep 1000 & echo; wait", "(sleep 1000) & echo"] {
                let mut process = group(script);
                let line = kill_line(process.id(), 3);
                // Our child is ours to reap; until then it is dead, and listed.
                let line = with_inner(&line, shell.1);
                let killed = Command::new(shell.0).arg("-c").arg(&line).output().unwrap();
                assert_eq!(killed.status.code(), Some(0), "{shell:?} {script} {killed:?}");
                let listing = Command::new("ps").args(["-A", "-o", "pgid=,stat="]).output().unwrap();
                let group = process.id().to_string();
                let alive = String::from_utf8_lossy(&listing.stdout).lines().any(|line| {
                    let mut words = line.split_whitespace();
                    words.next() == Some(&group) && !words.next().unwrap().starts_with('Z')
                });
                assert!(!alive, "{shell:?} {script}");
                process.wait().unwrap();
            }
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |change: fn(&mut RemoteCommand)| {
            let mut command = RemoteCommand::new(["true"]);
            change(&mut command);
            command.check().unwrap_err()
        };
        assert_eq!(refused(|c| c.argv.clear()), BadCommand::Empty);
        assert_eq!(refused(|c| c.argv.push("a\0".into())), BadCommand::Nul("an argument"));
        assert_eq!(refused(|c| c.env.push(("A".into(), "\0".into()))), BadCommand::Nul("an environment variable"));
        assert_eq!(refused(|c| c.secret_env.push(("A".into(), Secret::new("\0")))), BadCommand::Nul("a secret"));
        assert_eq!(refused(|c| c.cwd = Some(String::new())), BadCommand::EmptyDirectory);
        for name in ["", "1A", "A-B", "A=B", "A B", "A;id"] {
            let mut command = RemoteCommand::new(["true"]);
            command.env.push((name.into(), String::new()));
            assert_eq!(command.check(), Err(BadCommand::VariableName(name.into())));
        }
        assert!(matches!(refused(|c| c.argv.push("x".repeat(200_000))), BadCommand::TooLong { .. }));
    }

    #[test]
    fn secrets_never_grow_their_memory() {
        let mut command = RemoteCommand::new(["true"]);
        for value in ["'''''", "\n\n\n\n", "plain", ""] {
            command.secret_env = vec![("A_LONG_NAME".into(), Secret::new(value)), ("B".into(), Secret::new(value))];
            let reserved = secrets(&command).capacity();
            assert_eq!(reserved, secrets(&command).capacity());
            assert!(secrets(&command).len() <= 2 * 32 + 2 * 12 + 2 * value.len() * 18, "{}", secrets(&command).len());
        }
    }
}
