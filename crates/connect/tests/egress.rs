//! The client against real sockets. `127.0.0.1` is allowed and stands for the outside; `127.0.0.2` is not, and stands for
//! what must not be reached: a witness listens there and counts.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bowline_connect::egress::{
    Answer, BadTarget, Call, Egress, EgressError, EgressRules, RedirectRefused, Resolver, header, target,
};
use bowline_connect::header::HeaderMap;
use bowline_connect::{Method, StatusCode};
use bowline_testkit::ScriptedServer;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

const OUTSIDE: &str = "127.0.0.1";
const INSIDE: &str = "127.0.0.2";

/// A witness at the address that must not be reached, at the port of another stage.
fn witness(port: u16) -> ScriptedServer {
    ScriptedServer::start_at(&format!("{INSIDE}:{port}"), |_, stream| answer(stream, "200 OK", "", "inside"))
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) -> io::Result<()> {
    ScriptedServer::answer(stream, status, headers, body)
}

fn at(stage: &ScriptedServer, host: &str, path: &str) -> String {
    format!("http://{host}:{}{path}", stage.port())
}

/// Names with the answers they give, one after the other; the last one stays.
#[derive(Default)]
struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
        let answers = names.iter().map(|(name, lists)| ((*name).to_owned(), lists.iter().map(parse).collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }
}

#[async_trait::async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().expect("nobody panicked");
        let list = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(if list.len() > 1 { list.remove(0) } else { list[0].clone() })
    }
}

/// Of an answer. More than takes no room.
const MAX: usize = 65 << 10;

fn rules() -> EgressRules {
    let allow_networks = vec![format!("{OUTSIDE}/32").parse().expect("a network")];
    EgressRules { allow_networks, response_max_bytes: MAX, ..EgressRules::default() }
}

fn egress(names: &Arc<Names>) -> Egress {
    Egress::with_resolver(rules(), Arc::<Names>::clone(names)).expect("a client")
}

fn call(url: &str) -> Call {
    Call {
        method: Method::GET,
        url: target(url).expect("a target"),
        headers: HeaderMap::new(),
        body: None,
        follow_redirects: true,
        tenant: "acme".into(),
        patience: Duration::from_secs(20),
    }
}

