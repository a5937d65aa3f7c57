//! The context of a job file: the drive, the environment, and whether buffered jobs are read as direct jobs.

use super::expand::{keywords, variables};

/// Context that the meaning of a job file depends on, besides its text.
pub struct Reading<'a> {
    /// Size that percentages refer to.
    pub drive_bytes: u64,
    /// Takes jobs that go through the page cache as jobs with `direct=1`.
    pub as_direct: bool,
    /// Value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Reading<'_> {
    /// Creates the context of a drive with this many bytes, and this process's environment.
    pub fn on(drive_bytes: u64) -> Self {
        Self { drive_bytes, as_direct: false, variable: &|name| std::env::var(name).ok() }
    }

    /// Returns a value with its variables and keywords replaced.
    pub fn expand(&self, text: &str) -> Result<String, String> {
        keywords(&variables(text, self.variable)?)
    }
}
