//! `job logs`: what a command wrote, from a server that keeps the bytes.

use bowline_cli::Exit;
use serde_json::{Value, json};

use crate::fake::{Asked, Fake, Reply, ok, refused};
use crate::jobs::ID;
use crate::run::unit;

fn query(asked: &Asked, name: &str) -> Option<String> {
    let query = asked.line.split_once('?').map_or("", |(_, query)| query);
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

/// A server that hands out at most five bytes at a time.
fn server(hosts: &'static [&'static str], written: fn(&str, &str) -> &'static str) -> Fake {
    Fake::start(move |asked, _| match asked.path() {
        path if path.ends_with("/output") => {
            let (host, stream) = (query(asked, "host").unwrap(), query(asked, "stream").unwrap());
            let offset: usize = query(asked, "offset").unwrap().parse().unwrap();
            let bytes: Vec<u8> = written(&host, &stream).bytes().skip(offset).take(5).collect();
            Reply::Bytes { next_offset: Some((offset + bytes.len()) as u64), bytes }
        }
        path if path.ends_with("/hosts") => {
            let hosts: Vec<Value> = hosts.iter().map(|host| unit(host, "success")).collect();
            ok(json!({"hosts": hosts, "next_cursor": null}).to_string())
        }
        path if path.contains("/hosts/") => ok(json!({"host": unit("x", "success"), "runs": []}).to_string()),
        path => panic!("{path}"),
    })
}

fn two(host: &str, stream: &str) -> &'static str {
    match (host, stream) {
        ("web1", "stdout") => "one\ntwo\n",
        ("web1", "stderr") => "oh no",
        ("web2", "stdout") => "three",
        _ => "",
    }
}

#[tokio::test]
async fn one_stream_of_one_host_is_printed_byte_by_byte() {
    let fake = server(&["web1", "web2"], |_, _| "\u{1b}[2Jbell\u{7}\r\nlast");
    let ran = fake.run(&["job", "logs", ID, "--host", "web1", "--stream", "stdout"]).await;
    assert_eq!((ran.exit, ran.out.as_str(), ran.err.as_str()), (Exit::Success, "\u{1b}[2Jbell\u{7}\r\nlast", ""));
    assert_eq!(fake.lines()[0], format!("GET /jobs/{ID}/output?host=web1&stream=stdout&offset=0"));
    assert_eq!(fake.lines()[1], format!("GET /jobs/{ID}/output?host=web1&stream=stdout&offset=5"));
}

#[tokio::test]
async fn several_hosts_stand_under_headings() {
    let ran = server(&["web1", "web2", "web3"], two).run(&["job", "logs", ID]).await;
    assert_eq!(ran.out, "==> web1 <==\none\ntwo\n\n==> web1 stderr <==\noh no\n\n==> web2 <==\nthree");
    let ran = server(&["web1"], two).run(&["job", "logs", ID]).await;
    assert_eq!(ran.out, "one\ntwo\n\n==> web1 stderr <==\noh no", "one host needs no name");
}

#[tokio::test]
async fn lines_may_stand_behind_their_hosts() {
    let ran = server(&["web1", "web2", "web3"], two).run(&["job", "logs", ID, "--prefix"]).await;
    assert_eq!(ran.out, "web1 | one\nweb1 | two\nweb1 stderr | oh no\nweb2 | three\n");
}

#[tokio::test]
async fn with_json_every_piece_is_a_line() {
    let ran = server(&["web1"], two).run(&["--json", "job", "logs", ID, "--stream", "stderr"]).await;
    assert_eq!(ran.out, "{\"host\":\"web1\",\"stream\":\"stderr\",\"text\":\"oh no\"}\n");
}

#[tokio::test]
async fn silence_is_told() {
    let ran = server(&["web1"], |_, _| "").run(&["job", "logs", ID]).await;
    assert_eq!((ran.exit, ran.out.as_str(), ran.err.as_str()), (Exit::Success, "", "nothing was written\n"));
    let fake = Fake::start(|asked, _| match asked.path() {
        path if path.ends_with("/output") => refused(404, "OUTPUT_NOT_FOUND", "nothing was written"),
        _ => panic!("{}", asked.line),
    });
    assert_eq!(fake.run(&["job", "logs", ID, "--host", "web9"]).await.exit, Exit::Success);
}

#[tokio::test]
async fn following_goes_on_where_a_connection_broke_and_ends_with_the_host() {
    let fake = Fake::start(|asked, before| match asked.path() {
        path if path.ends_with("/output") => {
            assert_eq!(query(asked, "follow").as_deref(), Some("true"));
            match query(asked, "offset").unwrap().as_str() {
                "0" => Reply::Broken(b"one\ntw".to_vec()),
                "6" => Reply::Bytes { bytes: b"o\nthree\n".to_vec(), next_offset: None },
                "14" => Reply::Bytes { bytes: Vec::new(), next_offset: Some(14) },
                other => panic!("{other}"),
            }
        }
        path if path.contains("/hosts/") => {
            let status = if before < 2 { "running" } else { "success" };
            ok(json!({"host": unit("web1", status), "runs": []}).to_string())
        }
        path => panic!("{path}"),
    });
    let ran = fake.run(&["job", "logs", ID, "-f", "--host", "web1", "--stream", "stdout"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "one\ntwo\nthree\n"));
    assert!(ran.err.contains("going on where it was"), "{}", ran.err);
}

#[tokio::test]
async fn several_are_followed_at_once_line_by_line() {
    let ran = server(&["web1", "web2"], two).run(&["job", "logs", ID, "-f"]).await;
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["web1 stderr | oh no", "web1 | one", "web1 | two", "web2 | three"]);
}

#[tokio::test]
async fn what_the_server_does_not_give_is_a_failure() {
    let fake = Fake::start(|_, _| refused(403, "FORBIDDEN", "jobs.read is needed"));
    for more in [["--host", "web1"].as_slice(), &["--host", "web1", "-f"], &[]] {
        let ran = fake.run(&[&["job", "logs", ID], more].concat()).await;
        assert_eq!((ran.exit, ran.err.contains("jobs.read is needed")), (Exit::Refused, true));
    }
}

#[tokio::test]
async fn another_attempt_is_read_from_its_own_beginning() {
    let fake = Fake::start(|asked, before| match asked.path() {
        path if path.ends_with("/output") => {
            let run = if before == 0 { "r1" } else { "r2" };
            let bytes = match (run, query(asked, "offset").unwrap().as_str()) {
                ("r1", "0") => "first\n",
                ("r2", "0") => "second\n",
                _ => "",
            };
            Reply::Run { run, bytes: bytes.into() }
        }
        path if path.contains("/hosts/") => ok(json!({"host": unit("web1", "success"), "runs": []}).to_string()),
        path => panic!("{path}"),
    });
    let ran = fake.run(&["job", "logs", ID, "-f", "--host", "web1", "--stream", "stdout"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "first\nsecond\n"));
}