fn post(url: &str) -> Call {
    let mut headers: HeaderMap =
        [("authorization", "Bearer hunter22"), ("cookie", "a=b"), ("x-api-key", "hunter22"), ("accept", "text/plain")]
            .map(|(name, value)| header(name, value).expect("a header"))
            .into_iter()
            .collect();
    headers.extend([header("content-type", "application/json").expect("a header")]);
    Call { method: Method::POST, headers, body: Some(Bytes::from_static(br#"{"card":4111}"#)), ..call(url) }
}

async fn ask(egress: &Egress, call: Call) -> Result<Answer, EgressError> {
    egress.call(call, &CancellationToken::new()).await
}

/// Says nothing about where it would have led.
fn assert_denied(answer: &Result<Answer, EgressError>) {
    let error = answer.as_ref().expect_err("denied");
    assert_eq!(error.code(), "EGRESS_DENIED", "{error:?}");
    assert!(!error.is_transient() && !format!("{error} {error:?}").contains("127."), "{error:?}");
}

#[tokio::test]
async fn an_answer_comes_whole_and_the_server_sees_the_name() {
    let stage = ScriptedServer::start(|_, stream| answer(stream, "201 Created", "x-a: 1\r\n", "hello"));
    let names = Names::of(&[("shop.test", &[&[OUTSIDE]])]);
    let mut wish = post(&at(&stage, "Shop.TEST.", "/a?b=c"));
    wish.method = Method::PATCH;
    let answer = ask(&egress(&names), wish).await.expect("an answer");
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::CREATED, &b"hello"[..]));
    assert_eq!(answer.headers["x-a"], "1");
    assert_eq!(answer.url.as_str(), at(&stage, "shop.test", "/a?b=c"));
    let seen = stage.requests().remove(0);
    assert!(seen.starts_with("PATCH /a?b=c HTTP/1.1\r\n"), "{seen}");
    for line in [
        format!("host: shop.test:{}", stage.port()).as_str(),
        "authorization: Bearer hunter22",
        "content-type: application/json",
        "accept-encoding: identity",
    ] {
        assert_eq!(seen.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line} in {seen}");
    }
    assert!(seen.ends_with("\r\n\r\n{\"card\":4111}"), "{seen}");
}

/// B083, B084, B085: as an address, and as a name that has one.
#[tokio::test]
async fn what_is_inside_is_not_reached_by_address_or_by_name() {
    let stage = ScriptedServer::start(|_, stream| answer(stream, "200 OK", "", ""));
    let witness = witness(stage.port());
    let names = Names::of(&[
        ("inside.test", &[&[INSIDE]]),
        ("mapped.test", &[&["::ffff:127.0.0.2"]]),
        ("metadata.test", &[&["169.254.169.254"]]),
        ("nat64.test", &[&["64:ff9b::7f00:2"]]),
    ]);
    let egress = egress(&names);
    for host in [INSIDE, "127.2", "0x7f.2", "2130706434", "[::ffff:127.0.0.2]", "[::1]", "0.0.0.0", "169.254.169.254"] {
        assert_denied(&ask(&egress, call(&at(&stage, host, "/"))).await);
    }
    assert_eq!(names.asked.load(Ordering::SeqCst), 0, "nobody was asked about an address");
    for name in ["inside.test", "mapped.test", "metadata.test", "nat64.test"] {
        assert_denied(&ask(&egress, call(&at(&stage, name, "/"))).await);
    }
    let closed = ask(&egress, call("http://shop.test:22/")).await;
    assert_denied(&closed);
    let said = closed.expect_err("a closed port").to_string();
    assert!(said.contains("`allow_ports` under [egress]"), "{said}");
    assert_eq!((witness.connections(), stage.connections()), (0, 0));
    // The witness would have seen it.
    let open = EgressRules { allow_networks: vec!["127.0.0.0/8".parse().expect("a network")], ..rules() };
    let open = Egress::with_resolver(open, names).expect("a client");
    assert_eq!(ask(&open, call(&at(&stage, "inside.test", "/"))).await.expect("an answer").body, "inside");
    assert_eq!(witness.connections(), 1);
}

/// The machine's own resolver knows this one.
#[tokio::test]
async fn localhost_is_inside() {
    let stage = ScriptedServer::start(|_, stream| answer(stream, "200 OK", "", ""));
    let egress = Egress::new(EgressRules::default()).expect("a client");
    assert_denied(&ask(&egress, call(&at(&stage, "localhost", "/"))).await);
    assert_eq!(stage.connections(), 0);
}

/// B086.
#[tokio::test]
async fn one_bad_address_among_good_ones_is_enough() {
    let stage = ScriptedServer::start(|_, stream| answer(stream, "200 OK", "", ""));
    let witness = witness(stage.port());
    let names = Names::of(&[("both.test", &[&[OUTSIDE, INSIDE]]), ("turned.test", &[&[INSIDE, OUTSIDE]])]);
    let egress = egress(&names);
    for name in ["both.test", "turned.test"] {
        assert_denied(&ask(&egress, call(&at(&stage, name, "/"))).await);
    }
    assert_eq!((witness.connections(), stage.connections()), (0, 0));
}

/// B087: the name is asked for once, and what was checked is what is connected to.
#[tokio::test]
async fn a_name_that_changes_its_mind_is_held_to_its_first_word() {
    let stage = ScriptedServer::start(|_, stream| answer(stream, "200 OK", "", "outside"));
    let witness = witness(stage.port());
    let names = Names::of(&[("fickle.test", &[&[OUTSIDE], &[INSIDE]])]);
    let egress = egress(&names);
    let first = ask(&egress, call(&at(&stage, "fickle.test", "/"))).await.expect("an answer");
    assert_eq!((first.body.as_ref(), names.asked.load(Ordering::SeqCst)), (&b"outside"[..], 1));
    assert_denied(&ask(&egress, call(&at(&stage, "fickle.test", "/"))).await);
    assert_eq!((names.asked.load(Ordering::SeqCst), witness.connections()), (2, 0));
}

/// B088.
#[tokio::test]
async fn a_redirect_is_checked_like_the_first_address() {
    let elsewhere = ScriptedServer::start(|_, stream| answer(stream, "200 OK", "", "elsewhere"));
    let port = elsewhere.port();
    let stage = ScriptedServer::start(move |request, stream| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let here = request.split("host: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
        let to = match path {
            "/address" => here.replace(OUTSIDE, INSIDE).replacen("", "http://", 1),
            "/name" => format!("http://inside.test:{port}/"),
            "/port" => "http://127.0.0.1:22/".to_owned(),
            "/file" => "file:///etc/passwd".to_owned(),
            "/login" => format!("http://a:b@127.0.0.1:{port}/"),
            "/stranger" => format!("http://127.0.0.1:{port}/taken"),
            "/same" => "/done".to_owned(),
            "/1" => "/2".to_owned(),
            "/2" => "/3".to_owned(),
            "/3" => "/done".to_owned(),
            "/done" => return answer(stream, "200 OK", "", "done"),
            _ => "/round".to_owned(),
        };
        answer(stream, "307 Temporary Redirect", &format!("location: {to}\r\n"), "")
    });
    let witness = witness(stage.port());
    let egress = egress(&Names::of(&[("inside.test", &[&[INSIDE]])]));
    let from = |path: &str| post(&at(&stage, OUTSIDE, path));
    for path in ["/address", "/name", "/port"] {
        assert_denied(&ask(&egress, from(path)).await);
    }
    assert_eq!((witness.connections(), elsewhere.connections()), (0, 0));
    let refused = |why| EgressError::Redirect(why);
    assert_eq!(
        ask(&egress, from("/file")).await.expect_err("a file"),
        refused(RedirectRefused::Target(BadTarget::Scheme))
    );
    assert_eq!(
        ask(&egress, from("/login")).await.expect_err("a login"),
        refused(RedirectRefused::Target(BadTarget::Login))
    );

    let before = stage.connections();
    assert_eq!(ask(&egress, from("/round")).await.expect_err("round and round"), refused(RedirectRefused::TooMany));
    assert_eq!(stage.connections() - before, 4, "the first and three more");
    assert_eq!(ask(&egress, from("/1")).await.expect("three are allowed").body, "done");

    let same = ask(&egress, from("/same")).await.expect("an answer");
    assert_eq!((same.body.as_ref(), same.url.path()), (&b"done"[..], "/done"));
    let kept = stage.requests().pop().expect("a request");
    assert!(kept.contains("hunter22") && kept.ends_with(r#"{"card":4111}"#), "the same server gets it all: {kept}");

    let taken = ask(&egress, from("/stranger")).await.expect("an answer");
    assert_eq!(taken.body, "elsewhere");
    let seen = elsewhere.requests().remove(0);
    assert!(seen.starts_with("POST /taken ") && seen.contains("accept: text/plain"), "{seen}");
    for gone in ["hunter22", "a=b", "4111", "content-type", "authorization", "cookie"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }

    let unfollowed = ask(&egress, Call { follow_redirects: false, ..from("/address") }).await.expect("an answer");
    assert_eq!(unfollowed.status, StatusCode::TEMPORARY_REDIRECT);
}

/// B091: told, not told, and never ending; and as much as is allowed.
#[tokio::test]
async fn an_answer_is_cut_at_its_cap() {
    let (cut, was_cut) = mpsc::channel();
    let cut = Mutex::new(cut);
    let stage = ScriptedServer::start(move |request, stream| {
        let full = "x".repeat(MAX);
        match request.split(' ').nth(1).unwrap_or_default() {
            "/full" => answer(stream, "200 OK", "", &full),
            "/short" => answer(stream, "200 OK", "", "short"),
            "/told" => write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n"),
            "/more" => answer(stream, "200 OK", "", &(full + "x")),
            "/flood" => {
                let flood: String = (0..101).map(|n| format!("x-{n}: {n}\r\n")).collect();
                answer(stream, "200 OK", &flood, "")
            }
            _ => {
                write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                loop {
                    if let Err(error) = write!(stream, "1000\r\n{}\r\n", "y".repeat(4096)) {
                        let _ = cut.lock().expect("nobody panicked").send(());
                        return Err(error);
                    }
                }
            }
        }
    });
    let egress = egress(&Names::of(&[]));
    let full = ask(&egress, call(&at(&stage, OUTSIDE, "/full"))).await.expect("as much as is allowed");
    assert_eq!((full.body.len(), full.room.is_some()), (MAX, true));
    let short = ask(&egress, call(&at(&stage, OUTSIDE, "/short"))).await.expect("a short one");
    assert_eq!((short.body.len(), short.room.is_some()), (5, false), "a short answer takes no room");
    for path in ["/told", "/more", "/endless"] {
        let error = ask(&egress, call(&at(&stage, OUTSIDE, path))).await.expect_err(path);
        assert_eq!(error, EgressError::TooLarge { max_bytes: MAX }, "{path}");
        assert_eq!((error.code(), error.is_transient()), ("UPSTREAM_ERROR", false));
    }
    let waiting = tokio::task::spawn_blocking(move || was_cut.recv_timeout(Duration::from_secs(20)));
    waiting.await.expect("a thread").expect("the endless answer was cut off");
    let head = Call { method: Method::HEAD, ..call(&at(&stage, OUTSIDE, "/told")) };
    assert_eq!(ask(&egress, head).await.expect("a length is no body").body.len(), 0);
    let flood = ask(&egress, call(&at(&stage, OUTSIDE, "/flood"))).await.expect_err("too many headers");
    assert_eq!(flood.code(), "UPSTREAM_ERROR", "{flood}");
}

/// B091: what is packed stays packed, whatever it would become.
#[tokio::test]
async fn a_bomb_is_not_unpacked() {
    // The first bytes of a gzip file, which is all anybody needs to begin unpacking.
    const BOMB: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1, 1, 1, 0, 0];
    let stage = ScriptedServer::start(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", BOMB.len())?;
        stream.write_all(BOMB)
    });
    let answer = ask(&egress(&Names::of(&[])), call(&at(&stage, OUTSIDE, "/"))).await.expect("an answer");
    assert_eq!(answer.body, BOMB);
    assert_eq!(answer.headers["content-encoding"], "gzip");
    assert!(stage.requests()[0].contains("accept-encoding: identity"), "it was not asked for");
}

/// B091: a byte now and then is no answer, and neither is silence.
#[tokio::test]
async fn a_slow_answer_ends_with_our_patience() {
    let stage = ScriptedServer::start(|request, stream| {
        if request.starts_with("GET /drip") {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n")?;
        }
        loop {
            std::thread::sleep(Duration::from_millis(20));
            if request.starts_with("GET /drip") {
                stream.write_all(b"x")?;
            }
        }
    });
    for path in ["/drip", "/silence"] {
        let patience = Duration::from_millis(300);
        let wish = Call { patience, ..call(&at(&stage, OUTSIDE, path)) };
        let error = ask(&egress(&Names::of(&[])), wish).await.expect_err(path);
        assert_eq!((&error, error.code()), (&EgressError::Timeout(patience), "UPSTREAM_TIMEOUT"));
        assert!(error.is_transient());
    }
    assert_eq!(stage.connections(), 2);
}

#[tokio::test]
async fn whoever_stops_hangs_up() {
    let (heard, hears) = mpsc::channel();
    let heard = Mutex::new(heard);
    let stage = ScriptedServer::start(move |_, stream| {
        let tell = |what: &'static str| heard.lock().expect("nobody panicked").send(what).map_err(io::Error::other);
        tell("asked")?;
        // Nothing more is sent to us; what ends this is the other side hanging up.
        ScriptedServer::until_hung_up(stream)?;
        tell("hung up")
    });
    let egress = egress(&Names::of(&[]));
    let stop = CancellationToken::new();
    let hears = Arc::new(Mutex::new(hears));
    let next = |hears: &Arc<Mutex<mpsc::Receiver<&'static str>>>| {
        let hears = Arc::clone(hears);
        tokio::task::spawn_blocking(move || {
            hears.lock().expect("nobody panicked").recv_timeout(Duration::from_secs(20))
        })
    };
    let asked = egress.call(call(&at(&stage, OUTSIDE, "/")), &stop);
    let stopping = async {
        assert_eq!(next(&hears).await.expect("a thread"), Ok("asked"));
        stop.cancel();
    };
    let (answer, ()) = tokio::join!(asked, stopping);
    assert_eq!(answer.expect_err("stopped"), EgressError::Stopped);
    assert_eq!(next(&hears).await.expect("a thread"), Ok("hung up"));
}

