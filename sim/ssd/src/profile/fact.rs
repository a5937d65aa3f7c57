//! A figure of a profile.

use serde::{Deserialize, Serialize};

/// A figure and its source.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The figure.
    pub value: T,
    /// `declared: ...`, `measured: ...`, `standard: ...` or `assumed...`.
    pub source: String,
    /// Whether the figure was fitted so that the model reproduces a measurement on the drive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fitted: bool,
}

impl<T> std::ops::Deref for Fact<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Whole number.
pub type Int = Fact<u64>;
/// Number in the unit of its name.
pub type Num = Fact<f64>;
/// Text.
pub type Text = Fact<String>;
