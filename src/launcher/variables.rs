//! The environment's variables, as read once.

use std::collections::BTreeMap;

use crate::Result;
use crate::error::LaunchFault;

/// Variables by name. An empty one counts as not set.
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// This process's variables.
    pub(crate) fn here() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The number in a variable, if it is set.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<u32>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                Err(LaunchFault::NotANumber { variable: name, found: value.to_owned() }.into())
            }
        }
    }
}

#[cfg(test)]
impl Variables {
    /// Parses lines as `env` prints them.
    pub(crate) fn of(lines: &str) -> Self {
        let pairs = lines.split_whitespace().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
