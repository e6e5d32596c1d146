//! What is wrong with a configuration, all of it at once.

use std::collections::BTreeSet;

/// Errors of the file, the environment and the sections.
#[derive(Debug, Default)]
pub struct ConfigErrors {
    list: Vec<String>,
    /// Sections in which an option could not be read. How their options fit together cannot be said.
    sections: BTreeSet<String>,
    rest_unknown: bool,
}

impl ConfigErrors {
    /// An option of this section is wrong.
    pub fn add(&mut self, section: &str, what: String) {
        self.list.push(what);
        self.sections.insert(section.to_owned());
    }

    /// Something outside all sections is wrong.
    pub fn add_everywhere(&mut self, what: String) {
        self.list.push(what);
        self.rest_unknown = true;
    }

    /// So much could not be read that nothing is known of the other options.
    pub fn rest_unknown(&mut self) {
        self.rest_unknown = true;
    }

    /// Takes what a look at a whole section found, unless it may only follow from what is known already.
    pub fn check(&mut self, section: &str, found: anyhow::Result<()>) {
        if let Err(error) = found
            && !self.rest_unknown
            && !self.sections.contains(section)
        {
            self.list.push(format!("{error:#}"));
        }
    }

    pub fn into_result(self) -> anyhow::Result<()> {
        match self.list.as_slice() {
            [] => Ok(()),
            [only] => Err(anyhow::anyhow!("{only}")),
            several => {
                let list: String = several.iter().map(|error| format!("\n  {error}")).collect();
                Err(anyhow::anyhow!("the configuration has {} errors:{list}", several.len()))
            }
        }
    }
}
