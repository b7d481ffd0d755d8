//! The options of a configuration by our names and NCCL's, to compare between ranks and to pass to
//! NCCL.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CommConfig, Transfers};

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

    /// One that is alike, if the option is given.
    pub(super) fn number(
        option: &'static str,
        field: &'static str,
        value: Option<i32>,
    ) -> Option<Self> {
        value.map(|value| Self::alike(option, field, Value::Number(value)))
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

/// The options that must be the same on all ranks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Alike {
    /// Contexts and signals.
    pub(crate) slots: (u32, u32),
    transfers: Transfers,
    /// NCCL's options that are set, by name.
    settings: Vec<(String, String)>,
}

impl Alike {
    pub(super) fn of(config: &CommConfig) -> Self {
        let (slots, transfers, settings) = (config.slots(), config.transfers, config.settings());
        let alike = settings.iter().filter(|setting| setting.is_alike);
        let settings = alike.map(|one| (one.name(), one.value.to_string())).collect();
        Self { slots: (slots.context, slots.index), transfers, settings }
    }

    /// Describes a difference between two ranks, if there is one: what they configure, and how.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        if self.slots != other.slots {
            let (one, two) = (self.slots, other.slots);
            return Some(format!("it with {one:?} and {two:?} contexts and signals"));
        }
        if self.transfers != other.transfers {
            let (one, two) = (self.transfers, other.transfers);
            return Some(format!("it with `Transfers::{one:?}` and `Transfers::{two:?}`"));
        }
        let all = self.settings.iter().chain(&other.settings);
        let of = |all: &Self, name: &str| {
            let found = all.settings.iter().find(|(known, _)| known == name);
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
