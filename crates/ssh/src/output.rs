//! Where the output of a command goes, piece by piece as it comes.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A piece of output, cut wherever the network cut it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub stream: Stream,
    pub data: Bytes,
}

/// Takes output in the order in which it came. A sink that takes its time slows the command down: at most a few pieces
/// wait for it, then the connection is not read any more. That stops other commands on the same connection too.
#[async_trait]
pub trait OutputSink: Send {
    /// An error stops the command: nobody would see the rest.
    async fn write(&mut self, output: Output) -> std::io::Result<()>;
}

/// The receiver sees everything, and its end of the channel decides how much may wait.
#[async_trait]
impl OutputSink for mpsc::Sender<Output> {
    async fn write(&mut self, output: Output) -> std::io::Result<()> {
        self.send(output).await.map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}

/// Keeps output in memory, up to a limit for each stream, and counts what came.
#[derive(Debug, Clone)]
pub struct Collected {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// All that came, kept or not.
    pub total_bytes: u64,
    stream_bytes_max: usize,
}

impl Collected {
    #[must_use]
    pub fn up_to(stream_bytes_max: usize) -> Self {
        Self { stdout: Vec::new(), stderr: Vec::new(), total_bytes: 0, stream_bytes_max }
    }

    /// Whether everything that came was kept.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.total_bytes == (self.stdout.len() + self.stderr.len()) as u64
    }
}

#[async_trait]
impl OutputSink for Collected {
    async fn write(&mut self, output: Output) -> std::io::Result<()> {
        let kept = match output.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = self.stream_bytes_max.saturating_sub(kept.len()).min(output.data.len());
        kept.extend_from_slice(&output.data[..room]);
        self.total_bytes += output.data.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_over_the_limit_is_counted_and_not_kept() {
        let mut sink = Collected::up_to(4);
        for text in ["abc", "def"] {
            sink.write(Output { stream: Stream::Stdout, data: text.into() }).await.unwrap();
        }
        assert_eq!((sink.stdout.as_slice(), sink.total_bytes, sink.is_whole()), (b"abcd".as_slice(), 6, false));
    }
}
