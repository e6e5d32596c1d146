//! The broker that tests stand on does what its guard says.

use std::net::TcpStream;

use bowline_testkit::RabbitMq;

/// One test for all, as each broker takes seconds to start.
#[test]
fn it_can_be_asked_stopped_and_started_again_and_ends_with_its_guard() {
    let broker = RabbitMq::start();
    let reach = || TcpStream::connect(("127.0.0.1", broker.port()));
    reach().expect("it takes connections once it has started");
    assert!(broker.ctl(&["list_users"]).contains(broker.user()), "its one user is there");
    let first = broker.pid();
    broker.stop();
    assert!(!broker.is_running());
    reach().expect_err("a stopped broker takes no connections");
    assert!(broker.log().contains("SIGTERM received"), "it was told, and not killed\n{}", broker.log());
    broker.start_again();
    assert_ne!(broker.pid(), first);
    reach().expect("it is back on its port");
    let (pid, port) = (broker.pid(), broker.port());
    drop(broker);
    TcpStream::connect(("127.0.0.1", port)).expect_err("it ended with its guard");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "its process is gone and reaped");
}
