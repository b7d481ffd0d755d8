//! What a configuration sets, by our names and NCCL's: what is compared between ranks, and what NCCL is told.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One option that is set.
pub(crate) struct Setting {
    /// What the program calls it.
    pub(crate) option: &'static str,
    /// NCCL's field.
    pub(crate) field: &'static str,
    pub(crate) value: Value,
    /// Whether all ranks must have the same.
    is_alike: bool,
}

/// What NCCL's field gets.
pub(crate) enum Value {
    Number(i32),
    /// A number with its name here.
    Named(#[cfg_attr(not(feature = "cuda"), allow(dead_code))] i32, &'static str),
    Text(String),
}

impl Setting {
    /// One that all ranks have alike: NCCL hangs or gives wrong data where they differ.
    pub(crate) fn alike(option: &'static str, field: &'static str, value: Value) -> Self {
        Self { option, field, value, is_alike: true }
    }

    /// One that each rank chooses for itself.
    pub(super) fn own(option: &'static str, field: &'static str, value: Value) -> Self {
        Self { option, field, value, is_alike: false }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Named(_, name) => f.write_str(name),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// What the ranks of a communicator must have alike, as far as it is set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Alike(Vec<(String, String)>);

impl Alike {
    pub(super) fn of(settings: &[Setting]) -> Self {
        let alike = settings.iter().filter(|setting| setting.is_alike);
        Self(alike.map(|one| (one.name(), one.value.to_string())).collect())
    }

    /// How two ranks' differ; none if they do not.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let all = self.0.iter().chain(&other.0);
        let of = |all: &Self, name: &str| {
            let found = all.0.iter().find(|(known, _)| known == name);
            found.map_or_else(|| "NCCL's choice".to_owned(), |(_, value)| value.clone())
        };
        let mut names = all.map(|(name, _)| name);
        names.find_map(|name| {
            let (one, two) = (of(self, name), of(other, name));
            (one != two).then(|| format!("{name} with {one} and {two}"))
        })
    }
}

impl Setting {
    pub(crate) fn name(&self) -> String {
        format!("`{}` (NCCL's {})", self.option, self.field)
    }
}
