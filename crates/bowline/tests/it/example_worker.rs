//! The Python example in `examples/` is run as it stands: nothing but HTTP.

use std::path::Path;
use std::process::Command;

use bowline_testkit::Child;
use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn the_python_worker_does_its_work() {
    let server = TestServer::start().await;
    let token = server.token(json!({"kind": "worker", "name": "py"})).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/worker.py");
    let mut command = Command::new("python3");
    command.arg(script).arg("py").env("BOWLINE_URL", server.url("")).env("BOWLINE_TOKEN", token);
    let worker = Child::spawn(command, "python worker");
    let upper = server.submit(json!({"type": "demo.upper", "payload": {"text": "tied well"}})).await;
    let sum = server.submit(json!({"type": "demo.sum", "payload": {"numbers": [1, 2, 3.5]}})).await;
    let shown = server.until_status(&upper, "success").await;
    assert!(shown["job"]["result"].to_string().contains("TIED WELL"), "{shown}");
    let shown = server.until_status(&sum, "success").await;
    assert!(shown["job"]["result"].to_string().contains("6.5"), "{shown}");
    assert_eq!(shown["runs"][0]["worker_id"], "py");
    worker.term();
    let status = worker.wait_exit(std::time::Duration::from_secs(40)).await;
    assert!(status.success(), "{}", worker.log());
}
