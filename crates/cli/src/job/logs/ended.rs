//! What hosts wrote, shown when a command has ended: of one host plainly, of a few under headings, of many in groups of
//! equal output.

use std::collections::HashMap;

use bowline_model::JobId;
use tokio::sync::mpsc;

use super::paper::{Layout, Paper};
use super::pump::{self, News, Source};
use super::{Stream, WAITING_MAX, print};
use crate::client::Client;
use crate::failure::Failure;
use crate::fleet::{self, UnitView};
use crate::output::harmless::Harmless;
use crate::output::time::thousands;
use crate::output::{Paint, Screen, Text};

/// Up to this many hosts each have their own heading.
const FEW: usize = 10;
/// Hosts whose output is read.
const HOSTS_MAX: usize = 1_000;
/// Hosts that are read at the same time.
const AT_ONCE: usize = 16;
/// What is compared, and shown, of each stream of many hosts.
const BYTES_MAX: usize = 64 * 1024;
/// Different outputs that are shown, and lines of each.
const GROUPS_MAX: usize = 10;
const LINES_MAX: usize = 40;
/// Names in a heading.
const NAMES_MAX: usize = 5;

/// How the output of a command was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// One host's output, and nothing else: standard output is what the command wrote there.
    Plain,
    Several,
    Nothing,
}

/// Shows what the hosts of a command wrote.
pub async fn show_output(client: &Client, screen: &mut Screen, id: JobId, total: u64) -> Result<Shown, Failure> {
    let mut hosts = Vec::new();
    fleet::read_units(client, id, None, HOSTS_MAX as u64 + 1, |units: Vec<UnitView>| {
        let begun = units.into_iter().filter(|unit| unit.attempts.as_str() != "0");
        hosts.extend(begun.map(|unit| unit.host.to_string()));
    })
    .await?;
    match hosts.as_slice() {
        [] => Ok(Shown::Nothing),
        [host] if total == 1 => plain(client, screen, id, host).await.map(|()| Shown::Plain),
        few if few.len() <= FEW => under_headings(client, screen, id, few).await,
        many => {
            if many.len() > HOSTS_MAX {
                let shown = thousands(HOSTS_MAX as u64);
                screen
                    .note(&format!("the output of the first {shown} hosts is shown; `bowline job logs {id}` has all"));
            }
            in_groups(client, screen, id, &many[..many.len().min(HOSTS_MAX)]).await
        }
    }
}

/// Standard output goes to standard output, standard error to standard error.
async fn plain(client: &Client, screen: &mut Screen, id: JobId, host: &str) -> Result<(), Failure> {
    for stream in ["stdout", "stderr"] {
        let source = Source { host: host.to_owned(), stream };
        let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
        let reading = async { pump::read(client, id, &source, 0, &sender).await };
        let mut filter = screen.is_terminal().then(|| Harmless::new(screen.color()));
        let printing = async {
            let mut ended_line = true;
            while let Some(news) = receiver.recv().await {
                let bytes = match (news, &mut filter) {
                    (News::Bytes(_, bytes), Some(filter)) => filter.push(&bytes).into_bytes(),
                    (News::Bytes(_, bytes), None) => bytes,
                    (News::Failed(failure), _) => return Err(failure),
                    (News::Lost(..), _) => continue,
                    (News::End(_), filter) => {
                        let rest = filter.as_mut().map(Harmless::finish).unwrap_or_default().into_bytes();
                        put(screen, stream, &rest, &mut ended_line)?;
                        break;
                    }
                };
                put(screen, stream, &bytes, &mut ended_line)?;
            }
            // Whatever is said next begins on a line of its own.
            if !ended_line && screen.is_terminal() {
                put(screen, stream, b"\n", &mut ended_line)?;
            }
            Ok(())
        };
        let ((), printed) = tokio::join!(reading, printing);
        printed?;
    }
    Ok(())
}

