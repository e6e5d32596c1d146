//! Texts that come from files or from standard input.

use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// The largest text that is read.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whether this means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The text of a file; `-` is standard input.
pub fn read(path: &Path) -> Result<String, Failure> {
    if is_stdin(path) {
        return read_all(std::io::stdin(), path);
    }
    let file = std::fs::File::open(path).map_err(|error| cannot(path, &error))?;
    read_all(file, path)
}

/// Something about a file that the system did not let us do.
pub fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("cannot read {}: {error}", path.display()))
}

fn read_all(source: impl Read, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    source.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| cannot(path, &error))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::Usage(format!("{} is larger than {} MiB", path.display(), BYTES_MAX >> 20)));
    }
    Ok(text)
}
