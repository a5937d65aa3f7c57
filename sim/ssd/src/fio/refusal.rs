//! Why a job file's job cannot run as a whole.

/// The reason why a job as a whole cannot run, and the options concerned.
pub struct Refusal {
    /// The reason.
    pub reason: String,
    /// Names of options.
    pub options: &'static [&'static str],
}

/// The error of a job as a whole.
pub fn refuse<T>(options: &'static [&'static str], reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { reason: reason.into(), options })
}