fn put(screen: &mut Screen, stream: &str, bytes: &[u8], ended_line: &mut bool) -> Result<(), Failure> {
    let Some(last) = bytes.last() else { return Ok(()) };
    *ended_line = *last == b'\n';
    if stream == "stdout" {
        return screen.bytes(bytes);
    }
    screen.notes().bytes(bytes);
    Ok(())
}

async fn under_headings(client: &Client, screen: &mut Screen, id: JobId, hosts: &[String]) -> Result<Shown, Failure> {
    let sources: Vec<Source> = hosts
        .iter()
        .flat_map(|host| Stream::Both.names().iter().map(|stream| Source { host: host.clone(), stream }))
        .collect();
    let mut paper = Paper::new(Layout::Headings { host: true }, screen, false, &sources);
    for (at, source) in sources.iter().enumerate() {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let reading = async move { pump::read(client, id, source, at, &sender).await };
        let ((), printed) = tokio::join!(reading, print(screen, &mut paper, receiver));
        printed?;
    }
    if !paper.wrote() {
        return Ok(Shown::Nothing);
    }
    paper.finish(screen)?;
    Ok(Shown::Several)
}

/// What one host wrote, as far as it is compared.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
struct Written {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Written {
    fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty()
    }
}

/// Hosts that wrote the same.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    hosts: Vec<String>,
    written: Written,
}

/// The largest group first; equally large ones by their first host.
fn group(all: Vec<(String, Written)>) -> Vec<Group> {
    let mut groups: HashMap<Written, Vec<String>> = HashMap::new();
    for (host, written) in all {
        groups.entry(written).or_default().push(host);
    }
    let mut groups: Vec<Group> = groups.into_iter().map(|(written, hosts)| Group { hosts, written }).collect();
    groups.sort_by(|a, b| b.hosts.len().cmp(&a.hosts.len()).then_with(|| a.hosts.cmp(&b.hosts)));
    groups
}

async fn in_groups(client: &Client, screen: &mut Screen, id: JobId, hosts: &[String]) -> Result<Shown, Failure> {
    let mut all = Vec::with_capacity(hosts.len());
    let bar = screen.progress(hosts.len() as u64, "reading output");
    for some in hosts.chunks(AT_ONCE) {
        let (sender, mut receiver) = mpsc::channel(AT_ONCE);
        let readers = some.iter().map(|host| {
            let sender = sender.clone();
            async move {
                let written = read_host(client, id, host).await.map(|written| (host.clone(), written));
                let _ = sender.send(written).await;
            }
        });
        let readers: Vec<_> = readers.collect();
        drop(sender);
        pump::all(readers).await;
        let mut read = Vec::with_capacity(some.len());
        while let Some(written) = receiver.recv().await {
            read.push(written?);
        }
        // In the order of the hosts, whoever answered first.
        read.sort_by_key(|(host, _)| some.iter().position(|other| other == host));
        all.extend(read);
        bar.advance(some.len() as u64);
    }
    drop(bar);
    let groups = group(all);
    if groups.iter().all(|group| group.written.is_empty()) {
        return Ok(Shown::Nothing);
    }
    for (at, group) in groups.iter().take(GROUPS_MAX).enumerate() {
        show_group(screen, group, at > 0)?;
    }
    let rest = &groups[groups.len().min(GROUPS_MAX)..];
    if !rest.is_empty() {
        let hosts: usize = rest.iter().map(|group| group.hosts.len()).sum();
        screen.line(&format!(
            "… and {} other outputs of {}: `bowline job logs {id}`",
            thousands(rest.len() as u64),
            fleet::hosts(hosts as u64)
        ))?;
    }
    screen.line("")?;
    Ok(Shown::Several)
}

