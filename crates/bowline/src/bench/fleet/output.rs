//! Output of one run: how fast it is brought.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fake_agent::FakeAgent;
use super::{job, put_hosts};
use crate::bench::client::Line;
use crate::bench::server::Measured;

/// Output of one run, in ranges of a MiB, packed as agents pack it. The text is such as programs print: it gets smaller.
pub(super) async fn output(server: &Measured, mib: usize) -> anyhow::Result<Value> {
    put_hosts(server, "output", 1).await?;
    let agent = FakeAgent::join(server, "output", json!({"bowline/reach": "simulate"})).await?;
    job::submit(server, "output").await?;
    let run = agent.runs(server, 1).await?.remove(0);
    let mut line = Line::open(&server.address).await?;
    let begun = Instant::now();
    let mut offset = 0;
    for n in 0..mib {
        let mut text = String::with_capacity((1 << 20) + 64);
        let mut number = n * 100_000;
        while text.len() < 1 << 20 {
            text.push_str(&format!("line {number} of the output of a program that says what it does\n"));
            number += 1;
        }
        text.truncate(1 << 20);
        let hash: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let packed = zstd::bulk::compress(text.as_bytes(), 1)?;
        let head = format!(
            "PUT /runs/{run}/output/stdout?offset={offset} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\
             content-encoding: zstd\r\nx-raw-length: {}\r\nx-content-sha256: {hash}\r\ncontent-length: {}\r\n\r\n",
            agent.token,
            text.len(),
            packed.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(&packed);
        let (status, answer) = line.send(&request).await?;
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(answer));
        offset += text.len();
    }
    let mb = offset as f64 / 1e6;
    Ok(json!({"mb": mb.round(), "mb_per_second": (mb / begun.elapsed().as_secs_f64()).round()}))
}