#[tokio::test]
async fn nobody_there_is_told_without_an_address() {
    let gone = TcpListener::bind((OUTSIDE, 0)).expect("a port").local_addr().expect("an address").port();
    let egress = egress(&Names::of(&[("empty.test", &[&[]])]));
    let refused = ask(&egress, call(&format!("http://{OUTSIDE}:{gone}/?key=hunter22"))).await.expect_err("nobody");
    let text = "the connection failed: connection refused".to_owned();
    assert_eq!((&refused, refused.is_transient()), (&EgressError::Transport(text), true));
    for name in ["unknown.test", "empty.test"] {
        let unknown = ask(&egress, call(&format!("http://{name}/?key=hunter22"))).await.expect_err("no such name");
        let text = "the name of the server cannot be resolved".to_owned();
        assert_eq!((&unknown, unknown.code()), (&EgressError::Transport(text), "UPSTREAM_ERROR"));
    }
}

/// B092: a certificate that nobody vouches for, with no way to say "never mind".
#[tokio::test]
async fn a_certificate_that_nobody_signed_is_not_believed() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = include_bytes!("tls/self_signed.cert.der").to_vec().into();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(include_bytes!("tls/self_signed.key.der").to_vec());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("a certificate with its key");
    let listener = tokio::net::TcpListener::bind((OUTSIDE, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let egress = egress(&Names::of(&[("self-signed.test", &[&[OUTSIDE]])]));
    let url = format!("https://self-signed.test:{port}/");
    let asked = ask(&egress, post(&url));
    let serving = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        acceptor.accept(stream).await
    };
    let (answer, served) = tokio::join!(asked, serving);
    let error = answer.expect_err("not believed");
    assert!(error.to_string().starts_with("TLS: invalid peer certificate"), "{error}");
    assert!(served.is_err(), "nothing was sent over a connection that was not trusted");
}
