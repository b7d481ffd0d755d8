//! The options of a configuration by our names and NCCL's, to compare between ranks and to pass to
//! NCCL.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One option that is set.
pub(crate) struct Setting {
    /// Its name in our API.
    pub(crate) option: &'static str,
    /// NCCL's field.
    pub(crate) field: &'static str,
    pub(crate) value: Value,
    /// Whether it must be the same on all ranks.
    is_alike: bool,
}

/// The value of NCCL's field.
pub(crate) enum Value {
    Number(i32),
    /// A number, and its name in our API.
    Named(#[cfg_attr(not(feature = "cuda"), allow(dead_code))] i32, &'static str),
    Text(String),
}

impl Setting {
    /// An option that must be the same on all ranks: otherwise NCCL hangs or returns wrong data.
    pub(crate) fn alike(option: &'static str, field: &'static str, value: Value) -> Self {
        Self { option, field, value, is_alike: true }
    }

    /// An option that each rank may choose.
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

/// The options that are set and must be the same on all ranks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Alike(Vec<(String, String)>);

impl Alike {
    pub(super) fn of(settings: &[Setting]) -> Self {
        let alike = settings.iter().filter(|setting| setting.is_alike);
        Self(alike.map(|one| (one.name(), one.value.to_string())).collect())
    }

    /// Describes a difference between two ranks, if there is one.
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
