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

/// The value of an option: as it stands; of `@FILE` what the file says, of `@-` standard input. `@@` stands for an `@`.
pub fn value(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(path) => read(Path::new(path)).map_err(|failure| failure.to_string()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[1]\n").unwrap();
        assert_eq!(value(&format!("@{}", file.path().display())).unwrap(), "[1]\n");
        assert_eq!(value("a@b").unwrap(), "a@b");
        assert_eq!(value("@@ops").unwrap(), "@ops");
        assert!(value("@/nowhere/at/all").unwrap_err().contains("cannot read /nowhere/at/all"));
    }
}
