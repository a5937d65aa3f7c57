//! Errors as SCPI-99 numbers them (volume 2, chapter 21).

use std::collections::VecDeque;
use std::fmt;

/// An error of the control port: SCPI number and text, with what was wrong in particular.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScpiError {
    /// Number; negative as SCPI-99 defines them.
    pub code: i16,
    text: &'static str,
    detail: String,
}

macro_rules! errors {
    ($($name:ident = $code:literal $text:literal;)*) => {
        impl ScpiError {
            $(#[doc = $text] pub fn $name(detail: impl Into<String>) -> Self {
                Self { code: $code, text: $text, detail: detail.into() }
            })*
        }
    };
}

errors! {
    invalid_character = -101 "Invalid character";
    syntax = -102 "Syntax error";
    data_type = -104 "Data type error";
    parameter_not_allowed = -108 "Parameter not allowed";
    missing_parameter = -109 "Missing parameter";
    undefined_header = -113 "Undefined header";
    numeric = -120 "Numeric data error";
    invalid_suffix = -131 "Invalid suffix";
    init_ignored = -213 "Init ignored";
    settings_conflict = -221 "Settings conflict";
    out_of_range = -222 "Data out of range";
    illegal_value = -224 "Illegal parameter value";
    device = -300 "Device-specific error";
    overflow = -350 "Queue overflow";
    input_overrun = -363 "Input buffer overrun";
}

impl fmt::Display for ScpiError {
    /// `<number>,"<text>;<detail>"`, the answer to `SYSTem:ERRor?`; at most 255 characters in the quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail: String = self
            .detail
            .chars()
            .map(|c| if c == '"' { '\'' } else { c })
            .filter(|c| !c.is_control())
            .take(254 - self.text.len())
            .collect();
        let separator = if detail.is_empty() { "" } else { ";" };
        write!(f, "{},\"{}{separator}{detail}\"", self.code, self.text)
    }
}

/// Errors wait here until they are asked for; oldest first. When it is full, the newest gives way to -350.
#[derive(Debug, Default)]
pub struct ErrorQueue {
    errors: VecDeque<ScpiError>,
}

impl ErrorQueue {
    /// Errors it holds.
    pub const CAPACITY: usize = 32;

    /// Adds an error.
    pub fn push(&mut self, error: ScpiError) {
        if self.errors.len() == Self::CAPACITY {
            self.errors.pop_back();
            self.errors.push_back(ScpiError::overflow(""));
        } else {
            self.errors.push_back(error);
        }
    }

    /// Takes the oldest error as the answer to `SYSTem:ERRor?`.
    pub fn pop(&mut self) -> String {
        self.errors.pop_front().map_or_else(|| "0,\"No error\"".into(), |e| e.to_string())
    }

    /// Forgets all errors (`*CLS`).
    pub fn clear(&mut self) {
        self.errors.clear();
    }

    /// Errors that wait.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_first_then_no_error() {
        let mut queue = ErrorQueue::default();
        queue.push(ScpiError::syntax("a"));
        queue.push(ScpiError::undefined_header("say \"x\"\r"));
        assert_eq!(queue.pop(), "-102,\"Syntax error;a\"");
        assert_eq!(queue.pop(), "-113,\"Undefined header;say 'x'\"");
        assert_eq!(queue.pop(), "0,\"No error\"");
    }

    #[test]
    fn a_full_queue_says_so() {
        let mut queue = ErrorQueue::default();
        (0..40).for_each(|k| queue.push(ScpiError::syntax(k.to_string())));
        let all: Vec<String> = (0..ErrorQueue::CAPACITY).map(|_| queue.pop()).collect();
        assert_eq!(all[30], "-102,\"Syntax error;30\"");
        assert_eq!(all[31], "-350,\"Queue overflow\"");
        assert!(queue.is_empty());
    }

    #[test]
    fn an_answer_stays_within_255_characters() {
        let text = ScpiError::undefined_header("x".repeat(1000)).to_string();
        assert_eq!(text.len(), "-113,\"\"".len() + 255);
    }
}