async fn read_host(client: &Client, id: JobId, host: &str) -> Result<Written, Failure> {
    let mut written = Written::default();
    for (stream, into) in [("stdout", &mut written.stdout), ("stderr", &mut written.stderr)] {
        let source = Source { host: host.to_owned(), stream };
        let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
        let reading = pump::read(client, id, &source, 0, &sender);
        let taking = async {
            while let Some(news) = receiver.recv().await {
                match news {
                    News::Bytes(_, bytes) => into.extend_from_slice(&bytes),
                    News::Failed(failure) => return Err(failure),
                    News::Lost(..) => {}
                    News::End(_) => break,
                }
                if into.len() >= BYTES_MAX {
                    into.truncate(BYTES_MAX);
                    break;
                }
            }
            // Whoever still reads for us is told that nothing more is wanted.
            receiver.close();
            Ok(())
        };
        let ((), taken) = tokio::join!(reading, taking);
        taken?;
    }
    Ok(written)
}

/// `==> 36 hosts: web1, web2, web3, web4, web5 and 31 more <==`
fn heading(group: &Group, what: &str) -> String {
    let names: Vec<String> = group.hosts.iter().take(NAMES_MAX).map(|host| Text::new(host).to_string()).collect();
    let more = group.hosts.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {} more", thousands(more as u64)) } else { String::new() };
    match group.hosts.len() {
        1 => format!("==> {}{what} <==", names.join(", ")),
        count => format!("==> {}: {}{more}{what} <==", fleet::hosts(count as u64), names.join(", ")),
    }
}

fn show_group(screen: &mut Screen, group: &Group, apart: bool) -> Result<(), Failure> {
    let color = screen.color();
    let apart = if apart { "\n" } else { "" };
    if group.written.is_empty() {
        let heading = Paint::Strong.on(&heading(group, ""), color);
        return screen.line(&format!("{apart}{heading}\n(no output)"));
    }
    let mut first = apart;
    for (bytes, what) in [(&group.written.stdout, ""), (&group.written.stderr, " stderr")] {
        if bytes.is_empty() {
            continue;
        }
        let heading = Paint::Strong.on(&heading(group, what), color);
        screen.line(&format!("{first}{heading}"))?;
        let shown = bytes.split_inclusive(|byte| *byte == b'\n').take(LINES_MAX).map(<[u8]>::len).sum::<usize>();
        let mut text = bytes[..shown].to_vec();
        if screen.is_terminal() {
            let mut filter = Harmless::new(color);
            text = filter.push(&text).into_bytes();
            text.extend(filter.finish().into_bytes());
        }
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        screen.bytes(&text)?;
        let hidden = bytes[shown..].split_inclusive(|byte| *byte == b'\n').count();
        if hidden > 0 {
            let lines = if hidden == 1 { "line" } else { "lines" };
            let at_least = if bytes.len() >= BYTES_MAX { "at least " } else { "" };
            screen.line(&format!("… {at_least}{} more {lines}", thousands(hidden as u64)))?;
        }
        first = "\n";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_wrote_the_same_stand_together_the_most_first() {
        let written = |text: &str| Written { stdout: text.into(), stderr: Vec::new() };
        let all = [("a", "x"), ("b", "y"), ("c", "y"), ("d", "z")].map(|(host, text)| (host.to_owned(), written(text)));
        let groups: Vec<Vec<String>> = group(all.to_vec()).into_iter().map(|group| group.hosts).collect();
        assert_eq!(groups, [vec!["b", "c"], vec!["a"], vec!["d"]]);
    }

    #[test]
    fn a_heading_names_some_hosts_and_counts_the_others() {
        let of = |count: usize| Group {
            hosts: (1..=count).map(|n| format!("web{n}")).collect(),
            written: Written::default(),
        };
        assert_eq!(heading(&of(1), " stderr"), "==> web1 stderr <==");
        assert_eq!(heading(&of(2), ""), "==> 2 hosts: web1, web2 <==");
        assert_eq!(heading(&of(1_200), ""), "==> 1,200 hosts: web1, web2, web3, web4, web5 and 1,195 more <==");
    }
}
